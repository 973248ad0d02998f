//! The breaker of a service as exchanges and the control thread use it: asked, told, and tried.
//!
//! `shared_breaker.rs` decides; this gives it the service's clock and counts, and rings the bell at a change.

use crate::breaker::{BreakerChange, Trial, TrialEnd};
use crate::members::ServiceState;
use crate::outlier::Sample;
use crate::policy::BreakerPolicy;
use crate::service_shared::ServiceShared;
use crate::shared_breaker::{BreakerState, Refused};
use crate::wire::Wire;
use std::sync::Arc;
use std::time::Instant;

impl ServiceShared {
    /// What the breaker of the service does; closed where there is none.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// A failure has been counted: opens the breaker where too much has failed up to now. The bell is rung at a
    /// change.
    pub fn judge(&self, now: Instant) -> Option<BreakerChange> {
        if !self.breaker.exists() {
            return None;
        }
        let change = self.breaker.judge(self.counted(now))?;
        self.ring();
        Some(change)
    }

    /// Moves the breaker's window on. To be called once a second.
    pub fn tick_breaker(&self, now: Instant) {
        if self.breaker.exists() {
            self.breaker.tick(self.counted(now));
        }
    }

    /// Whether failures have opened the breaker since this was asked last.
    pub fn breaker_has_opened(&self) -> bool {
        self.breaker.take_opened()
    }

    pub(crate) fn set_breaker(&self, policy: Option<BreakerPolicy>, now: Instant) {
        self.breaker.set_policy(policy, self.counted(now));
    }

    /// A request comes: it goes through, or as a trial, or not at all.
    fn admit(self: &Arc<Self>, now: Instant) -> Result<Option<TrialGuard>, Refused> {
        if self.breaker.is_closed() {
            return Ok(None);
        }
        let before = self.breaker.state();
        let trial = self.breaker.admit(self.counted(now).0)?;
        if trial.is_some() && before == BreakerState::Open {
            self.ring();
        }
        Ok(trial.map(|trial| TrialGuard { service: self.clone(), trial: Some(trial) }))
    }

    fn counted(&self, now: Instant) -> (u64, Sample) {
        (self.ms(now), self.sample())
    }
}

impl<W: Wire> ServiceState<W> {
    /// Asks the service's breaker, once for each exchange, before the first attempt.
    ///
    /// # Errors
    /// When it is open, or as many trials are under way as may.
    pub fn admit(&self, now: Instant) -> Result<Option<TrialGuard>, Refused> {
        self.standing().admit(now)
    }
}

/// An exchange that is a trial of its service's breaker. Dropped without a word, it makes room for another.
#[derive(Debug)]
pub struct TrialGuard {
    service: Arc<ServiceShared>,
    trial: Option<(u64, Trial)>,
}

impl TrialGuard {
    /// The request was answered, with a status that is no failure by the service's ejection policy.
    pub fn succeeded(mut self, now: Instant) -> Option<BreakerChange> {
        self.end(now, TrialEnd::Succeeded)
    }

    /// The service failed the request.
    pub fn failed(mut self, now: Instant) -> Option<BreakerChange> {
        self.end(now, TrialEnd::Failed)
    }

    fn end(&mut self, now: Instant, end: TrialEnd) -> Option<BreakerChange> {
        let trial = self.trial.take()?;
        let change = self.service.breaker.trial_ended(self.service.counted(now), trial, end)?;
        self.service.ring();
        Some(change)
    }
}

impl Drop for TrialGuard {
    fn drop(&mut self) {
        if let Some(trial) = self.trial.take() {
            let now = self.service.counted(Instant::now());
            self.service.breaker.trial_ended(now, trial, TrialEnd::Unknown);
        }
    }
}

#[cfg(test)]
mod tests;
