//! The answers that the proxy makes itself: one status, `Proxy-Status` (RFC 9209) and a small body
//! in the form that the client asked for. All carry `Date` (RFC 9110 §6.6.1) and the id of the request.
//!
//! With `error_details: false` clients get the status and the id, and nothing of the fault. They never name an address,
//! a header's value or anything else that a peer sent.

use crate::exchange::filter_facts::WorkerConnection;
use crate::exchange::filter_response::{About, filter_own};
use crate::exchange::grpc;
use crate::exchange::outcome::Next;
use crate::exchange::send_reply::{Parts, send_reply};
use crate::exchange::unseal::UNTOLD;
use crate::relay::Pacer;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::fmt::Write as _;
use std::io::Write as _;
use std::mem;
use thalweg_core::{Fault, FaultKind, RequestId, Side};
use thalweg_filter::{FieldView, Reply, ReplyBody};
use thalweg_http::grpc::Kind;
use thalweg_http::h1::encode::{CHUNKED_FIELD, reason, write_content_length, write_date, write_status_line};
use thalweg_http::{FieldId, Framing, Method, Version};
use thalweg_upstream::{StaticAnswer, WhenDown};

/// A body up to this size is handed on at once, one that is larger or throttled as the client takes it.
const FED_AT_ONCE: usize = 64 * 1024;

/// Answers an exchange that failed before its response began.
pub(crate) async fn reply_fault(worker: &Worker, client: &Client, x: &mut Exchange, fault: Fault) -> Next {
    x.fault = Some(fault);
    if fault.kind == FaultKind::ClientGone || x.downward.is_stalled() {
        // Nobody reads, or half of an interim response is on its way: no answer can follow it.
        x.status = fault.status;
        return Next::Close;
    }
    if fault.status == Fault::NO_ANSWER {
        x.status = fault.status;
        client.socket.reset_on_close();
        return Next::Close;
    }
    prepare(worker, client, x, Some(fault));
    let told = Told::of(worker, client, x, fault);
    let parts = match grpc::kind(x) {
        Kind::No => {
            let reply = told.reply(x);
            write_reply(worker, client, x, (reply, Some(&told)))
        }
        _ => {
            write_call_end(worker, client, x, &told);
            Parts::default()
        }
    };
    send_reply(worker, client, x, parts).await
}

/// Gives an answer that a filter has made, or a phase before routes are looked for.
pub(crate) async fn reply_with(worker: &Worker, client: &Client, x: &mut Exchange, reply: Reply) -> Next {
    prepare(worker, client, x, None);
    let parts = write_reply(worker, client, x, (reply, None));
    send_reply(worker, client, x, parts).await
}

/// Decides what becomes of the client's connection, and makes ready to write.
fn prepare(worker: &Worker, client: &Client, x: &mut Exchange, fault: Option<Fault>) {
    let is_read_whole = x.request.len > 0 && (x.framing.is_empty() || x.upward.is_received());
    x.keep_alive &= is_read_whole && !fault.is_some_and(|fault| fault.closes()) && !worker.is_leaving(client);
    worker.warm.buffers.get(x.downward.buffer());
}

/// What the service's configuration says in place of the proxy's own words.
fn stand_in(x: &Exchange, fault: Fault) -> Option<StaticAnswer> {
    if !matches!(fault.kind, FaultKind::DestinationUnavailable | FaultKind::DnsError) {
        return None;
    }
    match &x.service()?.state.service.when_down {
        WhenDown::Answer(answer) => Some(answer.clone()),
        WhenDown::Error | WhenDown::TryAll => None,
    }
}

/// What the client is told of a fault.
struct Told {
    fault: Fault,
    /// `error_details`
    has_details: bool,
    /// Absent where answers are to be the same: by an id they could be told apart.
    id: Option<RequestId>,
}

impl Told {
    fn of(worker: &Worker, client: &Client, x: &Exchange, fault: Fault) -> Self {
        let is_secret = x.conceal_reason && fault.kind == FaultKind::DestinationNotFound;
        Self {
            fault: if is_secret { Fault { detail: UNTOLD, ..fault } } else { fault },
            has_details: worker.view_for(client).plan.error_details,
            id: x.id.filter(|_| !x.conceal_reason),
        }
    }

    /// The answer, in the form that the client asked for, or as the service's configuration says it.
    fn reply(&self, x: &Exchange) -> Reply {
        let StaticAnswer { status, content_type, body } =
            stand_in(x, self.fault).unwrap_or_else(|| self.answer(x));
        let mut reply = Reply::new(status);
        if self.has_details {
            write_proxy_status(&mut reply.fields, self.fault);
        }
        // RFC 9110 §6.4.1.
        if !matches!(status, 204 | 304) {
            reply = reply.body(&content_type, body.as_bytes());
        }
        let by_filter = x.filtering.as_ref().map_or(&[][..], |filtering| &filtering.outcome.fault_fields);
        if matches!(status, 429 | 503) && !has_retry_after(by_filter) {
            reply = reply.field("Retry-After", x.retry_after.max(1).to_string().as_bytes());
        }
        reply.fields.extend_from_slice(by_filter);
        if self.fault.status == 405 {
            reply = reply.field("Allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        }
        reply
    }

    fn answer(&self, x: &Exchange) -> StaticAnswer {
        let form = Form::wanted(x.request.value(&x.received, FieldId::Accept));
        StaticAnswer {
            status: self.fault.status,
            content_type: form.media_type().into(),
            body: form.body(self).into(),
        }
    }

    /// The fields that tell of it: `Proxy-Status`, where there are details, and `X-Request-Id`.
    fn write_fields(&self, out: &mut Vec<u8>) {
        if self.has_details {
            write_proxy_status(out, self.fault);
        }
        write_id(out, self.id.as_ref());
    }
}

/// Whether a filter has said itself when the client may come back.
fn has_retry_after(lines: &[u8]) -> bool {
    FieldView::new(&[], &[], lines).get("retry-after").is_some()
}

/// Writes the head of an answer, and its body where that is in memory; gives what is left of it.
fn write_reply(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (reply, told): (Reply, Option<&Told>),
) -> Parts {
    let connection = WorkerConnection(worker, client);
    let around = connection.surroundings();
    let (mut reply, mut fault) = (reply, told.map(|told| told.fault));
    let mut lines = Vec::with_capacity(512);
    let outcome = loop {
        lines.clear();
        write_date(&mut lines, worker.unix_seconds());
        if told.is_none_or(|told| told.id.is_some()) {
            write_id(&mut lines, x.id.as_ref());
        }
        lines.extend_from_slice(&reply.fields);
        let length = reply.body.length();
        let has_body = length > 0 && x.request.method != Method::Head && !matches!(reply.status, 204 | 304);
        let about = About { status: reply.status, fault, has_body, content_length: Some(length) };
        let mut outcome = filter_own(&around, x, &mut lines, about);
        match outcome.replaced.take() {
            Some(other) => (reply, fault) = (*other, None),
            None => break outcome,
        }
    };
    let (keep_alive, version, status) = (x.keep_alive, x.request.version, reply.status);
    let is_bare = matches!(status, 204 | 304);
    let length = reply.body.length();
    let sent = if is_bare || x.request.method == Method::Head { 0 } else { length };
    let is_transformed = sent > 0 && !outcome.transforms.is_empty();
    let chunked = is_transformed && version == Version::Http11;
    x.status = status;
    x.keep_alive &= !is_transformed || version != Version::Http10;
    x.downward.reset();
    let mut flow = mem::take(&mut x.downward);
    let out = flow.start(Framing::Length(sent), Side::Upstream, chunked);
    write_status_line(out, status, reason(status).as_bytes());
    out.extend_from_slice(&lines);
    if chunked {
        out.extend_from_slice(CHUNKED_FIELD);
    } else if !is_bare && !outcome.changes_length {
        write_content_length(out, length);
    }
    write_connection(out, keep_alive && x.keep_alive, version);
    out.extend_from_slice(b"\r\n");
    flow.seal_head(&client.socket, 0);
    flow.set_transforms(outcome.transforms, &worker.chunks);
    flow.set_pace(Pacer::of(outcome.bandwidth, worker.reactor.now()));
    let mut parts = Parts::default();
    match reply.body {
        _ if sent == 0 => {}
        ReplyBody::Empty => {}
        ReplyBody::Bytes(bytes) if bytes.len() <= FED_AT_ONCE && flow.pace().is_none() => {
            // It is of the length that was said: nothing can be wrong with it.
            let fed = flow.feed(&bytes, None, &worker.chunks);
            debug_assert_eq!(fed, Ok(bytes.len()));
        }
        body => parts = Parts::of(body),
    }
    x.downward = flow;
    parts
}

/// The answer to a gRPC call: its status in a head that is the whole response, "Trailers-Only" (PROTOCOL-HTTP2 of
/// gRPC).
fn write_call_end(worker: &Worker, client: &Client, x: &mut Exchange, told: &Told) {
    let (keep_alive, version, kind) = (x.keep_alive, x.request.version, grpc::kind(x));
    let code = grpc::code_of(x, told.fault);
    (x.status, x.grpc_status) = (200, Some(code));
    x.downward.reset();
    let mut flow = mem::take(&mut x.downward);
    let mut lines = Vec::with_capacity(256);
    write_date(&mut lines, worker.unix_seconds());
    let _ = write!(lines, "Content-Type: {}\r\n", kind.name());
    let words = if told.has_details { told.fault.detail } else { reason(told.fault.status) };
    grpc::write_status(&mut lines, code, words);
    told.write_fields(&mut lines);
    let connection = WorkerConnection(worker, client);
    let about = About { status: 200, fault: Some(told.fault), has_body: false, content_length: None };
    // The form of the answer is not a filter's to change.
    drop(filter_own(&connection.surroundings(), x, &mut lines, about));
    let out = flow.start(Framing::Length(0), Side::Upstream, false);
    write_status_line(out, 200, reason(200).as_bytes());
    out.extend_from_slice(&lines);
    if version != Version::Http2 {
        write_content_length(out, 0);
    }
    write_connection(out, keep_alive, version);
    out.extend_from_slice(b"\r\n");
    flow.seal_head(&client.socket, 0);
    x.downward = flow;
}

fn write_proxy_status(out: &mut Vec<u8>, fault: Fault) {
    let _ =
        write!(out, "Proxy-Status: thalweg; error={}; details=\"{}\"\r\n", fault.kind.name(), fault.detail);
}

fn write_id(out: &mut Vec<u8>, id: Option<&RequestId>) {
    if let Some(id) = id {
        out.extend_from_slice(b"X-Request-Id: ");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Says what becomes of the connection, where its version would let the client think otherwise.
fn write_connection(out: &mut Vec<u8>, keep_alive: bool, version: Version) {
    if !keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if version == Version::Http10 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
}

/// The forms of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Problem,
    Html,
    Text,
}

impl Form {
    /// Browsers get HTML, who asks for JSON (or says nothing in particular) an RFC 9457 problem.
    fn wanted(accept: Option<&[u8]>) -> Self {
        let Some(accept) = accept else { return Self::Text };
        for range in accept.split(|byte| *byte == b',') {
            let kind = range.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match () {
                () if kind.eq_ignore_ascii_case(b"text/html") => return Self::Html,
                () if kind.eq_ignore_ascii_case(b"application/problem+json") => return Self::Problem,
                () if kind.eq_ignore_ascii_case(b"application/json") => return Self::Problem,
                () if kind.eq_ignore_ascii_case(b"text/plain") => return Self::Text,
                () => {}
            }
        }
        Self::Problem
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Problem => "application/problem+json",
            Self::Html => "text/html; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
        }
    }

    fn body(self, told: &Told) -> String {
        let Told { fault, has_details, id } = told;
        let (status, title) = (fault.status, reason(fault.status));
        let (kind, detail) = (fault.kind.name(), fault.detail);
        let id = id.as_ref().map(RequestId::as_str);
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Problem => {
                let _ = write!(out, "{{\"type\":\"about:blank\",\"status\":{status},\"title\":\"{title}\"");
                if *has_details {
                    let _ = write!(out, ",\"fault\":\"{kind}\",\"detail\":\"{detail}\"");
                }
                let _ = id.map(|id| write!(out, ",\"request_id\":\"{id}\""));
                writeln!(out, "}}")
            }
            Self::Html => {
                let _ =
                    write!(out, "<!doctype html><title>{status} {title}</title><h1>{status} {title}</h1>");
                if *has_details {
                    let _ = write!(out, "<p>{detail} ({kind})</p>");
                }
                let _ = id.map(|id| write!(out, "<p>Request {id}</p>"));
                writeln!(out)
            }
            Self::Text => {
                let _ = write!(out, "{status} {title}");
                if *has_details {
                    let _ = write!(out, ": {detail} ({kind})");
                }
                let _ = id.map(|id| write!(out, "; request {id}"));
                writeln!(out)
            }
        };
        out
    }
}

/// What a connection gets that is refused before anything of it was read: the fault of the bound that refuses it, whole
/// and with its end.
pub(crate) fn refusal(unix: u64, fault: Fault, id: RequestId, has_details: bool) -> Vec<u8> {
    let told = Told { fault, has_details, id: Some(id) };
    let body = Form::Text.body(&told);
    let mut out = Vec::with_capacity(512);
    write_status_line(&mut out, fault.status, reason(fault.status).as_bytes());
    write_date(&mut out, unix);
    told.write_fields(&mut out);
    let _ = write!(out, "Content-Type: {}\r\n", Form::Text.media_type());
    write_content_length(&mut out, body.len() as u64);
    out.extend_from_slice(b"Retry-After: 1\r\nConnection: close\r\n\r\n");
    out.extend_from_slice(body.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_the_form_that_was_asked_for() {
        let form = |accept: &str| Form::wanted(Some(accept.as_bytes()));
        assert_eq!(form("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"), Form::Html);
        assert_eq!(form("application/json"), Form::Problem);
        assert_eq!(form("text/plain;q=0.5"), Form::Text);
        assert_eq!(form("*/*"), Form::Problem);
        assert_eq!(Form::wanted(None), Form::Text);
    }

    #[test]
    fn no_detail_needs_escaping() {
        for kind in FaultKind::ALL {
            let text = kind.rule().summary;
            assert!(!text.contains(['"', '\\', '<', '&']), "{text}");
        }
    }

    #[test]
    fn bodies_say_no_more_than_they_may() {
        let fault = Fault::new(FaultKind::ConnectionRefused, "the endpoint refused the connection");
        let id = RequestId::new(1, 2);
        for form in [Form::Problem, Form::Html, Form::Text] {
            let body = |has_details, id| form.body(&Told { fault, has_details, id });
            let whole = body(true, Some(id));
            assert!(whole.contains("502") && whole.contains(fault.detail), "{whole}");
            assert!(whole.contains("connection_refused") && whole.contains(id.as_str()), "{whole}");
            let less = body(false, Some(id));
            assert!(less.contains("502 Bad Gateway") || less.contains("\"title\":\"Bad Gateway\""), "{less}");
            assert!(!less.contains("refused") && less.contains(id.as_str()), "{less}");
            assert!(!body(true, None).to_lowercase().contains("request"), "{}", body(true, None));
        }
        let refusal = String::from_utf8(refusal(0, fault, id, false)).unwrap();
        assert!(!refusal.contains("Proxy-Status") && refusal.contains("Date: Thu, 01 Jan 1970"), "{refusal}");
    }
}
