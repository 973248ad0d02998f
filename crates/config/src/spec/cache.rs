//! `cache:` at the top: what the HTTP cache may use.

use super::spanned::Spanned;
use super::values::AutoSizeSpec;
use schemars::JsonSchema;
use serde::Deserialize;

/// `cache:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a map with `memory`; routes cache with the filter `cache`"
)]
pub struct CacheMemorySpec {
    /// Bytes for stored responses, what finds them and what is being stored; `auto`: an eighth of `limits.memory`.
    /// Nothing is used while no route has the filter `cache`.
    #[schemars(extend("x-range" = ["8MiB", "1024TiB"], "x-default" = "auto"))]
    pub memory: Option<Spanned<AutoSizeSpec>>,
}
