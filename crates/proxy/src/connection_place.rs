//! Part of phase 5: a place for a new connection within the bounds of its endpoint and its service.
//!
//! Idle connections take places too. When none is left, one of them goes: here at once, on another
//! worker by a command. As long as somebody waits, no pool keeps a connection for later (`Pool::put`):
//! it goes to somebody who waits for one of the same worker and member, or is closed.

use crate::await_place::{Bound, Queue, await_turn};
use crate::exchange::{Client, Exchange};
use crate::fleet::{Command, Eviction};
use crate::view::LocalService;
use crate::worker::Worker;
use std::sync::Arc;
use thalweg_core::Fault;
use thalweg_upstream::{ConnectionPermits, Entrance, Member, Permit};

/// How a connection is to be had.
#[derive(Debug)]
pub(crate) enum Room {
    /// A new one may be opened.
    ToOpen(ConnectionPermits),
    /// One has been put into the member's pool for this exchange.
    InPool,
}

/// Takes the places that a new connection to the member needs; with `reuse`, one that another exchange
/// is done with does too. Cancel-safe.
///
/// # Errors
/// When none became free in time, or the client left.
pub(crate) async fn connection_place(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (member, reuse): (&Member, bool),
) -> Result<Room, Fault> {
    let gates = local.gates.endpoints.get(member.endpoint as usize);
    let wants = if reuse { member.pool.key() } else { 0 };
    let mut permits = ConnectionPermits::default();
    // Who has the place of the endpoint and waits for that of the service is in nobody's way: without
    // the latter nobody can connect to the endpoint.
    if let Some(gate) = gates.and_then(|gates| gates.connections.as_ref()) {
        let endpoint = Some(member.endpoint);
        permits.endpoint = place(worker, client, x, local, (gate, endpoint, wants)).await?;
        if permits.endpoint.is_none() {
            return Ok(Room::InPool);
        }
    }
    if let Some(gate) = &local.gates.connections {
        permits.service = place(worker, client, x, local, (gate, None, wants)).await?;
        if permits.service.is_none() {
            return Ok(Room::InPool);
        }
    }
    Ok(Room::ToOpen(permits))
}

/// A place at one gate, or `None`: a connection is in the pool.
async fn place(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (gate, endpoint, wants): (&Entrance, Option<u32>, usize),
) -> Result<Option<Permit>, Fault> {
    if let Some(permit) = gate.enter() {
        return Ok(Some(permit));
    }
    // An idle one of our own goes, and its place is ours.
    if gate.gate().line().waiting() == 0
        && evict_here(local, endpoint)
        && let Some(permit) = gate.enter()
    {
        return Ok(Some(permit));
    }
    let bound = if endpoint.is_some() { Bound::EndpointConnections } else { Bound::ServiceConnections };
    let offer = || {
        gate.offer();
        if gate.gate().line().waiting() > 0 && !evict_here(local, endpoint) {
            evict_elsewhere(worker, local, endpoint);
        }
    };
    let queue = Queue { line: gate.gate().line(), bound, offer: &offer, wants };
    // In a box because it is rare: every seat would be larger for it.
    Box::pin(await_turn(worker, client, x, local, queue)).await
}

fn evict_here(local: &LocalService, endpoint: Option<u32>) -> bool {
    match endpoint {
        Some(endpoint) => local.state.evict_from(endpoint),
        None => local.state.evict(),
    }
}

fn evict_elsewhere(worker: &Worker, local: &LocalService, endpoint: Option<u32>) {
    let service = &local.state.service;
    let endpoint = endpoint.and_then(|endpoint| service.endpoints.get(endpoint as usize));
    let eviction =
        Arc::new(Eviction { service: service.name.clone(), endpoint: endpoint.map(|e| e.url.clone()) });
    for other in (0..worker.shared.loads.workers.len()).filter(|other| *other != worker.id) {
        worker.shared.hand(other, Command::Evict(eviction.clone()));
    }
}
