//! What gRPC asks of an exchange beside HTTP: the time that a call has, how an answer of the proxy's own looks to its
//! client, and the status with which it ended.
//!
//! A call is a POST whose media type says so. It is routed, forwarded and relayed as any request; its messages are
//! never looked at.

use crate::relay::Bridge;
use crate::state::exchange::{Client, Exchange, ResponseEnd};
use crate::state::rate::Rate;
use std::time::{Duration, Instant};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::grpc::status::write_message;
use thalweg_http::grpc::{Code, Kind, timeout};
use thalweg_http::h1::encode::write_field;
use thalweg_http::h2::composed::split_trailers;
use thalweg_http::{Field, FieldId, Framing, Method};

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

/// Part of phase 1: reads the time that the call has. What is left of it goes upstream in its place; one that cannot be
/// read, or stands twice, is nobody's to interpret and passed on as it came.
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

/// What is asked of the client's pace while it sends: a call may say little for long.
pub(crate) fn rate(x: &Exchange) -> Rate {
    let rate = x.rate();
    if kind(x) == Kind::No { rate } else { Rate { least: 0, ..rate } }
}

/// How the body of a response is framed. Behind that of a call stand trailers, whatever length its head has promised:
/// on a stream they are read when the stream ends.
pub(crate) fn framing(x: &mut Exchange, framing: Framing) -> Framing {
    if x.response_end != ResponseEnd::Stream || !matches!(framing, Framing::Length(_)) || kind(x) == Kind::No
    {
        return framing;
    }
    x.response.fields.retain(|field| field.id != FieldId::ContentLength);
    x.response.present.remove(FieldId::ContentLength);
    Framing::UntilClose
}

/// The status that tells of a fault. A time that is over is told as such wherever the exchange was then.
pub(crate) fn code_of(x: &Exchange, fault: Fault) -> Code {
    let is_late = fault.kind == FaultKind::CallDeadline || x.ends_at.is_some_and(|end| end <= Instant::now());
    if is_late && matches!(fault.status, 408 | 500..) {
        Code::DeadlineExceeded
    } else {
        Code::of_answer(fault.status)
    }
}

/// Writes a status with a few words, as lines.
pub(crate) fn write_status(out: &mut Vec<u8>, code: Code, words: &str) {
    code.write(out);
    out.extend_from_slice(b"grpc-message: ");
    write_message(out, words);
    out.extend_from_slice(b"\r\n");
}

/// A response that had begun has broken off: its client is told the status in trailers. Says whether it could be: only
/// HTTP/2 lets a message end early and whole, and only when nothing waits before them.
pub(crate) fn tell_end(client: &Client, x: &mut Exchange, (fault, detail): (Fault, &str)) -> bool {
    let promises_length = x.response.present.contains(FieldId::ContentLength);
    if kind(x) != Kind::Grpc || fault.kind == FaultKind::ClientGone || promises_length {
        return false;
    }
    let code = code_of(x, fault);
    let mut trailers = Vec::new();
    write_status(&mut trailers, code, detail);
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

/// The status of HTTP that says what an answer with this one says of the endpoint: a call that fails in the head of its
/// response comes with 200.
pub(crate) fn status_of_endpoint(x: &Exchange, status: u16) -> u16 {
    // A time that the client has set blames nobody, whoever finds first that it is over.
    let is_clients = x.call_ends_at.is_some();
    let code = x.grpc_status.filter(|code| !is_clients || *code != Code::DeadlineExceeded);
    code.and_then(Code::as_failure).unwrap_or(status)
}

/// The status with which a call ended, if it has been told one.
pub(crate) fn final_status(x: &Exchange) -> Option<Code> {
    if x.grpc_status.is_some() || kind(x) == Kind::No || !x.downward.is_received() {
        return x.grpc_status;
    }
    let mut lines = x.downward.last_trailers().to_vec();
    split_trailers(&mut lines).find(|(name, _)| *name == STATUS).and_then(|(_, value)| Code::parse(value))
}

/// Part of phase 3, on a route with the bridge: whether the request is a call of gRPC-Web. It is one of gRPC from here
/// on.
pub(crate) fn begin_bridge(x: &mut Exchange) -> bool {
    let kind = kind(x);
    if matches!(kind, Kind::Web | Kind::WebText) {
        x.bridge = kind;
        x.request.strip(FieldId::ContentType);
    }
    x.bridge != Kind::No
}

/// Whether the request's body is base64 that an endpoint does not get.
pub(crate) fn is_decoded(x: &Exchange) -> bool {
    x.bridge == Kind::WebText && !x.framing.is_empty()
}

/// Writes the media type of a call that was one of gRPC-Web, with the form that its client gave.
pub(crate) fn write_plain_type(out: &mut Vec<u8>, x: &Exchange) {
    if x.bridge != Kind::No {
        let value = x.request.value(&x.received, FieldId::ContentType).unwrap_or_default();
        write_field(out, b"content-type", &[Kind::Grpc.name().as_bytes(), Kind::of(value).1].concat());
    }
}

/// Part of phase 6: turns the head of a response to a call of gRPC-Web into one of it, and says what becomes of its
/// body. What is no gRPC stays what it is; so does what has a length, and with it no status.
pub(crate) fn bridge_response(x: &mut Exchange, head: &[u8], framing: Framing) -> Option<Bridge> {
    if x.bridge == Kind::No || matches!(framing, Framing::Length(1..)) {
        return None;
    }
    let value = x.response.value(head, FieldId::ContentType)?;
    if Kind::of(value).0 != Kind::Grpc {
        return None;
    }
    let fields = x.response.fields.iter_mut();
    fields.filter(|field| field.id == FieldId::ContentType).for_each(|field| field.keep = false);
    Some(if x.bridge == Kind::WebText { Bridge::ToText } else { Bridge::ToWeb })
}

/// Writes the media type of such a response, with the form that the endpoint gave.
pub(crate) fn write_web_type(out: &mut Vec<u8>, x: &Exchange, head: &[u8]) {
    let value = x.response.value(head, FieldId::ContentType).unwrap_or_default();
    write_field(out, b"Content-Type", &[x.bridge.name().as_bytes(), Kind::of(value).1].concat());
}
