//! `services.<name>:` endpoints and the policies around them.

use super::limits::ServiceLimitsSpec;
use super::spanned::{ListSpec, Spanned};
use super::values::{AutoSpec, DurationSpec};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;

/// One service.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `endpoints`")]
pub struct ServiceSpec {
    /// At least one URL.
    pub endpoints: ListSpec<EndpointSpec>,
    /// How one endpoint is chosen; default `round_robin`.
    pub balance: Option<Spanned<String>>,
    /// The `Host` sent upstream: `keep` (the default), `endpoint`, or this name.
    pub host: Option<Spanned<String>>,
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

/// One endpoint: a URL, `http://host:port` or `unix:/path`, alone or with a weight and bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointSpec {
    /// `"http://10.0.0.1:8080"`
    Short(String),
    /// `{ url: "http://10.0.0.1:8080", weight: 3 }`
    Long(LongEndpointSpec),
}

/// The long form of [`EndpointSpec`].
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub struct LongEndpointSpec {
    /// The URL.
    pub url: Spanned<String>,
    /// Its share, 0–1000; default 1.
    pub weight: Option<Spanned<u64>>,
    /// Connections open, idle ones included, 1–1000000; default: no bound.
    pub max_connections: Option<Spanned<u64>>,
    /// Exchanges under way, 1–1000000; default: no bound.
    pub max_in_flight: Option<Spanned<u64>>,
}

impl<'de> Deserialize<'de> for EndpointSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = EndpointSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL or a map with `url`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<EndpointSpec, E> {
                Ok(EndpointSpec::Short(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EndpointSpec, A::Error> {
                LongEndpointSpec::deserialize(MapAccessDeserializer::new(map)).map(EndpointSpec::Long)
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

/// `retry:`
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `attempts`")]
pub struct RetrySpec {
    /// Attempts in all, 1–10; default 2.
    pub attempts: Option<Spanned<u64>>,
}

/// `timeouts:` of a route, a service or the defaults.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of durations")]
pub struct TimeoutsSpec {
    /// Until an endpoint has accepted the connection; default 2s.
    pub connect: Option<Spanned<DurationSpec>>,
    /// From the request's last byte to the response's first; default 60s.
    pub first_byte: Option<Spanned<DurationSpec>>,
    /// Between two bytes of a response or tunnel; default 60s.
    pub idle: Option<Spanned<DurationSpec>>,
    /// For the whole exchange, tunnels excepted; default: no bound.
    pub request: Option<Spanned<DurationSpec>>,
    /// For the head of a client's request, only in `defaults`; default 10s.
    pub head: Option<Spanned<DurationSpec>>,
    /// For an idle client connection, only in `defaults`; default 75s.
    pub keep_alive: Option<Spanned<DurationSpec>>,
}

/// `pool:` per endpoint and worker.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of pool settings")]
pub struct PoolSpec {
    /// Idle connections kept, 0–65535; `auto` (the default): as many as were in use at once.
    pub max_idle: Option<Spanned<AutoSpec>>,
    /// An idle connection is closed after this time; default 60s.
    pub idle: Option<Spanned<DurationSpec>>,
    /// A connection is not reused after this time; default 1h.
    pub max_age: Option<Spanned<DurationSpec>>,
    /// A connection is not reused after this many requests, 1–4294967295; default: no limit.
    pub max_requests: Option<Spanned<u64>>,
}
