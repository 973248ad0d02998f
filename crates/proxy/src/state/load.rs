//! What workers tell each other and the control thread: a few numbers, read without locks.

use crate::budget::{Budget, Used};
use crate::state::client_limits::{ClientCounts, Prefix};
use crate::state::credits::Credits;
use crate::state::listener_sockets::ListenerState;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// One worker's numbers, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Load {
    /// Client connections open on the worker.
    pub(crate) clients: AtomicUsize,
    /// Those of them that have not spoken yet.
    pub(crate) fresh: AtomicUsize,
    /// TLS sessions of its connections, those that shake hands included.
    pub(crate) sessions: AtomicUsize,
    /// Those of its connections that speak HTTP/2.
    pub(crate) multiplexed: AtomicUsize,
    /// Exchanges and tunnels under way.
    pub(crate) active: AtomicUsize,
    /// Upstream connections open, idle ones included.
    pub(crate) upstream: AtomicUsize,
    /// Exchanges whose request has a large body.
    pub(crate) bodies: AtomicUsize,
    /// Bytes that its exchanges hold of bodies.
    pub(crate) held: AtomicUsize,
    /// Bytes of its other buffers that peers fill.
    pub(crate) buffers: AtomicUsize,
    /// What state memory is in for the worker: a [`crate::budget::State`].
    pub(crate) state: AtomicUsize,
    /// Its listening sockets are closed and nothing is under way.
    pub(crate) drained: AtomicBool,
    /// Its thread has ended, which only a bug does: nothing is handed to it any more.
    pub(crate) dead: AtomicBool,
}

/// Who has as many connections as it may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Crowded {
    Client,
    Listener,
}

/// The numbers of all workers.
#[derive(Debug)]
pub(crate) struct Loads {
    pub(crate) workers: Vec<Load>,
    /// Client connections that one worker may hold.
    pub(crate) places: AtomicUsize,
    /// What all of this is held against.
    pub(crate) budget: Budget,
    /// Exchanges that may still begin.
    pub(crate) exchanges: Credits,
    /// Exchanges that may still begin and whose request has a large body.
    pub(crate) bodies: Credits,
    /// Client connections open, by client.
    pub(crate) by_client: ClientCounts,
}

impl Loads {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            workers: (0..budget.workers).map(|_| Load::default()).collect(),
            places: AtomicUsize::new(budget.places()),
            budget,
            exchanges: Credits::new(budget.in_flight, &budget),
            bodies: Credits::new(budget.bodies, &budget),
            by_client: ClientCounts::default(),
        }
    }

    /// What is used of the budget, as far as workers have published.
    pub(crate) fn used(&self) -> Used {
        self.alive().fold(Used::default(), |sum, load| Used {
            clients: sum.clients + load.clients.load(Relaxed),
            sessions: sum.sessions + load.sessions.load(Relaxed),
            multiplexed: sum.multiplexed + load.multiplexed.load(Relaxed),
            fresh: sum.fresh + load.fresh.load(Relaxed),
            bodies: sum.bodies + load.bodies.load(Relaxed),
            upstream: sum.upstream + load.upstream.load(Relaxed),
            active: sum.active + load.active.load(Relaxed),
            held: sum.held + load.held.load(Relaxed),
            buffers: sum.buffers + load.buffers.load(Relaxed),
        })
    }

    /// Counts a connection for its client, where that has a bound, and for its listener; or for neither.
    pub(crate) fn enter(
        &self,
        (listener, most): (&ListenerState, Option<usize>),
        client: Option<(Prefix, u32)>,
    ) -> Result<(), Crowded> {
        if client.is_some_and(|(client, most)| !self.by_client.take(client, most)) {
            return Err(Crowded::Client);
        }
        if listener.take_place(most) {
            return Ok(());
        }
        client.inspect(|(client, _)| self.by_client.give_back(*client));
        Err(Crowded::Listener)
    }

    /// A connection of a worker that was counted has closed.
    pub(crate) fn leave(&self, worker: usize, listener: &ListenerState, client: Option<Prefix>) {
        self.workers[worker].clients.fetch_sub(1, Relaxed);
        listener.leave_place();
        client.inspect(|client| self.by_client.give_back(*client));
    }

    pub(crate) fn clients(&self) -> usize {
        self.alive().map(|load| load.clients.load(Relaxed)).sum()
    }

    pub(crate) fn active(&self) -> usize {
        self.alive().map(|load| load.active.load(Relaxed)).sum()
    }

    /// Whether every worker has nothing left, and no connection is on its way from one to another.
    pub(crate) fn drained(&self) -> bool {
        self.alive().all(|load| load.drained.load(Relaxed)) && self.clients() == 0
    }

    /// Whether a worker's thread has ended.
    pub(crate) fn any_dead(&self) -> bool {
        self.workers.iter().any(|load| load.dead.load(Relaxed))
    }

    fn alive(&self) -> impl Iterator<Item = &Load> {
        self.workers.iter().filter(|load| !load.dead.load(Relaxed))
    }

    /// To which worker `from` should hand a new connection: nobody, unless it holds well above the
    /// mean (or is full) and the less loaded of two others holds fewer. `chance` chooses the two.
    pub(crate) fn hand_off(&self, from: usize, chance: usize) -> Option<usize> {
        let count = self.workers.len();
        if count < 2 {
            return None;
        }
        let clients = |worker: usize| match &self.workers[worker] {
            load if load.dead.load(Relaxed) => usize::MAX,
            load => load.clients.load(Relaxed),
        };
        let mine = clients(from);
        let places = self.places.load(Relaxed);
        let full = mine >= places;
        if !full && mine * count * 2 <= self.clients() * 3 + 16 * count {
            return None;
        }
        let other = |step: usize| (from + 1 + step % (count - 1)) % count;
        let (one, two) = (other(chance), other(chance / count + 1));
        let best = if clients(one) <= clients(two) { one } else { two };
        (clients(best) < mine.min(places)).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Allowance;
    use crate::plan::Limits;
    use thalweg_net::machine::Memory;

    fn loads(clients: &[usize]) -> Loads {
        let limits = Limits { max_connections: Some(1000 * clients.len()), ..Limits::default() };
        let allowance =
            Allowance { descriptors: 1 << 20, memory: Memory::Machine(1 << 40), workers: clients.len() };
        let loads = Loads::new(Budget::new(&limits, 1, allowance));
        for (load, n) in loads.workers.iter().zip(clients) {
            load.clients.store(*n, Relaxed);
        }
        loads
    }

    #[test]
    fn hands_on_only_when_well_above_the_mean() {
        assert_eq!(loads(&[100]).hand_off(0, 7), None);
        assert_eq!(loads(&[100, 100]).hand_off(0, 7), None);
        assert_eq!(loads(&[40, 0]).hand_off(0, 7), Some(1));
        assert_eq!(loads(&[10, 0]).hand_off(0, 7), None, "a handful is no imbalance");
        assert_eq!(loads(&[300, 90, 10]).hand_off(0, 0), Some(2));
        assert_eq!(loads(&[10, 300, 90]).hand_off(0, 0), None);
    }

    #[test]
    fn a_full_worker_hands_to_any_that_has_fewer() {
        let loads = loads(&[1000, 999, 1000]);
        assert_eq!(loads.hand_off(0, 0), Some(1));
        assert_eq!(loads.hand_off(2, 1), Some(1));
    }
}
