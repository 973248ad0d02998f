//! Phase 6: the response goes to the client as it comes.

use crate::buffers::chunk_queue::Unsent;
use crate::exchange::cache::see_response;
use crate::exchange::filter_facts::WorkerConnection;
use crate::exchange::filter_request::run_job;
use crate::exchange::filter_response::{About, Waited, filter_upstream, has_response_filters};
use crate::exchange::grpc::{self, bridge_response, write_web_type};
use crate::exchange::outcome::Served;
use crate::exchange::pace::{Pace, narrow, tick};
use crate::exchange::sticky::write_kept;
use crate::exchange::upstream::connect::{Upstream, put_back};
use crate::relay::{Ends, IoScratch, Pacer, RelayError, RelayProgress, ReplayBuffer, too_large};
use crate::state::exchange::{Client, Exchange, ResponseEnd};
use crate::state::filtering::HeldResponse;
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::task::{Context, Poll};
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_filter::{BodyTransform, Job, JobResult, ResponseOutcome};
use thalweg_http::h1::encode::{CHUNKED_FIELD, write_content_length, write_fields, write_status_line};
use thalweg_http::h1::framing::{response_framing, response_keeps_alive, response_length};
use thalweg_http::rules::strip_response;
use thalweg_http::{FieldId, Framing, Version};

/// A body below this size is small: the kernel may hold all of it, however many clients are slow.
const SMALL: u64 = 32 * 1024;
/// A piece of a body from this size on is sent from where it was received.
const LARGE: usize = 8 * 1024;

/// Composes the head of the final response, of which `head` is the start, and takes what came of
/// its body. Nothing is sent yet, but for a large piece of a body in which no fault can come.
pub(crate) fn begin(worker: &Worker, client: &Client, x: &mut Exchange, head: &[u8]) -> Result<(), Fault> {
    let framing = response_framing(x.request.method, &x.response, head)?;
    let is_empty = x.response_end == ResponseEnd::Head && framing == Framing::UntilClose;
    let framing = if is_empty { Framing::Empty } else { grpc::framing(x, framing) };
    let status = x.response.status;
    x.upstream_reusable = status != 101 && response_keeps_alive(&x.response, head, framing);
    strip_response(&mut x.response, head, status == 101);
    see_response(worker, x, head);
    let outcome = match status != 101 && has_response_filters(x) {
        true => filtered(worker, client, x, (head, framing), None)?,
        false => ResponseOutcome::default(),
    };
    compose(worker, client, x, (head, framing, is_empty), outcome)
}

/// Runs what filters of the final response wait for, and composes its head then. When this is dropped, the response is
/// gone.
pub(crate) async fn wait_for_filters(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
) -> Result<(), Fault> {
    while let Some(held) = x.filtering.as_mut().and_then(|filtering| filtering.held.take()) {
        let HeldResponse { head, fields, framing, is_empty, mut outcome } = *held;
        let Some((at, request)) = outcome.waits.take() else { return Ok(()) };
        let got = match run_job(worker, client, x, Job::Fetch(request)).await? {
            JobResult::Fetched(got) => got,
            _ => Err(Fault::new(FaultKind::ProxyInternalError, "a filter got what it did not ask for")),
        };
        x.response.fields = fields;
        let waited = Some(Waited { at, got, outcome });
        let outcome = filtered(worker, client, x, (&head, framing), waited)?;
        compose(worker, client, x, (&head, framing, is_empty), outcome)?;
        worker.warm.fields.put(&mut x.response.fields);
    }
    Ok(())
}

/// Composes the head, unless its filters wait or have put another response in the place.
fn compose(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (head, framing, is_empty): (&[u8], Framing, bool),
    outcome: ResponseOutcome,
) -> Result<(), Fault> {
    let status = x.response.status;
    if outcome.waits.is_some() {
        let (head, fields) = (head.to_vec(), std::mem::take(&mut x.response.fields));
        let held = Box::new(HeldResponse { head, fields, framing, is_empty, outcome });
        x.filtering.get_or_insert_default().held = Some(held);
        x.status = status;
        return Ok(());
    }
    if outcome.replaced.is_some() {
        // The endpoint's body is not needed, and waiting for its end to reuse the connection does not pay. A
        // connection with excess bytes after the response is not reused either.
        x.upstream_reusable &= framing.is_empty() && head.len() == x.response.len;
        x.filtering.get_or_insert_default().replaced = outcome.replaced;
        x.status = status;
        return Ok(());
    }
    let has_length = !outcome.changes_length;
    if has_length && framing != Framing::Chunked && status >= 200 && status != 204 {
        // The length is true for the client too (for HEAD and 304 it is information): it stays in its place.
        let fields = x.response.fields.iter_mut();
        fields.filter(|field| field.id == FieldId::ContentLength).for_each(|field| field.keep = true);
    }
    if !matches!(framing, Framing::Empty | Framing::Length(..SMALL)) {
        narrow(worker, client, &mut Unsent::default());
    }
    // Who asked for the close, and has sent all, is ready for an end that comes with the last bytes. (JDK 17's client
    // loses a body that comes with the end while it still uploads.)
    let is_last = !x.keep_alive && x.upward.is_done();
    // The rest of an unfinished request could not be told from the next one.
    x.keep_alive &= x.upward.is_done() && !worker.is_leaving(client);
    let http11 = x.request.version == Version::Http11;
    let is_transformed = !outcome.transforms.is_empty();
    let open_ended = is_transformed || matches!(framing, Framing::Chunked | Framing::UntilClose);
    let chunked = open_ended && http11;
    x.keep_alive &= !open_ended || http11;
    let bridge = bridge_response(x, head, framing);
    let mut flow = std::mem::take(&mut x.downward);
    worker.warm.buffers.get(flow.buffer());
    let framing = if status == 101 { Framing::Empty } else { framing };
    flow.bound(outcome.max_body);
    let out = flow.start(framing, Side::Upstream, chunked);
    let composed_from = out.len();
    match (status, x.request.version) {
        // Nothing is switched in HTTP/2: the stream goes on (RFC 8441 §5).
        (101, Version::Http2) => write_status_line(out, 200, b""),
        _ => write_status_line(out, status, x.response.reason.of(head)),
    }
    if let Some(filtering) = &x.filtering {
        out.extend_from_slice(&filtering.response_added);
    }
    write_fields(out, head, &x.response.fields);
    bridge.iter().for_each(|_| write_web_type(out, x, head));
    if chunked {
        out.extend_from_slice(CHUNKED_FIELD);
    } else if is_empty && x.request.version != Version::Http2 {
        write_content_length(out, 0);
    }
    write_kept(out, x);
    if let Some(forwarded) = x.filtering.as_ref().and_then(|filtering| filtering.forwarded.as_ref()) {
        forwarded.write_status(out);
    }
    out.extend_from_slice(last_lines(status, x.keep_alive, x.request.version));
    worker.taps.keep_head(x, &out[composed_from..]);
    flow.seal_head(&client.socket, composed_from);
    if bridge.is_some() || is_transformed {
        let bridge = bridge.map(|bridge| Box::new(bridge) as Box<dyn BodyTransform>);
        flow.set_transforms(outcome.transforms.into_iter().chain(bridge).collect(), &worker.chunks);
    }
    if is_last && status != 101 {
        flow.closes_after();
    }
    flow.set_pace(Pacer::of(outcome.bandwidth, worker.reactor.now()));
    (x.downward, x.status) = (flow, status);
    take_rest(worker, client, x, (head, framing, composed_from))
}

/// Takes what came of the body behind its head.
fn take_rest(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (head, framing, composed_from): (&[u8], Framing, usize),
) -> Result<(), Fault> {
    let rest = &head[x.response.len..];
    if x.status == 101 {
        x.downward.buffer().extend_from_slice(rest);
        return Ok(());
    }
    if x.downward.pace().is_some() && !x.downward.is_received() {
        x.downward.hold_early(rest);
        return Ok(());
    }
    let is_sure = framing != Framing::Chunked && !x.downward.is_transformed();
    let to = (is_sure && rest.len() >= LARGE).then_some(&client.socket);
    let fed = x.downward.feed(rest, to, &worker.chunks);
    if fed.is_err() {
        // Nothing of this response has been sent: it gives way to an answer that says why.
        x.downward.buffer().truncate(composed_from);
    }
    // Bytes behind the end belong to nobody: they are dropped, and the connection with them.
    x.upstream_reusable &= fed? == rest.len();
    Ok(())
}

/// Calls the filters of responses.
fn filtered(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (head, framing): (&[u8], Framing),
    waited: Option<Waited>,
) -> Result<ResponseOutcome, Fault> {
    let content_length = match framing {
        Framing::Length(length) => Some(length),
        Framing::Empty => response_length(&x.response, head).ok().flatten(),
        Framing::Chunked | Framing::UntilClose => None,
    };
    let (status, has_body) = (x.response.status, !framing.is_empty());
    let about = About { has_body, content_length, can_wait: true, ..About::own(status, None) };
    let connection = WorkerConnection(worker, client);
    let outcome = filter_upstream(&connection.surroundings(), x, head, (about, waited));
    match (framing, outcome.max_body) {
        (Framing::Length(length), Some(most)) if length > most => Err(too_large(Side::Upstream)),
        _ => Ok(outcome),
    }
}

/// The field that says what becomes of the client's connection, where its version needs one, and the end of the head.
fn last_lines(status: u16, keep_alive: bool, version: Version) -> &'static [u8] {
    match (status, keep_alive) {
        (101, _) => b"Connection: Upgrade\r\n\r\n",
        (_, false) => b"Connection: close\r\n\r\n",
        (_, true) if version != Version::Http11 => b"Connection: keep-alive\r\n\r\n",
        (_, true) => b"\r\n",
    }
}

/// Relays the response to its end, and the rest of the request beside it.
pub(crate) async fn respond(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    upstream: Upstream,
) -> Served {
    worker.decisions.expect();
    let mut surplus = Vec::new();
    let mut upward_open = !x.upward.is_done();
    let mut pace = Pace::default();
    let outcome = poll_fn(|context| {
        if pace.has_begun() && client.socket.expired() {
            pace.expire(worker, client, x)?;
        }
        tick(worker, x);
        let ends = Ends { from: &upstream.connection.socket, to: &client.socket };
        let mut moved = false;
        let mut scratch = worker.scratch.borrow_mut();
        let mut means = IoScratch::of(&mut scratch, &worker.chunks);
        match x.downward.poll_pump(&ends, &mut means, ReplayBuffer::Surplus(&mut surplus), &mut moved) {
            Poll::Ready(Ok(RelayProgress::All)) => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(RelayProgress::Share)) => context.waker().wake_by_ref(),
            Poll::Ready(Err(broken)) => return Poll::Ready(Err(fault_of(broken))),
            Poll::Pending => {}
        }
        if upward_open {
            upward_open = send_rest(&mut means, client, x, &upstream, (context, &mut moved))?;
        }
        if upstream.attempt_guard.standing.is_cut() {
            let detail = "the endpoint was removed and its drain time is over";
            return Poll::Ready(Err(Fault::new(FaultKind::HttpResponseIncomplete, detail)));
        }
        if client.socket.is_gone() || (client.has_ended() && x.upward.is_received()) {
            return Poll::Ready(Err(Fault::new(
                FaultKind::ClientGone,
                "the client closed the connection inside the response",
            )));
        }
        if moved || !pace.has_begun() {
            pace.keep(worker, client, x)?;
        }
        pace.hold_back(worker, client, x);
        Poll::Pending
    });
    let outcome = outcome.await;
    x.downward.release_buffers(&worker.warm.buffers);
    match outcome {
        Ok(()) => {
            if x.upstream_reusable && surplus.is_empty() && x.upward.is_done() {
                put_back(worker, x, upstream);
            }
            Served::Whole
        }
        Err(fault) => {
            let blames = fault.kind.rule().hurts_endpoint && !upstream.attempt_guard.standing.is_cut();
            if let Some(local) = x.service().filter(|_| blames) {
                let now = worker.reactor.now();
                upstream.attempt_guard.report_broken(&local.state.service, now, fault.detail);
            }
            Served::Broken(fault)
        }
    }
}

/// Moves what can be moved of a request whose response has begun; says whether there may be more.
fn send_rest(
    means: &mut IoScratch<'_>,
    client: &Client,
    x: &mut Exchange,
    upstream: &Upstream,
    (context, moved): (&mut Context<'_>, &mut bool),
) -> Result<bool, Fault> {
    let ends = Ends { from: &client.socket, to: &upstream.connection.socket };
    match x.upward.poll_pump(&ends, means, ReplayBuffer::Surplus(&mut x.received), moved) {
        Poll::Pending => Ok(true),
        Poll::Ready(Ok(RelayProgress::Share)) => {
            context.waker().wake_by_ref();
            Ok(true)
        }
        Poll::Ready(Ok(RelayProgress::All) | Err(RelayError::ReceiverGone)) => Ok(false),
        Poll::Ready(Err(RelayError::Sender(fault))) => Err(fault),
        Poll::Ready(Err(RelayError::SenderGone)) => {
            Err(Fault::new(FaultKind::ClientGone, "the client closed the connection inside the request body"))
        }
    }
}

fn fault_of(broken: RelayError) -> Fault {
    match broken {
        RelayError::Sender(fault) => fault,
        RelayError::SenderGone => Fault::new(
            FaultKind::HttpResponseIncomplete,
            "the endpoint reset the connection inside its response",
        ),
        RelayError::ReceiverGone => {
            Fault::new(FaultKind::ClientGone, "the client closed the connection inside the response")
        }
    }
}
