//! Sends the proxy's own answers: what has been written, and bodies of any size from memory or a file as the client
//! takes them.

use crate::exchange::outcome::{Next, broken};
use crate::exchange::pace::{Pace, moved, tick};
use crate::relay::IoScratch;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll};
use std::time::Duration;
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::{Part, ReplyBody};

/// Time given to a client to take a small answer.
const SEND_TIME: Duration = Duration::from_secs(5);
/// Bytes that are read of a file at once.
const PIECE: usize = 64 * 1024;

/// What is left of a body.
#[derive(Debug, Default)]
pub(crate) struct Parts(VecDeque<Part>);

impl Parts {
    /// All of a body.
    pub(crate) fn of(body: ReplyBody) -> Self {
        Self(match body {
            ReplyBody::Empty => VecDeque::new(),
            ReplyBody::Bytes(bytes) => VecDeque::from([Part::Bytes(bytes.to_vec())]),
            ReplyBody::Parts(parts) => parts.into(),
        })
    }

    /// The next bytes, at most as many as `room` holds; none at the end.
    fn read(&mut self, room: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match self.0.front_mut() {
                None => return Ok(0),
                Some(Part::Bytes(bytes)) if bytes.is_empty() => drop(self.0.pop_front()),
                Some(Part::Bytes(bytes)) => {
                    let n = bytes.len().min(room.len());
                    room[..n].copy_from_slice(&bytes[..n]);
                    bytes.drain(..n);
                    return Ok(n);
                }
                Some(Part::File { length: 0, .. }) => drop(self.0.pop_front()),
                Some(Part::File { file, from, length }) => {
                    let most = usize::try_from(*length).unwrap_or(usize::MAX).min(room.len());
                    let n = file.read_at(&mut room[..most], *from).unwrap_or(0);
                    if n == 0 {
                        let detail = "a file became shorter while it was sent, or cannot be read";
                        return Err(Fault::new(FaultKind::HttpResponseIncomplete, detail));
                    }
                    (*from, *length) = (*from + n as u64, *length - n as u64);
                    return Ok(n);
                }
            }
        }
    }
}

/// Sends an answer whose head has been written, and the rest of its body.
pub(crate) async fn send_reply(worker: &Worker, client: &Client, x: &mut Exchange, parts: Parts) -> Next {
    let sent = match parts.0.is_empty() {
        true => send_small(client, x).await,
        false => send_parts(worker, client, x, parts).await,
    };
    x.downward.release_buffers(&worker.warm.buffers);
    match sent {
        Ok(()) if x.keep_alive => Next::Again,
        Ok(()) => Next::Drain,
        Err(Some(fault)) => {
            broken(worker, client, x, fault);
            Next::Close
        }
        Err(None) => Next::Close,
    }
}

/// Sends what waits. A client that does not take it gets no other answer.
async fn send_small(client: &Client, x: &mut Exchange) -> Result<(), Option<Fault>> {
    client.socket.set_deadline(Some(SEND_TIME));
    poll_fn(|_| match x.downward.poll_flush(&client.socket) {
        Poll::Pending if client.socket.expired() => Poll::Ready(Err(None)),
        Poll::Pending => Poll::Pending,
        Poll::Ready(done) => Poll::Ready(done.map_err(|_| None)),
    })
    .await
}

async fn send_parts(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    mut parts: Parts,
) -> Result<(), Option<Fault>> {
    let mut pace = Pace::default();
    poll_fn(|context| {
        if pace.has_begun() && client.socket.expired() {
            pace.expire(worker, client, x)?;
        }
        tick(worker, x);
        let before = moved(client, x);
        match pump(worker, client, x, (&mut parts, context)) {
            Poll::Ready(done) => return Poll::Ready(done),
            Poll::Pending => {}
        }
        if client.socket.is_gone() {
            return Poll::Ready(Err(Fault::new(
                FaultKind::ClientGone,
                "the client closed the connection inside the response",
            )));
        }
        if !pace.has_begun() || moved(client, x) != before {
            pace.keep(worker, client, x)?;
        }
        pace.hold_back(worker, client, x);
        Poll::Pending
    })
    .await
    .map_err(Some)
}

/// Sends what can be sent in this turn.
fn pump(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (parts, context): (&mut Parts, &mut Context<'_>),
) -> Poll<Result<(), Fault>> {
    let gone = || Fault::new(FaultKind::ClientGone, "the client closed the connection inside the response");
    let mut scratch = worker.scratch.borrow_mut();
    let means = IoScratch::of(&mut scratch, &worker.chunks);
    let mut share = means.share;
    loop {
        match x.downward.poll_flush(&client.socket) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(_)) => return Poll::Ready(Err(gone())),
            Poll::Ready(Ok(())) if x.downward.is_received() => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) => {}
        }
        if share == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(most) = x.downward.paced(means.scratch.len().min(PIECE)) else { return Poll::Pending };
        let n = parts.read(&mut means.scratch[..most])?;
        share = share.saturating_sub(n);
        x.downward.spend(n);
        x.downward.feed(&means.scratch[..n], Some(&client.socket), &worker.chunks)?;
    }
}
