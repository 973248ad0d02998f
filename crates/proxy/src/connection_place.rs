//! Part of phase 5: a place for a new connection within the bounds of its endpoint and its service.
//!
//! Idle connections take places too. When none is left, one of them goes: here at once, on another
//! worker by a command. As long as somebody waits, no pool keeps a connection (`Pool::put`).

use crate::await_place::{Bound, Queue, await_place};
use crate::exchange::{Client, Exchange};
use crate::fleet::{Command, Eviction};
use crate::view::LocalService;
use crate::worker::Worker;
use std::sync::Arc;
use thalweg_core::Fault;
use thalweg_upstream::{ConnectionPermits, Entrance, Permit};

/// Takes the places that a new connection to the endpoint needs. Cancel-safe.
///
/// # Errors
/// When none became free in time, or the client left.
pub(crate) async fn connection_place(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    endpoint: u32,
) -> Result<ConnectionPermits, Fault> {
    let gates = local.gates.endpoints.get(endpoint as usize);
    let mut permits = ConnectionPermits::default();
    // Who has the place of the endpoint and waits for that of the service is in nobody's way: without
    // the latter nobody can connect to the endpoint.
    if let Some(gate) = gates.and_then(|gates| gates.connections.as_ref()) {
        permits.endpoint = Some(place(worker, client, x, local, (gate, Some(endpoint))).await?);
    }
    if let Some(gate) = &local.gates.connections {
        permits.service = Some(place(worker, client, x, local, (gate, None)).await?);
    }
    Ok(permits)
}

async fn place(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (gate, endpoint): (&Entrance, Option<u32>),
) -> Result<Permit, Fault> {
    if let Some(permit) = gate.enter() {
        return Ok(permit);
    }
    // An idle one of our own goes; its place is ours, unless somebody came before.
    if evict_here(local, endpoint)
        && let Some(permit) = gate.enter()
    {
        return Ok(permit);
    }
    let bound = if endpoint.is_some() { Bound::EndpointConnections } else { Bound::ServiceConnections };
    let offer = || {
        gate.offer();
        evict_elsewhere(worker, local, endpoint);
    };
    let queue = Queue { line: gate.gate().line(), bound, offer: &offer };
    await_place(worker, client, x, local, queue).await
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
