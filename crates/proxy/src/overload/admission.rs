//! The budget as one worker feels it: what state memory is in, and whether another exchange may begin.
//!
//! Once per turn, but not more often than [`CHECKS`], the worker holds what all workers have published
//! against the budget. Under pressure it gives up, a few at a time, what only makes things faster: idle
//! upstream connections, and clients that have been silent longest; flows may hold
//! less ([`Budget::held_limit`]). When memory is full, `listener/acceptors.rs` takes nobody on. Where exchanges have a bound
//! of their own, `serve.rs` asks for a place before each; workers take these in batches, so that asking is
//! plain arithmetic.

use crate::budget::{Budget, SMALL_BODY, State};
use crate::state::exchange::Exchange;
use crate::state::load::Loads;
use crate::worker::Worker;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::Framing;
use thalweg_observe::{BudgetMeters, Limit};

/// Time between two looks at what all workers use.
const CHECKS: Duration = Duration::from_millis(1);
/// Time to the next look while something is to be given up, when nothing else happens.
const SOON: Duration = Duration::from_millis(5);
/// Idle connections given up at one look, upstream and client each.
const GIVEN_UP: usize = 8;
/// A worker's batch of places is this part of its even share.
const BATCHES: usize = 32;

/// Permits that are left in the whole process, of one kind.
#[derive(Debug)]
pub(crate) struct Credits {
    free: AtomicUsize,
    /// How many a worker takes at once; 0: there is no bound.
    batch: usize,
}

impl Credits {
    /// So many places. They are not counted when connections are bounded as much.
    pub(crate) fn new(places: usize, budget: &Budget) -> Self {
        let batch = (places / budget.workers / BATCHES).max(1);
        Self { free: AtomicUsize::new(places), batch: if places < budget.connections { batch } else { 0 } }
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

/// One worker's part of some [`Credits`].
#[derive(Debug, Default)]
pub(crate) struct Purse {
    /// Permits that it may take without asking the others.
    left: Cell<usize>,
    taken: Cell<usize>,
}

impl Purse {
    /// Permits that are taken now.
    pub(crate) fn in_use(&self) -> usize {
        self.taken.get()
    }

    fn take(&self, all: &Credits) -> bool {
        if all.batch > 0 {
            let left = if self.left.get() == 0 { all.take() } else { self.left.get() };
            let Some(rest) = left.checked_sub(1) else { return false };
            self.left.set(rest);
        }
        self.taken.set(self.taken.get() + 1);
        true
    }

    fn put_back(&self, all: &Credits) {
        self.taken.set(self.taken.get() - 1);
        if all.batch == 0 {
            return;
        }
        self.left.set(self.left.get() + 1);
        // A single one is not kept: where there are few places, another worker may need it.
        if all.batch == 1 || self.left.get() > 2 * all.batch {
            all.give_back(self.left.get() - (all.batch - 1));
            self.left.set(all.batch - 1);
        }
    }

    /// Gives back what is not in use.
    fn empty(&self, all: &Credits) {
        if self.left.get() > 0 {
            all.give_back(self.left.take());
        }
    }
}

/// What one worker knows of the budget.
#[derive(Debug)]
pub(crate) struct AdmissionControl {
    loads: Arc<Loads>,
    /// `None` before the first look.
    state: Cell<Option<State>>,
    checked: Cell<Option<Instant>>,
    /// Somebody waits at a listener until idle connections have made room.
    is_asked: Cell<bool>,
    exchanges: Purse,
    pub(crate) bodies: Purse,
}

impl AdmissionControl {
    /// Of a worker that has not looked yet.
    pub(crate) fn new(loads: Arc<Loads>) -> Self {
        Self {
            loads,
            state: Cell::default(),
            checked: Cell::default(),
            is_asked: Cell::default(),
            exchanges: Purse::default(),
            bodies: Purse::default(),
        }
    }

    /// Whether nothing more may be taken on.
    pub(crate) fn is_full(&self) -> bool {
        self.state.get() == Some(State::Full)
    }

    /// Lets idle connections make room, from the next look on.
    pub(crate) fn ask_for_room(&self) {
        self.is_asked.set(true);
    }

    /// Takes the places of an exchange; nothing, and the bound, when one is reached.
    fn take(&self, has_body: bool) -> Result<(), Limit> {
        let all = &self.loads;
        if self.is_full() {
            return Err(Limit::Memory);
        }
        if !self.exchanges.take(&all.exchanges) {
            return Err(Limit::Requests);
        }
        if has_body && !self.bodies.take(&all.bodies) {
            self.exchanges.put_back(&all.exchanges);
            return Err(Limit::Buffers);
        }
        Ok(())
    }

    fn put_back(&self, has_body: bool) {
        let all = &self.loads;
        self.exchanges.put_back(&all.exchanges);
        if has_body {
            self.bodies.put_back(&all.bodies);
        }
    }

    /// Gives back what is not in use.
    fn return_credits(&self) {
        let all = &self.loads;
        self.exchanges.empty(&all.exchanges);
        self.bodies.empty(&all.bodies);
    }

    /// Holds what all workers have published against the budget, unless that was just done. The state
    /// before, if there was one, and that which follows.
    fn look(&self, now: Instant) -> Option<(Option<State>, State)> {
        let all = &self.loads;
        if self.checked.get().is_some_and(|last| now < last + CHECKS) {
            return None;
        }
        self.checked.set(Some(now));
        let before = self.state.get();
        let state = before.unwrap_or_default().next(all.budget.memory_used(&all.used()), all.budget.shared);
        self.state.set(Some(state));
        Some((before, state))
    }

    /// When the worker should look again, at the latest, when it would otherwise sleep until `beat`.
    pub(crate) fn next_look(&self, now: Instant, beat: Instant) -> Instant {
        let is_needed = self.is_asked.get() || self.state.get() > Some(State::NormalizedSpan);
        if is_needed { beat.min(now + SOON) } else { beat }
    }
}

/// A place among the exchanges under way, taken while it lives.
#[derive(Debug)]
pub(crate) struct Underway {
    pressure: Rc<AdmissionControl>,
    has_body: bool,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.pressure.put_back(self.has_body);
    }
}

impl Worker {
    /// Takes a place for an exchange whose head is there; a fault when every one is taken. An exchange
    /// whose request has a large body, or one of unknown length, needs one of those that memory has for
    /// bodies too.
    pub(crate) fn take_on(&self, x: &Exchange) -> Result<Underway, Fault> {
        let has_body = match x.framing {
            Framing::Empty => false,
            Framing::Length(bytes) => bytes > SMALL_BODY,
            Framing::Chunked | Framing::UntilClose => true,
        };
        let taken = self.pressure.take(has_body);
        taken.map(|()| Underway { pressure: self.pressure.clone(), has_body }).map_err(|limit| {
            self.meters.limit(limit);
            let detail = match limit {
                Limit::Memory => "there is no memory for another exchange",
                Limit::Buffers => "there is no memory for another request body",
                _ => "every place for exchanges is taken",
            };
            Fault::new(FaultKind::ConnectionLimitReached, detail)
        })
    }

    /// Gives places that are not in use back to all workers.
    pub(crate) fn return_credits(&self) {
        self.pressure.return_credits();
    }

    /// Looks at what all workers use, and gives things up when that is too much.
    pub(crate) fn watch_budget(&self) {
        let loads = &self.shared.loads;
        let Some((before, state)) = self.pressure.look(self.reactor.now()) else { return };
        if before != Some(state) {
            self.chunks.set_limits(loads.budget.held_limit(state), loads.budget.held_by_one());
        }
        loads.workers[self.id].state.store(state as usize, Relaxed);
        if state > before.unwrap_or_default() {
            self.meters.limit(Limit::Memory);
        }
        if self.pressure.is_asked.take() || state > State::NormalizedSpan {
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
            if !self.send_session_away(None) {
                break;
            }
        }
        for _ in 0..GIVEN_UP {
            let mut idle_connections = self.idle_connections.borrow_mut();
            // Who has not been served yet is owed an answer; the deadline of its head runs.
            let Some(place) = idle_connections.idle() else { break };
            let idle = idle_connections.remove(place);
            drop(idle_connections);
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
        meters.bodies.set(budget.bodies as i64);
        meters.buffer_bytes.set(budget.buffer_bytes() as i64);
        meters.memory_bytes.set(budget.memory as i64);
        meters.memory_used.set((budget.memory.saturating_sub(budget.shared) + memory) as i64);
        meters.held_bytes.set(used.held as i64);
        meters.state.set(self.workers.iter().map(|load| load.state.load(Relaxed)).max().unwrap_or(0) as i64);
        meters.saturation_ppm.set((budget.saturation(&used) * 1e6) as i64);
    }
}

#[cfg(test)]
mod simulation;

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

    #[test]
    fn few_places_are_never_kept_from_another_worker() {
        let (all, one, other) = (credits(2, 1), Purse::default(), Purse::default());
        for _ in 0..10 {
            assert!(one.take(&all) && one.take(&all) && !other.take(&all));
            one.put_back(&all);
            assert!(other.take(&all) && !one.take(&all));
            other.put_back(&all);
            one.put_back(&all);
        }
        assert_eq!(all.free.load(Relaxed), 2);
    }

    #[test]
    fn what_a_worker_keeps_is_bounded_and_given_back_when_it_is_idle() {
        let (all, one) = (credits(100, 4), Purse::default());
        (0..50).for_each(|_| assert!(one.take(&all)));
        (0..50).for_each(|_| one.put_back(&all));
        assert!(one.left.get() <= 8 && one.in_use() == 0);
        one.empty(&all);
        assert_eq!(all.free.load(Relaxed), 100);
    }
}
