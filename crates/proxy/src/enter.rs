//! Phase 4: a place within the bounds of the route and of its service, kept until the exchange or its
//! tunnel has ended.
//!
//! Where nothing is configured this is one plain addition. Where places are free it is one atomic step
//! for each bound. Where none is free the exchange waits (`await_place.rs`), its client's bytes unread.

use crate::await_place::{Bound, Queue, await_place};
use crate::connect::service;
use crate::exchange::{Client, Exchange};
use crate::view::{LocalService, Tally};
use crate::worker::Worker;
use thalweg_core::Fault;
use thalweg_observe::Limit;
use thalweg_upstream::{Entrance, Permit, Wish};

/// The places of an exchange. Dropping them leaves them to those who wait.
#[derive(Debug)]
pub(crate) struct Places {
    _route: Option<Permit>,
    _service: Option<Permit>,
    _tally: Tally,
}

/// Takes a place at the gate of the route, then at that of the service. Cancel-safe.
pub(crate) async fn enter(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<Places, Fault> {
    let local = &service(x)?;
    let found = x.route.clone();
    let route = match found.as_ref().and_then(|route| route.gate.as_ref()) {
        Some(gate) => Some(pass(worker, client, x, local, (gate, Bound::Route)).await?),
        None => None,
    };
    let service = match &local.gates.in_flight {
        Some(gate) => Some(pass(worker, client, x, local, (gate, Bound::Service)).await?),
        None => None,
    };
    Ok(Places { _route: route, _service: service, _tally: local.under_way() })
}

/// The same for who does not wait; the bound that has no free place.
pub(crate) fn enter_or_leave(x: &Exchange, local: &LocalService) -> Result<Places, Limit> {
    let pass = |gate: Option<&Entrance>, limit| match gate {
        Some(gate) => gate.enter().map(Some).ok_or(limit),
        None => Ok(None),
    };
    let route = pass(x.route.as_ref().and_then(|route| route.gate.as_ref()), Limit::RouteInFlight)?;
    let service = pass(local.gates.in_flight.as_ref(), Limit::ServiceInFlight)?;
    Ok(Places { _route: route, _service: service, _tally: local.under_way() })
}

async fn pass(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (gate, bound): (&Entrance, Bound),
) -> Result<Permit, Fault> {
    if let Some(permit) = gate.enter() {
        return Ok(permit);
    }
    let queue = Queue { line: gate.gate().line(), bound, offer: &|| gate.offer(), wish: Wish::default() };
    // In a box because it is rare: every seat would be larger for it.
    Box::pin(await_place(worker, client, x, local, queue)).await
}
