//! `routes[].canary:` how requests move to a newcomer.

use super::spanned::{ListSpec, Spanned};
use super::values::{DurationSpec, PercentSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `canary:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `service` and `steps`")]
pub struct CanarySpec {
    /// The newcomer: one of the services in `to`; the others are the baseline.
    #[schemars(extend("x-shown" = true))]
    pub service: Spanned<String>,
    /// Its shares, one after the other, ascending.
    pub steps: ListSpec<PercentSpec>,
    /// How long each step lasts at least.
    #[schemars(extend("x-range" = ["1s", "7d"], "x-default" = "5m"))]
    #[serde(default)]
    pub hold: Option<Spanned<DurationSpec>>,
    /// What must hold for the next step.
    #[serde(default)]
    pub gates: GatesSpec,
    /// What becomes of it when a gate is broken.
    #[schemars(extend("x-default" = "rollback"))]
    #[serde(default)]
    pub on_failure: Option<OnFailureSpec>,
}

/// `canary.gates:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of gates")]
pub struct GatesSpec {
    /// Requests that the newcomer must have had in a step to be judged.
    #[schemars(extend("x-range" = [1, 1000000], "x-default" = 100))]
    pub min_requests: Option<Spanned<u64>>,
    /// The most of its requests that may fail (a status from 500 on).
    #[schemars(extend("x-range" = ["0%", "100%"], "x-default-words" = "no bound"))]
    pub max_error_ratio: Option<Spanned<PercentSpec>>,
    /// How much more of its requests than of the baseline's may fail, in points of percent.
    #[schemars(extend("x-range" = ["0%", "100%"], "x-default" = "1%"))]
    pub error_ratio_over_baseline: Option<Spanned<PercentSpec>>,
    /// What 99 of 100 of its responses must keep.
    #[schemars(extend("x-range" = ["1ms", "1m"], "x-default-words" = "no bound"))]
    pub p99: Option<Spanned<DurationSpec>>,
    /// The same in percent of what 99 of 100 of the baseline's keep; up to 10ms it is always kept.
    #[schemars(extend("x-range" = ["100%", "10000%"], "x-default" = "150%"))]
    pub p99_over_baseline: Option<Spanned<PercentSpec>>,
}

/// What becomes of a canary that fails.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`rollback` or `pause`")]
pub enum OnFailureSpec {
    /// The newcomer gets nothing any more.
    Rollback,
    /// Everything stays as it is until somebody decides.
    Pause,
}
