//! Counts that the metrics read.

use crate::target::Target;
use crate::thresholds::Verdict;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What has been counted of one target since its check began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
    /// How long the last one took.
    pub took: Duration,
    /// What is thought of the target; `None`: not judged yet.
    pub verdict: Option<Verdict>,
}

/// The live form of [`Figures`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: AtomicU64,
    failed: AtomicU64,
    took_us: AtomicU64,
    /// 0 not judged, 1 healthy, 2 unhealthy.
    verdict: AtomicU8,
}

impl Tally {
    pub(crate) fn count(&self, passed: bool, took: Duration) {
        let counter = if passed { &self.passed } else { &self.failed };
        counter.fetch_add(1, Relaxed);
        self.took_us.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn set_verdict(&self, verdict: Option<Verdict>) {
        let code = match verdict {
            None => 0,
            Some(Verdict::Healthy) => 1,
            Some(Verdict::Unhealthy) => 2,
        };
        self.verdict.store(code, Relaxed);
    }

    fn figures(&self) -> Figures {
        Figures {
            passed: self.passed.load(Relaxed),
            failed: self.failed.load(Relaxed),
            took: Duration::from_micros(self.took_us.load(Relaxed)),
            verdict: match self.verdict.load(Relaxed) {
                1 => Some(Verdict::Healthy),
                2 => Some(Verdict::Unhealthy),
                _ => None,
            },
        }
    }
}

/// The counts of all targets, for any thread. Clones are handles to the same counts.
#[derive(Clone, Debug, Default)]
pub struct Tallies(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tallies: Mutex<HashMap<Target, Arc<Tally>>>,
    under_way: AtomicU64,
    late_us: AtomicU64,
}

impl Tallies {
    /// What was counted of `target`; `None`: it is not checked.
    pub fn of(&self, target: &Target) -> Option<Figures> {
        self.lock().get(target).map(|tally| tally.figures())
    }

    /// Checks under way now.
    pub fn under_way(&self) -> u64 {
        self.0.under_way.load(Relaxed)
    }

    /// How late the last check began. It grows where there is more to check than can be done at a time.
    pub fn late(&self) -> Duration {
        Duration::from_micros(self.0.late_us.load(Relaxed))
    }

    pub(crate) fn set_under_way(&self, checks: usize) {
        self.0.under_way.store(checks as u64, Relaxed);
    }

    pub(crate) fn set_late(&self, late: Duration) {
        self.0.late_us.store(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn replace(&self, tallies: HashMap<Target, Arc<Tally>>) {
        *self.lock() = tallies;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Arc<Tally>>> {
        // A map that is replaced whole is whole after any panic.
        self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
