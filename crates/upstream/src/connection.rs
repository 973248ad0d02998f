//! A connection to an endpoint, and how many of them a worker has open.
//!
//! Made by the proxy when it has connected, kept by `pool.rs` between exchanges, or handed to an exchange that waits
//! for it ([`Handover`]).

use crate::connection_handoff::{ConnectionPlaces, Destination, Handover};
use crate::service::PoolPolicy;
use crate::wire::Wire;
use std::cell::Cell;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Instant;
use thalweg_net::Socket;

/// Open upstream sockets of a worker.
#[derive(Clone, Debug, Default)]
pub struct OpenCount(Rc<Cell<usize>>);

impl OpenCount {
    /// How many are open, idle ones included.
    pub fn current(&self) -> usize {
        self.0.get()
    }

    pub(crate) fn one_more(&self) -> Counted {
        self.0.set(self.0.get() + 1);
        Counted(self.clone())
    }
}

/// One of the open ones, while it lives.
#[derive(Debug)]
pub(crate) struct Counted(OpenCount);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

/// A connection to an endpoint. Dropping it closes it.
#[derive(Debug)]
pub struct Connection<W: Wire = Socket> {
    // In this order: closed first, then uncounted, then its places are left.
    /// What it runs over.
    pub socket: W,
    /// Requests that have been sent on it.
    pub requests: u32,
    /// It was opened while many receivers were slow, with a small receive window.
    pub narrow: bool,
    pub(crate) opened: Instant,
    /// `None`: it is a stream of a connection that is counted itself.
    pub(crate) counted: Option<Counted>,
    pub(crate) places: ConnectionPlaces<Handover<W::DetachedSocket>>,
}

impl<W: Wire> Connection<W> {
    /// A new connection, counted while it is open.
    pub fn new(wire: W, now: Instant, count: &OpenCount) -> Self {
        let places = ConnectionPlaces::default();
        let counted = Some(count.one_more());
        Self { socket: wire, requests: 0, narrow: false, opened: now, counted, places }
    }

    /// A stream of a multiplexed connection that carried so many requests before.
    pub(crate) fn stream(wire: W, opened: Instant, requests: u32) -> Self {
        let places = ConnectionPlaces::default();
        Self { socket: wire, requests, narrow: false, opened, counted: None, places }
    }

    /// Gives it the places that it takes; they are left when it is closed.
    pub fn with(mut self, places: ConnectionPlaces<Handover<W::DetachedSocket>>) -> Self {
        self.places = places;
        self
    }

    /// Whether somebody waits for one of its places.
    pub fn is_wanted(&self) -> bool {
        self.places.are_wanted()
    }

    /// Whether a request has been sent on it before the current one.
    pub fn is_reused(&self) -> bool {
        self.requests > 1
    }

    /// Hands it to the first who waits for one of its destination; where there is nobody, it is closed.
    pub(crate) fn hand_over(self, destination: &Destination) {
        let concurrency =
            self.places.wanted_at().find(|concurrency| concurrency.line().wants(destination)).cloned();
        let Some(concurrency) = concurrency else { return };
        let Self { socket, requests, narrow, opened, places, .. } = self;
        let handover = Handover { wire: socket.loosen(), requests, narrow, opened, places };
        // Somebody else may just have served who wanted it: then it is closed.
        let _ = concurrency.line().give(destination, handover);
    }
}

impl<L: Debug + Send> Handover<L> {
    /// The connection, on this worker's reactor, where `watch` puts what it runs over.
    ///
    /// # Errors
    /// Its places, for another one, when it has ended on the way, is too old or has been used too often.
    pub fn receive<W: Wire<DetachedSocket = L>>(
        self,
        policy: &PoolPolicy,
        now: Instant,
        count: &OpenCount,
        watch: impl FnOnce(L) -> Option<W>,
    ) -> Result<Connection<W>, ConnectionPlaces<Self>> {
        let Self { wire, requests, narrow, opened, places } = self;
        // A reload may have changed the policy since it was handed on.
        let young = now.saturating_duration_since(opened) < policy.max_age && requests < policy.max_requests;
        // What has happened to it before it was watched here, only the kernel knows.
        match watch(wire).filter(|wire| young && wire.is_quiet()) {
            Some(socket) => {
                let counted = Some(count.one_more());
                Ok(Connection { socket, requests, narrow, opened, counted, places })
            }
            None => Err(places),
        }
    }
}
