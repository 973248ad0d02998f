//! Phase 6: the response goes to the client as it comes.

use crate::buffers::chunk_queue::{Counted, Unsent};
use crate::exchange::filter_response::filter_response;
use crate::exchange::grpc::{self, bridge_response, write_web_type};
use crate::exchange::outcome::Served;
use crate::exchange::record::count_bytes;
use crate::exchange::sticky::write_kept;
use crate::exchange::upstream::connect::{Upstream, put_back};
use crate::overload::min_rate::RateMonitor;
use crate::relay::{Ends, IoScratch, RelayError, RelayProgress, ReplayBuffer};
use crate::state::exchange::{Client, Exchange, ResponseEnd};
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::task::{Context, Poll};
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_http::h1::encode::{CHUNKED_FIELD, write_content_length, write_fields, write_status_line};
use thalweg_http::h1::framing::{response_framing, response_keeps_alive};
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
    if framing != Framing::Chunked && status >= 200 && status != 204 {
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
    let open_ended = matches!(framing, Framing::Chunked | Framing::UntilClose);
    let chunked = open_ended && http11;
    x.keep_alive &= !open_ended || http11;
    let bridge = bridge_response(x, head, framing);
    let mut flow = std::mem::take(&mut x.downward);
    worker.warm.buffers.get(flow.buffer());
    let framing = if status == 101 { Framing::Empty } else { framing };
    let out = flow.start(framing, Side::Upstream, chunked);
    let composed_from = out.len();
    match (status, x.request.version) {
        // Nothing is switched in HTTP/2: the stream goes on (RFC 8441 §5).
        (101, Version::Http2) => write_status_line(out, 200, b""),
        _ => write_status_line(out, status, x.response.reason.of(head)),
    }
    if status != 101 && x.route().is_some_and(|route| !route.filters.is_empty()) {
        filter_response(x, head, out);
    }
    write_fields(out, head, &x.response.fields);
    bridge.iter().for_each(|_| write_web_type(out, x, head));
    if chunked {
        out.extend_from_slice(CHUNKED_FIELD);
    } else if is_empty && x.request.version != Version::Http2 {
        write_content_length(out, 0);
    }
    write_kept(out, x);
    if status == 101 {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
    } else if !x.keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if !http11 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
    flow.seal_head(&client.socket, composed_from);
    flow.set_bridge(bridge);
    let out = flow.buffer();
    let rest = &head[x.response.len..];
    if status == 101 {
        out.extend_from_slice(rest);
        x.downward = flow;
    } else {
        if is_last {
            flow.closes_after();
        }
        let to = (framing != Framing::Chunked).then_some(&client.socket);
        let fed = flow.feed(rest, to.filter(|_| rest.len() >= LARGE), &worker.chunks);
        if fed.is_err() {
            // Nothing of this response has been sent: it gives way to an answer that says why.
            flow.buffer().truncate(composed_from);
        }
        x.downward = flow;
        // Bytes behind the end belong to nobody: they are dropped, and the connection with them.
        x.upstream_reusable &= fed? == rest.len();
    }
    x.status = status;
    Ok(())
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
    let mut watch = Watch { upward_open: !x.upward.is_done(), ..Watch::default() };
    let outcome = poll_fn(|context| {
        if watch.pace.is_some() && client.socket.expired() {
            watch.expire(worker, client, x)?;
        }
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
        if watch.upward_open {
            watch.upward_open = send_rest(&mut means, client, x, &upstream, (context, &mut moved))?;
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
        if moved || watch.pace.is_none() {
            watch.keep(worker, client, x)?;
        }
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

/// Tells the kernel to hold no more for the client than it should now, when that is less than it has been told.
fn narrow(worker: &Worker, client: &Client, told: &mut Unsent) {
    let unsent = worker.chunks.unsent();
    if unsent > *told {
        *told = unsent;
        match unsent {
            Unsent::Any => {}
            Unsent::Some => client.socket.hold_some_unsent(),
            Unsent::Little => client.socket.hold_little_unsent(),
        }
    }
}

/// What is watched while a response takes more than one turn.
#[derive(Default)]
struct Watch {
    /// There may be more of the request.
    upward_open: bool,
    /// Of the client, with what it sends and takes.
    pace: Option<RateMonitor>,
    /// Counted from the second turn on.
    under_way: Option<Counted>,
    /// Counted while the client keeps bytes waiting.
    slow: Option<Counted>,
    /// What the kernel has been told to hold for the client.
    unsent: Unsent,
}

impl Watch {
    /// Moves the deadline on, and refuses a client that keeps the exchange alive with next to nothing.
    fn keep(&mut self, worker: &Worker, client: &Client, x: &mut Exchange) -> Result<(), Fault> {
        let (now, rate) = (worker.reactor.now(), x.rate());
        // Bytes that move put the deadline off that would tell.
        let overdue = if x.downward.is_stalled() { x.overdue_by_client(now) } else { x.overdue(now) };
        if let Some(fault) = overdue {
            return Err(fault);
        }
        let pace = self.pace.get_or_insert_with(|| RateMonitor::new(now));
        if x.downward.is_stalled() {
            if pace.is_too_slow(now, moved(client, x), rate) {
                return Err(Fault::new(FaultKind::ClientTimeout, "the client reads too slowly"));
            }
            // What its receive buffer takes at first is no reason to spare it when places run out.
            let handed = x.downward.bytes() + x.upward.body();
            worker.mark_slow(client, x, handed);
            self.slow.get_or_insert_with(|| worker.chunks.count_slow());
        } else {
            // The endpoint has sent no more: an event stream may be as slow as it likes.
            pace.restart();
            worker.clear_slow(x);
            self.slow = None;
        }
        self.under_way.get_or_insert_with(|| worker.chunks.count_under_way());
        narrow(worker, client, &mut self.unsent);
        x.set_deadline(client, now, rate.window);
        count_bytes(worker, x);
        Ok(())
    }

    /// The deadline has passed. A client that reads what the kernel holds for it gets another.
    fn expire(&mut self, worker: &Worker, client: &Client, x: &Exchange) -> Result<(), Fault> {
        let (now, rate) = (worker.reactor.now(), x.rate());
        if let Some(fault) = x.overdue(now) {
            return Err(fault);
        }
        let pace = self.pace.as_mut().filter(|_| x.downward.is_stalled() && !worker.is_shed(x));
        if pace.is_some_and(|pace| pace.goes_on(now, moved(client, x), rate)) {
            x.set_deadline(client, now, rate.window);
            return Ok(());
        }
        Err(late(x))
    }
}

/// What the client has done for the exchange: bytes that it has acknowledged, and sent.
fn moved(client: &Client, x: &Exchange) -> i64 {
    x.downward.acknowledged(&client.socket) + x.upward.body().cast_signed()
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

fn late(x: &Exchange) -> Fault {
    if x.downward.is_stalled() {
        Fault::new(FaultKind::ClientTimeout, "the client stopped reading the response")
    } else {
        Fault::new(FaultKind::ConnectionReadTimeout, "the endpoint stopped sending inside its response")
    }
}
