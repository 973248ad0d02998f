//! Where spans are sent, and how: the configuration writes it, the control thread exports by it.

use super::TracingPolicy;
use serde::{Serialize, Serializer};
use std::time::Duration;
use thalweg_core::written::{self, Hidden};
use thalweg_http::HttpUrl;

/// Default for the time of one request.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// `tracing:`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tracing {
    /// Which exchanges are told of.
    #[serde(flatten)]
    pub policy: TracingPolicy,
    /// Where.
    #[serde(flatten)]
    pub export: TraceExport,
}

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceExport {
    /// The collector: with OTLP over HTTP the whole URL, `/v1/traces` at its end.
    #[serde(serialize_with = "written::text")]
    pub endpoint: HttpUrl,
    /// What is spoken there.
    pub protocol: TraceProtocol,
    /// Fields of each request, which may be credentials: they are compared and never shown.
    #[serde(serialize_with = "hidden")]
    pub headers: Vec<(String, SecretText)>,
    /// What is said of this process beside its name: attributes of the resource.
    pub attributes: Vec<(String, String)>,
    /// Time of one request. Default [`TIMEOUT`].
    #[serde(serialize_with = "written::duration")]
    pub timeout: Duration,
}

/// What collectors are spoken to in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceProtocol {
    /// OTLP over HTTP/1.1: protobuf in a POST; usually port 4318.
    #[default]
    Http,
    /// OTLP over gRPC; usually port 4317.
    Grpc,
}

/// A text that no message and no document shows.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(…)")
    }
}

fn hidden<S: Serializer>(headers: &[(String, SecretText)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (name, Hidden::of(value))))
}
