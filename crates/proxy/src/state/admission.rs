//! The numbers of admission: permits that are left in the process, a worker's part of them, and what state its memory
//! is in. Decisions are made in `overload/admission.rs`.

use crate::budget::State;
use crate::state::credits::Credits;
use crate::state::load::Loads;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_observe::Limit;

/// Time between two looks at what all workers use.
const CHECKS: Duration = Duration::from_millis(1);
/// Time to the next look while something is to be given up, when nothing else happens.
const SOON: Duration = Duration::from_millis(5);

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

    pub(crate) fn take(&self, all: &Credits) -> bool {
        if all.batch > 0 {
            let left = if self.left.get() == 0 { all.take() } else { self.left.get() };
            let Some(rest) = left.checked_sub(1) else { return false };
            self.left.set(rest);
        }
        self.taken.set(self.taken.get() + 1);
        true
    }

    pub(crate) fn put_back(&self, all: &Credits) {
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
    pub(crate) fn empty(&self, all: &Credits) {
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
    pub(crate) is_asked: Cell<bool>,
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
    pub(crate) fn take(&self, has_body: bool) -> Result<(), Limit> {
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

    pub(crate) fn put_back(&self, has_body: bool) {
        let all = &self.loads;
        self.exchanges.put_back(&all.exchanges);
        if has_body {
            self.bodies.put_back(&all.bodies);
        }
    }

    /// Gives back what is not in use.
    pub(crate) fn return_credits(&self) {
        let all = &self.loads;
        self.exchanges.empty(&all.exchanges);
        self.bodies.empty(&all.bodies);
    }

    /// Whether there is memory for what is not needed.
    pub(crate) fn is_calm(&self) -> bool {
        self.state.get().is_none_or(|state| state <= State::Normal)
    }

    /// Holds what all workers have published against the budget, unless that was just done. The state
    /// before, if there was one, and that which follows.
    pub(crate) fn look(&self, now: Instant) -> Option<(Option<State>, State)> {
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
        let is_needed = self.is_asked.get() || self.state.get() > Some(State::Normal);
        if is_needed { beat.min(now + SOON) } else { beat }
    }
}

/// A place among the exchanges under way, taken while it lives.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) pressure: Rc<AdmissionControl>,
    pub(crate) has_body: bool,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.pressure.put_back(self.has_body);
    }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::credits::Credits;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

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
