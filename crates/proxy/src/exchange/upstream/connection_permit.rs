//! Part of phase 5: a place for a new connection within the bounds of its endpoint and its service.
//!
//! Idle connections take places too. When none is left, they make room: here at once, on other workers by
//! a command. As long as somebody waits, no pool keeps a connection for later (`Pool::put`):
//! it is handed to the first who can use it, on whichever worker, or is closed for its place.

use crate::exchange::upstream::wait_for_permit::{Bound, Queue, await_turn};
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::shared::{Command, Eviction};
use crate::state::worker::Worker;
use std::sync::Arc;
use thalweg_core::Fault;
use thalweg_upstream::{Acquired, ConnectionPlaces, Destination, Handover, LimitHandle, Member, WaitFor};

/// How a connection is to be had.
#[derive(Debug)]
pub(crate) enum Room {
    /// A new one may be opened.
    ToOpen(ConnectionPlaces),
    /// Another exchange was done with one, or had no use for it.
    Given(Handover),
}

/// Takes the places that a new connection to the member needs, beside those that it has already; with `reuse`, an
/// idle one with its places does too. Cancel-safe.
///
/// # Errors
/// When none became free in time, or the client left.
pub(crate) async fn connection_place(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (member, reuse, mut places): (&Member, bool, ConnectionPlaces),
) -> Result<Room, Fault> {
    let concurrency_limits = local.concurrency_limits.endpoints.get(member.endpoint as usize);
    let wants = reuse.then(|| member.pool.destination());
    // Who has the place of the endpoint and waits for that of the service is in nobody's way: without
    // the latter nobody can connect to the endpoint.
    if places.endpoint.is_none()
        && let Some(concurrency) =
            concurrency_limits.and_then(|concurrency_limits| concurrency_limits.connections.as_ref())
    {
        let endpoint = Some(member.endpoint);
        places.endpoint = match place(worker, client, x, local, (concurrency, endpoint, wants)).await? {
            Acquired::Place(permit) => Some(permit.stay()),
            Acquired::Alternative(handover) => return Ok(Room::Given(handover)),
        };
    }
    if let Some(concurrency) = &local.concurrency_limits.connections {
        places.service = match place(worker, client, x, local, (concurrency, None, wants)).await? {
            Acquired::Place(permit) => Some(permit.stay()),
            Acquired::Alternative(handover) => return Ok(Room::Given(handover)),
        };
    }
    Ok(Room::ToOpen(places))
}

/// Takes the places that a new connection to the member needs beside those of `has`, if they are free and nobody waits
/// for them.
pub(crate) fn place_at_once(
    local: &LocalService,
    member: &Member,
    has: &mut ConnectionPlaces,
) -> Option<ConnectionPlaces> {
    let mut places = std::mem::take(has);
    let endpoint = local.concurrency_limits.endpoints.get(member.endpoint as usize);
    if places.endpoint.is_none()
        && let Some(concurrency) =
            endpoint.and_then(|concurrency_limits| concurrency_limits.connections.as_ref())
    {
        places.endpoint = Some(concurrency.enter()?.stay());
    }
    if let Some(concurrency) = &local.concurrency_limits.connections {
        places.service = Some(concurrency.enter()?.stay());
    }
    Some(places)
}

/// A place at one concurrency limit, or a connection that has one.
async fn place(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (concurrency, endpoint, wants): (&LimitHandle, Option<u32>, Option<&Destination>),
) -> Result<Acquired, Fault> {
    // An idle one of our own goes, and its place is ours.
    if let Some(permit) = concurrency.enter_after(|| evict_here(local, endpoint)) {
        return Ok(Acquired::Place(permit));
    }
    let bound = if endpoint.is_some() { Bound::EndpointConnections } else { Bound::ServiceConnections };
    let offer = || {
        concurrency.offer();
        local.state.give_way(endpoint);
        if concurrency.concurrency().line().waiting() > 0 {
            evict_anywhere(worker, local, endpoint);
        }
    };
    let wish = WaitFor { thing: wants.cloned(), concurrency_limits: None };
    let queue = Queue { line: concurrency.concurrency().line(), bound, offer: &offer, wish };
    // In a box because it is rare: every task would be larger for it.
    Box::pin(await_turn(worker, client, x, local, queue)).await
}

fn evict_here(local: &LocalService, endpoint: Option<u32>) -> bool {
    match endpoint {
        Some(endpoint) => local.state.evict_from(endpoint),
        None => local.state.evict(),
    }
}

fn evict_anywhere(worker: &Worker, local: &LocalService, endpoint: Option<u32>) {
    let service = &local.state.service;
    let endpoint = endpoint.and_then(|endpoint| service.endpoints.get(endpoint as usize));
    let eviction =
        Arc::new(Eviction { service: service.name.clone(), endpoint: endpoint.map(|e| e.url.clone()) });
    // Of this worker too: what the service was before a reload may have idle connections here.
    for each in 0..worker.shared.loads.workers.len() {
        worker.shared.hand(each, Command::Evict(eviction.clone()));
    }
}
