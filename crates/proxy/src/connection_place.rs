//! Part of phase 5: a place for a new connection within the bounds of its endpoint and its service.
//!
//! Idle connections take places too. When none is left, they make room: here at once, on other workers by
//! a command. As long as somebody waits, no pool keeps a connection for later (`Pool::put`):
//! it is handed to the first who can use it, on whichever worker, or is closed for its place.

use crate::await_place::{Bound, Queue, await_turn};
use crate::exchange::{Client, Exchange};
use crate::fleet::{Command, Eviction};
use crate::view::LocalService;
use crate::worker::Worker;
use std::sync::Arc;
use thalweg_core::Fault;
use thalweg_upstream::{ConnectionPlaces, Destination, Entrance, Got, Handover, Member, Wish};

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
    let gates = local.gates.endpoints.get(member.endpoint as usize);
    let wants = reuse.then(|| member.pool.destination());
    // Who has the place of the endpoint and waits for that of the service is in nobody's way: without
    // the latter nobody can connect to the endpoint.
    if places.endpoint.is_none()
        && let Some(gate) = gates.and_then(|gates| gates.connections.as_ref())
    {
        let endpoint = Some(member.endpoint);
        places.endpoint = match place(worker, client, x, local, (gate, endpoint, wants)).await? {
            Got::Place(permit) => Some(permit.stay()),
            Got::Thing(handover) => return Ok(Room::Given(handover)),
        };
    }
    if let Some(gate) = &local.gates.connections {
        places.service = match place(worker, client, x, local, (gate, None, wants)).await? {
            Got::Place(permit) => Some(permit.stay()),
            Got::Thing(handover) => return Ok(Room::Given(handover)),
        };
    }
    Ok(Room::ToOpen(places))
}

/// Takes the places that a new connection to the member needs beside those of `has`, if they are free and nobody waits for
/// them.
pub(crate) fn place_at_once(
    local: &LocalService,
    member: &Member,
    has: &mut ConnectionPlaces,
) -> Option<ConnectionPlaces> {
    let mut places = std::mem::take(has);
    let endpoint = local.gates.endpoints.get(member.endpoint as usize);
    if places.endpoint.is_none()
        && let Some(gate) = endpoint.and_then(|gates| gates.connections.as_ref())
    {
        places.endpoint = Some(gate.enter()?.stay());
    }
    if let Some(gate) = &local.gates.connections {
        places.service = Some(gate.enter()?.stay());
    }
    Some(places)
}

/// A place at one gate, or a connection that has one.
async fn place(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (gate, endpoint, wants): (&Entrance, Option<u32>, Option<&Destination>),
) -> Result<Got, Fault> {
    // An idle one of our own goes, and its place is ours.
    if let Some(permit) = gate.enter_after(|| evict_here(local, endpoint)) {
        return Ok(Got::Place(permit));
    }
    let bound = if endpoint.is_some() { Bound::EndpointConnections } else { Bound::ServiceConnections };
    let offer = || {
        gate.offer();
        local.state.give_way(endpoint);
        if gate.gate().line().waiting() > 0 {
            evict_anywhere(worker, local, endpoint);
        }
    };
    let wish = Wish { thing: wants.cloned(), gates: None };
    let queue = Queue { line: gate.gate().line(), bound, offer: &offer, wish };
    // In a box because it is rare: every seat would be larger for it.
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
