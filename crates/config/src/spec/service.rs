//! `services.<name>:` endpoints and the policies around them.

mod balance;
mod breaker;
mod discover;
mod ejection;
mod endpoints;
mod health;
mod outage;
mod pool;
mod retry;
mod sticky;
mod tls;

pub use balance::{BalanceSpec, HashSpec, KeySpec};
pub use breaker::{AdaptiveSpec, BreakerSpec};
pub use discover::{PreferSpec, SchemeSpec};
pub use ejection::EjectionSpec;
pub use endpoints::{EndpointSpec, LongEndpointSpec};
pub use health::{GrpcCheckSpec, HealthSpec, InitialHealthSpec};
pub use outage::{AnswerSpec, WhenDownSpec};
pub use pool::PoolSpec;
pub use retry::{GrpcStatusSpec, HedgeSpec, RetrySpec};
pub use sticky::{SameSiteSpec, StickySpec};
pub use tls::ServiceTlsSpec;

use super::filter_entry::StepSpec;
use super::limits::ServiceLimitsSpec;
use super::short::{ShortSpec, SomeSpec};
use super::spanned::{ListSpec, NamedSpec, Spanned};
use super::switch::SwitchSpec;
use super::values::{DurationSpec, PercentSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use thalweg_discovery::SourceSpec;

/// One service.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `endpoints` or `discover`")]
pub struct ServiceSpec {
    /// At least one URL; one alone needs no list. With `discover` they are there beside what is found.
    #[schemars(schema_with = "at_least_one")]
    #[schemars(extend("x-default-words" = "none, which needs `discover`"))]
    #[serde(default)]
    #[schemars(extend("x-shown" = true))]
    pub endpoints: Option<SomeSpec<EndpointSpec>>,
    /// A source that endpoints come from: its name and its settings.
    #[schemars(extend("x-default-words" = "none"))]
    pub discover: Option<Spanned<SourceSpec>>,
    /// What is spoken with endpoints of which the source does not tell it.
    #[schemars(extend("x-default" = "http"))]
    pub scheme: Option<Spanned<SchemeSpec>>,
    /// Only endpoints with all of these labels are taken from the source.
    #[schemars(extend("x-default-words" = "all"))]
    #[serde(default)]
    pub subset: NamedSpec<Spanned<String>>,
    /// Which endpoints are used rather than others.
    #[schemars(extend("x-default-words" = "none"))]
    pub prefer: Option<Spanned<PreferSpec>>,
    /// How one endpoint is chosen.
    #[schemars(extend("x-default" = "round_robin"))]
    pub balance: Option<Spanned<BalanceSpec>>,
    /// An endpoint that becomes ready gets its full share only after this time.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default-words" = "at once"))]
    pub slow_start: Option<Spanned<DurationSpec>>,
    /// Where less than this share of the endpoints is well, all of them serve; 0%: never.
    #[schemars(extend("x-range" = ["0%", "100%"], "x-default" = "0%"))]
    pub panic_threshold: Option<Spanned<PercentSpec>>,
    /// Whether clients stay at one endpoint by a cookie.
    #[schemars(extend("x-default" = "off"))]
    pub sticky: Option<Spanned<SwitchSpec<StickySpec>>>,
    /// How endpoints are checked, a map or the path of an HTTP check alone.
    #[schemars(extend("x-default-words" = "they are not"))]
    pub health: Option<Spanned<ShortSpec<HealthSpec>>>,
    /// When endpoints that fail are left out.
    #[schemars(extend("x-default-words" = "after 5 failures in a row"))]
    pub ejection: Option<SwitchSpec<EjectionSpec>>,
    /// When nothing is sent for a while.
    #[schemars(extend("x-default" = "off"))]
    pub breaker: Option<SwitchSpec<BreakerSpec>>,
    /// What is done when no endpoint is well.
    #[schemars(extend("x-default" = "error"))]
    pub when_down: Option<WhenDownSpec>,
    /// The `Host` sent upstream: `keep`, `endpoint`, or this name.
    #[schemars(extend("x-default" = "keep"))]
    #[schemars(extend("x-shown" = true))]
    pub host: Option<Spanned<String>>,
    /// How endpoints with `https://` prove who they are.
    #[schemars(extend("x-default-words" = "to whom the system trusts, by the host of their URL"))]
    #[schemars(extend("x-kept" = true))]
    pub tls: Option<Spanned<ServiceTlsSpec>>,
    /// What is spoken with endpoints; `auto`: with `https://` what they choose of HTTP/2 and HTTP/1.1, else HTTP/1.1.
    #[schemars(extend("x-default" = "auto"))]
    #[serde(default)]
    pub protocol: ServiceProtocolSpec,
    /// Tell `tcp://` endpoints with the PROXY protocol who a client is.
    #[schemars(extend("x-default-words" = "they are not told"))]
    pub send_proxy_protocol: Option<Spanned<ProxyProtocolVersionSpec>>,
    /// Filters of every request that goes here, behind those of its route.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    pub filters: ListSpec<StepSpec>,
    /// When another attempt is made.
    #[serde(default)]
    pub retry: RetrySpec,
    /// Deadlines of this service.
    #[serde(default)]
    pub timeouts: TimeoutsSpec,
    /// How connections are kept.
    #[serde(default)]
    pub pool: PoolSpec,
    /// How much it takes at once.
    #[serde(default)]
    pub limits: ServiceLimitsSpec,
}

impl ServiceSpec {
    /// The endpoints that are written.
    pub fn written(&self) -> &[Spanned<EndpointSpec>] {
        self.endpoints.as_ref().map_or(&[], |list| &list.items)
    }
}

/// One endpoint, or a list that is not empty.
fn at_least_one(generator: &mut SchemaGenerator) -> Schema {
    let one = generator.subschema_for::<EndpointSpec>();
    json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
}

/// `send_proxy_protocol:`
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`v1` or `v2`")]
pub enum ProxyProtocolVersionSpec {
    /// A line of text.
    V1,
    /// Binary, with the name that the client asked for and the request id.
    V2,
}

/// `protocol:` of a service.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`auto`, `http1` or `http2`")]
pub enum ServiceProtocolSpec {
    /// Through TLS what the endpoint chooses of HTTP/2 and HTTP/1.1, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; with `http://` by prior knowledge (h2c).
    Http2,
}

/// `timeouts:` of a route, a service or the defaults.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of durations")]
pub struct TimeoutsSpec {
    /// Until an endpoint has accepted the connection and, with TLS, shaken hands.
    #[schemars(extend("x-default" = "2s"))]
    pub connect: Option<Spanned<DurationSpec>>,
    /// From the request's last byte to the response's first.
    #[schemars(extend("x-default" = "60s"))]
    pub first_byte: Option<Spanned<DurationSpec>>,
    /// Between two bytes of a response or tunnel; 10m for whole connections.
    #[schemars(extend("x-default" = "60s"))]
    pub idle: Option<Spanned<DurationSpec>>,
    /// For the whole exchange, tunnels excepted.
    #[schemars(extend("x-default-words" = "no bound"))]
    pub request: Option<Spanned<DurationSpec>>,
    /// For the head of a client's request, only in `defaults`.
    #[schemars(extend("x-default" = "10s"))]
    pub head: Option<Spanned<DurationSpec>>,
    /// For an idle client connection, only in `defaults`.
    #[schemars(extend("x-default" = "75s"))]
    pub keep_alive: Option<Spanned<DurationSpec>>,
}
