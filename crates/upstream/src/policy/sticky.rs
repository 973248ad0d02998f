//! Keeping a client at one endpoint by a cookie.

use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::written;

/// `services.<name>.sticky`: the endpoint that answered first is named in a signed cookie; later requests
/// go there while it may be used, and else to another, which the cookie names from then on. Default: none.
#[derive(Clone, Eq, PartialEq, Serialize)]
pub struct StickyPolicy {
    /// The cookie's name; default `thalweg_endpoint`.
    #[serde(serialize_with = "written::text")]
    pub cookie: Arc<str>,
    /// What signs it: 32 bytes made from the secret, or drawn once per process. Proxies that share the
    /// secret understand each other's cookies.
    #[serde(rename = "secret", serialize_with = "written::hidden")]
    pub key: [u8; 32],
    /// `Max-Age`, 1 s–400 days; default none: a session cookie.
    #[serde(serialize_with = "written::duration")]
    pub max_age: Option<Duration>,
    /// Whether it is only for HTTPS; default false.
    pub secure: bool,
    /// `SameSite`; default `Lax`.
    pub same_site: SameSite,
}

/// The `SameSite` attribute of a cookie.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// `Lax`
    #[default]
    Lax,
    /// `Strict`
    Strict,
    /// `None`, which browsers take only with `Secure`.
    None,
}

impl fmt::Debug for StickyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StickyPolicy").field("cookie", &self.cookie).finish_non_exhaustive()
    }
}
