//! The answers that the proxy makes itself: one status, `Proxy-Status` (RFC 9209) and a small body
//! in the form that the client asked for. All carry `Date` (RFC 9110 §6.6.1) and the id of the request.
//!
//! With `error_details: false` clients get the status and the id, and nothing of the fault. They never name an address, a header's value or anything else that a peer sent.

use crate::exchange::filter_response::filter_response;
use crate::exchange::grpc;
use crate::exchange::outcome::Next;
use crate::exchange::redirect_https;
use crate::exchange::unseal::UNTOLD;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::io::Write as _;
use std::task::Poll;
use std::time::Duration;
use thalweg_core::{Fault, FaultKind, RequestId, Side};
use thalweg_http::grpc::Kind;
use thalweg_http::h1::encode::{reason, write_content_length, write_date, write_status_line};
use thalweg_http::{FieldId, Framing, Method, Version};
use thalweg_upstream::{StaticAnswer, WhenDown};

/// Time given to a client to take the answer.
const SEND_TIME: Duration = Duration::from_secs(5);

/// Answers an exchange that failed before its response began.
pub(crate) async fn reply_fault(worker: &Worker, client: &Client, x: &mut Exchange, fault: Fault) -> Next {
    x.fault = Some(fault);
    if fault.kind == FaultKind::ClientGone || x.downward.is_stalled() {
        // Nobody reads, or half of an interim response is on its way: no answer can follow it.
        x.status = fault.status;
        return Next::Close;
    }
    x.keep_alive &= is_read_whole(x) && !fault.closes() && !worker.is_leaving(client);
    worker.warm.buffers.get(x.downward.buffer());
    write_answer(worker, client, x, fault);
    send(client, x).await
}

/// Answers an exchange that was begun by nobody else with this text.
pub(crate) async fn reply_text(worker: &Worker, client: &Client, x: &mut Exchange, text: &str) -> Next {
    x.keep_alive &= is_read_whole(x) && !worker.is_leaving(client);
    worker.warm.buffers.get(x.downward.buffer());
    write_text(worker, client, x, text);
    send(client, x).await
}

/// Sends the client of an exchange that was begun by nobody else to another place.
pub(crate) async fn reply_redirect(worker: &Worker, client: &Client, x: &mut Exchange, place: &[u8]) -> Next {
    x.keep_alive &= is_read_whole(x) && !worker.is_leaving(client);
    worker.warm.buffers.get(x.downward.buffer());
    write_redirect(worker, client, x, place);
    send(client, x).await
}

/// Whether nothing of the request is left to be received.
fn is_read_whole(x: &Exchange) -> bool {
    x.request.len > 0 && (x.framing.is_empty() || x.upward.is_received())
}

/// Sends an answer that has been written.
async fn send(client: &Client, x: &mut Exchange) -> Next {
    client.socket.set_deadline(Some(SEND_TIME));
    let sent = poll_fn(|_| match x.downward.poll_flush(&client.socket) {
        Poll::Pending if client.socket.expired() => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
        Poll::Ready(done) => Poll::Ready(done.is_ok()),
    });
    match sent.await {
        true if x.keep_alive => Next::Again,
        true => Next::Drain,
        false => Next::Close,
    }
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

    /// The answer, in the form that the client asked for.
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

fn write_answer(worker: &Worker, client: &Client, x: &mut Exchange, fault: Fault) {
    let told = Told::of(worker, client, x, fault);
    if grpc::kind(x) != Kind::No {
        return write_call_end(worker, client, x, &told);
    }
    let StaticAnswer { status, content_type, body } = stand_in(x, fault).unwrap_or_else(|| told.answer(x));
    let (keep_alive, version) = (x.keep_alive, x.request.version);
    // RFC 9110 §6.4.1.
    let is_bare = matches!(status, 204 | 304);
    let headless = is_bare || x.request.method == Method::Head;
    x.status = status;
    let retry_after = x.retry_after.max(1);
    x.downward.reset();
    let length = if headless { 0 } else { body.len() as u64 };
    let mut flow = std::mem::take(&mut x.downward);
    let out = flow.start(Framing::Length(length), Side::Upstream, false);
    write_status_line(out, status, reason(status).as_bytes());
    filter_response(x, &[], out);
    write_date(out, worker.unix_seconds());
    told.write_fields(out);
    if !is_bare {
        let _ = write!(out, "Content-Type: {content_type}\r\n");
        write_content_length(out, body.len() as u64);
    }
    if matches!(status, 429 | 503) {
        let _ = write!(out, "Retry-After: {retry_after}\r\n");
    }
    if fault.status == 405 {
        out.extend_from_slice(b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n");
    }
    write_connection(out, keep_alive, version);
    out.extend_from_slice(b"\r\n");
    flow.seal_head(&client.socket, 0);
    if !headless {
        let fed = flow.feed(body.as_bytes(), None, &worker.chunks);
        debug_assert_eq!(fed, Ok(body.len()));
    }
    x.downward = flow;
}

/// The answer to a gRPC call: its status in a head that is the whole response, "Trailers-Only" (PROTOCOL-HTTP2 of gRPC).
fn write_call_end(worker: &Worker, client: &Client, x: &mut Exchange, told: &Told) {
    let (keep_alive, version, kind) = (x.keep_alive, x.request.version, grpc::kind(x));
    let code = grpc::code_of(x, told.fault);
    (x.status, x.grpc_status) = (200, Some(code));
    x.downward.reset();
    let mut flow = std::mem::take(&mut x.downward);
    let out = flow.start(Framing::Length(0), Side::Upstream, false);
    write_status_line(out, 200, reason(200).as_bytes());
    filter_response(x, &[], out);
    write_date(out, worker.unix_seconds());
    let _ = write!(out, "Content-Type: {}\r\n", kind.name());
    grpc::write_status(
        out,
        code,
        if told.has_details { told.fault.detail } else { reason(told.fault.status) },
    );
    told.write_fields(out);
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

fn write_redirect(worker: &Worker, client: &Client, x: &mut Exchange, place: &[u8]) {
    let (keep_alive, version) = (x.keep_alive, x.request.version);
    x.status = redirect_https::STATUS;
    x.downward.reset();
    let out = x.downward.start(Framing::Length(0), Side::Upstream, false);
    write_status_line(out, x.status, reason(x.status).as_bytes());
    out.extend_from_slice(b"Location: ");
    out.extend_from_slice(place);
    out.extend_from_slice(b"\r\n");
    write_date(out, worker.unix_seconds());
    write_id(out, x.id.as_ref());
    write_content_length(out, 0);
    write_connection(out, keep_alive, version);
    out.extend_from_slice(b"\r\n");
    x.downward.seal_head(&client.socket, 0);
}

fn write_text(worker: &Worker, client: &Client, x: &mut Exchange, text: &str) {
    let (keep_alive, version) = (x.keep_alive, x.request.version);
    let length = if x.request.method == Method::Head { 0 } else { text.len() };
    x.status = 200;
    x.downward.reset();
    let out = x.downward.start(Framing::Length(length as u64), Side::Upstream, false);
    write_status_line(out, x.status, reason(x.status).as_bytes());
    write_date(out, worker.unix_seconds());
    out.extend_from_slice(b"Content-Type: application/octet-stream\r\n");
    write_id(out, x.id.as_ref());
    write_content_length(out, text.len() as u64);
    write_connection(out, keep_alive, version);
    out.extend_from_slice(b"\r\n");
    x.downward.seal_head(&client.socket, 0);
    let fed = x.downward.feed(&text.as_bytes()[..length], None, &worker.chunks);
    debug_assert_eq!(fed, Ok(length));
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

/// What a connection gets that is refused before anything of it was read: the fault of the bound that refuses it, whole and
/// with its end.
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
