//! Leaving endpoints out that fail the requests sent to them (passive health).

use super::Statuses;
use serde::{Serialize, Serializer};
use std::time::Duration;
use thalweg_core::written;

/// `services.<name>.ejection`. An endpoint that does not accept connections is left out at once, whatever
/// stands here; these rules are for those that do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EjectionPolicy {
    /// Failures one after the other that eject, 0 (never)–1000; default 5.
    pub consecutive: u32,
    /// Responses that count as failures; default none. Faults of the endpoint (reset, timeout, malformed
    /// response) always do.
    #[serde(skip_serializing_if = "Statuses::is_empty")]
    pub statuses: Statuses,
    /// Share of failures in the window that ejects, in percent, 1–100; default none.
    #[serde(serialize_with = "written::percent")]
    pub failures: Option<u32>,
    /// Ejects whose success rate is this many standard deviations (in tenths) below the mean of all, 1–100;
    /// default none; 19 is Envoy's.
    #[serde(serialize_with = "tenths")]
    pub success_rate: Option<u32>,
    /// Ejects whose mean latency is above this share of the median of all, in percent, 110–10,000; default none.
    #[serde(serialize_with = "written::percent")]
    pub latency: Option<u32>,
    /// Requests that an endpoint must have had in the window before its share or latency is judged; default 20.
    pub min_requests: u32,
    /// The window, 1 s–10 min; default 10 s.
    #[serde(serialize_with = "written::duration")]
    pub window: Duration,
    /// Time of the first ejection, 100 ms–1 h; doubles with each that follows on another, default 5 s.
    #[serde(serialize_with = "written::duration")]
    pub time: Duration,
    /// And at most, from `time` to 1 day; default 5 min, or `time` where that is longer.
    #[serde(serialize_with = "written::duration")]
    pub max_time: Duration,
    /// Most of the endpoints that may be out by these rules at the same time, in percent, 0–100; default 50.
    #[serde(serialize_with = "written::percent")]
    pub max_share: u32,
}

fn tenths<S: Serializer>(value: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|tenths| f64::from(tenths) / 10.0).serialize(serializer)
}

impl Default for EjectionPolicy {
    fn default() -> Self {
        Self {
            consecutive: 5,
            statuses: Statuses::default(),
            failures: None,
            success_rate: None,
            latency: None,
            min_requests: 20,
            window: Duration::from_secs(10),
            time: Duration::from_secs(5),
            max_time: Duration::from_secs(300),
            max_share: 50,
        }
    }
}
