//! `services.<name>.sticky:` a client stays at one endpoint by a cookie.

use crate::spec::{DurationSpec, SecretSpec, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;

/// `sticky:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of cookie settings")]
pub struct StickySpec {
    /// The cookie's name.
    #[schemars(extend("x-default" = "thalweg_endpoint"))]
    pub cookie: Option<Spanned<String>>,
    /// What signs it, at least 16 bytes.
    #[schemars(extend("x-default-words" = "made anew at each start"))]
    pub secret: Option<Spanned<SecretSpec>>,
    /// How long browsers keep it, in whole seconds.
    #[schemars(extend("x-range" = ["1s", "400d"], "x-default-words" = "until they are closed"))]
    pub max_age: Option<Spanned<DurationSpec>>,
    /// Whether browsers send it with HTTPS only.
    #[schemars(extend("x-default" = false))]
    pub secure: Option<bool>,
    /// Whether browsers send it with requests that come from other sites.
    #[schemars(extend("x-default" = "lax"))]
    pub same_site: Option<Spanned<SameSiteSpec>>,
}

/// The `SameSite` attribute of a cookie.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`lax`, `strict` or `none`")]
pub enum SameSiteSpec {
    /// With links from other sites, not with what they embed.
    Lax,
    /// Never.
    Strict,
    /// Always; needs `secure: true`.
    None,
}
