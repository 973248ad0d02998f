//! Waiting for something of the cache, while the client is there and for a time.

use crate::exchange::filter_request::ended;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;
use thalweg_core::Fault;

/// Polls until there is something, at most so long; `None`: the time is over. The exchange has waited meanwhile.
pub(super) async fn until<T>(
    (worker, client): (&Worker, &Client),
    x: &mut Exchange,
    most: Duration,
    mut poll: impl FnMut(&mut Exchange, &Context<'_>) -> Poll<T>,
) -> Result<Option<T>, Fault> {
    let began = worker.reactor.now();
    let end = began + most;
    let done = poll_fn(|context| {
        if let Poll::Ready(done) = poll(x, context) {
            return Poll::Ready(Ok(Some(done)));
        }
        if let Some(fault) = ended(worker, client, x) {
            return Poll::Ready(Err(fault));
        }
        let now = worker.reactor.now();
        if now >= end {
            return Poll::Ready(Ok(None));
        }
        x.set_exact_deadline(client, now, end.saturating_duration_since(now));
        Poll::Pending
    })
    .await;
    client.socket.set_deadline(None);
    x.waited += worker.reactor.now().saturating_duration_since(began);
    done
}
