//! An exchange that is told of, and its attempts.

use super::TraceContext;
use crate::record::LogRecord;
use crate::redact::{redact_path, redact_query};
use std::net::IpAddr;
use std::time::Duration;
use thalweg_core::Fault;

/// Bytes of a text that a span keeps; the rest of a longer one is left out. Thus an exchange has at most some 16 KiB.
const TEXT: usize = 1024;
/// Attempts that are told of; the last one is always among them.
const ATTEMPTS: usize = 16;

/// An exchange that is over, with all that is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeSpan {
    /// Where it stands.
    pub context: TraceContext,
    /// When it began, in nanoseconds since the Unix epoch.
    pub began_ns: u64,
    /// How long it took.
    pub took: Duration,
    /// Its id.
    pub request_id: String,
    /// The listener.
    pub listener: String,
    /// The route, where one took it.
    pub route: Option<String>,
    /// The service.
    pub service: Option<String>,
    /// The client, seen through trusted proxies.
    pub client: Option<IpAddr>,
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
    /// The method.
    pub method: String,
    /// `http` or `https`.
    pub scheme: String,
    /// The host and port asked for.
    pub host: String,
    /// The path, as it was matched.
    pub path: String,
    /// The query, without its secrets.
    pub query: Option<String>,
    /// `1.1` and the like.
    pub version: String,
    /// Who the client says that it is.
    pub user_agent: Option<String>,
    /// Sent to the client; 0: nothing was.
    pub status: u16,
    /// Whether the proxy or the service failed.
    pub failed: bool,
    /// How a gRPC call ended.
    pub grpc: Option<GrpcStatus>,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the response's body.
    pub bytes_out: u64,
    /// What went wrong.
    pub fault: Option<SpanFault>,
    /// Why a filter refused it, or would have.
    pub reason: Option<String>,
    /// Path and query as they went to endpoints, without secrets.
    pub target: String,
    /// The tries, in the order in which they began.
    pub attempts: Vec<AttemptSpan>,
}

/// One try to have the request answered by an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptSpan {
    /// Its number, of which its span is made.
    pub number: u8,
    /// The endpoint's URL; empty where it is a sealed destination.
    pub endpoint: String,
    /// When it began, from the beginning of the exchange.
    pub began: Duration,
    /// How long it took.
    pub took: Duration,
    /// What the endpoint answered; `None`: nothing, or its answer was not used.
    pub status: Option<u16>,
    /// Why it failed.
    pub fault: Option<SpanFault>,
    /// Whether the connection had served a request before.
    pub reused: bool,
    /// Whether it was a copy beside another one.
    pub is_copy: bool,
    /// It was given up because the other one had answered.
    pub is_called_off: bool,
    /// Time until the connection was there.
    pub connect: Duration,
    /// Time of the TLS handshake.
    pub tls: Duration,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpanFault {
    /// In one word.
    pub word: &'static str,
    /// In a sentence.
    pub detail: &'static str,
}

impl From<&Fault> for SpanFault {
    fn from(fault: &Fault) -> Self {
        Self { word: fault.kind.name(), detail: fault.detail }
    }
}

/// How a gRPC call ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GrpcStatus {
    /// The number.
    pub number: u8,
    /// The name, as in logs.
    pub name: &'static str,
}

/// What of an exchange does not stand in the line of the log.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Where it stands.
    pub context: TraceContext,
    /// Whether the proxy or the service failed.
    pub failed: bool,
    /// How a gRPC call ended.
    pub grpc: Option<GrpcStatus>,
    /// The tries, in the order in which they began.
    pub attempts: Vec<AttemptSpan>,
}

impl ExchangeSpan {
    /// What the access log says of the exchange, as a span. `target`: path and query as they went to endpoints.
    pub fn of(record: &LogRecord<'_>, target: (&[u8], Option<&[u8]>), beside: Beside) -> Self {
        let took = Duration::from_micros(record.timers.total);
        let mut path_and_query = text(&redact_path(target.0));
        if let Some(query) = target.1 {
            path_and_query.push('?');
            path_and_query.push_str(&text(&redact_query(query)));
        }
        Self {
            context: beside.context,
            began_ns: record.unix_us.saturating_sub(record.timers.total).saturating_mul(1000),
            took,
            request_id: record.id.map_or_else(String::new, ToString::to_string),
            listener: record.listener.to_owned(),
            route: record.route.map(str::to_owned),
            service: record.service.map(str::to_owned),
            client: record.client,
            peer: record.peer,
            method: text(record.method),
            scheme: record.scheme.to_owned(),
            host: record.host.map(text).unwrap_or_default(),
            path: text(&redact_path(record.path)),
            query: record.query.map(|query| text(&redact_query(query))),
            version: record.proto.trim_start_matches("HTTP/").to_owned(),
            user_agent: record.user_agent.map(text),
            status: record.status,
            failed: beside.failed,
            grpc: beside.grpc,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            fault: record.fault.map(SpanFault::from),
            reason: record.reason.map(|reason| text(reason.as_bytes())),
            target: path_and_query,
            attempts: bounded(beside.attempts),
        }
    }

    /// Spans that it becomes.
    pub fn spans(&self) -> u64 {
        1 + self.attempts.len() as u64
    }
}

/// The first ones, and the last.
fn bounded(mut attempts: Vec<AttemptSpan>) -> Vec<AttemptSpan> {
    if let Some(last) = attempts.len().checked_sub(1).filter(|last| *last >= ATTEMPTS) {
        attempts.swap(ATTEMPTS - 1, last);
        attempts.truncate(ATTEMPTS);
    }
    attempts
}

/// As text of one line: what is no UTF-8 and what controls becomes U+FFFD.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..TEXT).unwrap_or(bytes));
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_of_one_line() {
        assert_eq!(text(b"a\nb\xffc"), "a\u{fffd}b\u{fffd}c");
        assert!(text(&[b'a'; 4096]).len() == TEXT && text("ä".repeat(TEXT).as_bytes()).len() <= 3 * TEXT);
    }
}
