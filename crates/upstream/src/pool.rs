//! Idle connections to one member, of one worker: last in, first out, unless the policy asks for the oldest first.
//!
//! The newest connection is the likeliest to be alive and warm; the oldest ones pass their idle
//! deadline and go, so the pool sizes itself to what is in use at once. A connection that the other
//! side closed, or that says something unasked, is noticed from readiness that epoll has already
//! reported: taking one costs no system call. Where connections have a bound and somebody waits for one,
//! none is kept: it is handed over ([`crate::Handover`]), or closed for its place.

use crate::connection::Connection;
use crate::connection_handoff::Destination;
use crate::multiplexed::MultiplexedPool;
use crate::service::PoolPolicy;
use crate::wire::Wire;
use std::cell::{Cell, RefCell};
use std::time::Instant;
use thalweg_net::{Owner, Socket};

/// The idle connections.
#[derive(Debug)]
pub struct Pool<W: Wire = Socket> {
    destination: Destination,
    idle: RefCell<Vec<Connection<W>>>,
    /// Those that carry several requests at once.
    pub multiplexed_pool: MultiplexedPool<W>,
    /// Its member has left the service.
    closed: Cell<bool>,
}

impl<W: Wire> Pool<W> {
    /// A pool without connections.
    pub fn new(destination: Destination) -> Self {
        Self {
            destination,
            idle: RefCell::default(),
            multiplexed_pool: MultiplexedPool::default(),
            closed: Cell::new(false),
        }
    }

    /// Where its connections lead.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The newest usable connection, or the oldest where the policy says so; unusable ones on the way are closed.
    /// `sure` asks the kernel once more, for requests that could not be sent again.
    pub fn take(&self, policy: &PoolPolicy, now: Instant, sure: bool) -> Option<Connection<W>> {
        // Closing one calls nobody who could come back here: who gets its place is only woken.
        let mut idle = self.idle.borrow_mut();
        let next = |idle: &mut Vec<Connection<W>>| match policy.oldest_first {
            true => (!idle.is_empty()).then(|| idle.remove(0)),
            false => idle.pop(),
        };
        while let Some(connection) = next(&mut idle) {
            let young = now.saturating_duration_since(connection.opened) < policy.max_age
                && connection.requests < policy.max_requests;
            if young && !connection.socket.is_spent() && (!sure || connection.socket.is_quiet()) {
                connection.socket.set_deadline(None);
                connection.socket.rest(false);
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose last exchange ended cleanly, or closes it when the policy says so. When
    /// somebody waits for one of its places, it is handed to who can use it, or closed.
    pub fn put(&self, connection: Connection<W>, policy: &PoolPolicy, owner: Owner) {
        if connection.counted.is_none() {
            return;
        }
        connection.socket.rest(true);
        if self.closed.get() || connection.requests >= policy.max_requests || connection.socket.is_spent() {
            return;
        }
        if connection.places.are_wanted() {
            connection.hand_over(&self.destination);
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if policy.max_idle.is_some_and(|most| idle.len() >= most as usize) {
            return;
        }
        connection.socket.set_owner(owner);
        connection.socket.set_deadline(Some(policy.idle));
        idle.push(connection);
    }

    /// Closes what the other side closed, what spoke unasked and what passed its idle deadline.
    pub fn sweep(&self) {
        self.idle.borrow_mut().retain(|connection| !connection.socket.is_spent());
        self.multiplexed_pool.sweep();
    }

    /// Closes all, and keeps none from now on.
    pub fn close(&self) {
        self.closed.set(true);
        self.idle.borrow_mut().clear();
        self.multiplexed_pool.close();
    }

    /// Closes the oldest idle connection; says whether there was one.
    pub fn evict(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let evicted = (!idle.is_empty()).then(|| idle.remove(0));
        evicted.is_some() || self.multiplexed_pool.evict()
    }

    /// Hands idle connections, the newest first, to those who wait for one.
    pub fn hand_over(&self) {
        self.sweep();
        let mut idle = self.idle.borrow_mut();
        let is_wanted = |connection: &mut Connection<W>| {
            connection.places.wanted_at().any(|concurrency| concurrency.line().wants(&self.destination))
        };
        while let Some(connection) = idle.pop_if(is_wanted) {
            connection.hand_over(&self.destination);
        }
    }

    /// Closes the oldest idle connections as long as somebody waits for one of their places: more than one
    /// where several wait, or where the bound has been lowered. MultiplexedPool on which nothing is under way go too;
    /// busy ones see to it themselves.
    pub fn give_way(&self) {
        while self.multiplexed_pool.evict() {}
        let mut idle = self.idle.borrow_mut();
        while idle.first().is_some_and(|oldest| oldest.places.are_wanted()) {
            drop(idle.remove(0));
        }
    }

    /// Whether a request needs no new connection.
    pub fn has_room(&self) -> bool {
        !self.idle.borrow().is_empty() || self.multiplexed_pool.has_room()
    }

    /// Idle connections now.
    pub fn len(&self) -> usize {
        self.idle.borrow().len() + self.multiplexed_pool.idle()
    }

    /// Whether none is idle.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
