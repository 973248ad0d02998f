//! The acceptors of a worker: its listening sockets, and what happens to a connection that arrives.
//!
//! A connection gets a place here, or is handed to a worker that has fewer, or takes the place of
//! the connection that has been silent longest. When there is no place at all, in the process or for
//! its listener, it is answered 503 at once; only [`REFUSALS`] connections can be in that state, the
//! rest wait in the kernel's queue. A client that has too many is answered 429, and past those
//! connections is closed without an answer: it must not keep others waiting. Answers name the bound; the access log has
//! a line for the first ones of each second (`refusals.rs`).
//!
//! When a plan arrives, the acceptors of its listeners open and those of listeners that are gone close (`take_over`).
//! What closing cannot avoid: the kernel resets a connection that comes between the last look into the queue and the
//! close, some microseconds apart, and one whose first bytes take longer than [`CLOSING_TIME`] after its
//! handshake. Nothing of either has been accepted.

use crate::exchange::local_reply::refusal;
use crate::listener::access::{DENIED, refusal as refusal_of_address};
use crate::listener::refusals::Bound;
use crate::plan::{Listener, ListenerProtocol, Silence};
use crate::state::acceptors::{Acceptors, Open};
use crate::state::client_limits::Prefix;
use crate::state::exchange::{Before, Client};
use crate::state::listener_sockets::{ListenerId, ListenerState, Sockets};
use crate::state::load::Crowded;
use crate::state::local_listener::{ConnectionGuard, ListenerTransport, LocalListener};
use crate::state::local_plan::LocalPlan;
use crate::state::shared::{AcceptedConnection, Command};
use crate::state::token::Token;
use crate::state::worker::Worker;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;
use thalweg_core::limits::{ACCEPTS_PER_TURN, CLOSING_TIME, FIRST_WORD_TIME, REFUSAL_TIME, REFUSALS};
use thalweg_net::Socket;
use thalweg_net::listen::{Accepted, Acceptor};
use thalweg_observe::Limit;
use thalweg_tls::Refused;

/// Receives from a refused connection before it is closed all the same.
const REFUSAL_READS: usize = 16;
/// How long a worker does not accept after the kernel had no descriptor for it.
const REST: Duration = Duration::from_millis(50);

/// Who makes room for a new connection, or why none can be taken.
enum Room {
    /// There is a place here.
    Here,
    /// This worker takes it.
    At(usize),
    /// The connection at this place, silent for longest.
    Of(u32),
    /// The one of HTTP/2 on which nothing has been under way for longest, of this listener or of all.
    OfSession(Option<ListenerId>),
    /// Nobody yet, but idle connections are about to make room.
    Soon,
    /// The slowest client, of this listener or of all, by the end of the turn and a short drain.
    OfSlowClient(Option<ListenerId>),
    /// Nobody, by this bound. When only its own listener is crowded, the others stay open.
    Nowhere(Bound),
}

impl Acceptors {
    /// Opens the listeners of a plan and closes all others. Returns the removed listeners, which still use the
    /// previous plan.
    pub(crate) fn take_over(&mut self, worker: &Worker, view: &Rc<LocalPlan>) -> Vec<Rc<LocalListener>> {
        let current = &view.current;
        self.newest = current.listeners.iter().map(|open| open.state.id).fold(self.newest, ListenerId::max);
        if self.closing {
            // Those of datagrams too: nobody new is served there.
            current.listeners.iter().for_each(|open| while open.sockets.take(worker.id).is_some() {});
            return Vec::new();
        }
        let (mut gone, silence) = (Vec::new(), current.plan.silence());
        let mut kept = Vec::with_capacity(current.listeners.len());
        for ((listener, position), open) in current.plan.listeners.iter().zip(0..).zip(&*current.listeners) {
            if listener.protocol == ListenerProtocol::Udp {
                // `udp/ports.rs` sees to it.
                continue;
            }
            let is_its = |known: &Open| Arc::ptr_eq(&known.seat.sockets, &open.sockets);
            let mut keys: Vec<_> =
                self.open.iter().filter(|(_, known)| is_its(known)).map(|(key, _)| key).collect();
            while let Some(key) = self.add(worker, &open.state, &open.sockets) {
                keys.push(key);
            }
            for key in keys {
                let known = &mut self.open[key];
                if known.local_listener.state.id != open.state.id {
                    let local_listener = LocalListener::new(&worker.shared.loads, worker.id, &open.state);
                    gone.push(std::mem::replace(&mut known.local_listener, local_listener));
                }
                known.local_listener.hold(view, position, listener);
                known.set_defer(listener.defer_accept);
                known.set_silence(silence, listener);
                known.closes_at = None;
                kept.push(key);
            }
        }
        let now = worker.reactor.now();
        for (_, open) in
            self.open.iter_mut().filter(|(key, open)| !kept.contains(key) && open.closes_at.is_none())
        {
            // Who has not spoken yet would be reset unseen: from here on everybody is handed over at once.
            open.set_defer(false);
            open.closes_at = Some(now + CLOSING_TIME);
            gone.push(open.local_listener.clone());
        }
        for local_listener in &gone {
            local_listener.leave();
            self.left.push((now + CLOSING_TIME + FIRST_WORD_TIME, local_listener.clone()));
        }
        gone
    }

    /// Opens a socket of a listener; `None` when all are open, or the kernel cannot watch one.
    fn add(&mut self, worker: &Worker, state: &Arc<ListenerState>, sockets: &Arc<Sockets>) -> Option<usize> {
        let (seat, fd) = sockets.take(worker.id)?;
        let entry = self.open.vacant_entry();
        let (key, owner) = (entry.key(), Token::Acceptor(entry.key() as u32).into());
        let acceptor = Acceptor::new(&worker.reactor, fd, owner, sockets.are_shared());
        match acceptor {
            Ok(mut acceptor) => {
                if self.shut {
                    acceptor.pause();
                }
                let local_listener = LocalListener::new(&worker.shared.loads, worker.id, state);
                entry.insert(Open { acceptor, local_listener, seat, closes_at: None });
                Some(key)
            }
            Err(error) => {
                let (name, worker_id) = (&state.name, worker.id);
                worker.notice(|| format!("listener `{name}`: worker {worker_id} cannot watch it: {error}"));
                None
            }
        }
    }

    /// Closes the sockets whose time has come, after taking in who still waits at them.
    pub(crate) fn close_left(&mut self, worker: &Worker) -> Vec<Client> {
        let (mut last, now) = (Vec::new(), worker.reactor.now());
        if self.left.is_empty() {
            return last;
        }
        let is_due = |open: &Open| open.closes_at.is_some_and(|at| at <= now);
        let due: Vec<_> = self.open.iter().filter(|(_, open)| is_due(open)).map(|(key, _)| key).collect();
        for key in due {
            while self.accept_one(worker, key, &mut last) {}
            self.open.remove(key);
        }
        self.left.retain(|(until, local_listener)| {
            let is_over = *until <= now;
            if is_over {
                local_listener.forget();
            }
            !is_over
        });
        last
    }

    /// Where connections of a listener are counted, also when it is gone already; `None`: the worker has not heard
    /// of it yet.
    pub(crate) fn find(
        &self,
        worker: &Worker,
        listener: &Arc<ListenerState>,
        spoken: &ListenerTransport,
    ) -> Option<Rc<LocalListener>> {
        let acceptors = self.open.iter().map(|(_, open)| &open.local_listener);
        let mut acceptors = acceptors.chain(self.left.iter().map(|(_, local_listener)| local_listener));
        if let Some(local_listener) = acceptors.find(|local_listener| local_listener.state.id == listener.id)
        {
            return Some(local_listener.clone());
        }
        (listener.id <= self.newest).then(|| {
            let local_listener = LocalListener::new(&worker.shared.loads, worker.id, listener);
            local_listener.speak(spoken.clone());
            local_listener
        })
    }

    /// Accepts what waits at a listener, up to this turn's share; gives those that stay here.
    pub(crate) fn accept(&mut self, worker: &Worker, local_listener: u32) -> Vec<Client> {
        let mut stay = Vec::new();
        for _ in 0..ACCEPTS_PER_TURN {
            if self.shut || !self.accept_one(worker, local_listener as usize, &mut stay) {
                break;
            }
        }
        stay
    }

    /// Where the next connection of a listener would go. Nothing is given up before it is there.
    fn find_room(&self, worker: &Worker, local_listener: &LocalListener) -> Room {
        match self.find_place(worker, local_listener) {
            Room::Nowhere(bound) if !self.is_closing(local_listener) => {
                let of = (bound == Bound::Listener).then_some(local_listener.state.id);
                if worker.has_slow(of) { Room::OfSlowClient(of) } else { Room::Nowhere(bound) }
            }
            room => room,
        }
    }

    /// Whether these are the last connections of a listener.
    fn is_closing(&self, local_listener: &LocalListener) -> bool {
        self.closing || local_listener.is_leaving()
    }

    fn find_place(&self, worker: &Worker, local_listener: &LocalListener) -> Room {
        let loads = &worker.shared.loads;
        let now_ms = worker.now_ms();
        let silent = |of: Option<ListenerId>| match worker.idle_connections.borrow().evictable(now_ms, of) {
            Some(place) => Room::Of(place),
            None if worker.sessions.has_evictable(of, now_ms) => Room::OfSession(of),
            None if of.is_some() => Room::Nowhere(Bound::Listener),
            None => Room::Nowhere(Bound::Process),
        };
        if local_listener.is_crowded() {
            return silent(Some(local_listener.state.id));
        }
        // Memory is everybody's: when it is full, others have no room either.
        let is_full = worker.pressure.is_full();
        if is_full || !loads.budget.has_room_for_a_client(&loads.used()) {
            let idle_connections = worker.idle_connections.borrow();
            return match idle_connections.never_spoke(worker.now_ms()) {
                Some(place) if !is_full => Room::Of(place),
                // One idle connection is not enough for one that may bring a full queue.
                _ if idle_connections.idle().is_some() || worker.sessions.has_evictable(None, now_ms) => {
                    worker.pressure.ask_for_room();
                    Room::Soon
                }
                _ => Room::Nowhere(Bound::Memory),
            };
        }
        let other =
            if self.is_closing(local_listener) { None } else { loads.hand_off(worker.id, worker.chance()) };
        let full = loads.workers[worker.id].clients.load(Relaxed) >= loads.places.load(Relaxed);
        match (other, full) {
            (Some(other), _) => Room::At(other),
            (None, false) => Room::Here,
            (None, true) => silent(None),
        }
    }

    fn accept_one(&mut self, worker: &Worker, key: usize, stay: &mut Vec<Client>) -> bool {
        let Some(open) = self.open.get(key) else { return false };
        let local_listener = open.local_listener.clone();
        // What has been accepted in this turn is not idle connections yet.
        let fresh = worker.idle_connections.borrow().fresh() + stay.len();
        worker.shared.loads.workers[worker.id].fresh.store(fresh, Relaxed);
        let room = self.find_room(worker, &local_listener);
        if matches!(room, Room::Soon) && !self.is_closing(&local_listener) {
            self.shut_for_now();
            return false;
        }
        if let Room::Nowhere(bound) = room
            && self.refusals.len() >= REFUSALS
        {
            match self.open.get_mut(key) {
                Some(open) if bound == Bound::Listener => {
                    self.shut = true;
                    open.acceptor.pause();
                }
                _ => self.shut_for_now(),
            }
            return false;
        }
        let (fd, peer) = match self.open[key].acceptor.accept() {
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
        let arrival = AcceptedConnection { fd, peer: peer.0, port: peer.1, client: None };
        if let Some(reason) = client.and_then(|client| not_allowed(worker, &local_listener, client)) {
            self.deny(worker, &arrival, &local_listener, &reason);
            return true;
        }
        if let Room::Nowhere(bound) = room {
            self.refuse(worker, arrival, &local_listener, bound);
            return true;
        }
        match enter(worker, arrival, client, (&local_listener, &room)) {
            Ok(arrival) => place(worker, (arrival, local_listener), &room, stay),
            Err((arrival, bound)) => self.refuse(worker, arrival, &local_listener, bound),
        }
        true
    }

    /// Closes a connection whose peer may not connect; nothing of it has been read.
    fn deny(
        &mut self,
        worker: &Worker,
        arrival: &AcceptedConnection,
        local_listener: &LocalListener,
        reason: &str,
    ) {
        worker.meters.limit(Limit::Access);
        local_listener.meters.refused.add(1);
        let said = (&DENIED, &worker.next_id(), Some(reason));
        self.lines.write(worker, (arrival, local_listener), said, 0);
    }

    fn refuse(
        &mut self,
        worker: &Worker,
        arrival: AcceptedConnection,
        local_listener: &LocalListener,
        bound: Bound,
    ) {
        let (fault, id) = (bound.fault(), worker.next_id());
        worker.meters.limit(bound.limit());
        local_listener.meters.refused.add(1);
        worker.report(&fault, format_args!("listener `{}`", local_listener.state.name), None);
        let is_answered = self.refusals.len() < REFUSALS;
        let is_http = local_listener.protocol() == ListenerProtocol::Http && !local_listener.is_secure();
        let status = if is_answered && is_http { fault.status } else { 0 };
        self.lines.write(worker, (&arrival, local_listener), (&fault, &id, None), status);
        if !is_answered {
            return worker.meters.limit(Limit::Refusals);
        }
        let answer = match local_listener.protocol() {
            _ if local_listener.is_secure() => Refused::Limit.alert().to_vec(),
            ListenerProtocol::Http => {
                refusal(worker.unix_seconds(), fault, id, worker.view().plan.error_details)
            }
            ListenerProtocol::TlsPassthrough => Refused::Limit.alert().to_vec(),
            // Whatever is spoken, it has no word for this that we know.
            ListenerProtocol::Tcp | ListenerProtocol::Udp => Vec::new(),
        };
        let entry = self.refusals.vacant_entry();
        let owner = Token::Refusal(entry.key() as u32).into();
        let Ok(socket) = Socket::accepted(&worker.reactor, arrival.fd, owner) else { return };
        let _ = socket.poll_send(&[IoSlice::new(&answer)]);
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
        let keys: Vec<_> = self.open.iter().map(|(key, _)| key).collect();
        for key in keys {
            let local_listener = self.open[key].local_listener.clone();
            let room = match self.find_room(worker, &local_listener) {
                Room::Nowhere(_) => self.refusals.len() < REFUSALS,
                Room::Soon => false,
                Room::Here | Room::At(_) | Room::Of(_) | Room::OfSession(_) | Room::OfSlowClient(_) => true,
            };
            let acceptor = &mut self.open[key].acceptor;
            self.shut |= if room { acceptor.resume().is_err() } else { acceptor.is_paused() };
        }
    }

    /// Closes the acceptors for good, after taking in who already waits: closing a SO_REUSEPORT socket
    /// resets the connections in its queue.
    pub(crate) fn close(&mut self, worker: &Worker) -> Vec<Client> {
        let mut last = Vec::new();
        self.closing = true;
        let keys: Vec<_> = self.open.iter().map(|(key, _)| key).collect();
        for key in keys {
            while self.accept_one(worker, key, &mut last) {}
        }
        self.open.clear();
        last
    }

    /// Closes the acceptors for good: another process has the sockets and accepts who waits.
    pub(crate) fn leave(&mut self) {
        self.closing = true;
        self.open.clear();
    }

    fn shut_for_now(&mut self) {
        self.shut = true;
        self.open.iter_mut().for_each(|(_, open)| open.acceptor.pause());
    }
}

impl Open {
    fn set_defer(&self, defer: bool) {
        if !self.seat.sockets.is_unix() {
            self.acceptor.set_defer(defer);
        }
    }

    fn set_silence(&self, silence: Silence, listener: &Listener) {
        if !self.seat.sockets.is_unix() {
            self.acceptor.set_silence(silence.longest, silence.has_keepalive(listener));
        }
    }
}

/// Why a peer may not connect; one that says on whose behalf it does is heard first.
fn not_allowed(worker: &Worker, local_listener: &LocalListener, peer: IpAddr) -> Option<String> {
    match local_listener.introduces(peer) {
        Some(_) => None,
        None => refusal_of_address(worker, local_listener, peer),
    }
}

/// Whether a peer comes on behalf of many clients: it is trusted to say so, in fields of requests or before them.
fn brings_many(is_trusted: bool, local_listener: &LocalListener, peer: IpAddr) -> bool {
    is_trusted || local_listener.introduces(peer).is_some()
}

/// Brings a connection that has entered to its place.
fn place(
    worker: &Worker,
    (arrival, local_listener): (AcceptedConnection, Rc<LocalListener>),
    room: &Room,
    stay: &mut Vec<Client>,
) {
    let loads = &worker.shared.loads;
    if let Room::At(other) = room {
        loads.workers[*other].clients.fetch_add(1, Relaxed);
        return worker
            .shared
            .hand(*other, Command::Client(arrival, local_listener.state.clone(), local_listener.spoken()));
    }
    if let Room::Of(silent) = room {
        let silent = worker.idle_connections.borrow_mut().remove(*silent);
        drop(silent);
    }
    if let Room::OfSession(of) = room {
        worker.send_session_away(*of);
    }
    if let Room::OfSlowClient(of) = room {
        worker.shed_slowest(*of);
    }
    loads.workers[worker.id].clients.fetch_add(1, Relaxed);
    stay.extend(welcome(worker, arrival, local_listener));
}

/// Makes a client of a connection whose place is counted already.
pub(crate) fn welcome(
    worker: &Worker,
    arrival: AcceptedConnection,
    local_listener: Rc<LocalListener>,
) -> Option<Client> {
    let before = if local_listener.introduces(arrival.peer).is_some() {
        Before::Nothing
    } else {
        Before::Introduction
    };
    let place = ConnectionGuard::new(local_listener, arrival.client);
    // The owner is set when it is idle connections or seated, before the reactor is asked again.
    let socket = Socket::accepted(&worker.reactor, arrival.fd, Token::Idle(u32::MAX).into()).ok()?;
    Some(Client { socket, peer: arrival.peer, port: arrival.port, requests: 0, before, place })
}

/// Counts a connection for its listener and its client, unless one of them has as many as it may.
/// Proxies that are trusted bring the connections of many clients, and are not counted.
fn enter(
    worker: &Worker,
    mut arrival: AcceptedConnection,
    client: Option<IpAddr>,
    (local_listener, room): (&LocalListener, &Room),
) -> Result<AcceptedConnection, (AcceptedConnection, Bound)> {
    let (loads, view) = (&worker.shared.loads, worker.view());
    // Who makes room is counted until it has gone.
    let most = local_listener.most().filter(|_| matches!(room, Room::Here | Room::At(_)));
    let per_client = view.plan.limits.max_connections_per_client;
    let client = client
        .filter(|client| per_client > 0 && !brings_many(view.plan.trusts(*client), local_listener, *client));
    let client = client.map(Prefix::from);
    match loads.enter((&local_listener.state, most), client.map(|client| (client, per_client))) {
        Ok(()) => {
            arrival.client = client.map(Box::new);
            Ok(arrival)
        }
        Err(Crowded::Client) => Err((arrival, Bound::Client)),
        Err(Crowded::Listener) => Err((arrival, Bound::Listener)),
    }
}
