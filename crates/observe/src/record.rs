//! One line of the access log, before it is text.
//!
//! The last phase of an exchange fills a [`LogRecord`] with borrowed fields and gives it to the
//! worker's [`LogBatch`](crate::LogBatch). One record per exchange, also for those that failed
//! before a route was found. Invariant: encoding allocates nothing but the growth of the batch, and
//! one record is one line whatever the peers sent (hostile input E10).
//!
//! # Keys of the JSON form
//! Stable; absent when unknown. `ts` (RFC 3339, UTC, microseconds), `id`, `trace_id`, `listener`, `client_ip`,
//! `client_port`, `peer_ip`, `client_cert_subject`, `user` (as a filter has verified it), `method`, `scheme`, `host`,
//! `path`, `query`, `proto`, `status`, `grpc_status` (its name), `bytes_in`, `bytes_out`, `route`, `service`,
//! `endpoint`, `attempts`, `failed` (a list of `{"endpoint","fault","reused","connect_us"}`, one for each attempt that
//! failed and was followed by another, in their order), `reused`, `duration_us`, `wait_us`, `connect_us`, `tls_us`,
//! `ttfb_us`, `fault`, `fault_side`, `fault_detail`, `reason` (of a filter that refused it, or would have), `ended`
//! (`idle`: a tunnel or connection that was silent for `timeouts.idle`), `unlogged` (refused connections before this
//! one that have no line), `user_agent`, `referer`, `fields` (an object: what filters `log` add),
//! `share` (a number: the share of lines of which this is one, where it was drawn).

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use thalweg_core::{Fault, RequestId};

use crate::stamp::Stamp;
use crate::text::TextFormat;
use crate::trace::TraceId;
use crate::{combined, json};

/// Bytes of one field that are logged; the rest of a longer one is left out.
pub const FIELD_BYTES: usize = 16 * 1024;

/// The form of the lines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// nginx's `combined`, byte for byte; the user is the one that a filter has verified.
    Combined,
    /// A text of the operator's own.
    Text(Arc<TextFormat>),
}

/// Everything the access log can say about one exchange.
///
/// Fields that hold what a peer sent are bytes: they may be anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRecord<'a> {
    /// When the exchange ended, in microseconds since the Unix epoch.
    pub unix_us: u64,
    /// The exchange's id.
    pub id: Option<&'a RequestId>,
    /// The trace that it belongs to, where traces are kept.
    pub trace: Option<TraceId>,
    /// Name of the listener.
    pub listener: &'a str,
    /// Address of the client, after trusted proxies were taken into account; `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// Port of the client, when its connection is ours.
    pub client_port: Option<u16>,
    /// Address of the other end of the connection.
    pub peer: Option<IpAddr>,
    /// The subject of the certificate that the client has shown, RFC 4514.
    pub client_cert_subject: Option<&'a str>,
    /// The user, as a filter has verified it.
    pub user: Option<&'a str>,
    /// The method; empty when no request line could be read.
    pub method: &'a [u8],
    /// `http` or `https`; empty when unknown.
    pub scheme: &'a str,
    /// The authority asked for.
    pub host: Option<&'a [u8]>,
    /// The path as forwarded.
    pub path: &'a [u8],
    /// The query without its question mark. Values of parameters with names of credentials are not written.
    pub query: Option<&'a [u8]>,
    /// `HTTP/1.1` and the like; empty when unknown.
    pub proto: &'a str,
    /// Status of the answer; 0 when there was none.
    pub status: u16,
    /// Status of the gRPC call that the exchange was, by name.
    pub grpc_status: Option<&'a str>,
    /// Bytes of the request's body received.
    pub bytes_in: u64,
    /// Bytes of the response's body sent.
    pub bytes_out: u64,
    /// Name of the route.
    pub route: Option<&'a str>,
    /// Name of the service.
    pub service: Option<&'a str>,
    /// Address of the endpoint that gave the answer, or of the last one tried.
    pub endpoint: Option<&'a str>,
    /// Requests sent upstream for this exchange.
    pub attempts: u32,
    /// Attempts that failed and were followed by others, in their order.
    pub failed: &'a [FailedAttempt<'a>],
    /// Whether the last attempt used a connection that had been used before.
    pub reused: bool,
    /// Where the time went.
    pub timers: Timers,
    /// What went wrong.
    pub fault: Option<&'a Fault>,
    /// Why a filter refused it, or would have.
    pub reason: Option<&'a str>,
    /// Why it ended, where that is no fault.
    pub ended: Option<&'static str>,
    /// Refused connections of the same kind that have no line, since the last one that has.
    pub unlogged: u64,
    /// The `User-Agent` field.
    pub user_agent: Option<&'a [u8]>,
    /// The `Referer` field. The values of its query are redacted too.
    pub referer: Option<&'a [u8]>,
    /// What filters add, by name; the JSON form has it.
    pub fields: &'a [(&'a str, Cow<'a, [u8]>)],
    /// The share of lines of which this is one, as `0.01`; empty where all are written.
    pub share: &'a str,
}

/// An attempt that others followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FailedAttempt<'a> {
    /// Address of the endpoint, as in [`LogRecord::endpoint`].
    pub endpoint: &'a str,
    /// Why it failed; `None`: it was given up for another one.
    pub fault: Option<&'a Fault>,
    /// Whether its connection had been used before.
    pub reused: bool,
    /// Time to connect, in microseconds; 0 on a reused connection.
    pub connect_us: u64,
}

/// Where an exchange's time went, in microseconds. `None`: the phase was not reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timers {
    /// Waiting for a place in a queue.
    pub wait: Option<u64>,
    /// Connecting to the endpoint; 0 on a reused connection.
    pub connect: Option<u64>,
    /// The TLS handshake with the endpoint.
    pub tls: Option<u64>,
    /// From sending the request to the first byte of the response.
    pub first_byte: Option<u64>,
    /// From the first byte of the request to the last byte of the response.
    pub total: u64,
}

/// Appends one line, with its line feed.
pub(crate) fn encode(out: &mut Vec<u8>, format: &Format, stamp: &mut Stamp, record: &LogRecord<'_>) {
    stamp.set(record.unix_us);
    match format {
        Format::Json => json::encode(out, stamp, record),
        Format::Combined => combined::encode(out, stamp, record),
        Format::Text(text) => text.encode(out, stamp, record),
    }
    out.push(b'\n');
}

/// The part of a field that is logged.
pub(crate) fn bounded(field: &[u8]) -> &[u8] {
    field.get(..FIELD_BYTES).unwrap_or(field)
}
