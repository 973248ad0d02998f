//! `services.<name>.discover`, `scheme`, `subset` and `prefer`: endpoints that come from a source, and which of them
//! are used.

use crate::spec::Spanned;
use crate::spec::values::PercentSpec;
use schemars::JsonSchema;
use serde::Deserialize;

/// `scheme:` of a service.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`http`, `https`, `tcp` or `udp`")]
pub enum SchemeSpec {
    /// Requests.
    #[default]
    Http,
    /// Requests through TLS.
    Https,
    /// Whole connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// `prefer:` of a service.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `zone`")]
pub struct PreferSpec {
    /// Endpoints with this label `zone` are used rather than others of the same tier.
    pub zone: Spanned<String>,
    /// Others are used too while less than this share of those in the zone is well.
    #[schemars(extend("x-range" = ["1%", "100%"], "x-default" = "50%"))]
    pub spill_over: Option<Spanned<PercentSpec>>,
}
