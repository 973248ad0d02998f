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
    /// Bytes of a request body.
    #[schemars(extend("x-default-words" = "no bound"))]
    pub max_body: Option<Spanned<SizeSpec>>,
    /// Bytes per second that a body must move by; `0B`: no bound.
    #[schemars(extend("x-default" = "128B"))]
    pub min_rate: Option<Spanned<SizeSpec>>,
    /// Exchanges under way.
    #[schemars(extend("x-range" = [1, 1000000], "x-default-words" = "no bound"))]
    pub max_in_flight: Option<Spanned<u64>>,
    /// Who may wait for a place.
    pub queue: QueueSpec,
    /// Who goes first in every queue.
    #[schemars(extend("x-default" = "normal"))]
    pub priority: Option<PrioritySpec>,
}

/// `limits:` of a service.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of limits")]
pub struct ServiceLimitsSpec {
    /// Connections open, idle ones included.
    #[schemars(extend("x-range" = [1, 1000000], "x-default-words" = "no bound"))]
    pub max_connections: Option<Spanned<u64>>,
    /// Exchanges under way.
    #[schemars(extend("x-range" = [1, 1000000], "x-default-words" = "no bound"))]
    pub max_in_flight: Option<Spanned<u64>>,
    /// A bound on what is under way to each endpoint that follows its latency.
    #[schemars(extend("x-default" = "off"))]
    pub adaptive: Option<Spanned<SwitchSpec<AdaptiveSpec>>>,
    /// Who may wait for a place.
    pub queue: QueueSpec,
}

/// `queue:` of a bound.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `size` and `timeout`")]
pub struct QueueSpec {
    /// Exchanges that may wait.
    #[schemars(extend("x-range" = [0, 100000], "x-default" = 100))]
    pub size: Option<Spanned<u64>>,
    /// The longest wait.
    #[schemars(extend("x-default" = "1s"))]
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
