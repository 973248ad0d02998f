//! The budget as one worker feels it: what state memory is in, and whether another exchange may begin.
//!
//! Once per turn, but not more often than [`CHECKS`], the worker holds what all workers have published
//! against the budget. Under pressure it gives up, a few at a time, what only makes things faster: idle
//! upstream connections, and clients that have been silent longest; exchanges hold less
//! ([`Worker::high_mark`]). When memory is full, `doors.rs` takes nobody on. Where exchanges have a bound
//! of their own, `serve.rs` asks for a place before each; workers take these in batches, so that asking is
//! plain arithmetic.

use crate::budget::{Budget, State};
use crate::load::Loads;
use crate::worker::Worker;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thalweg_core::{Fault, FaultKind};
use thalweg_observe::{BudgetMeters, Limit};

/// Time between two looks at what all workers use.
const CHECKS: Duration = Duration::from_millis(1);
/// Time to the next look while something is to be given up, when nothing else happens.
const SOON: Duration = Duration::from_millis(5);
/// Idle connections given up at one look, upstream and client each.
const GIVEN_UP: usize = 8;
/// A worker's batch of exchanges is this part of its even share.
const BATCHES: usize = 32;

/// Exchanges that may still begin, in the whole process.
#[derive(Debug)]
pub(crate) struct Credits {
    free: AtomicUsize,
    /// How many a worker takes at once; 0: exchanges have no bound.
    batch: usize,
}

impl Credits {
    pub(crate) fn new(budget: &Budget) -> Self {
        let batch = (budget.in_flight / budget.workers / BATCHES).max(1);
        Self {
            free: AtomicUsize::new(budget.in_flight),
            batch: if budget.bounds_exchanges() { batch } else { 0 },
        }
    }

    /// Takes a batch, or what is left of one.
    fn take(&self) -> usize {
        let rest = |free: usize| Some(free - free.min(self.batch));
        let before = self.free.fetch_update(Relaxed, Relaxed, rest).unwrap_or_else(|same| same);
        before.min(self.batch)
    }

    fn give_back(&self, credits: usize) {
        self.free.fetch_add(credits, Relaxed);
    }
}

/// What one worker knows of the budget.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    state: Cell<State>,
    checked: Cell<Option<Instant>>,
    /// Exchanges that this worker may begin without asking the others.
    credits: Cell<usize>,
}

impl Pressure {
    /// Whether nothing more may be taken on.
    pub(crate) fn is_full(&self) -> bool {
        self.state.get() == State::Full
    }

    /// When the worker should look again, at the latest, when it would otherwise sleep until `beat`.
    pub(crate) fn next_look(&self, now: Instant, beat: Instant) -> Instant {
        if self.state.get() == State::Normal { beat } else { beat.min(now + SOON) }
    }
}

/// A place among the exchanges under way, taken while it lives.
pub(crate) struct Underway<'a>(Option<&'a Worker>);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let Some(worker) = self.0 else { return };
        let (own, all) = (&worker.pressure.credits, &worker.shared.loads.credits);
        own.set(own.get() + 1);
        // A single one is not kept: where there are few places, another worker may need it.
        if all.batch == 1 || own.get() > 2 * all.batch {
            all.give_back(own.get() - (all.batch - 1));
            own.set(all.batch - 1);
        }
    }
}

impl Worker {
    /// Takes a place for an exchange; a fault when every one is taken.
    pub(crate) fn take_on(&self) -> Result<Underway<'_>, Fault> {
        let all = &self.shared.loads.credits;
        if all.batch == 0 {
            return Ok(Underway(None));
        }
        let own = &self.pressure.credits;
        if own.get() == 0 {
            own.set(all.take());
        }
        match own.get().checked_sub(1) {
            Some(rest) => {
                own.set(rest);
                Ok(Underway(Some(self)))
            }
            None => {
                self.meters.limit(Limit::Requests);
                Err(Fault::new(FaultKind::ConnectionLimitReached, "every place for exchanges is taken"))
            }
        }
    }

    /// Gives places for exchanges that are not in use back to all workers.
    pub(crate) fn return_credits(&self) {
        match self.pressure.credits.take() {
            0 => {}
            credits => self.shared.loads.credits.give_back(credits),
        }
    }

    /// Bytes that one direction of an exchange may hold now.
    #[allow(dead_code)]
    pub(crate) fn high_mark(&self) -> usize {
        self.shared.loads.budget.high_mark(self.pressure.state.get())
    }

    /// Looks at what all workers use, and gives things up when that is too much.
    pub(crate) fn watch_budget(&self) {
        let now = self.reactor.now();
        if self.pressure.checked.get().is_some_and(|last| now < last + CHECKS) {
            return;
        }
        self.pressure.checked.set(Some(now));
        let (loads, before) = (&self.shared.loads, self.pressure.state.get());
        let used = loads.budget.memory_used(&loads.used());
        let state = before.next(used, loads.budget.shared);
        self.pressure.state.set(state);
        loads.workers[self.id].state.store(state as usize, Relaxed);
        if state > before {
            self.meters.limit(Limit::Memory);
        }
        if state > State::Normal {
            self.give_up_idle();
        }
    }

    fn give_up_idle(&self) {
        let view = self.view();
        for _ in 0..GIVEN_UP {
            if !view.services.iter().any(|service| service.state.evict()) {
                break;
            }
        }
        for _ in 0..GIVEN_UP {
            let mut parked = self.parked.borrow_mut();
            // Who has not been served yet is owed an answer; the deadline of its head runs.
            let Some(place) = parked.idle() else { break };
            let idle = parked.remove(place);
            drop(parked);
            drop(idle);
        }
    }
}

impl Loads {
    /// Writes what is allowed and what is used into the meters.
    pub(crate) fn measure(&self, meters: &BudgetMeters) {
        let (budget, used) = (&self.budget, self.used());
        let memory = budget.memory_used(&used);
        meters.descriptors.set(budget.descriptors as i64);
        meters.connections.set(budget.connections as i64);
        meters.upstream_connections.set(budget.upstream_connections as i64);
        meters.requests.set(budget.in_flight as i64);
        meters.buffer_bytes.set(budget.buffer_bytes() as i64);
        meters.memory_bytes.set(budget.memory as i64);
        meters.memory_used.set((budget.memory.saturating_sub(budget.shared) + memory) as i64);
        meters.held_bytes.set(used.held as i64);
        meters.state.set(self.workers.iter().map(|load| load.state.load(Relaxed)).max().unwrap_or(0) as i64);
        meters.saturation_ppm.set((budget.saturation(&used) * 1e6) as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(free: usize, batch: usize) -> Credits {
        Credits { free: AtomicUsize::new(free), batch }
    }

    #[test]
    fn a_batch_is_taken_while_there_are_places_and_then_what_is_left() {
        let credits = credits(7, 3);
        assert_eq!([credits.take(), credits.take(), credits.take(), credits.take()], [3, 3, 1, 0]);
        credits.give_back(2);
        assert_eq!([credits.take(), credits.take()], [2, 0]);
    }
}
