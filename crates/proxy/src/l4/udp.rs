//! Datagrams (UDP): listeners with `protocol: udp`, and the sessions of their clients.
//!
//! What a client sends to a listener is a session: its first datagram is given an endpoint, the others follow, and
//! answers go back from the address that it spoke to. Connections end by silence, with the last answer that is expected
//! (`expected_responses`), or with their listener or endpoint. Nothing waits: what has no room is dropped and counted.
//! All of it gets a share of a worker's turn, so that a flood keeps nobody else waiting. Why so:
//! `docs/decisions/0061-datagrams.md`.

mod ports;
mod room;
mod session;
mod table;

use crate::listener::access::refusal;
use crate::state::exchange::{Exchange, Origin};
use crate::state::local_listener::ConnectionGuard;
use crate::state::local_plan::LocalPlan;
use crate::state::token::Token;
use crate::state::worker::Worker;
use ports::{Port, Ports};
use session::{Goes, Session};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};
use table::Table;
use thalweg_core::Fault;
use thalweg_core::limits::DATAGRAM_SHARE;
use thalweg_net::datagram::{Batch, Way};
use thalweg_observe::{Drops, Limit};

/// What tells sessions apart.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Key {
    /// The number of the socket.
    port: u32,
    way: Way,
}

impl Key {
    fn client(&self) -> IpAddr {
        self.way.peer.ip().to_canonical()
    }

    /// Whose a session with this key is.
    fn origin<'a>(&self, place: &'a ConnectionGuard) -> Origin<'a> {
        Origin { local_listener: place.listener(), peer: self.client(), port: self.way.peer.port() }
    }
}

/// The datagrams of a worker.
#[derive(Debug, Default)]
pub(crate) struct Udp {
    ports: Ports,
    table: RefCell<Table<Key, Box<Session>>>,
    /// Where datagrams are received into; made when there is a listener, and out of here while it is used.
    batch: RefCell<Option<Box<Batch>>>,
    /// Connections that have used up their share of the turn.
    more: RefCell<Vec<u32>>,
    /// What listeners have used of this turn, and sessions.
    used_by_ports: Cell<Duration>,
    used_by_sessions: Cell<Duration>,
}

impl Udp {
    /// How many sessions there are.
    pub(crate) fn len(&self) -> usize {
        self.table.borrow().len()
    }

    /// A turn begins: everybody has a share again.
    pub(crate) fn begin_turn(&self) {
        self.used_by_ports.set(Duration::ZERO);
        self.used_by_sessions.set(Duration::ZERO);
    }

    /// Whether sessions have used up their share of the turn, with one that has begun then.
    fn have_sessions_used(&self, begun: Instant) -> bool {
        self.used_by_sessions.get() + begun.elapsed() >= DATAGRAM_SHARE
    }

    /// Whether sessions are to go on without another event.
    pub(crate) fn have_more(&self) -> bool {
        !self.more.borrow().is_empty()
    }

    /// Takes those that are to go on into `list`, which is empty.
    pub(crate) fn take_more(&self, list: &mut Vec<u32>) {
        std::mem::swap(&mut *self.more.borrow_mut(), list);
        // Who has waited a turn does not stand behind those who have just come.
        self.used_by_sessions.set(Duration::ZERO);
        let mut table = self.table.borrow_mut();
        for place in &*list {
            table.queue(*place, false);
        }
    }

    /// Lets a session go on in the next turn.
    fn queue(&self, place: u32) {
        if self.table.borrow_mut().queue(place, true) {
            self.more.borrow_mut().push(place);
        }
    }

    /// Shows what is under way.
    pub(crate) fn look(&self, mut see: impl FnMut(Origin<'_>, &Exchange)) {
        self.table.borrow().sessions().for_each(|session| see(session.origin(), session.exchange()));
    }
}

impl Worker {
    /// The listeners of a plan are open from now on, and no others. Connections that the plan has no longer end: their
    /// next datagram begins another one.
    pub(crate) fn open_ports(&self, view: &Rc<LocalPlan>) {
        self.udp.ports.take_over(self, view);
        if !self.udp.ports.is_empty() {
            self.udp.batch.borrow_mut().get_or_insert_default();
        }
        let all = self.udp.table.borrow().all();
        for place in all {
            let goes = |session: &mut Session| match session.is_of_plan(self) {
                true => Goes::On,
                false => Goes::Over(None),
            };
            self.with_session(place, goes);
        }
    }

    /// Passes on what clients have sent to a listener: once, and further while the share of listeners in this turn
    /// lasts.
    pub(crate) fn call_port(&self, index: u32) {
        let Some(port) = self.udp.ports.get(index) else { return };
        let Some(mut batch) = self.udp.batch.take() else { return };
        let is_more = |batch: &mut Batch| {
            // An error tells of one datagram that could not be received; what comes behind it calls again.
            let count = batch.receive(&port.socket, true).unwrap_or(0);
            let mut at = 0;
            while at < count {
                let same = same_way(batch, at..count);
                self.take_in((index, &port), batch, at..same);
                at = same;
            }
            count == Batch::PLACES
        };
        while charge(&self.udp.used_by_ports, || is_more(&mut batch)) {
            if self.udp.used_by_ports.get() >= DATAGRAM_SHARE {
                break;
            }
        }
        self.udp.batch.replace(Some(batch));
    }

    /// Passes on datagrams of one client.
    fn take_in(&self, (index, port): (u32, &Rc<Port>), batch: &mut Batch, datagrams: Range<usize>) {
        let drop_all = |reason| port.listener().meters.drop_datagrams(reason, datagrams.len());
        let first = batch.at(datagrams.start);
        let Some(way) = first.way.filter(|_| !first.is_cut) else { return drop_all(Drops::Cut) };
        let key = Key { port: index, way };
        if refusal(self, &port.listener(), key.client()).is_some() {
            self.meters.limit(Limit::Access);
            return drop_all(Drops::Denied);
        }
        let known = self.udp.table.borrow().find(&key);
        match known.map_or_else(|| self.begin_session(key, port), Ok) {
            Ok(place) => {
                self.udp.table.borrow_mut().touch(place, self.now_ms());
                self.with_session(place, |session| session.pass_up(self, batch, datagrams.clone()));
            }
            Err(reason) => drop_all(reason),
        }
    }

    fn begin_session(&self, key: Key, port: &Rc<Port>) -> Result<u32, Drops> {
        if self.is_draining() {
            return Err(Drops::Stopping);
        }
        if key.way.peer.port() == 0 || self.is_own_port(key.way) {
            return Err(Drops::Source);
        }
        let place =
            room::take_place(self, (key.port, &port.listener()), key.client()).ok_or(Drops::NoPlace)?;
        let index = self.udp.table.borrow_mut().add((key, key.port), self.now_ms());
        let begin = || Session::begin(self, (key, port), place, Token::Datagrams(index).into());
        let begun = catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| {
            self.note_panic();
            Err(Drops::NoEndpoint)
        });
        let mut table = self.udp.table.borrow_mut();
        match begun {
            Ok(session) => table.put(index, session),
            Err(reason) => {
                table.remove(index);
                return Err(reason);
            }
        }
        Ok(index)
    }

    /// Whether a client's address is that of a listener: answers to whoever has invented it would come in here again,
    /// and those to them.
    fn is_own_port(&self, Way { peer, local }: Way) -> bool {
        // Nothing is asked of the kernel: a flood would pay for it, and clients of NTP or SIP have the port of their
        // server.
        let is_here = |ip: IpAddr| local.is_some_and(|local| local.to_canonical() == ip);
        self.view().current.own_ports.contains(peer, is_here)
    }

    /// Passes on what has come for a client, or ends its session.
    pub(crate) fn call_session(&self, place: u32) {
        if self.udp.used_by_sessions.get() >= DATAGRAM_SHARE {
            return self.udp.queue(place);
        }
        let Some(mut batch) = self.udp.batch.take() else { return };
        let mut has_spoken = false;
        let pass_down = |session: &mut Session| {
            let before = session.answers();
            let goes = session.pass_down(self, &mut batch);
            has_spoken = session.answers() != before;
            goes
        };
        charge(&self.udp.used_by_sessions, || self.with_session(place, pass_down));
        if has_spoken {
            // Whoever is spoken to is not silent.
            self.udp.table.borrow_mut().touch(place, self.now_ms());
        }
        self.udp.batch.replace(Some(batch));
    }

    /// Works on a session. A panic costs this one and no other.
    fn with_session(&self, place: u32, work: impl FnOnce(&mut Session) -> Goes) {
        let taken = self.udp.table.borrow_mut().take(place);
        let Some(mut session) = taken else { return };
        match catch_unwind(AssertUnwindSafe(|| work(&mut session))) {
            Ok(Goes::On) => self.udp.table.borrow_mut().put(place, session),
            Ok(Goes::Further) => {
                self.udp.table.borrow_mut().put(place, session);
                self.udp.queue(place);
            }
            Ok(Goes::Over(fault)) => self.close_session(place, session, fault),
            Err(_) => {
                self.udp.table.borrow_mut().remove(place);
                self.note_panic();
                let _ = catch_unwind(AssertUnwindSafe(|| drop(session)));
            }
        }
    }

    fn close_session(&self, place: u32, session: Box<Session>, fault: Option<Fault>) {
        self.udp.table.borrow_mut().remove(place);
        if catch_unwind(AssertUnwindSafe(|| session.end(self, fault))).is_err() {
            self.note_panic();
        }
    }

    /// Ends a session for a reason that is nobody's fault.
    fn end_session(&self, place: u32) {
        self.with_session(place, |_| Goes::Over(None));
    }

    /// Looks whether the endpoints of sessions have been taken away.
    pub(crate) fn look_at_sessions(&self) {
        let all = self.udp.table.borrow().all();
        all.into_iter().for_each(|place| self.call_session(place));
    }

    /// The proxy stops: sessions end when they have been silent for a moment.
    pub(crate) fn hurry_datagrams(&self) {
        self.udp.table.borrow().sessions().for_each(|session| session.hurry(self));
    }

    /// Another process receives what clients send from now on.
    pub(crate) fn stop_receiving(&self) {
        self.udp.ports.stop_receiving();
    }

    /// Ends all sessions.
    pub(crate) fn end_sessions(&self) {
        let all = self.udp.table.borrow().all();
        all.into_iter().for_each(|place| self.end_session(place));
    }
}

/// Does something, and adds its time to what was used.
fn charge<T>(used: &Cell<Duration>, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    used.set(used.get() + begun.elapsed());
    done
}

/// Up to where datagrams come the same way as the first of them, and whole.
fn same_way(batch: &Batch, datagrams: Range<usize>) -> usize {
    let first = batch.at(datagrams.start);
    let mut further = datagrams.start + 1..datagrams.end;
    let is_other = |at: &usize| {
        let other = batch.at(*at);
        other.is_cut || first.is_cut || other.way != first.way
    };
    further.find(is_other).unwrap_or(datagrams.end)
}
