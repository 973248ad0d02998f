//! The answers that the proxy makes itself: one status, `Proxy-Status` (RFC 9209) and a small body
//! in the form that the client asked for. All carry `Date` (RFC 9110 §6.6.1) and the id of the request.
//!
//! With `error_details: false` clients get the status and the id, and nothing of the fault. They never name an address,
//! a header's value or anything else that a peer sent.

use crate::exchange::filter_facts::WorkerConnection;
use crate::exchange::filter_request::run_job;
use crate::exchange::filter_response::{About, Waited, filter_own, filter_stored, has_response_filters};
use crate::exchange::grpc;
use crate::exchange::outcome::Next;
use crate::exchange::send_reply::{Parts, send_reply};
use crate::exchange::unseal::UNTOLD;
use crate::relay::Pacer;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::io::Write as _;
use std::mem;
use thalweg_core::{Fault, FaultKind, RequestId, Side};
use thalweg_filter::{
    Fetched, FieldView, Job, JobResult, OwnPage, PageForm, Reply, ReplyBody, ResponseOutcome,
};
use thalweg_http::grpc::Kind;
use thalweg_http::h1::encode::{CHUNKED_FIELD, reason, write_content_length, write_date, write_status_line};
use thalweg_http::{Framing, Method, Version};
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
            let filtered = through_filters(worker, client, x, (reply, Some(&told))).await;
            write_reply(worker, client, x, filtered)
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
    let filtered = through_filters(worker, client, x, (reply, None)).await;
    let parts = write_reply(worker, client, x, filtered);
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
    /// The answer that the service's configuration has in its place.
    stand_in: Option<StaticAnswer>,
}

impl Told {
    fn of(worker: &Worker, client: &Client, x: &Exchange, fault: Fault) -> Self {
        let is_secret = x.conceal_reason && fault.kind == FaultKind::DestinationNotFound;
        Self {
            fault: if is_secret { Fault { detail: UNTOLD, ..fault } } else { fault },
            has_details: worker.view_for(client).plan.error_details,
            id: x.id.filter(|_| !x.conceal_reason),
            stand_in: stand_in(x, fault),
        }
    }

    /// The answer, in the form that the client asked for, or as the service's configuration says it.
    fn reply(&self, x: &Exchange) -> Reply {
        let status = self.stand_in.as_ref().map_or(self.fault.status, |answer| answer.status);
        let mut reply = Reply::new(status);
        if self.has_details {
            write_proxy_status(&mut reply.fields, self.fault);
        }
        // RFC 9110 §6.4.1.
        if !matches!(status, 204 | 304) {
            reply = match &self.stand_in {
                Some(StaticAnswer { content_type, body, .. }) => reply.body(content_type, body.as_bytes()),
                None => {
                    let fields = FieldView::new(&x.request.fields, &x.received, &[]);
                    let (media_type, body) = self.page(PageForm::wanted(fields.as_sent("Accept")));
                    reply.body(media_type, body)
                }
            };
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

    /// The page in this form, and its type.
    fn page(&self, form: PageForm) -> (&'static str, Vec<u8>) {
        let fault = self.has_details.then_some(self.fault);
        let request_id = self.id.as_ref().map(RequestId::as_bytes);
        OwnPage { status: self.fault.status, fault, request_id }.written(form)
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

/// An answer, and what its filters have made of it.
struct Filtered {
    reply: Reply,
    fault: Option<Fault>,
    lines: Vec<u8>,
    outcome: ResponseOutcome,
}

/// Brings an answer through the filters of its route.
async fn through_filters(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (reply, told): (Reply, Option<&Told>),
) -> Filtered {
    let fault = told.filter(|told| told.stand_in.is_none()).map(|told| told.fault);
    let lines = Vec::with_capacity(512);
    let mut filtered = Filtered { reply, fault, lines, outcome: ResponseOutcome::default() };
    filter(worker, client, x, (&mut filtered, told), None);
    if filtered.outcome.waits.is_some() {
        // In a box because it is rare: every task would be larger for it.
        Box::pin(wait_for_filters(worker, client, x, (&mut filtered, told))).await;
    }
    filtered
}

/// Runs what filters of the answer wait for. A client that is gone is not waited for: filters are told so.
async fn wait_for_filters(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (filtered, told): (&mut Filtered, Option<&Told>),
) {
    while let Some((at, request)) = filtered.outcome.waits.take() {
        let got = match run_job(worker, client, x, Job::Fetch(request)).await {
            Ok(JobResult::Fetched(got)) => got,
            Ok(_) => Err(Fault::new(FaultKind::ProxyInternalError, "a filter got what it did not ask for")),
            Err(fault) => Err(fault),
        };
        filter(worker, client, x, (filtered, told), Some((at, got)));
    }
}

/// Calls the filters on an answer, and on what they put in its place, until one waits.
fn filter(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (filtered, told): (&mut Filtered, Option<&Told>),
    mut got: Option<(usize, Result<Fetched, Fault>)>,
) {
    let connection = WorkerConnection(worker, client);
    let around = connection.surroundings();
    let Filtered { reply, fault, lines, outcome } = filtered;
    loop {
        let waited = got.take().map(|(at, got)| Waited { at, got, outcome: mem::take(outcome) });
        if waited.is_none() {
            lines.clear();
            if !reply.is_stored {
                write_date(lines, worker.unix_seconds());
                if told.is_none_or(|told| told.id.is_some()) {
                    write_id(lines, x.id.as_ref());
                }
            }
            lines.extend_from_slice(&reply.fields);
        }
        if has_response_filters(x) {
            let mut about = About::own(reply.status, *fault);
            about.content_length = reply.body.length();
            about.has_body = has_body(x, reply);
            about.can_wait = true;
            about.tells_details = told.is_none_or(|told| told.has_details);
            *outcome = match reply.is_stored {
                true => filter_stored(&around, x, lines, (about, waited)),
                false => filter_own(&around, x, lines, (about, waited)),
            };
        }
        match outcome.replaced.take() {
            Some(other) => (*reply, *fault) = (*other, None),
            None => return,
        }
    }
}

/// Writes the head of an answer, and its body where that is in memory; gives what is left of it.
fn write_reply(worker: &Worker, client: &Client, x: &mut Exchange, filtered: Filtered) -> Parts {
    let Filtered { reply, lines, outcome, .. } = filtered;
    // A bound of filters is one on what endpoints send.
    let bound = outcome.max_body.filter(|_| reply.is_stored);
    let (keep_alive, version, status) = (x.keep_alive, x.request.version, reply.status);
    let is_bare = matches!(status, 204 | 304);
    let length = reply.body.length();
    let has_body = has_body(x, &reply);
    let is_transformed = has_body && !outcome.transforms.is_empty();
    let is_open_ended = has_body && (is_transformed || length.is_none());
    let chunked = is_open_ended && version == Version::Http11;
    x.status = status;
    x.keep_alive &= !is_open_ended || version != Version::Http10;
    x.downward.reset();
    let mut flow = mem::take(&mut x.downward);
    flow.bound(bound);
    let framing = match length {
        _ if !has_body => Framing::Empty,
        Some(length) => Framing::Length(length),
        None => Framing::UntilClose,
    };
    let out = flow.start(framing, Side::Upstream, chunked);
    write_status_line(out, status, reason(status).as_bytes());
    out.extend_from_slice(&lines);
    if chunked {
        out.extend_from_slice(CHUNKED_FIELD);
    } else if let Some(length) = length.filter(|_| !is_bare && !outcome.changes_length) {
        write_content_length(out, length);
    }
    write_connection(out, keep_alive && x.keep_alive, version);
    out.extend_from_slice(b"\r\n");
    worker.taps.keep_head(x, out);
    flow.seal_head(&client.socket, 0);
    flow.set_transforms(outcome.transforms, &worker.chunks);
    flow.set_pace(Pacer::of(outcome.bandwidth, worker.reactor.now()));
    let mut parts = Parts::default();
    match reply.body {
        _ if !has_body => {}
        ReplyBody::Empty => {}
        ReplyBody::Bytes(bytes) if bytes.len() <= FED_AT_ONCE && flow.pace().is_none() && bound.is_none() => {
            // It is of the length that was said: nothing can be wrong with it.
            let fed = flow.feed(&bytes, None, &worker.chunks);
            debug_assert_eq!(fed, Ok(bytes.len()));
        }
        body => parts = Parts::of(body),
    }
    x.downward = flow;
    parts
}

/// Whether a body follows the head of an answer.
fn has_body(x: &Exchange, reply: &Reply) -> bool {
    reply.body.length() != Some(0) && x.request.method != Method::Head && !matches!(reply.status, 204 | 304)
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
    let mut about = About::own(200, Some(told.fault));
    about.tells_details = told.has_details;
    if has_response_filters(x) {
        // The form of the answer is not a filter's to change.
        drop(filter_own(&connection.surroundings(), x, &mut lines, (about, None)));
    }
    let out = flow.start(Framing::Length(0), Side::Upstream, false);
    write_status_line(out, 200, reason(200).as_bytes());
    out.extend_from_slice(&lines);
    if version != Version::Http2 {
        write_content_length(out, 0);
    }
    write_connection(out, keep_alive, version);
    out.extend_from_slice(b"\r\n");
    worker.taps.keep_head(x, out);
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

/// What a connection gets that is refused before anything of it was read: the fault of the bound that refuses it, whole
/// and with its end.
pub(crate) fn refusal(unix: u64, fault: Fault, id: RequestId, has_details: bool) -> Vec<u8> {
    let told = Told { fault, has_details, id: Some(id), stand_in: None };
    let (media_type, body) = told.page(PageForm::Text);
    let mut out = Vec::with_capacity(512);
    write_status_line(&mut out, fault.status, reason(fault.status).as_bytes());
    write_date(&mut out, unix);
    told.write_fields(&mut out);
    let _ = write!(out, "Content-Type: {media_type}\r\n");
    write_content_length(&mut out, body.len() as u64);
    out.extend_from_slice(b"Retry-After: 1\r\nConnection: close\r\n\r\n");
    out.extend_from_slice(&body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_detail_needs_escaping() {
        for kind in FaultKind::ALL {
            let text = kind.rule().summary;
            assert!(!text.contains(['"', '\\', '<', '&']), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_no_more_than_it_may() {
        let fault = Fault::new(FaultKind::ConnectionRefused, "the endpoint refused the connection");
        let said =
            |has_details| String::from_utf8(refusal(0, fault, RequestId::new(1, 2), has_details)).unwrap();
        let (whole, less) = (said(true), said(false));
        assert!(whole.contains("Proxy-Status: thalweg; error=connection_refused"), "{whole}");
        assert!(!less.contains("Proxy-Status") && less.contains("Date: Thu, 01 Jan 1970"), "{less}");
        assert!(less.contains("502 Bad Gateway; request ") && !less.contains("refused"), "{less}");
    }
}
