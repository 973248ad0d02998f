//! What workers tell each other and the control thread: a few numbers, read without locks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// One worker's numbers, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Load {
    /// Client connections open on the worker.
    pub(crate) clients: AtomicUsize,
    /// Exchanges and tunnels under way.
    pub(crate) active: AtomicUsize,
    /// Its listening sockets are closed and nothing is under way.
    pub(crate) drained: AtomicBool,
    /// Its thread has ended, which only a bug does: nothing is handed to it any more.
    pub(crate) dead: AtomicBool,
}

/// The numbers of all workers.
#[derive(Debug)]
pub(crate) struct Loads {
    pub(crate) workers: Vec<Load>,
    /// Client connections that one worker may hold.
    pub(crate) places: AtomicUsize,
}

impl Loads {
    pub(crate) fn new(workers: usize, places: usize) -> Self {
        Self { workers: (0..workers).map(|_| Load::default()).collect(), places: AtomicUsize::new(places) }
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

    fn loads(clients: &[usize]) -> Loads {
        let loads = Loads::new(clients.len(), 1000);
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
