//! Sources of endpoints, as the admin API shows them.

use super::service::rfc3339_text;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::time::SystemTime;

/// The answer to `GET /api/v1/sources`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SourceStatuses {
    /// Each once, however many services it is for.
    pub sources: Vec<SourceStatus>,
}

/// How a source of endpoints, or of routes, stands.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SourceStatus {
    /// Its key under `discover` or in `route_sources`.
    pub kind: String,
    /// Whom it asks.
    pub place: String,
    /// For what.
    pub query: String,
    /// The services that have endpoints from it; none: it tells of routes.
    pub services: Vec<String>,
    /// Whether it works.
    pub state: SourceState,
    /// Endpoints that are known; absent: it has not told of any yet, or tells of routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<usize>,
    /// Documents with routes and services that are known; absent: it has not told of any yet, or tells of endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<usize>,
    /// Documents, or parts of them, that do not run, and why: at most 20 sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Seconds since what is known was last said to be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// What is used was kept before a restart, and was last right then; absent: the source has answered since, or
    /// nothing was kept.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "moment")]
    #[schemars(with = "Option<String>")]
    pub kept_from: Option<SystemTime>,
    /// When the set last changed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "moment")]
    #[schemars(with = "Option<String>")]
    pub changed: Option<SystemTime>,
    /// After so many seconds without a sign of life, twice over, it counts as failing.
    pub stale_after_s: f64,
    /// Sets that it has told of.
    pub updates_total: u64,
    /// Times at which it failed.
    pub failures_total: u64,
    /// Why it fails now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The last of what it told that cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flaw: Option<String>,
}

/// Whether a source works.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceState {
    /// It has told of nothing yet.
    Waiting,
    /// What is known is right, as far as it knows.
    Current,
    /// It fails; the last good set stays in use.
    Failing,
}

fn moment<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339_text).serialize(serializer)
}
