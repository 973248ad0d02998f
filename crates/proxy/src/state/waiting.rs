//! When a connection to an endpoint is no longer waited for.

use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use thalweg_core::{Fault, FaultKind};

/// Why a connection that is not there yet is no longer waited for: what it has of time is over (`late`), or the client
/// has left.
pub(crate) fn given_up(worker: &Worker, client: &Client, x: &Exchange, late: Fault) -> Option<Fault> {
    if client.socket.expired() {
        return Some(x.overdue(worker.reactor.now()).unwrap_or(late));
    }
    x.has_left(client).then_some(Fault::new(
        FaultKind::ClientGone,
        "the client closed the connection while the proxy connected to the endpoint",
    ))
}

/// No answer to the connect in time.
pub(crate) const LATE: Fault = Fault::new(FaultKind::ConnectionTimeout, "the connection attempt timed out");
