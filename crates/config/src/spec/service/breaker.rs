//! `services.<name>.breaker` and `limits.adaptive`: protecting a service that is in trouble.

use crate::spec::{DurationSpec, PercentSpec, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;

/// `breaker:` nothing is sent for a while when too much fails.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of rules")]
pub struct BreakerSpec {
    /// Share of failures at which it opens, 1%–100%; default 50%.
    pub failures: Option<Spanned<PercentSpec>>,
    /// The time that is looked at, 1s–10m; default 10s.
    pub window: Option<Spanned<DurationSpec>>,
    /// Requests that there must have been in it, 1–1000000; default 20.
    pub min_requests: Option<Spanned<u64>>,
    /// How long it stays open, 100ms–1h; default 5s.
    pub open: Option<Spanned<DurationSpec>>,
    /// Requests that are then let through; when all succeed it closes, 1–1000; default 3.
    pub trials: Option<Spanned<u64>>,
}

/// `limits.adaptive:` a bound on what is under way to each endpoint that follows its latency.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `min`, `max` and `tolerance`")]
pub struct AdaptiveSpec {
    /// It never goes below, 1–1000000; default 10.
    pub min: Option<Spanned<u64>>,
    /// Nor above, 1–1000000; default 1000.
    pub max: Option<Spanned<u64>>,
    /// How far latency may grow before the bound falls, in percent of what it is without load, 101%–1000%;
    /// default 150%.
    pub tolerance: Option<Spanned<PercentSpec>>,
}
