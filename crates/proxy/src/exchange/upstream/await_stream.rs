//! Part of phase 5: a stream of a connection that carries several requests, where none is to be had at once.
//!
//! One exchange opens a connection; those that come meanwhile wait for it, and where it fails they have failed too.
//! Where no other connection may be opened, an exchange waits for the end of one that has a stream.

use crate::exchange::upstream::connection_permit::place_at_once;
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::waiting::{LATE, given_up};
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;
use thalweg_core::{Fault, FaultKind};
use thalweg_net::Socket;
use thalweg_upstream::{Connection, ConnectionPlaces, Member, OpeningGuard, Speaks};

/// What came of the wait.
pub(crate) enum Awaited<'a> {
    /// A stream.
    Stream(Connection),
    /// It is for this exchange to open a connection.
    Turn(OpeningGuard<'a, Socket>),
    /// The member has turned out to speak HTTP/1.1.
    Other,
}

const FULL: Fault = Fault::new(
    FaultKind::ConnectionLimitReached,
    "every connection to the endpoint carries as many requests as it may, and none ended in time",
);

/// Waits for a stream, or for the turn to open a connection; `places` are those that this needs. Within the time for a
/// connect. Cancel-safe.
///
/// # Errors
/// The fault of a connect that others waited for too; `connection_limit_reached`, or `connection_timeout`, when the
/// time is over.
pub(crate) async fn await_stream<'a>(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (member, places): (&'a Member, &mut ConnectionPlaces),
) -> Result<Awaited<'a>, Fault> {
    let (multiplexed_pool, policy) = (&member.pool.multiplexed_pool, &local.state.service.pool);
    let mut has_waited = false;
    let began = Instant::now();
    let failures = multiplexed_pool.failures();
    let outcome = loop {
        let now = worker.reactor.now();
        if let Some(stream) = multiplexed_pool.take(policy, now, has_waited) {
            break Ok(Awaited::Stream(stream));
        }
        if multiplexed_pool.speaks() == Some(Speaks::Http1) {
            break Ok(Awaited::Other);
        }
        if let Some(fault) = multiplexed_pool.failed_since(failures) {
            break Err(fault);
        }
        let mut may_open = !multiplexed_pool.is_opening();
        if may_open && !multiplexed_pool.is_empty() {
            // Another one beside those that are full.
            match place_at_once(local, member, places) {
                Some(all) if worker.make_upstream_room() => *places = all,
                _ => may_open = false,
            }
        }
        if may_open {
            break Ok(Awaited::Turn(multiplexed_pool.begin_opening()));
        }
        if !std::mem::replace(&mut has_waited, true) {
            let connect = x.timeouts().connect;
            x.set_deadline(client, now, connect);
        }
        let late = if multiplexed_pool.is_opening() { LATE } else { FULL };
        let mut place = multiplexed_pool.line().join();
        let called = poll_fn(|context| match place.poll(context) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => {
                given_up(worker, client, x, late).map_or(Poll::Pending, |fault| Poll::Ready(Err(fault)))
            }
        });
        if let Err(fault) = called.await {
            break Err(fault);
        }
        // Whoever looks again in vain goes to the end of the line.
        place.served();
    };
    if has_waited {
        client.socket.set_deadline(None);
        x.waited += began.elapsed();
    }
    outcome
}
