//! Decision records, as the admin API shows them. Keys that the access log has too are called as there.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use thalweg_core::{FaultKind, RequestId};

use super::refusal::Refusal;
use super::service::{rfc3339, rfc3339_text};

/// Records that are waited for.
pub type Recalling = Pin<Box<dyn Future<Output = Result<Requests, Refusal>> + Send>>;

/// Which exchanges are asked for: those that fit everything that is there.
#[derive(Clone, Debug)]
pub struct RequestFilter {
    /// The id of the request.
    pub id: Option<RequestId>,
    /// Name of the route.
    pub route: Option<String>,
    /// Name of the service.
    pub service: Option<String>,
    /// The status that the client got.
    pub status: Option<RangeInclusive<u16>>,
    /// How it or one of its attempts ended.
    pub fault: Option<FaultKind>,
    /// It took as long or longer.
    pub slower_than: Option<Duration>,
    /// How many at most.
    pub limit: usize,
}

/// The answer to `GET /api/v1/requests` and `GET /api/v1/requests/{id}`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Requests {
    /// `request_history.keep` of the configuration; 0: nothing is remembered.
    pub keep: u64,
    /// `request_history.slow` of the configuration, in milliseconds.
    pub slow_ms: u64,
    /// Since then, every exchange that has ended is remembered, in RFC 3339; absent while none has been forgotten.
    #[serde(serialize_with = "moment", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub complete_since: Option<SystemTime>,
    /// What was found, the newest first.
    pub requests: Vec<RequestRecord>,
}

/// One exchange: what was decided about it, and what came of it. What is unknown is absent.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RequestRecord {
    /// As in `X-Request-Id`. A trusted proxy may give several the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The trace that tells of it, as in `traceparent`; absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// When its first byte was here, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub began: SystemTime,
    /// Whether it goes on; only tunnels are shown before their end.
    pub open: bool,
    /// Number of the worker that served it.
    pub worker: usize,
    /// Name of the listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// The client, seen through trusted proxies.
    pub client_ip: String,
    /// Its port, when its connection is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<u16>,
    /// The method; absent when no request line could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Host and port that the client named, in normal form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The path in normal form, before the filters. A long one is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The query with secrets redacted, where there is an access log. A long one is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Name of the route that took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The route's filters in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterRecord>,
    /// Name of the service that it went to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// In the order of their beginning.
    pub attempts: Vec<AttemptRecord>,
    /// Waiting for a place in a queue, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<u64>,
    /// From its beginning to the first byte of a response, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttfb_us: Option<u64>,
    /// From its beginning to its end, in microseconds; of one that goes on, until now.
    pub duration_us: u64,
    /// Bytes of the request's body received.
    pub bytes_in: u64,
    /// Bytes of the response's body sent.
    pub bytes_out: u64,
    /// The status that the client got; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why the proxy could not do what was asked: an RFC 9209 error type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
    /// Who is to blame: `downstream`, `proxy` or `upstream`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_side: Option<&'static str>,
    /// The cause in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_detail: Option<&'static str>,
    /// Who the client is, as a filter has verified it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Why a filter refused it, or would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `idle`: a tunnel or connection that was silent for `timeouts.idle`, which is no fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<&'static str>,
    /// Why it is kept longer than others: `failed` (it or an attempt failed, or a status from 500 on), `slow`, or
    /// `refused` (the proxy answered with a status from 400 to 499, or the client left).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<&'static str>,
}

/// A filter of the route.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FilterRecord {
    /// Its name.
    pub name: &'static str,
    /// Whether it changed the request or the response, or refused it.
    pub acted: bool,
}

/// One try to have the request answered.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct AttemptRecord {
    /// URL of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// From the beginning of the exchange, in microseconds.
    pub began_us: u64,
    /// Time to connect, in microseconds; 0 on a reused connection.
    pub connect_us: u64,
    /// Time of the TLS handshake after that, in microseconds; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_us: Option<u64>,
    /// Whether the connection had served a request before.
    pub reused: bool,
    /// Whether it was a copy, sent because an attempt before was slow to be answered (`retry.hedge`).
    pub hedge: bool,
    /// Whether its response is the one that the client got; of one that failed, or was called off for another, not.
    pub answered: bool,
    /// When it failed, from the beginning of the exchange, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_us: Option<u64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
    /// The cause in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_detail: Option<&'static str>,
}

fn moment<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339_text).serialize(serializer)
}
