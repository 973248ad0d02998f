//! How a route moves its requests to a newcomer among its services (`routes[].canary`).

use serde::{Serialize, Serializer};
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::written;

/// The steps, and what must hold for the next one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CanaryPolicy {
    /// The newcomer, by its name; the other services of the route are the baseline.
    #[serde(serialize_with = "name")]
    pub service: Arc<str>,
    /// Its share at each step, in percent, ascending, 1–100.
    #[serde(serialize_with = "shares")]
    pub steps: Vec<u32>,
    /// How long each step lasts at least, 1 s to 7 d; default 5 min.
    #[serde(serialize_with = "written::duration")]
    pub hold: Duration,
    /// What must hold.
    pub gates: CanaryGates,
    /// What becomes of one that fails; default rollback.
    pub on_failure: OnFailure,
}

/// What must hold for a step to be passed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CanaryGates {
    /// Requests that the newcomer must have had in a step to be judged, 1–1,000,000; default 100.
    pub min_requests: u64,
    /// The most of its requests that may fail, in percent; default no bound.
    #[serde(serialize_with = "written::percent")]
    pub max_error_ratio: Option<u32>,
    /// How much more of its requests than of the baseline's may fail, in points of percent; default 1.
    #[serde(serialize_with = "written::percent")]
    pub error_ratio_over_baseline: Option<u32>,
    /// What 99 of 100 of its responses must keep; default no bound.
    #[serde(serialize_with = "written::duration")]
    pub p99: Option<Duration>,
    /// The same in percent of what 99 of 100 of the baseline's keep; default 150.
    #[serde(serialize_with = "written::percent")]
    pub p99_over_baseline: Option<u32>,
}

/// What becomes of a canary that fails.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The newcomer gets nothing any more.
    #[default]
    Rollback,
    /// Everything stays as it is until somebody decides.
    Pause,
}

fn name<S: Serializer>(name: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name)
}

fn shares<S: Serializer>(steps: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(steps.iter().map(|step| format!("{step}%")))
}
