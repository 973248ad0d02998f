//! `bans.<name>:` when clients are put into a list by themselves.

use super::spanned::{ListSpec, Spanned};
use super::values::DurationSpec;
use crate::schema;
use schemars::JsonSchema;
use serde::Deserialize;
use thalweg_filter::{OneOrManySpec, StatusSpec};

/// `bans.<name>:`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `after`")]
pub struct BanSpec {
    /// Statuses of answers that count, `401`, or classes, `4xx`; whether the proxy or a service gave them.
    #[schemars(extend("x-default-words" = "401, 403 and 429"))]
    pub status: Option<OneOrManySpec<StatusSpec>>,
    /// Whether requests count that are no proper HTTP.
    #[schemars(extend("x-default" = true))]
    pub malformed: Option<bool>,
    /// With so many of them within `within` a client is banned. Clients of IPv6 are told apart by /64.
    #[schemars(extend("x-range" = [1, 1000000]))]
    pub after: Spanned<u64>,
    /// The window, which begins with the first of them.
    #[schemars(extend("x-range" = ["1s", "1d"], "x-default" = "1m"))]
    pub within: Option<Spanned<DurationSpec>>,
    /// How long the first ban lasts; each further one lasts twice as long as the one before.
    #[schemars(extend("x-range" = ["1s", "30d"], "x-default" = "10m"))]
    pub r#for: Option<Spanned<DurationSpec>>,
    /// No ban lasts longer. A client that is good for as long after a ban begins anew.
    #[schemars(extend("x-range" = ["1s", "365d"], "x-default" = "1d"))]
    pub longest: Option<Spanned<DurationSpec>>,
    /// Networks of clients that are never banned. Those of `trusted_proxies` are not either.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(with = "ListSpec<schema::Network>")]
    #[serde(default)]
    pub never: ListSpec<String>,
    /// The list that they are put into.
    #[schemars(extend("x-default" = "blocked"))]
    pub list: Option<Spanned<String>>,
    /// Nobody is banned; the operator is told who would be.
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    pub dry_run: bool,
}
