//! `services.<name>.health:` asking endpoints whether they are well.

use crate::schema;
use crate::spec::{DurationSpec, ListSpec, NamedSpec, Short, Spanned, StatusSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// `health:` an HTTP check, with `path`, `method`, `headers`, `expect` or `body`, a gRPC check, with `grpc`, or a TCP
/// check, with `tcp`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `path`, `grpc` or `tcp`")]
pub struct HealthSpec {
    /// `true`: accepting a connection is enough, as it is where all endpoints are `tcp://…` and nothing else is said.
    #[schemars(extend("x-default" = false))]
    pub tcp: Option<Spanned<bool>>,
    /// `grpc.health.v1` is asked.
    #[schemars(extend("x-default-words" = "it is not"))]
    pub grpc: Option<Spanned<GrpcCheckSpec>>,
    /// Path and query that are asked for.
    #[schemars(extend("x-default" = "/"))]
    #[schemars(with = "Option<schema::Path>")]
    #[schemars(extend("x-sent" = true))]
    pub path: Option<Spanned<String>>,
    /// The method.
    #[schemars(extend("x-default" = "GET"))]
    #[schemars(with = "Option<schema::Method>")]
    pub method: Option<Spanned<String>>,
    /// Further fields of the request; `host` replaces the endpoint's own name.
    #[schemars(extend("x-named" = true, "x-sent" = true))]
    pub headers: NamedSpec<Spanned<String>>,
    /// Statuses that pass.
    #[schemars(extend("x-default" = ["200-399"]))]
    pub expect: Option<Spanned<ListSpec<StatusSpec>>>,
    /// A regular expression that the first 64 KiB of the body must match somewhere.
    #[schemars(extend("x-default-words" = "any body"))]
    pub body: Option<Spanned<String>>,
    /// Another port than the endpoint's.
    #[schemars(extend("x-range" = [1, 65535], "x-default-words" = "the endpoint's own"))]
    pub port: Option<Spanned<u64>>,
    /// Time between two checks, ±10 %.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default" = "5s"))]
    pub interval: Option<Spanned<DurationSpec>>,
    /// The same while the endpoint is down.
    #[schemars(extend("x-default-words" = "as `interval`"))]
    pub interval_down: Option<Spanned<DurationSpec>>,
    /// For one check and not longer than the intervals.
    #[schemars(extend("x-range" = ["10ms", "1m"], "x-default-words" = "1s, or the interval where it is shorter"))]
    pub timeout: Option<Spanned<DurationSpec>>,
    /// Failed checks in a row after which it is down.
    #[schemars(extend("x-range" = [1, 100], "x-default" = 3))]
    pub unhealthy_after: Option<Spanned<u64>>,
    /// Passed checks in a row after which it is up again.
    #[schemars(extend("x-range" = [1, 100], "x-default" = 2))]
    pub healthy_after: Option<Spanned<u64>>,
    /// What a new endpoint counts as until its first check.
    #[schemars(extend("x-default" = "healthy"))]
    pub initial: Option<InitialHealthSpec>,
}

/// `health: /healthz`
impl Short for HealthSpec {
    const EXPECTED: &'static str = "a path or a map with `path`, `grpc` or `tcp`";

    fn of_text(path: Spanned<String>) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    fn text_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<schema::Path>()
    }
}

/// `health.initial:`
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`healthy` or `unhealthy`")]
pub enum InitialHealthSpec {
    /// It gets requests at once, until checks fail.
    Healthy,
    /// It gets requests only after its first passed check.
    Unhealthy,
}

/// `health.grpc:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map such as `{ service: shop.Cart }`")]
pub struct GrpcCheckSpec {
    /// The service that is asked for by its full name.
    #[schemars(extend("x-default-words" = "the server as a whole"))]
    #[schemars(extend("x-shown" = true))]
    pub service: Option<Spanned<String>>,
}
