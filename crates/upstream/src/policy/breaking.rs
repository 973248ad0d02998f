//! Protecting a service that is in trouble from more of it.

use serde::Serialize;
use std::time::Duration;
use thalweg_core::written;

/// `services.<name>.breaker`: no request is sent for a while when too many fail. Default: none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct BreakerPolicy {
    /// The breaker opens at this share of failures, in percent, 1–100; default 50. A failure is what the
    /// service's ejection policy calls one.
    #[serde(serialize_with = "written::percent")]
    pub failures: u32,
    /// It looks at this span of time, 1 s–10 min; default 10 s.
    #[serde(serialize_with = "written::duration")]
    pub window: Duration,
    /// And only when there were this many requests in it; default 20.
    pub min_requests: u32,
    /// It stays open for this time, 100 ms–1 h; default 5 s.
    #[serde(serialize_with = "written::duration")]
    pub open: Duration,
    /// Then this many requests are let through; when all succeed it closes, else it opens again; default 3.
    pub trials: u32,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failures: 50,
            window: Duration::from_secs(10),
            min_requests: 20,
            open: Duration::from_secs(5),
            trials: 3,
        }
    }
}

/// `services.<name>.limits.adaptive`: a bound on what is under way to each endpoint that follows its
/// latency (a gradient as in Netflix's concurrency limit-limits, over a baseline that is measured as in Envoy).
/// Default: none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct AdaptivePolicy {
    /// It never goes below, not while it is measured either, 1–1,000,000; default 10. It begins at 100 within these
    /// bounds.
    pub min: u32,
    /// Nor above, `min`–1,000,000; default 1000.
    pub max: u32,
    /// Latency (to the response's head, the mean) may grow to this share of what it is without load, in percent,
    /// before the bound falls; 101–1000, default 150. What it is without load is measured while little is under
    /// way, or about once a minute for some seconds with the bound at 100 / (2 × tolerance) of what it was.
    #[serde(serialize_with = "written::percent")]
    pub tolerance: u32,
}

impl Default for AdaptivePolicy {
    fn default() -> Self {
        Self { min: 10, max: 1000, tolerance: 150 }
    }
}
