//! Endpoints that no configuration lists: every exchange brings its own along, as a sealed label names it.
//!
//! Of one that nobody uses nothing is kept: it is here from the first attempt on, for as long as there are attempts or
//! idle connections. So its standing is never judged: who does not accept a connection is asked again by whoever asks
//! for it next. What workers share of one is how much is under way to it, which has a bound.

use crate::connection_handoff::Destination;
use crate::directory::{Aim, Directory};
use crate::endpoint_state::EndpointState;
use crate::member::Member;
use crate::pool::Pool;
use crate::service::DestinationPolicy;
use crate::service_shared::ServiceShared;
use crate::wire::Wire;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_net::Socket;
use thalweg_net::connect::PeerAddress;
use thalweg_tls::{Connector, PeerTerms};

/// Endpoints from whose number on one that is only idle makes room for a new one.
const KEPT: usize = 512;
/// Endpoints that are looked at for that.
const LOOKS: usize = 16;

/// Why there is no attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoAttempt {
    /// As much is under way to it as may be.
    Full,
    /// It is reached through TLS, and nothing says how.
    NoTlsTerms,
}

/// Those of one service that one worker attempts or has idle connections to.
pub struct Destinations<W: Wire = Socket> {
    pub(crate) worker: usize,
    workers: usize,
    pub(crate) policy: DestinationPolicy,
    terms: Option<Arc<PeerTerms>>,
    standing: Arc<ServiceShared>,
    directory: Arc<Directory>,
    rooms: RefCell<Rooms<W>>,
    /// Others have taken over: nothing is kept any more.
    is_closed: Cell<bool>,
    /// Where an idle connection is looked for next, when one has to go.
    next: Cell<usize>,
}

struct Rooms<W: Wire> {
    by_aim: HashMap<Aim, u32>,
    all: Vec<Option<Room<W>>>,
    free: Vec<u32>,
}

struct Room<W: Wire> {
    aim: Aim,
    member: Rc<Member<W>>,
    visits: u32,
}

impl<W: Wire> Room<W> {
    fn is_deserted(&self) -> bool {
        self.visits == 0 && self.member.pool.is_empty() && self.member.pool.multiplexed_pool.is_empty()
    }
}

impl<W: Wire> Destinations<W> {
    pub(crate) fn new(
        (worker, workers): (usize, usize),
        (policy, terms): (DestinationPolicy, Option<Arc<PeerTerms>>),
        (standing, directory): (Arc<ServiceShared>, Arc<Directory>),
    ) -> Self {
        let rooms = Rooms { by_aim: HashMap::new(), all: Vec::new(), free: Vec::new() };
        let (rooms, is_closed, next) = (RefCell::new(rooms), Cell::new(false), Cell::new(0));
        Self { worker, workers, policy, terms, standing, directory, rooms, is_closed, next }
    }

    /// The member of this endpoint, which is visited once more; the visit ends with [`Self::leave`].
    pub(crate) fn enter(&self, aim: Aim) -> Result<Rc<Member<W>>, NoAttempt> {
        if let Some(member) = self.known(aim) {
            return Ok(member);
        }
        if self.len() >= KEPT {
            self.evict_within(LOOKS);
        }
        let connector = match (aim.secure, &self.terms) {
            (false, _) => None,
            (true, None) => return Err(NoAttempt::NoTlsTerms),
            (true, Some(terms)) => {
                let connector = Connector::new(terms, &aim.address.ip().to_string());
                Some(Arc::new(connector.map_err(|_| NoAttempt::NoTlsTerms)?))
            }
        };
        let standing = self.directory.find(aim, || {
            let place = (aim.to_string().into(), PeerAddress::Tcp(aim.address));
            EndpointState::new(self.standing.clone(), place, 0, self.workers).secured(connector)
        });
        let mut rooms = self.rooms.borrow_mut();
        let at = rooms.free.pop().unwrap_or_else(|| {
            rooms.all.push(None);
            rooms.all.len() as u32 - 1
        });
        let pool = Rc::new(Pool::new(Destination(standing.clone())));
        if self.is_closed.get() {
            pool.close();
        }
        let member = Rc::new(Member::new(at, 0, standing, pool));
        rooms.all[at as usize] = Some(Room { aim, member: member.clone(), visits: 1 });
        rooms.by_aim.insert(aim, at);
        Ok(member)
    }

    fn known(&self, aim: Aim) -> Option<Rc<Member<W>>> {
        let mut rooms = self.rooms.borrow_mut();
        let at = *rooms.by_aim.get(&aim)?;
        let room = rooms.all[at as usize].as_mut()?;
        room.visits += 1;
        Some(room.member.clone())
    }

    /// A attempt has ended.
    pub(crate) fn leave(&self, index: u32) {
        if let Some(room) = self.rooms.borrow_mut().all[index as usize].as_mut() {
            room.visits -= 1;
        }
        self.clear(index);
    }

    /// Closes what has ended of the idle connections to this one.
    pub fn sweep(&self, index: u32) {
        let member = match self.rooms.borrow().all.get(index as usize) {
            Some(Some(room)) => room.member.clone(),
            _ => return,
        };
        member.pool.sweep();
        drop(member);
        self.clear(index);
    }

    /// Closes an idle connection to make room; says whether there was one.
    pub fn evict(&self) -> bool {
        self.evict_within(usize::MAX)
    }

    fn evict_within(&self, looks: usize) -> bool {
        let all = self.rooms.borrow().all.len();
        for _ in 0..all.min(looks) {
            let at = self.next.get() % all;
            self.next.set(at + 1);
            let member = self.rooms.borrow().all[at].as_ref().map(|room| room.member.clone());
            if member.is_some_and(|member| member.pool.evict()) {
                self.clear(at as u32);
                return true;
            }
        }
        false
    }

    /// Others take over: idle connections are closed, and those in use when they are done.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        let members =
            self.rooms.borrow().all.iter().flatten().map(|room| room.member.clone()).collect::<Vec<_>>();
        for member in members {
            member.pool.close();
            let index = member.index;
            drop(member);
            self.clear(index);
        }
    }

    /// Idle connections now.
    pub fn idle(&self) -> usize {
        self.rooms.borrow().all.iter().flatten().map(|room| room.member.pool.len()).sum()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.rooms.borrow().by_aim.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets one that nobody uses.
    fn clear(&self, index: u32) {
        let mut rooms = self.rooms.borrow_mut();
        let gone = rooms.all.get_mut(index as usize).and_then(|room| room.take_if(|room| room.is_deserted()));
        let Some(Room { aim, member, .. }) = gone else { return };
        rooms.by_aim.remove(&aim);
        rooms.free.push(index);
        if rooms.by_aim.is_empty() {
            // A crowd that has gone leaves nothing behind.
            *rooms = Rooms { by_aim: HashMap::new(), all: Vec::new(), free: Vec::new() };
        }
        drop(rooms);
        drop(member);
        self.directory.forget(aim);
    }
}

impl<W: Wire> fmt::Debug for Destinations<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destinations").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
