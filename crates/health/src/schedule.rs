//! Whose turn it is to be checked, and what is thought of whom. Pure: time comes in, reports go out.
//!
//! Invariant: a target is either waiting for its turn (one entry in `turns`) or under way.

use crate::jitter;
use crate::outcome::Outcome;
use crate::tally::Tally;
use crate::target::Target;
use crate::thresholds::{Thresholds, Verdict};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use thalweg_upstream::PeerAddress;
use tokio::time::Instant;

/// What is thought of a target, and why.
#[derive(Clone, Debug)]
pub struct Report {
    /// The target.
    pub target: Target,
    /// Whether it is to get requests.
    pub healthy: bool,
    /// Whether this differs from what was thought of it before. The first verdict on a target of which
    /// nothing was known is a change.
    pub changed: bool,
    /// What the last check found, in words: `status 503`, `connection refused`.
    pub why: String,
    /// How long the last check took.
    pub took: Duration,
}

/// Names a target from its first turn to its end; never used twice.
pub(crate) type Id = u64;

/// A target whose turn it is.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: Id,
    pub(crate) target: Target,
    /// How long ago its turn would have been.
    pub(crate) late: Duration,
}

#[derive(Debug)]
struct Entry {
    target: Target,
    judge: Thresholds,
    tally: Arc<Tally>,
    place: u64,
    /// Checks begun.
    rounds: u64,
    /// When the last one began.
    begun: Instant,
    /// Whether its verdict has been told. One that was inherited has not.
    told: bool,
}

/// All targets and their turns.
#[derive(Debug)]
pub(crate) struct Schedule {
    seed: u64,
    next: Id,
    ids: HashMap<Target, Id>,
    entries: HashMap<Id, Entry>,
    turns: BinaryHeap<Reverse<(Instant, Id)>>,
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, next: 0, ids: HashMap::new(), entries: HashMap::new(), turns: BinaryHeap::new() }
    }

    /// From `now` on these are the targets. Who stays keeps verdict and turn; who is asked in a new way
    /// begins with the verdict that it had in the old way.
    pub(crate) fn set(&mut self, now: Instant, targets: &[Target]) {
        let mut old = std::mem::take(&mut self.ids);
        let mut fresh = Vec::new();
        for target in targets {
            if self.ids.contains_key(target) {
                continue;
            }
            let id = old.remove(target).unwrap_or_else(|| {
                self.next += 1;
                fresh.push(self.next);
                self.next
            });
            self.ids.insert(target.clone(), id);
        }
        let mut known: HashMap<(PeerAddress, Arc<str>), Verdict> = HashMap::new();
        for id in old.values() {
            if let Some(Entry { target, judge, .. }) = self.entries.remove(id)
                && let Some(verdict) = judge.verdict()
            {
                known.insert((target.address, target.authority), verdict);
            }
        }
        self.turns.retain(|Reverse((_, id))| self.entries.contains_key(id));
        let ids: HashMap<Id, &Target> = self.ids.iter().map(|(target, id)| (*id, target)).collect();
        for id in fresh {
            let target = ids[&id].clone();
            let verdict = known.get(&(target.address.clone(), target.authority.clone())).copied();
            let place = jitter::place(self.seed, &target);
            let tally = Arc::new(Tally::default());
            tally.set_verdict(verdict);
            self.turns.push(Reverse((now + jitter::first(place, &target), id)));
            let judge = Thresholds::new(&target.policy, verdict);
            self.entries
                .insert(id, Entry { target, judge, tally, place, rounds: 0, begun: now, told: false });
        }
    }

    /// The next target whose turn has come at `now`. It is under way until [`Schedule::end`].
    pub(crate) fn take(&mut self, now: Instant) -> Option<Turn> {
        while self.next_turn().is_some_and(|due| due <= now) {
            let Reverse((due, id)) = self.turns.pop()?;
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.rounds += 1;
                entry.begun = now;
                return Some(Turn { id, target: entry.target.clone(), late: now - due });
            }
        }
        None
    }

    /// When the next turn comes; `None`: nobody waits for one.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        self.turns.peek().map(|Reverse((due, _))| *due)
    }

    /// Whether the target is still one.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.entries.contains_key(&id)
    }

    /// A check ended: weighs it, and gives the target its next turn.
    pub(crate) fn end(&mut self, now: Instant, id: Id, outcome: &Outcome) -> Option<Report> {
        let entry = self.entries.get_mut(&id)?;
        let took = now - entry.begun;
        let change = match outcome {
            Outcome::Passed(_) => entry.judge.passed(),
            Outcome::Failed(_) => entry.judge.failed(),
            Outcome::NotAsked(_) => None,
        };
        let verdict = entry.judge.verdict();
        let interval = entry.target.interval(verdict == Some(Verdict::Unhealthy));
        let due = entry.begun + jitter::next(entry.place, entry.rounds, interval);
        self.turns.push(Reverse((due.max(now), id)));
        let (Outcome::Passed(why) | Outcome::Failed(why)) = outcome else { return None };
        entry.tally.count(matches!(outcome, Outcome::Passed(_)), took);
        entry.tally.set_verdict(verdict);
        let healthy = verdict? == Verdict::Healthy;
        let changed = change.is_some();
        if !changed && entry.told {
            return None;
        }
        entry.told = true;
        Some(Report { target: entry.target.clone(), healthy, changed, why: why.clone(), took })
    }

    /// The counts of all targets.
    pub(crate) fn tallies(&self) -> HashMap<Target, Arc<Tally>> {
        self.entries.values().map(|entry| (entry.target.clone(), entry.tally.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
