//! The connections of a worker that speak HTTP/2, with clients and with endpoints.
//!
//! Like a tunnel, one is called by its owner number, and a panic costs one connection: with it the exchanges on its
//! streams, and no other.

use super::client_connection::{ClientConnection, Terms};
use super::server_connection::Session;
use crate::state::exchange::Client;
use crate::state::listener_sockets::ListenerId;
use crate::state::scheduler::Work;
use crate::state::token::Token;
use crate::state::worker::Worker;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Poll;
use thalweg_net::{Owner, OwnerWaker, Socket};
use thalweg_upstream::{Connection, Multiplexed};

/// Connections looked at to find one to send away.
const LOOKED_AT: usize = 64;
/// Turns that less waits for more.
const TURNS: u8 = 4;
/// Bytes that are sent though more are to come soon.
const TOGETHER: usize = 16 * 1024;

/// All of a worker.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// A place is empty while its session is polled.
    places: RefCell<Slab<Option<Place>>>,
    /// Those with clients that have no exchange under way.
    idle: Rc<Cell<usize>>,
    /// Bytes that the engines had for peers that do not take them, when that was looked at last.
    held: Cell<usize>,
    /// Received bytes and buffers, likewise.
    buffers: Cell<usize>,
    /// How many of them lead to endpoints.
    links: Cell<usize>,
    /// Those whose engines may have written something in this turn, or so many turns before.
    unsent: RefCell<Vec<(u32, u8)>>,
}

/// A connection.
#[derive(Debug)]
enum Place {
    Client(Box<Session>),
    Endpoint(Box<ClientConnection>),
}

impl Place {
    fn client(&self) -> Option<&Session> {
        match self {
            Self::Client(session) => Some(session),
            Self::Endpoint(_) => None,
        }
    }

    fn poll(&mut self, worker: &Worker, requests: &mut Vec<Client>) -> Poll<()> {
        match self {
            Self::Client(session) => session.poll(worker, requests),
            Self::Endpoint(link) => link.poll(worker),
        }
    }

    /// Bytes that it has written and not sent.
    fn unsent(&self) -> usize {
        match self {
            Self::Client(session) => session.unsent(),
            Self::Endpoint(link) => link.unsent(),
        }
    }

    /// Bytes that its engine has for a peer that has not taken them.
    fn held(&self) -> usize {
        match self {
            Self::Client(session) => session.left_to_send(),
            Self::Endpoint(link) => link.left_to_send(),
        }
    }

    /// Received bytes that exchanges have not taken, and the remaining capacity of its buffers.
    fn buffers(&self) -> usize {
        match self {
            Self::Client(session) => session.buffers(),
            Self::Endpoint(link) => link.buffers(),
        }
    }

    /// Its engine has panicked.
    fn engine_panicked(&self) {
        match self {
            Self::Client(session) => session.engine_panicked(),
            Self::Endpoint(link) => link.engine_panicked(),
        }
    }

    fn send(&mut self) {
        match self {
            Self::Client(session) => session.send(),
            Self::Endpoint(link) => link.send(),
        }
    }
}

impl Connections {
    /// How many there are with clients.
    pub(crate) fn of_clients(&self) -> usize {
        self.places.borrow().len() - self.links.get()
    }

    /// Whether there are none, with endpoints neither.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.borrow().is_empty()
    }

    /// How many have no exchange under way.
    pub(crate) fn idle(&self) -> usize {
        self.idle.get()
    }

    /// Where those are counted.
    pub(super) fn idle_count(&self) -> &Rc<Cell<usize>> {
        &self.idle
    }

    /// Bytes that the engines have for peers that do not take them, as of the last look.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// Received bytes that exchanges have not taken, and those of buffers, at the last measurement.
    pub(crate) fn buffers(&self) -> usize {
        self.buffers.get()
    }

    /// Looks how many bytes those are.
    pub(crate) fn look(&self) {
        let places = self.places.borrow();
        let all = || places.iter().filter_map(|(_, place)| place.as_ref());
        self.held.set(all().map(Place::held).sum());
        self.buffers.set(all().map(Place::buffers).sum());
    }

    /// Sends what has been written since the last time; little of it waits for a few more where more `is_to_come`.
    pub(crate) fn send_all(&self, is_to_come: impl Fn(u32) -> bool) {
        let mut places = self.places.borrow_mut();
        self.unsent.borrow_mut().retain_mut(|(index, waited)| match places.get_mut(*index as usize) {
            Some(Some(place)) if *waited < TURNS && place.unsent() < TOGETHER && is_to_come(*index) => {
                *waited += 1;
                true
            }
            Some(Some(place)) => {
                place.send();
                false
            }
            _ => false,
        });
    }

    fn take(&self, index: u32) -> Option<Place> {
        self.places.borrow_mut().get_mut(index as usize)?.take()
    }

    fn put_back(&self, index: u32, place: Place) {
        if let Some(empty) = self.places.borrow_mut().get_mut(index as usize) {
            *empty = Some(place);
        }
    }

    fn remove(&self, index: u32) -> Option<Place> {
        self.places.borrow_mut().try_remove(index as usize).flatten()
    }

    /// Whether there is one that can be sent away, of any listener or of one.
    pub(crate) fn has_evictable(&self, of: Option<ListenerId>, now_ms: u64) -> bool {
        self.evictable(of, now_ms).is_some()
    }

    /// The one of the next few on which nothing has been under way for longest; those whose clients have taken
    /// everything come first.
    fn evictable(&self, of: Option<ListenerId>, now_ms: u64) -> Option<u32> {
        let places = self.places.borrow();
        let all =
            places.iter().filter_map(|(index, session)| Some((index as u32, session.as_ref()?.client()?)));
        let of_listener = |session: &Session| {
            session.with_client(|client| of.is_none_or(|of| client.listener().state.id == of))
        };
        let idle = all.filter_map(|(index, session)| {
            let since = session.evictable_since(now_ms).filter(|_| of_listener(session))?;
            Some((since, index))
        });
        idle.take(LOOKED_AT).min().map(|(_, index)| index)
    }

    /// Has some take no more requests; gives their numbers.
    fn go_away(&self, now_ms: u64, is_told: impl Fn(&Client) -> bool) -> Vec<u32> {
        let mut told = Vec::new();
        for (index, session) in &mut *self.places.borrow_mut() {
            let Some(Place::Client(session)) = session else { continue };
            if session.with_client(&is_told) {
                session.go_away(now_ms);
                told.push(index as u32);
            }
        }
        told
    }
}

impl Worker {
    /// Speaks HTTP/2 with a client from now on. `received`: what has come of it already.
    pub(crate) fn open_session(&self, client: Client, received: Vec<u8>) {
        let index = self.sessions.places.borrow_mut().insert(None) as u32;
        let owner: Owner = Token::Session(index).into();
        client.socket.set_owner(owner);
        let waker = OwnerWaker::waker(owner, self.mailbox().clone());
        waker.wake_by_ref();
        let is_leaving = self.is_leaving(&client);
        let mut session = Session::new(self, client, received, waker);
        if is_leaving {
            session.go_away(self.now_ms());
        }
        self.sessions.put_back(index, Place::Client(session));
    }

    /// Speaks HTTP/2 with an endpoint from now on, on a connection that is there; `None`: the engine does not want to.
    pub(crate) fn open_trunk(
        &self,
        connection: Connection,
        terms: Terms,
    ) -> Option<Rc<dyn Multiplexed<Socket>>> {
        let index = self.sessions.places.borrow_mut().insert(None) as u32;
        let owner: Owner = Token::Session(index).into();
        connection.socket.set_owner(owner);
        let waker = OwnerWaker::waker(owner, self.mailbox().clone());
        waker.wake_by_ref();
        let Some((link, multiplexed)) = ClientConnection::new(self, connection, terms, waker) else {
            self.sessions.remove(index);
            return None;
        };
        self.sessions.links.set(self.sessions.links.get() + 1);
        self.sessions.put_back(index, Place::Endpoint(link));
        Some(multiplexed)
    }

    /// Does what can be done on a connection.
    pub(crate) fn poll_session(self: &Rc<Self>, index: u32) {
        let Some(mut place) = self.sessions.take(index) else { return };
        let mut requests = Vec::new();
        match catch_unwind(AssertUnwindSafe(|| place.poll(self, &mut requests))) {
            Ok(Poll::Pending) => {
                self.sessions.put_back(index, place);
                self.sessions.unsent.borrow_mut().push((index, 0));
            }
            outcome => {
                self.sessions.remove(index);
                let is_link = matches!(place, Place::Endpoint(_));
                self.sessions.links.set(self.sessions.links.get() - usize::from(is_link));
                if outcome.is_err() {
                    place.engine_panicked();
                }
                // Dropping what panicked may panic again; that must not end the worker either.
                let ended = catch_unwind(AssertUnwindSafe(|| drop(place)));
                if outcome.is_err() || ended.is_err() {
                    self.note_panic();
                }
            }
        }
        requests.into_iter().for_each(|client| self.task(client, Some(index)));
    }

    /// Sends the connection away on which nothing has been under way for longest, of any listener or of one. Says
    /// whether there was one.
    pub(crate) fn send_session_away(&self, of: Option<ListenerId>) -> bool {
        let Some(index) = self.sessions.evictable(of, self.now_ms()) else { return false };
        let place = self.sessions.remove(index);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            if let Some(Place::Client(mut session)) = place {
                session.part();
            }
        }));
        if ended.is_err() {
            self.note_panic();
        }
        true
    }

    /// Has the connections of these clients take no more requests.
    pub(crate) fn leave_sessions(self: &Rc<Self>, is_told: impl Fn(&Client) -> bool) {
        let told = self.sessions.go_away(self.now_ms(), is_told);
        told.into_iter().for_each(|index| self.scheduler.put_off(index, Work::Engine));
    }
}
