//! The list `blocked` holds for every request: also for those of connections that were there before, and of clients
//! behind trusted proxies, whose address is known only now.

use crate::state::exchange::Exchange;
use crate::state::worker::Worker;
use thalweg_core::{Fault, FaultKind};

/// Refuses a request of a client that is blocked.
pub(crate) fn refuse_blocked(worker: &Worker, x: &mut Exchange) -> Result<(), Fault> {
    let Some(reason) = worker.blocked(x.client_ip) else { return Ok(()) };
    x.explain(reason);
    Err(Fault::new(FaultKind::HttpRequestDenied, "this client is blocked"))
}
