//! Idle connections to one member, of one worker: last in, first out.
//!
//! The newest connection is the likeliest to be alive and warm; the oldest ones pass their idle
//! deadline and go, so the pool sizes itself to what is in use at once. A connection that the other
//! side closed, or that says something unasked, is noticed from readiness that epoll has already
//! reported: taking one costs no system call.

use crate::gate::Permit;
use crate::service::PoolPolicy;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;
use thalweg_net::{Owner, Socket};

/// Open upstream sockets of a worker.
#[derive(Clone, Debug, Default)]
pub struct OpenCount(Rc<Cell<usize>>);

impl OpenCount {
    /// How many are open, idle ones included.
    pub fn current(&self) -> usize {
        self.0.get()
    }
}

/// A connection to an endpoint. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: Socket,
    /// Requests that have been sent on it.
    pub requests: u32,
    /// It was opened while many receivers were slow, with a small receive window.
    pub narrow: bool,
    opened: Instant,
    count: OpenCount,
    permits: ConnectionPermits,
}

/// The places that a connection takes at the gates of its endpoint and its service.
#[derive(Debug, Default)]
pub struct ConnectionPermits {
    /// At that of the endpoint, if it has one.
    pub endpoint: Option<Permit>,
    /// At that of the service, if it has one.
    pub service: Option<Permit>,
}

impl ConnectionPermits {
    fn are_wanted(&self) -> bool {
        [&self.endpoint, &self.service].into_iter().flatten().any(Permit::is_wanted)
    }

    fn serve(&self, wants: usize) -> bool {
        [&self.endpoint, &self.service].into_iter().flatten().any(|permit| permit.serve(wants))
    }
}

impl Connection {
    /// A new connection, counted while it is open.
    pub fn new(socket: Socket, now: Instant, count: &OpenCount) -> Self {
        count.0.set(count.0.get() + 1);
        Self {
            socket,
            requests: 0,
            narrow: false,
            opened: now,
            count: count.clone(),
            permits: ConnectionPermits::default(),
        }
    }

    /// Gives it the places that it takes; they are left when it is closed.
    pub fn with(mut self, permits: ConnectionPermits) -> Self {
        self.permits = permits;
        self
    }

    /// Whether a request has been sent on it before the current one.
    pub fn is_reused(&self) -> bool {
        self.requests > 1
    }

    fn is_usable(&self) -> bool {
        !self.socket.is_readable() && !self.socket.peer_closed() && !self.socket.expired()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.count.0.set(self.count.0.get() - 1);
    }
}

/// The idle connections.
#[derive(Debug, Default)]
pub struct Pool {
    idle: RefCell<Vec<Connection>>,
    /// How many of them are there for somebody who was told so.
    promised: Cell<usize>,
}

impl Pool {
    /// What stands for this pool in [`crate::Line::join_for`]: who waits with it can be served from here.
    pub fn key(self: &Rc<Self>) -> usize {
        Rc::as_ptr(self) as usize
    }

    /// As [`Self::take`], for somebody who was told that a connection is there; it may have died since.
    pub fn take_promised(&self, policy: &PoolPolicy, now: Instant, sure: bool) -> Option<Connection> {
        self.promised.set(self.promised.get().saturating_sub(1));
        self.take(policy, now, sure)
    }

    /// The newest usable connection that is not promised to somebody; unusable ones on the way are closed. `sure` asks the kernel once
    /// more, for requests that could not be sent again.
    pub fn take(&self, policy: &PoolPolicy, now: Instant, sure: bool) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        while idle.len() > self.promised.get() {
            let Some(connection) = idle.pop() else { break };
            let young = now.saturating_duration_since(connection.opened) < policy.max_age;
            if young && connection.is_usable() && (!sure || connection.socket.is_quiet()) {
                connection.socket.set_deadline(None);
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose last exchange ended cleanly, or closes it when the policy says so or
    /// when somebody waits for its place. Who waits for a connection of this very pool gets it.
    pub fn put(self: &Rc<Self>, connection: Connection, policy: &PoolPolicy, owner: Owner) {
        let mut idle = self.idle.borrow_mut();
        let full = policy.max_idle.is_some_and(|most| idle.len() >= most as usize);
        if full || connection.requests >= policy.max_requests || !connection.is_usable() {
            return;
        }
        if connection.permits.are_wanted() {
            if !connection.permits.serve(self.key()) {
                return;
            }
            self.promised.set(self.promised.get() + 1);
        }
        connection.socket.set_owner(owner);
        connection.socket.set_deadline(Some(policy.idle));
        idle.push(connection);
    }

    /// Closes what the other side closed, what spoke unasked and what passed its idle deadline.
    pub fn sweep(&self) {
        self.idle.borrow_mut().retain(Connection::is_usable);
    }

    /// Closes the oldest idle connection that is not promised; says whether there was one.
    pub fn evict(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        if idle.len() <= self.promised.get() {
            return false;
        }
        idle.remove(0);
        true
    }

    /// Idle connections now.
    pub fn len(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Whether none is idle but those that are promised.
    pub fn is_empty(&self) -> bool {
        self.len() <= self.promised.get()
    }
}
