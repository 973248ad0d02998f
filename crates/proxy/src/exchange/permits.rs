//! Phase 4: a place within the bounds of the route and of its service, kept until the exchange or its
//! tunnel has ended.
//!
//! Where nothing is configured this is one plain addition. Where places are free it is one atomic step
//! for each bound. Where none is free the exchange waits (`wait_for_permit.rs`), its client's bytes unread.

use crate::exchange::upstream::connect::service;
use crate::exchange::upstream::wait_for_permit::{Bound, Queue, wait_for_permit};
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::{LocalService, Tally};
use crate::state::worker::Worker;
use thalweg_core::Fault;
use thalweg_observe::Limit;
use thalweg_upstream::{LimitHandle, Permit, WaitFor};

/// The places of an exchange. Dropping them leaves them to those who wait.
#[derive(Debug)]
pub(crate) struct Permits {
    _route: Option<Permit>,
    _service: Option<Permit>,
    _tally: Tally,
}

/// Takes a place at the concurrency limit of the route, then at that of the service. Cancel-safe.
pub(crate) async fn enter(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<Permits, Fault> {
    let local = &service(x)?;
    let found = x.route.clone();
    let route = match found.as_ref().and_then(|route| route.concurrency.as_ref()) {
        Some(concurrency) => Some(pass(worker, client, x, local, (concurrency, Bound::Route)).await?),
        None => None,
    };
    let service = match &local.concurrency_limits.in_flight {
        Some(concurrency) => Some(pass(worker, client, x, local, (concurrency, Bound::Service)).await?),
        None => None,
    };
    Ok(Permits { _route: route, _service: service, _tally: local.under_way() })
}

/// The same for who does not wait; the bound that has no free place.
pub(crate) fn enter_or_leave(x: &Exchange, local: &LocalService) -> Result<Permits, Limit> {
    let pass = |concurrency: Option<&LimitHandle>, limit| match concurrency {
        Some(concurrency) => concurrency.enter().map(Some).ok_or(limit),
        None => Ok(None),
    };
    let route = pass(x.route.as_ref().and_then(|route| route.concurrency.as_ref()), Limit::RouteInFlight)?;
    let service = pass(local.concurrency_limits.in_flight.as_ref(), Limit::ServiceInFlight)?;
    Ok(Permits { _route: route, _service: service, _tally: local.under_way() })
}

async fn pass(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (concurrency, bound): (&LimitHandle, Bound),
) -> Result<Permit, Fault> {
    if let Some(permit) = concurrency.enter() {
        return Ok(permit);
    }
    let queue = Queue {
        line: concurrency.concurrency().line(),
        bound,
        offer: &|| concurrency.offer(),
        wish: WaitFor::default(),
    };
    // In a box because it is rare: every task would be larger for it.
    Box::pin(wait_for_permit(worker, client, x, local, queue)).await
}
