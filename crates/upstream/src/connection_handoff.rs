//! A connection on its way from one exchange to another that waits for it, whichever worker that is on.
//!
//! Where `max_connections` is reached, a connection that is no longer in use goes to the first in line
//! that can use it, instead of being closed for its place: opening another costs a round trip. It is off
//! the reactor of its old worker and keeps its places, its age and its count of requests. Whoever drops it
//! on the way (the waiter has gone, the proxy stops) closes it and leaves its places to the next in line.
//!
//! Made by `connection.rs`, handed to somebody in line by `concurrency.rs`, put to use by `proxy`.

use crate::concurrency::{self, Alternative};
use crate::endpoint_state::EndpointState;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;
use thalweg_net::DetachedSocket;

/// Where a connection leads: those of one destination can stand in for each other. It is one address of an
/// endpoint as long as its service has it; where a bound on connections comes or goes, it is another one.
#[derive(Clone, Debug)]
pub struct Destination(pub Arc<EndpointState>);

impl PartialEq for Destination {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The places that a connection takes at the concurrency limits of its endpoint and its service.
#[derive(Debug)]
pub struct ConnectionPlaces<T: Alternative = Handover> {
    /// At that of the endpoint, if it has one.
    pub endpoint: Option<concurrency::OwnedPermit<T>>,
    /// At that of the service, if it has one.
    pub service: Option<concurrency::OwnedPermit<T>>,
}

impl<T: Alternative> Default for ConnectionPlaces<T> {
    fn default() -> Self {
        Self { endpoint: None, service: None }
    }
}

impl<T: Alternative> ConnectionPlaces<T> {
    /// The concurrency limits at which somebody waits for one of the places.
    pub(crate) fn wanted_at(&self) -> impl Iterator<Item = &Arc<concurrency::ConcurrencyLimit<T>>> {
        let both = [&self.endpoint, &self.service].into_iter().flatten();
        both.filter(|place| place.is_wanted()).map(concurrency::OwnedPermit::concurrency)
    }

    /// Whether somebody waits for one of the places.
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted_at().next().is_some()
    }
}

/// A connection that is off its reactor. Dropping it closes it.
#[derive(Debug)]
pub struct Handover<L: Debug + Send = DetachedSocket> {
    pub(crate) wire: L,
    pub(crate) requests: u32,
    pub(crate) narrow: bool,
    pub(crate) opened: Instant,
    pub(crate) places: ConnectionPlaces<Self>,
}

impl<L: Debug + Send> Alternative for Handover<L> {
    type Kind = Destination;
}

// The bounds of `concurrency.rs`, at which a connection is what somebody in line can be given.

/// A bound on what is under way at once.
pub type ConcurrencyLimit<T = Handover> = concurrency::ConcurrencyLimit<T>;
/// A bound as one worker has it.
pub type LimitHandle<T = Handover> = concurrency::LimitHandle<T>;
/// Those who wait at a bound.
pub type WaitQueue<T = Handover> = concurrency::WaitQueue<T>;
/// What somebody in line waits for.
pub type WaitFor<T = Handover> = concurrency::WaitFor<T>;
/// Somebody in line.
pub type Wait<T = Handover> = concurrency::Wait<T>;
/// How a wait ended well.
pub type Acquired<T = Handover> = concurrency::Acquired<T>;
/// A place, of one worker.
pub type Permit<T = Handover> = concurrency::Permit<T>;
/// A place that can go from worker to worker.
pub type OwnedPermit<T = Handover> = concurrency::OwnedPermit<T>;
