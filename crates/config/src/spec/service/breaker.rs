//! `services.<name>.breaker` and `limits.adaptive`: protecting a service that is in trouble.

use crate::spec::{DurationSpec, PercentSpec, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;

/// `breaker:` nothing is sent for a while when too much fails.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of rules")]
pub struct BreakerSpec {
    /// Share of failures at which it opens.
    #[schemars(extend("x-range" = ["1%", "100%"], "x-default" = "50%"))]
    pub failures: Option<Spanned<PercentSpec>>,
    /// The time that is looked at.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default" = "10s"))]
    pub window: Option<Spanned<DurationSpec>>,
    /// Requests that there must have been in it.
    #[schemars(extend("x-range" = [1, 1000000], "x-default" = 20))]
    pub min_requests: Option<Spanned<u64>>,
    /// How long it stays open.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default" = "5s"))]
    pub open: Option<Spanned<DurationSpec>>,
    /// Requests that are then let through; when all succeed it closes.
    #[schemars(extend("x-range" = [1, 1000], "x-default" = 3))]
    pub trials: Option<Spanned<u64>>,
}

/// `limits.adaptive:` a bound on what is under way to each endpoint that follows its latency.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `min`, `max` and `tolerance`")]
pub struct AdaptiveSpec {
    /// It never goes below.
    #[schemars(extend("x-range" = [1, 1000000], "x-default" = 10))]
    pub min: Option<Spanned<u64>>,
    /// Nor above.
    #[schemars(extend("x-range" = [1, 1000000], "x-default" = 1000))]
    pub max: Option<Spanned<u64>>,
    /// How far latency may grow before the bound falls, in percent of what it is without load.
    #[schemars(extend("x-range" = ["101%", "1000%"], "x-default" = "150%"))]
    pub tolerance: Option<Spanned<PercentSpec>>,
}
