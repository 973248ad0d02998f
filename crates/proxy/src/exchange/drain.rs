//! The last moments of a connection whose client may still be sending.

use crate::state::exchange::Client;
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::task::Poll;
use thalweg_core::limits::{DRAIN_SILENCE, DRAIN_TIME, REFUSAL_TIME, TURN_BYTES};

/// Lets the client read the answer: closing while it still sends would reset the connection and
/// destroy what of the answer is still on its way (RFC 9112 §9.6). Bounded in time, and more tightly in the
/// time without a byte; short where every place is taken.
pub(crate) async fn drain(worker: &Worker, client: &Client) {
    client.socket.shutdown_write();
    let (silence, time) = match worker.is_short_of_places(client) {
        true => (REFUSAL_TIME, REFUSAL_TIME),
        false => (DRAIN_SILENCE, DRAIN_TIME),
    };
    client.socket.set_deadline(Some(silence));
    let end = worker.reactor.now() + time;
    poll_fn(|context| {
        let mut share = TURN_BYTES;
        loop {
            if client.socket.expired() || worker.reactor.now() >= end {
                return Poll::Ready(());
            }
            if share == 0 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match client.socket.poll_discard(&mut worker.scratch.borrow_mut()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(n)) => share = share.saturating_sub(n),
            }
            client.socket.set_deadline(Some(silence));
        }
    })
    .await;
}
