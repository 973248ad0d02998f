//! Part of phase 5: send the request and wait for the response to begin.
//!
//! Both directions run: the request's body goes up while interim responses (100, 103) come down,
//! and the final response may come before the body has been sent.

use crate::exchange::grpc::{self, status_of_head};
use crate::exchange::record::count_bytes;
use crate::exchange::respond;
use crate::exchange::upstream::connect::Upstream;
use crate::exchange::upstream::forward::calls_for_another;
use crate::exchange::upstream::hedge::{Rival, find_rival, hedge_after, time_after_hedge};
use crate::exchange::upstream::tls::fault_of_session;
use crate::h2;
use crate::overload::min_rate::RateMonitor;
use crate::relay::{Ends, IoScratch, RelayError, RelayProgress, ReplayBuffer, inner, mark};
use crate::state::exchange::{Client, Exchange, ResponseEnd};
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use thalweg_core::limits::{INTERIM_RESPONSES, REPLAY};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::h1::encode::{write_fields, write_status_line};
use thalweg_http::rules::strip_response;
use thalweg_http::{FieldId, Progress, Upgrade, Version};

/// How the wait ended.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// The final response's head has been composed.
    Response,
    /// The endpoint is slow, and another one is asked beside it.
    Rival(Box<Rival>),
}

/// What is known of the wait so far.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    pub(crate) interim: u32,
    /// The endpoint takes no more of the request; its answer may still come.
    refused: bool,
    /// The deadline for the first byte runs.
    timed: bool,
    /// The deadline that runs is the one after which another endpoint is asked too.
    hedges: bool,
    /// The deadline that runs is the one at which a throttled request body goes on.
    is_throttled: bool,
    /// Another one is asked at the same time: what this one says is not the last word.
    pub(crate) is_race: bool,
    /// Of the client, with its request body.
    pace: Option<RateMonitor>,
    /// What the endpoint had acknowledged when it was looked at last, of a body that took more than one turn.
    acknowledged: i64,
}

/// Sends the request (head, body) and returns when the final response's head has been composed.
pub(crate) async fn await_response(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    upstream: &mut Upstream,
) -> Result<Awaited, Fault> {
    x.answered.clear();
    x.response.clear();
    x.first_byte = None;
    let mut wait = Wait::default();
    poll_fn(|context| {
        if client.socket.expired()
            && let Some(rival) = expire(worker, client, x, upstream, &mut wait)?
        {
            return Poll::Ready(Ok(Awaited::Rival(rival)));
        }
        if !x.upward.is_done() && !wait.refused {
            send(worker, client, x, upstream, (&mut wait, context))?;
        }
        if x.downward.is_stalled() {
            // An interim response that the client was slow to take.
            let _ = x.downward.poll_flush(&client.socket);
        }
        if (x.upward.is_done() || wait.refused) && !wait.timed {
            wait.timed = true;
            if wait.pace.is_some() {
                wait.acknowledged = x.upward.acknowledged(&upstream.connection.socket);
            }
            worker.clear_slow(x);
            worker.note_held(x, 0);
            // An exchange that waits holds no more than it must.
            x.upward.release_buffers(&worker.warm.buffers);
            let hedge = hedge_after(x).filter(|_| !wait.refused && x.answered.is_empty());
            wait.hedges = hedge.is_some();
            let now = worker.reactor.now();
            match hedge {
                Some(after) => x.set_exact_deadline(client, now, after),
                None => x.set_deadline(client, now, time_to_answer(x)),
            }
        }
        if upstream.attempt_guard.standing.is_cut() {
            let detail = "the endpoint was removed and its drain time is over";
            return Poll::Ready(Err(Fault::new(FaultKind::ConnectionTerminated, detail)));
        }
        if client.socket.is_gone() || (client.has_ended() && x.upward.is_received()) {
            return Poll::Ready(Err(Fault::new(
                FaultKind::ClientGone,
                "the client closed the connection before the response",
            )));
        }
        receive(worker, client, x, upstream, &mut wait).map_ok(|()| Awaited::Response)
    })
    .await
}

/// Moves what can be moved of the request.
fn send(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    upstream: &Upstream,
    (wait, context): (&mut Wait, &mut Context<'_>),
) -> Result<(), Fault> {
    let ends = Ends { from: &client.socket, to: &upstream.connection.socket };
    let mut moved = false;
    let most = REPLAY.min(worker.chunks.high_mark());
    let (received, consumed, whole) = (&mut x.received, &mut x.consumed, &mut x.replayable);
    let keep = ReplayBuffer::Replay { received, consumed, whole, most };
    let mut scratch = worker.scratch.borrow_mut();
    let mut means = IoScratch::of(&mut scratch, &worker.chunks);
    x.upward.tick(worker.reactor.now());
    let pumped = x.upward.poll_pump(&ends, &mut means, keep, &mut moved);
    let paused = x.upward.paused_by_pace();
    match pumped {
        Poll::Ready(Ok(RelayProgress::Share)) => context.waker().wake_by_ref(),
        Poll::Ready(Ok(RelayProgress::All)) | Poll::Pending => {}
        Poll::Ready(Err(RelayError::Sender(fault))) => return Err(fault),
        Poll::Ready(Err(RelayError::SenderGone)) => {
            return Err(Fault::new(
                FaultKind::ClientGone,
                "the client closed the connection inside the request body",
            ));
        }
        Poll::Ready(Err(RelayError::ReceiverGone)) => wait.refused = true,
    }
    if x.upward.is_done() || (!moved && wait.pace.is_some() && paused.is_none()) {
        return Ok(());
    }
    let (now, bytes) = (worker.reactor.now(), x.upward.body());
    let overdue = if x.upward.is_stalled() { x.overdue(now) } else { x.overdue_by_client(now) };
    if let Some(fault) = overdue {
        return Err(fault);
    }
    let rate = grpc::rate(x);
    let pace = wait.pace.get_or_insert_with(|| RateMonitor::new(now));
    wait.is_throttled = paused.is_some();
    if let Some(after) = paused {
        pace.restart();
        worker.clear_slow(x);
        x.set_exact_deadline(client, now, after);
        count_bytes(worker, x);
        return Ok(());
    }
    if x.upward.is_stalled() {
        pace.restart();
        wait.acknowledged = x.upward.acknowledged(&upstream.connection.socket);
        worker.clear_slow(x);
    } else if pace.is_too_slow(now, bytes.cast_signed(), rate) {
        return Err(Fault::new(FaultKind::ClientTimeout, "the client sends the request body too slowly"));
    } else {
        worker.mark_slow(client, x, bytes);
    }
    x.set_deadline(client, now, rate.window);
    count_bytes(worker, x);
    Ok(())
}

/// Receives from the endpoint until the final head is there.
pub(crate) fn receive(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    upstream: &mut Upstream,
    wait: &mut Wait,
) -> Poll<Result<(), Fault>> {
    if let Some(call) = h2::call(&upstream.connection.socket) {
        return receive_of(worker, client, x, (call, upstream.attempt_guard.index), wait);
    }
    let mut scratch = worker.scratch.borrow_mut();
    // What comes with the head is held for a client that takes nothing.
    let most = mark(scratch.len(), &client.socket);
    loop {
        let n = match upstream.connection.socket.poll_recv(&mut scratch[..most]) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(n)) => n,
            Poll::Ready(Err(error)) => {
                if let Some(fault) = fault_of_session(&error)
                    && x.answered.is_empty()
                    && wait.interim == 0
                {
                    return Poll::Ready(Err(fault));
                }
                0
            }
        };
        if n == 0 {
            return Poll::Ready(Err(match x.answered.is_empty() && wait.interim == 0 {
                true => Fault::new(
                    FaultKind::ConnectionTerminated,
                    "the endpoint closed the connection before it answered",
                ),
                false => Fault::new(
                    FaultKind::HttpResponseIncomplete,
                    "the endpoint closed the connection inside the response head",
                ),
            }));
        }
        if x.first_byte.is_none() {
            x.first_byte = Some(x.started.elapsed());
        }
        if read_heads(worker, client, x, (&scratch[..n], upstream.attempt_guard.index), wait)? {
            return Poll::Ready(Ok(()));
        }
    }
}

/// As [`receive`], from a stream.
fn receive_of(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (call, member): (&h2::Call, u32),
    wait: &mut Wait,
) -> Poll<Result<(), Fault>> {
    let mut head = std::mem::take(&mut x.answered);
    loop {
        head.clear();
        worker.warm.fields.get(&mut x.response.fields);
        let received = call.poll_head(&x.head_limits, &mut x.response, &mut head);
        if received.is_pending() {
            x.answered = head;
            return Poll::Pending;
        }
        x.response_end = if ready!(received)? { ResponseEnd::Head } else { ResponseEnd::Stream };
        if x.first_byte.is_none() {
            x.first_byte = Some(x.started.elapsed());
        }
        if take_head(worker, client, x, (&head, member), wait)? {
            head.clear();
            x.answered = head;
            return Poll::Ready(Ok(()));
        }
    }
}

/// Reads heads from what was received of a member; says whether the final one is among them.
fn read_heads(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (bytes, member): (&[u8], u32),
    wait: &mut Wait,
) -> Result<bool, Fault> {
    let mut kept = std::mem::take(&mut x.answered);
    let continued = !kept.is_empty();
    if continued {
        kept.extend_from_slice(bytes);
    }
    let input = if continued { &kept[..] } else { bytes };
    let limits = x.head_limits;
    worker.warm.fields.get(&mut x.response.fields);
    let mut at = 0;
    let done = loop {
        let head = &input[at..];
        if head.is_empty() || x.response.parse(head, &limits)? == Progress::Partial {
            break false;
        }
        let len = x.response.len;
        x.response_end = ResponseEnd::Fields;
        if take_head(worker, client, x, (head, member), wait)? {
            break true;
        }
        at += len;
    };
    match (done, continued) {
        (true, _) => kept.clear(),
        (false, true) => drop(kept.drain(..at)),
        (false, false) => kept.extend_from_slice(&bytes[at..]),
    }
    x.answered = kept;
    if !done {
        worker.note_held(x, 0);
    }
    Ok(done)
}

/// Takes a head that has been received of a member, with what came behind it; says whether it is the final one.
fn take_head(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (head, member): (&[u8], u32),
    wait: &mut Wait,
) -> Result<bool, Fault> {
    if x.response.is_interim() && x.response.status != 101 {
        wait.interim += 1;
        if wait.interim > INTERIM_RESPONSES {
            return Err(Fault::response("too many interim responses"));
        }
        // Another attempt could contradict it.
        x.replayable = false;
        pass_interim(client, x, head);
        x.response.clear();
        return Ok(false);
    }
    match x.response.status {
        101 => check_switch(x, head)?,
        // To its client a stream that is answered so is a WebSocket (RFC 8441 §5).
        200..300 if x.upgrade == Upgrade::WebSocket && x.request.version == Version::Http2 => {
            let detail = "the endpoint answered and did not switch protocols";
            return Err(Fault::new(FaultKind::HttpUpgradeFailed, detail));
        }
        _ => {}
    }
    x.grpc_status = status_of_head(x, head);
    if calls_for_another(worker, x, member, wait.is_race) {
        let detail = "the endpoint's status calls for another attempt";
        return Err(Fault::new(FaultKind::HttpResponseStatus, detail));
    }
    respond::begin(worker, client, x, head)?;
    worker.warm.fields.put(&mut x.response.fields);
    Ok(true)
}

/// 100, 103 and their like go to the client at once; HTTP/1.0 does not know them.
fn pass_interim(client: &Client, x: &mut Exchange, head: &[u8]) {
    if x.request.version == Version::Http10 {
        return;
    }
    strip_response(&mut x.response, head, false);
    let mut lines = Vec::with_capacity(256);
    write_status_line(&mut lines, x.response.status, x.response.reason.of(head));
    write_fields(&mut lines, head, &x.response.fields);
    lines.extend_from_slice(b"\r\n");
    send_interim(client, x, &mut lines);
}

/// Sends an interim response, given as lines with the empty one that ends them.
pub(crate) fn send_interim(client: &Client, x: &mut Exchange, lines: &mut [u8]) {
    if let Some(inner) = inner(&client.socket) {
        inner.inform(lines);
    } else if let Some(stream) = h2::stream(&client.socket) {
        stream.inform(lines);
    } else {
        x.downward.buffer().extend_from_slice(lines);
        drop(x.downward.poll_flush(&client.socket));
    }
}

/// 101 is valid only when the client asked, and for the protocol that it asked for (RFC 9110 §7.8).
fn check_switch(x: &mut Exchange, head: &[u8]) -> Result<(), Fault> {
    let failed = |detail| Err(Fault::new(FaultKind::HttpUpgradeFailed, detail));
    if !matches!(x.upgrade, Upgrade::WebSocket | Upgrade::Other) {
        return failed("the endpoint switched protocols without being asked");
    }
    let Some(chosen) = x.response.value(head, FieldId::Upgrade) else {
        return failed("the endpoint switched protocols without naming the new one");
    };
    let asked = x.request.values(&x.received, FieldId::Upgrade);
    let mut asked = asked.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    if !asked.any(|protocol| protocol.eq_ignore_ascii_case(chosen)) {
        return failed("the endpoint switched to another protocol than asked");
    }
    if let (Version::Http2, Some(id)) = (x.request.version, &x.id)
        && !h2::websocket::takes_proof(id, &mut x.response, head)
    {
        return failed("the endpoint's answer to the WebSocket handshake is invalid");
    }
    // What is left of the request would go into the tunnel, or be lost.
    if !x.upward.is_done() {
        return failed("the endpoint switched protocols before it had the whole request");
    }
    Ok(())
}

/// The deadline has passed. An endpoint that reads what the kernel holds for it gets another; beside one that is
/// slow to answer, another may be asked.
fn expire(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    upstream: &Upstream,
    wait: &mut Wait,
) -> Result<Option<Box<Rival>>, Fault> {
    let now = worker.reactor.now();
    if let Some(fault) = x.overdue(now) {
        return Err(fault);
    }
    if std::mem::take(&mut wait.hedges) {
        x.set_deadline(client, now, time_after_hedge(x));
        // What has just come may be its response.
        let is_silent = x.answered.is_empty() && !upstream.connection.socket.is_readable();
        return Ok(if is_silent { find_rival(worker, x, upstream) } else { None });
    }
    if std::mem::take(&mut wait.is_throttled) && !wait.timed {
        x.set_deadline(client, now, x.timeouts().idle);
        return Ok(None);
    }
    if wait.pace.is_some() && (wait.timed || x.upward.is_stalled()) && !worker.is_shed(x) {
        let acknowledged = x.upward.acknowledged(&upstream.connection.socket);
        if std::mem::replace(&mut wait.acknowledged, acknowledged) < acknowledged {
            let idle = x.timeouts().idle;
            x.set_deadline(client, now, if wait.timed { time_to_answer(x) } else { idle });
            return Ok(None);
        }
    }
    if let Some(call) = h2::call(&upstream.connection.socket) {
        call.suspect();
    }
    Err(late(x))
}

/// From the request's last byte to the response's head: less for an attempt that others may follow.
pub(crate) fn time_to_answer(x: &Exchange) -> Duration {
    let first_byte = x.timeouts().first_byte;
    let per_try_timeout = x.service().and_then(|local| local.state.service.retry.per_try_timeout);
    per_try_timeout.map_or(first_byte, |per_try_timeout| per_try_timeout.min(first_byte))
}

/// Whose fault is a deadline that has passed?
pub(crate) fn late(x: &Exchange) -> Fault {
    if x.upward.is_stalled() {
        Fault::new(FaultKind::ConnectionWriteTimeout, "the endpoint stopped reading the request")
    } else if !x.upward.is_received() {
        Fault::new(FaultKind::ClientTimeout, "the request body took too long")
    } else {
        Fault::new(FaultKind::HttpResponseTimeout, "the endpoint did not begin its response in time")
    }
}
