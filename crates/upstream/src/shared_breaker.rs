//! The breaker of a service, shared by all workers.
//!
//! While it is closed, as nearly always, a worker asks with one plain load. While it is open or half open the
//! machine of `breaker.rs` is asked under a lock that is held for a few instructions. Each failure is judged as
//! it is counted, by what all workers have counted ([`crate::ServiceShared::judge`]): the breaker opens at the failure
//! that is one too many, and never at a success or while nothing happens. The trials of the workers close it, or open
//! it again. A request that succeeds costs nothing beyond its count; for that, the control thread moves the window on
//! once a second ([`crate::ServiceShared::tick_breaker`]), so that successes fall into the part of the window in which
//! they came.
//!
//! The window belongs to the breaker: it is forgotten in the moment that the breaker closes, so that no failure
//! from before opens it anew.

use crate::breaker::{Admission, Breaker, BreakerChange, Trial, TrialEnd};
use crate::outlier::{Sample, Window};
use crate::policy::BreakerPolicy;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a breaker does with requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum BreakerState {
    /// All go through.
    #[default]
    Closed,
    /// None does.
    Open,
    /// Trials do.
    HalfOpen,
}

impl BreakerState {
    const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// The word used in the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// The breaker does not let a request through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// The rest of the open time; zero while trials are under way and decide.
    pub after: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct SharedBreaker {
    /// A [`BreakerState`]: written under the lock, read without.
    state: AtomicU8,
    /// There is one; also written under the lock.
    exists: AtomicBool,
    /// It has been opened by failures since the operator was told last.
    opened: AtomicBool,
    works: Mutex<Works>,
}

#[derive(Debug, Default)]
struct Works {
    /// Trials of a breaker with another policy say nothing of the one that there is now.
    generation: u64,
    of: Option<Of>,
}

#[derive(Debug)]
struct Of {
    policy: BreakerPolicy,
    breaker: Breaker,
    window: Window,
}

impl SharedBreaker {
    fn lock(&self) -> MutexGuard<'_, Works> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One plain load: this is asked by each exchange.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Relaxed) == BreakerState::Closed as u8
    }

    /// Whether the service has one.
    pub(crate) fn exists(&self) -> bool {
        self.exists.load(Relaxed)
    }

    /// Whether failures have opened it since this was asked last.
    pub(crate) fn take_opened(&self) -> bool {
        self.opened.load(Relaxed) && self.opened.swap(false, Relaxed)
    }

    pub(crate) fn state(&self) -> BreakerState {
        BreakerState::ALL[usize::from(self.state.load(Relaxed)).min(BreakerState::ALL.len() - 1)]
    }

    /// Another policy than before begins with a closed breaker.
    pub(crate) fn set_policy(&self, policy: Option<BreakerPolicy>, (now_ms, counters): (u64, Sample)) {
        let mut works = self.lock();
        if works.of.as_ref().map(|of| of.policy) == policy {
            return;
        }
        works.generation += 1;
        works.of = policy.map(|policy| Of {
            policy,
            breaker: Breaker::new(policy),
            window: Window::new(policy.window, now_ms, counters),
        });
        self.exists.store(policy.is_some(), Relaxed);
        self.opened.store(false, Relaxed);
        self.state.store(BreakerState::Closed as u8, Relaxed);
    }

    pub(crate) fn tick(&self, (now_ms, counters): (u64, Sample)) {
        if let Some(of) = &mut self.lock().of {
            of.window.push(now_ms, counters);
        }
    }

    pub(crate) fn judge(&self, (now_ms, counters): (u64, Sample)) -> Option<BreakerChange> {
        let mut works = self.lock();
        let Of { breaker, window, .. } = works.of.as_mut()?;
        let totals = window.push(now_ms, counters);
        let change = breaker.failed(now_ms, totals)?;
        self.state.store(BreakerState::Open as u8, Relaxed);
        self.opened.store(true, Relaxed);
        Some(change)
    }

    pub(crate) fn admit(&self, now_ms: u64) -> Result<Option<(u64, Trial)>, Refused> {
        let mut works = self.lock();
        let generation = works.generation;
        let Some(Of { breaker, .. }) = &mut works.of else { return Ok(None) };
        match breaker.admit(now_ms) {
            Admission::Through => Ok(None),
            Admission::Trial(trial) => {
                self.state.store(BreakerState::HalfOpen as u8, Relaxed);
                Ok(Some((generation, trial)))
            }
            Admission::Refused { until_ms } => {
                let after = until_ms.map_or(0, |until| until.saturating_sub(now_ms));
                Err(Refused { after: Duration::from_millis(after) })
            }
        }
    }

    pub(crate) fn trial_ended(
        &self,
        now: (u64, Sample),
        (generation, trial): (u64, Trial),
        end: TrialEnd,
    ) -> Option<BreakerChange> {
        let mut works = self.lock();
        if works.generation != generation {
            return None;
        }
        let Of { policy, breaker, window } = works.of.as_mut()?;
        let change = breaker.trial_ended(now.0, trial, end)?;
        let state = match change {
            BreakerChange::Opened => BreakerState::Open,
            BreakerChange::Closed => {
                *window = Window::new(policy.window, now.0, now.1);
                BreakerState::Closed
            }
        };
        self.state.store(state as u8, Relaxed);
        Some(change)
    }
}
