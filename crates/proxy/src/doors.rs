//! The doors of a worker: its listening sockets, and what happens to a connection that arrives.
//!
//! A connection gets a place here, or is handed to a worker that has fewer, or takes the place of
//! the connection that has been silent longest. When there is no place at all, in the process or for
//! its listener, it is answered 503 at once; only [`REFUSALS`] connections can be in that state, the
//! rest wait in the kernel's queue. A client that has too many is answered 429, and past those
//! connections is closed without an answer: it must not keep others waiting.

use crate::answer::{REFUSAL, REFUSAL_OF_CLIENT};
use crate::clients::Prefix;
use crate::exchange::Client;
use crate::fleet::{Arrival, Command};
use crate::load::{Crowded, Loads};
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
    /// Its position in the plan.
    pub(crate) listener: u16,
    pub(crate) meters: Arc<ListenerMeters>,
}

/// A place for a client connection, counted while it is taken. Two pointers: every connection has one.
#[derive(Debug)]
pub(crate) struct Place {
    door: Rc<Door>,
    /// The client among whose connections it is counted, where these have a bound.
    client: Option<Box<Prefix>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Door { loads, worker, listener, .. } = &*self.door;
        loads.leave(*worker, *listener, self.client.take().map(|client| *client));
        self.door.meters.active.sub(1);
    }
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Refusal {
    /// Every place is taken, in the process or for the listener.
    NoPlace,
    /// The client has as many connections as it may.
    OfClient,
}

/// Who makes room for a new connection, or why none can be taken.
enum Room {
    /// There is a place here.
    Here,
    /// This worker takes it.
    At(usize),
    /// The connection at this place, silent for longest.
    Of(u32),
    /// Nobody yet, but idle connections are about to make room.
    Soon,
    /// The slowest client, of this listener or of all, by the end of the turn and a short drain.
    OfLaggard(Option<u16>),
    /// Nobody. When only its own listener is crowded, the others stay open.
    Nowhere { crowded: bool },
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

    /// Where the next connection of a listener would go. Nothing is given up before it is there.
    fn find_room(&self, worker: &Worker, listener: u16) -> Room {
        match self.find_place(worker, listener) {
            Room::Nowhere { crowded } if !self.closing => {
                let of = crowded.then_some(listener);
                if worker.has_laggard(of) { Room::OfLaggard(of) } else { Room::Nowhere { crowded } }
            }
            room => room,
        }
    }

    fn find_place(&self, worker: &Worker, listener: u16) -> Room {
        let (loads, view) = (&worker.shared.loads, worker.view());
        let most = view.plan.listeners.get(listener as usize).and_then(|listener| listener.max_connections);
        let silent = |of: Option<u16>| worker.parked.borrow().dispensable(worker.now_ms(), of);
        if loads.is_crowded(listener, most) {
            return silent(Some(listener)).map_or(Room::Nowhere { crowded: true }, Room::Of);
        }
        // Memory is everybody's: when it is full, others have no room either.
        let is_full = worker.pressure.is_full();
        if is_full || !loads.budget.has_room_for_a_client(&loads.used()) {
            let parked = worker.parked.borrow();
            return match parked.speechless(worker.now_ms()) {
                Some(place) if !is_full => Room::Of(place),
                // One idle connection is not enough for one that may bring a full queue.
                _ if parked.idle().is_some() => {
                    worker.pressure.ask_for_room();
                    Room::Soon
                }
                _ => Room::Nowhere { crowded: false },
            };
        }
        let other = if self.closing { None } else { loads.hand_off(worker.id, worker.chance()) };
        let full = loads.workers[worker.id].clients.load(Relaxed) >= loads.places.load(Relaxed);
        match (other, full) {
            (Some(other), _) => Room::At(other),
            (None, false) => Room::Here,
            (None, true) => silent(None).map_or(Room::Nowhere { crowded: false }, Room::Of),
        }
    }

    fn accept_one(&mut self, worker: &Worker, door: u32, stay: &mut Vec<Client>) -> bool {
        // What has been accepted in this turn is not parked yet.
        let fresh = worker.parked.borrow().fresh() + stay.len();
        worker.shared.loads.workers[worker.id].fresh.store(fresh, Relaxed);
        let room = self.find_room(worker, door as u16);
        if matches!(room, Room::Soon) && !self.closing {
            self.shut_for_now();
            return false;
        }
        if let Room::Nowhere { crowded } = room
            && self.refusals.len() >= REFUSALS
        {
            match self.acceptors.get_mut(door as usize) {
                Some(acceptor) if crowded => {
                    self.shut = true;
                    acceptor.pause();
                }
                _ => self.shut_for_now(),
            }
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
        let client = peer.map(|peer| peer.ip().to_canonical());
        // A peer on a unix socket is on this machine.
        let peer = peer.map_or((IpAddr::V4(Ipv4Addr::LOCALHOST), 0), |a| (a.ip().to_canonical(), a.port()));
        let arrival = Arrival { fd, peer: peer.0, port: peer.1, listener: door as u16, client: None };
        if let Room::Nowhere { .. } = room {
            self.refuse(worker, arrival, Refusal::NoPlace);
            return true;
        }
        match enter(worker, arrival, client, &room) {
            Ok(arrival) => self.place(worker, arrival, &room, stay),
            Err((arrival, refusal)) => self.refuse(worker, arrival, refusal),
        }
        true
    }

    /// Brings a connection that has entered to its place.
    fn place(&self, worker: &Worker, arrival: Arrival, room: &Room, stay: &mut Vec<Client>) {
        let loads = &worker.shared.loads;
        if let Room::At(other) = room {
            loads.workers[*other].clients.fetch_add(1, Relaxed);
            return worker.shared.hand(*other, Command::Client(arrival));
        }
        if let Room::Of(silent) = room {
            let silent = worker.parked.borrow_mut().remove(*silent);
            drop(silent);
        }
        if let Room::OfLaggard(of) = room {
            worker.call_off_laggard(*of);
        }
        loads.workers[worker.id].clients.fetch_add(1, Relaxed);
        stay.extend(Self::welcome(worker, arrival));
    }

    /// Makes a client of a connection whose place is counted already.
    pub(crate) fn welcome(worker: &Worker, arrival: Arrival) -> Option<Client> {
        let view = worker.view();
        // Every plan has the listeners of the first one.
        let door = view.listeners.get(arrival.listener as usize)?.clone();
        door.meters.connections.add(1);
        door.meters.active.add(1);
        let place = Place { door, client: arrival.client };
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

    fn refuse(&mut self, worker: &Worker, arrival: Arrival, refusal: Refusal) {
        let (limit, answer) = match refusal {
            Refusal::NoPlace => (Limit::Connections, REFUSAL),
            Refusal::OfClient => (Limit::ConnectionsPerClient, REFUSAL_OF_CLIENT),
        };
        worker.meters.limit(limit);
        if let Some(door) = worker.view().listeners.get(arrival.listener as usize) {
            door.meters.refused.add(1);
        }
        if self.refusals.len() >= REFUSALS {
            return worker.meters.limit(Limit::Refusals);
        }
        let entry = self.refusals.vacant_entry();
        let owner = Target::Refusal(entry.key() as u32).into();
        let Ok(socket) = Socket::accepted(&worker.reactor, arrival.fd, owner) else { return };
        let _ = socket.poll_send(&[IoSlice::new(answer)]);
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
        if self.rest_until.is_some_and(|until| until > worker.reactor.now()) {
            return;
        }
        self.rest_until = None;
        self.shut = false;
        for door in 0..self.acceptors.len() {
            let room = match self.find_room(worker, door as u16) {
                Room::Nowhere { .. } => self.refusals.len() < REFUSALS,
                Room::Soon => false,
                Room::Here | Room::At(_) | Room::Of(_) | Room::OfLaggard(_) => true,
            };
            let acceptor = &mut self.acceptors[door];
            self.shut |= if room { acceptor.resume().is_err() } else { acceptor.is_paused() };
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

/// Counts a connection for its listener and its client, unless one of them has as many as it may.
/// Proxies that are trusted bring the connections of many clients, and are not counted.
fn enter(
    worker: &Worker,
    mut arrival: Arrival,
    client: Option<IpAddr>,
    room: &Room,
) -> Result<Arrival, (Arrival, Refusal)> {
    let (loads, view) = (&worker.shared.loads, worker.view());
    let most = view.plan.listeners.get(arrival.listener as usize).and_then(|l| l.max_connections);
    // A laggard that makes room is counted until it has gone.
    let most = most.filter(|_| !matches!(room, Room::OfLaggard(_)));
    let per_client = view.plan.limits.max_connections_per_client;
    let client = client.filter(|client| per_client > 0 && !view.plan.trusts(*client)).map(Prefix::from);
    match loads.enter((arrival.listener, most), client.map(|client| (client, per_client))) {
        Ok(()) => {
            arrival.client = client.map(Box::new);
            Ok(arrival)
        }
        Err(Crowded::Client) => Err((arrival, Refusal::OfClient)),
        Err(Crowded::Listener) => Err((arrival, Refusal::NoPlace)),
    }
}
