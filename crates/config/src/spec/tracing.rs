//! `tracing:` traces of requests.

use super::secret::SecretSpec;
use super::spanned::{NamedSpec, Spanned};
use super::values::{DurationSpec, PercentSpec};
use crate::schema;
use schemars::JsonSchema;
use serde::Deserialize;

/// `tracing:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `endpoint`")]
pub struct TracingSpec {
    /// The collector: `http://127.0.0.1:4318` and the like. Over HTTP, `/v1/traces` is added to a URL without a path.
    #[schemars(with = "schema::WebhookUrl")]
    #[schemars(extend("x-api" = "destination"))]
    pub endpoint: Spanned<String>,
    /// What is spoken there: OTLP over HTTP or over gRPC.
    #[schemars(extend("x-default" = "http"))]
    #[serde(default)]
    pub protocol: TraceProtocolSpec,
    /// How this process is called (`service.name`).
    #[schemars(extend("x-default" = "thalweg"))]
    pub service_name: Option<Spanned<String>>,
    /// The share of traces that begin here and are recorded, in whole percent.
    #[schemars(extend("x-range" = ["0%", "100%"], "x-default" = "1%"))]
    pub sample: Option<Spanned<PercentSpec>>,
    /// Exchanges that failed are told of in any case.
    #[schemars(extend("x-default" = true))]
    pub errors: Option<bool>,
    /// Exchanges that took this long are told of in any case.
    #[schemars(extend("x-range" = ["1ms", "1d"], "x-default" = "1s"))]
    pub slower_than: Option<Spanned<DurationSpec>>,
    /// Whose `traceparent` counts.
    #[schemars(extend("x-default" = "all"))]
    #[serde(default)]
    pub parents: ParentsSpec,
    /// Fields of the requests to the collector, by name; they are credentials more often than not.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    pub headers: NamedSpec<Spanned<SecretSpec>>,
    /// What else is said of this process (attributes of the resource), by name.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    pub attributes: NamedSpec<Spanned<String>>,
    /// For one request to the collector.
    #[schemars(extend("x-range" = ["100ms", "1m"], "x-default" = "10s"))]
    pub timeout: Option<Spanned<DurationSpec>>,
}

/// What collectors are spoken to in.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`http` or `grpc`")]
pub enum TraceProtocolSpec {
    /// OTLP over HTTP.
    #[default]
    Http,
    /// OTLP over gRPC.
    Grpc,
}

/// Whose `traceparent` counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`all`, `trusted` or `none`")]
pub enum ParentsSpec {
    /// Everybody's trace goes on; whether it is recorded, only trusted proxies say.
    #[default]
    All,
    /// Those of trusted proxies.
    Trusted,
    /// Nobody's.
    None,
}
