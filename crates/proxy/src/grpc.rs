//! What gRPC asks of an exchange beside HTTP: the time that a call has, how an answer of the proxy's own looks to its client, and
//! the status with which it ended.
//!
//! A call is a POST whose media type says so. It is routed, forwarded and relayed as any request; its messages are never looked at.

use crate::exchange::{Client, Exchange};
use std::time::{Duration, Instant};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::grpc::status::write_message;
use thalweg_http::grpc::{Code, Kind, timeout};
use thalweg_http::h2::composed::split_trailers;
use thalweg_http::{Field, FieldId, Method};

/// How much time a client gives its call.
const TIMEOUT: &[u8] = b"grpc-timeout";
/// How a call ended.
const STATUS: &[u8] = b"grpc-status";

/// The least time that is passed on: none would be a call that is over.
const LEAST: Duration = Duration::from_nanos(1);

/// Whether the request is a call, and in which form. Of a head that was refused as much is looked at as could be read.
pub(crate) fn kind(x: &Exchange) -> Kind {
    if x.request.method != Method::Post || !x.request.present.contains(FieldId::ContentType) {
        return Kind::No;
    }
    x.request.value(&x.received, FieldId::ContentType).map_or(Kind::No, |value| Kind::of(value).0)
}

/// Part of phase 1: reads the time that the call has. What is left of it goes upstream in its place; one that cannot be read,
/// or stands twice, is nobody's to interpret and passed on as it came.
pub(crate) fn note_deadline(x: &mut Exchange) {
    if kind(x) == Kind::No {
        return;
    }
    let bytes = &x.received[..];
    let is_timeout = |field: &&mut Field| field.name.of(bytes).eq_ignore_ascii_case(TIMEOUT);
    let mut fields = x.request.fields.iter_mut().filter(is_timeout);
    let (Some(field), None) = (fields.next(), fields.next()) else { return };
    let Some(time) = timeout::parse(field.value.of(bytes)) else { return };
    x.call_ends_at = x.started.checked_add(time);
    field.keep = x.call_ends_at.is_none();
}

/// Writes what is left of the call's time, where its client has given it one.
pub(crate) fn write_timeout(out: &mut Vec<u8>, x: &Exchange) {
    let (Some(_), Some(end)) = (x.call_ends_at, x.ends_at) else { return };
    out.extend_from_slice(b"grpc-timeout: ");
    timeout::write(out, end.saturating_duration_since(Instant::now()).max(LEAST));
    out.extend_from_slice(b"\r\n");
}

/// The status that tells of a fault. A time that is over is told as such wherever the exchange was then.
pub(crate) fn code_of(x: &Exchange, fault: Fault) -> Code {
    let is_late = fault.kind == FaultKind::CallDeadline || x.ends_at.is_some_and(|end| end <= Instant::now());
    if is_late && fault.status >= 500 { Code::DeadlineExceeded } else { Code::of_answer(fault.status) }
}

/// Writes a status with a few words, as lines.
pub(crate) fn write_status(out: &mut Vec<u8>, code: Code, words: &str) {
    code.write(out);
    out.extend_from_slice(b"grpc-message: ");
    write_message(out, words);
    out.extend_from_slice(b"\r\n");
}

/// A response that had begun has broken off: its client is told the status in trailers. Says whether it could be: only HTTP/2
/// lets a message end early and whole, and only when nothing waits before them.
pub(crate) fn tell_end(client: &Client, x: &mut Exchange, fault: Fault) -> bool {
    let promises_length = x.response.present.contains(FieldId::ContentLength);
    if kind(x) != Kind::Grpc || fault.kind == FaultKind::ClientGone || promises_length {
        return false;
    }
    let code = code_of(x, fault);
    let mut trailers = Vec::new();
    write_status(&mut trailers, code, fault.detail);
    let told = x.downward.break_off(&client.socket, &trailers);
    x.grpc_status = if told { Some(code) } else { x.grpc_status };
    told
}

/// The status in the head of a response, which then is nothing else: `bytes` begin with it.
pub(crate) fn status_of_head(x: &Exchange, bytes: &[u8]) -> Option<Code> {
    if kind(x) == Kind::No {
        return None;
    }
    let is_status = |field: &&Field| field.name.of(bytes).eq_ignore_ascii_case(STATUS);
    Code::parse(x.response.fields.iter().find(is_status)?.value.of(bytes))
}

/// The status of HTTP that says what an answer with this one says of the endpoint: a call that fails in the head of its response
/// comes with 200.
pub(crate) fn status_of_endpoint(x: &Exchange, status: u16) -> u16 {
    x.grpc_status.and_then(Code::as_failure).unwrap_or(status)
}

/// The status with which a call ended, if it has been told one.
pub(crate) fn final_status(x: &Exchange) -> Option<Code> {
    if x.grpc_status.is_some() || kind(x) == Kind::No || !x.downward.is_received() {
        return x.grpc_status;
    }
    let mut lines = x.downward.last_trailers().to_vec();
    split_trailers(&mut lines).find(|(name, _)| *name == STATUS).and_then(|(_, value)| Code::parse(value))
}
