//! `limits:` of routes and services: how much at once, how long, how slowly.

use super::service::AdaptiveSpec;
use super::spanned::Spanned;
use super::switch::SwitchSpec;
use super::values::{DurationSpec, SizeSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `limits:` of a route, or of the defaults that routes inherit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of limits")]
pub struct RouteLimitsSpec {
    /// Bytes of a request body; default: no bound.
    pub max_body: Option<Spanned<SizeSpec>>,
    /// Bytes per second that a body must move by; `0B`: no bound; default 128B.
    pub min_rate: Option<Spanned<SizeSpec>>,
    /// Exchanges under way, 1–1000000; default: no bound.
    pub max_in_flight: Option<Spanned<u64>>,
    /// Who may wait for a place.
    pub queue: QueueSpec,
    /// Who goes first in every queue; default `normal`.
    pub priority: Option<PrioritySpec>,
}

/// `limits:` of a service.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of limits")]
pub struct ServiceLimitsSpec {
    /// Connections open, idle ones included, 1–1000000; default: no bound.
    pub max_connections: Option<Spanned<u64>>,
    /// Exchanges under way, 1–1000000; default: no bound.
    pub max_in_flight: Option<Spanned<u64>>,
    /// A bound on what is under way to each endpoint that follows its latency; default `off`.
    pub adaptive: Option<Spanned<SwitchSpec<AdaptiveSpec>>>,
    /// Who may wait for a place.
    pub queue: QueueSpec,
}

/// `queue:` of a bound.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `size` and `timeout`")]
pub struct QueueSpec {
    /// Exchanges that may wait, 0–100000; default 100.
    pub size: Option<Spanned<u64>>,
    /// The longest wait; default 1s.
    pub timeout: Option<Spanned<DurationSpec>>,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`high`, `normal` or `low`")]
pub enum PrioritySpec {
    /// Before all others.
    High,
    /// As most.
    Normal,
    /// After all others.
    Low,
}
