//! The doors of a worker: its listening sockets, and what happens to a connection that arrives.
//!
//! A connection gets a place here, or is handed to a worker that has fewer, or takes the place of
//! the connection that has been silent longest. When there is no place at all it is answered 503 at
//! once; only [`REFUSALS`] connections can be in that state, the rest wait in the kernel's queue.

use crate::answer::REFUSAL;
use crate::exchange::Client;
use crate::fleet::{Arrival, Command};
use crate::load::Loads;
use crate::owner::Target;
use crate::worker::Worker;
use rustix::fd::OwnedFd;
use slab::Slab;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, Instant};
use thalweg_core::limits::{ACCEPTS_PER_TURN, REFUSAL_TIME, REFUSALS};
use thalweg_net::listen::{Accepted, Acceptor};
use thalweg_net::{Reactor, Socket};
use thalweg_observe::{Limit, ListenerMeters};

/// Receives from a refused connection before it is closed all the same.
const REFUSAL_READS: usize = 16;
/// How long a worker does not accept after the kernel had no descriptor for it.
const REST: Duration = Duration::from_millis(50);

/// Where the connections of a listener are counted, on one worker.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) loads: Arc<Loads>,
    pub(crate) worker: usize,
    pub(crate) meters: Arc<ListenerMeters>,
}

/// A place for a client connection, counted while it is taken. One pointer: every connection has one.
#[derive(Debug)]
pub(crate) struct Place(Rc<Door>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.loads.workers[self.0.worker].clients.fetch_sub(1, Relaxed);
        self.0.meters.active.sub(1);
    }
}

/// The listening sockets of a worker.
#[derive(Debug)]
pub(crate) struct Doors {
    acceptors: Vec<Acceptor>,
    refusals: Slab<Socket>,
    /// Accepting rests until then.
    rest_until: Option<Instant>,
    shut: bool,
    /// These are the last connections: nobody else is asked to take them.
    closing: bool,
}

impl Doors {
    /// Watches the sockets; `true` beside one says that all workers share it.
    pub(crate) fn new(
        reactor: &Rc<Reactor>,
        sockets: impl Iterator<Item = (OwnedFd, bool)>,
    ) -> io::Result<Self> {
        let acceptors = sockets
            .enumerate()
            .map(|(i, (fd, shared))| Acceptor::new(reactor, fd, Target::Acceptor(i as u32).into(), shared));
        Ok(Self {
            acceptors: acceptors.collect::<io::Result<_>>()?,
            refusals: Slab::with_capacity(REFUSALS),
            rest_until: None,
            shut: false,
            closing: false,
        })
    }

    /// Accepts what waits at a door, up to this turn's share; gives those that stay here.
    pub(crate) fn accept(&mut self, worker: &Worker, door: u32) -> Vec<Client> {
        let mut stay = Vec::new();
        for _ in 0..ACCEPTS_PER_TURN {
            if self.shut || !self.accept_one(worker, door, &mut stay) {
                break;
            }
        }
        stay
    }

    fn accept_one(&mut self, worker: &Worker, door: u32, stay: &mut Vec<Client>) -> bool {
        let loads = &worker.shared.loads;
        let own = &loads.workers[worker.id].clients;
        let full = own.load(Relaxed) >= loads.places.load(Relaxed);
        let other = if self.closing { None } else { loads.hand_off(worker.id, worker.chance()) };
        let room = if full { worker.parked.borrow().dispensable(worker.now_ms()) } else { None };
        if full && other.is_none() && room.is_none() && self.refusals.len() >= REFUSALS {
            self.shut_for_now();
            return false;
        }
        let Some(acceptor) = self.acceptors.get(door as usize) else { return false };
        let (fd, peer) = match acceptor.accept() {
            Accepted::Connection(fd, peer) => (fd, peer),
            Accepted::Empty => return false,
            Accepted::Exhausted => {
                worker.meters.limit(Limit::Descriptors);
                self.rest_until = Some(worker.reactor.now() + REST);
                self.shut_for_now();
                return false;
            }
        };
        // A peer on a unix socket is on this machine.
        let peer = peer.map_or((IpAddr::V4(Ipv4Addr::LOCALHOST), 0), |a| (a.ip().to_canonical(), a.port()));
        let arrival = Arrival { fd, peer: peer.0, port: peer.1, listener: door as u16 };
        if let Some(other) = other {
            loads.workers[other].clients.fetch_add(1, Relaxed);
            worker.shared.hand(other, Command::Client(arrival));
            return true;
        }
        if full {
            // The connection that has been silent longest makes room.
            let Some(silent) = room.and_then(|place| worker.parked.borrow_mut().remove(place)) else {
                self.refuse(worker, arrival);
                return true;
            };
            drop(silent);
        }
        own.fetch_add(1, Relaxed);
        stay.extend(Self::welcome(worker, arrival));
        true
    }

    /// Makes a client of a connection whose place is counted already.
    pub(crate) fn welcome(worker: &Worker, arrival: Arrival) -> Option<Client> {
        let view = worker.view();
        let Some(door) = view.listeners.get(arrival.listener as usize).cloned() else {
            worker.shared.loads.workers[worker.id].clients.fetch_sub(1, Relaxed);
            return None;
        };
        door.meters.connections.add(1);
        door.meters.active.add(1);
        let place = Place(door);
        // The owner is set when it is parked or seated, before the reactor is asked again.
        let socket = Socket::accepted(&worker.reactor, arrival.fd, Target::Parked(u32::MAX).into()).ok()?;
        Some(Client {
            socket,
            peer: arrival.peer,
            port: arrival.port,
            listener: arrival.listener,
            requests: 0,
            empty_line: false,
            _place: place,
        })
    }

    fn refuse(&mut self, worker: &Worker, arrival: Arrival) {
        worker.meters.limit(Limit::Connections);
        if let Some(door) = worker.view().listeners.get(arrival.listener as usize) {
            door.meters.refused.add(1);
        }
        let entry = self.refusals.vacant_entry();
        let owner = Target::Refusal(entry.key() as u32).into();
        let Ok(socket) = Socket::accepted(&worker.reactor, arrival.fd, owner) else { return };
        let _ = socket.poll_send(&[IoSlice::new(REFUSAL)]);
        socket.shutdown_write();
        socket.set_deadline(Some(REFUSAL_TIME));
        entry.insert(socket);
    }

    /// Reads what a refused client still says, so that the close does not destroy its answer.
    pub(crate) fn drain_refusal(&mut self, worker: &Worker, index: u32) {
        let Some(socket) = self.refusals.get(index as usize) else { return };
        let mut scratch = worker.scratch.borrow_mut();
        let mut over = true;
        for _ in 0..REFUSAL_READS {
            match socket.poll_recv(&mut scratch) {
                Poll::Ready(Ok(n)) if n > 0 && !socket.expired() => {}
                Poll::Ready(_) => break,
                Poll::Pending => {
                    over = socket.expired();
                    break;
                }
            }
        }
        if over {
            self.refusals.remove(index as usize);
        }
    }

    /// Accepts again when there is room again.
    pub(crate) fn reopen(&mut self, worker: &Worker) {
        if !self.shut {
            return;
        }
        let loads = &worker.shared.loads;
        let room = loads.workers[worker.id].clients.load(Relaxed) < loads.places.load(Relaxed)
            || self.refusals.len() < REFUSALS
            || worker.parked.borrow().dispensable(worker.now_ms()).is_some();
        if room && self.rest_until.is_none_or(|until| until <= worker.reactor.now()) {
            self.rest_until = None;
            self.shut = false;
            self.acceptors.iter_mut().for_each(|acceptor| self.shut |= acceptor.resume().is_err());
        }
    }

    /// Closes the doors for good, after taking in who already waits: closing a SO_REUSEPORT socket
    /// resets the connections in its queue.
    pub(crate) fn close(&mut self, worker: &Worker) -> Vec<Client> {
        let mut last = Vec::new();
        self.closing = true;
        for door in 0..self.acceptors.len() as u32 {
            while self.accept_one(worker, door, &mut last) {}
        }
        self.acceptors.clear();
        last
    }

    fn shut_for_now(&mut self) {
        self.shut = true;
        self.acceptors.iter_mut().for_each(Acceptor::pause);
    }
}
