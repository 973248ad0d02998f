//! Time series, as the admin API shows them.

use schemars::JsonSchema;
use serde::Serialize;

/// What series are about.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesKind {
    /// The process as a whole.
    #[default]
    Process,
    /// Routes.
    Route,
    /// Services.
    Service,
    /// Endpoints of services.
    Endpoint,
}

impl SeriesKind {
    /// Every kind, by its word.
    pub const ALL: [(&'static str, Self); 4] = [
        ("process", Self::Process),
        ("route", Self::Route),
        ("service", Self::Service),
        ("endpoint", Self::Endpoint),
    ];
}

/// Which series are asked for.
#[derive(Clone, Debug, Default)]
pub struct SeriesFilter {
    /// What about.
    pub kind: SeriesKind,
    /// The one of this name.
    pub name: Option<String>,
    /// Of endpoints, those of this service.
    pub service: Option<String>,
    /// 24 hours in steps of 5 minutes; otherwise 30 minutes in steps of 10 seconds.
    pub is_long: bool,
    /// How many at most.
    pub limit: usize,
}

/// The answer to `GET /api/v1/series`. All lists have one value per step, the oldest first; the last step is the last
/// one that is over.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeriesDocument {
    /// Seconds of a step.
    pub step_s: u64,
    /// When the first step began, in seconds since the Unix epoch.
    pub start: u64,
    /// What the series are about.
    pub kind: SeriesKind,
    /// The busiest first. `_other` is what those have counted, in sum, that have no series of their own.
    pub series: Vec<ObjectSeries>,
    /// Of the process: client connections open at the end of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Vec<u32>>,
    /// Of the process: exchanges under way at the end of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<Vec<u32>>,
    /// Of the process: the largest of the shares in use of connections, descriptors, memory, exchanges and request
    /// bodies, 0 to 1; the most there was at the readings of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Vec<f32>>,
}

/// What one thing has counted, per step (not per second).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ObjectSeries {
    /// Its name: of a route (empty: no route took them), of a service, or the URL of an endpoint.
    pub name: String,
    /// Of an endpoint, the service that it belongs to.
    pub service: Option<String>,
    /// Exchanges that ended; of an endpoint, attempts.
    pub requests: Vec<u64>,
    /// Those with a status from 500 on; of an endpoint, attempts that failed too.
    pub errors: Vec<u64>,
    /// Bytes of requests.
    pub bytes_in: Vec<u64>,
    /// Bytes of responses.
    pub bytes_out: Vec<u64>,
    /// What half of the exchanges did not exceed, in microseconds; null without exchanges. Of an endpoint, the time
    /// to the first byte of its response.
    pub p50_us: Vec<Option<u64>>,
    /// What 99 of 100 did not exceed.
    pub p99_us: Vec<Option<u64>>,
}
