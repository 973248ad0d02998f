//! Idle connections to one member, of one worker: last in, first out, unless the policy asks for the oldest first.
//!
//! The newest connection is the likeliest to be alive and warm; the oldest ones pass their idle
//! deadline and go, so the pool sizes itself to what is in use at once. A connection that the other
//! side closed, or that says something unasked, is noticed from readiness that epoll has already
//! reported: taking one costs no system call. Where connections have a bound and somebody waits for one,
//! none is kept: it is handed over ([`Handover`]), or closed for its place.

use crate::connection_handoff::{ConnectionPlaces, Destination, Handover};
use crate::multiplexed::MultiplexedPool;
use crate::service::PoolPolicy;
use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg_net::{DetachedSocket, Owner, Socket};

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

/// What a connection runs over: a [`Socket`], or what stands for one in a simulation.
pub trait Wire: Debug {
    /// The same off its reactor, able to go to another worker. Dropping it closes it.
    type DetachedSocket: Debug + Send;
    /// Whether it can carry no further request, as far as events have told: it has ended, or spoken
    /// unasked, or its deadline has passed.
    fn is_spent(&self) -> bool;
    /// Whether the kernel knows of nothing to receive: no byte, no end, no error. One system call.
    fn is_quiet(&self) -> bool;
    /// Who is called from now on.
    fn set_owner(&self, owner: Owner);
    /// Sets (or with `None` takes away) its deadline, from now on.
    fn set_deadline(&self, after: Option<Duration>);
    /// Says whether nothing is under way on it.
    fn rest(&self, at_rest: bool);
    /// Takes it off its reactor.
    fn loosen(self) -> Self::DetachedSocket;
}

impl Wire for Socket {
    type DetachedSocket = DetachedSocket;

    fn is_spent(&self) -> bool {
        self.peer_closed() || self.expired() || !self.is_silent()
    }

    fn is_quiet(&self) -> bool {
        Self::is_quiet(self)
    }

    fn set_owner(&self, owner: Owner) {
        Self::set_owner(self, owner);
    }

    fn set_deadline(&self, after: Option<Duration>) {
        Self::set_deadline(self, after);
    }

    fn rest(&self, at_rest: bool) {
        Self::rest(self, at_rest);
    }

    fn loosen(self) -> DetachedSocket {
        self.unwatch()
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
    fn hand_over(self, destination: &Destination) {
        let concurrency =
            self.places.wanted_at().find(|concurrency| concurrency.line().wants(destination)).cloned();
        let Some(concurrency) = concurrency else { return };
        let Self { socket, requests, narrow, opened, places, .. } = self;
        let handover = Handover { wire: socket.loosen(), requests, narrow, opened, places };
        // Somebody else may just have served who wanted it: then it is closed.
        let _ = concurrency.line().give(destination, handover);
    }
}

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
