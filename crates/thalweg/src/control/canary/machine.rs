//! A canary from its first step to its end: a machine without a clock, a plan or I/O.
//!
//! It is told the time and what was counted, and says what is to be done. What must survive a restart is
//! [`CanarySpec`].

use super::judge::{Verdict, judge};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use thalweg_observe::RouteTotals;
use thalweg_proxy::plan::{CanaryPolicy, OnFailure};

/// A gate that stays open for so many times `hold` is broken.
const PATIENCE: u32 = 10;

/// Where a canary stands, as it is kept.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct CanarySpec {
    /// The policy that it follows: with another one it begins anew.
    pub(crate) policy: String,
    pub(crate) phase: PhaseSpec,
    /// The step, from 0 on.
    pub(crate) step: usize,
    /// Why it stands so; empty where there is nothing to say.
    #[serde(default)]
    pub(crate) reason: String,
}

/// How a canary goes on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PhaseSpec {
    /// It is judged, and goes on by itself.
    Running,
    /// It stays where it is until somebody decides.
    Paused,
    /// The newcomer gets nothing.
    RolledBack,
    /// The newcomer has passed every step.
    Finished,
}

impl PhaseSpec {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::RolledBack => "rolled_back",
            Self::Finished => "finished",
        }
    }
}

/// What somebody asks of a canary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    Start,
    Pause,
    Resume,
    Promote,
    Rollback,
}

/// What was counted until now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) newcomer: RouteTotals,
    pub(crate) baseline: RouteTotals,
}

impl Counted {
    fn since(&self, before: &Self) -> Self {
        Self {
            newcomer: self.newcomer.since(&before.newcomer),
            baseline: self.baseline.since(&before.baseline),
        }
    }
}

/// What has happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Turn {
    /// It is at another step.
    Step,
    /// It has passed all.
    Finished,
    /// It has failed.
    Failed,
}

/// A canary as it runs.
#[derive(Debug)]
pub(crate) struct Canary {
    policy: CanaryPolicy,
    state: CanarySpec,
    /// When its step began, and what had been counted then.
    since: Instant,
    before: Counted,
    /// Since when a gate is open.
    open_since: Option<Instant>,
    /// What the last step that had one knew of the baseline.
    baseline: Option<RouteTotals>,
    /// Of the step, as of the last look.
    step: Counted,
}

impl Canary {
    /// One that goes on where it was kept, or begins where none was or the policy is another one. Says whether it
    /// begins.
    pub(crate) fn new(
        policy: &CanaryPolicy,
        kept: Option<&CanarySpec>,
        (now, counted): (Instant, Counted),
    ) -> (Self, bool) {
        let written = serde_json::to_string(policy).unwrap_or_default();
        let kept = kept.filter(|kept| kept.policy == written && kept.step < policy.steps.len());
        let first = CanarySpec { policy: written, phase: PhaseSpec::Running, step: 0, reason: String::new() };
        let canary = Self {
            policy: policy.clone(),
            state: kept.cloned().unwrap_or(first),
            since: now,
            before: counted,
            open_since: None,
            baseline: None,
            step: Counted::default(),
        };
        (canary, kept.is_none())
    }

    pub(crate) fn state(&self) -> &CanarySpec {
        &self.state
    }

    pub(crate) fn policy(&self) -> &CanaryPolicy {
        &self.policy
    }

    /// What was counted in its step, as of the last look.
    pub(crate) fn counted(&self) -> &Counted {
        &self.step
    }

    /// How long it has been at its step.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// The newcomer's share that is to be in force, in percent.
    pub(crate) fn share(&self) -> u32 {
        match self.state.phase {
            PhaseSpec::RolledBack => 0,
            PhaseSpec::Finished => self.policy.steps.last().copied().unwrap_or(100),
            PhaseSpec::Running | PhaseSpec::Paused => {
                self.policy.steps.get(self.state.step).copied().unwrap_or(0)
            }
        }
    }

    /// Looks at it.
    pub(crate) fn tick(&mut self, now: Instant, counted: &Counted) -> Option<Turn> {
        self.step = counted.since(&self.before);
        if self.state.phase != PhaseSpec::Running {
            return None;
        }
        let gates = &self.policy.gates;
        if self.step.baseline.requests() >= gates.min_requests {
            self.baseline = Some(self.step.baseline.clone());
        }
        let verdict = judge(gates, &self.step.newcomer, self.baseline.as_ref());
        if !matches!(verdict, Verdict::Open(_)) {
            self.open_since = None;
        }
        match verdict {
            Verdict::Broken(reason) => Some(self.fail(reason)),
            Verdict::Open(reason) => {
                let open = now.saturating_duration_since(*self.open_since.get_or_insert(now));
                (open >= self.policy.hold * PATIENCE).then(|| self.fail(reason))
            }
            Verdict::Kept if self.age(now) >= self.policy.hold => Some(self.advance(now, counted)),
            Verdict::TooFew | Verdict::Kept => None,
        }
    }

    /// Does what somebody asks; an error says why that makes no sense.
    pub(crate) fn order(
        &mut self,
        order: Order,
        (now, counted): (Instant, &Counted),
    ) -> Result<Option<Turn>, String> {
        let phase = self.state.phase;
        let wrong = |cannot: &str| Err(format!("the canary is {}: it cannot be {cannot}", phase.name()));
        match (order, phase) {
            (Order::Start, PhaseSpec::Running) => wrong("started again; roll it back first"),
            (Order::Start, _) => {
                (self.state.step, self.state.phase) = (0, PhaseSpec::Running);
                self.begin(now, counted);
                Ok(Some(Turn::Step))
            }
            (Order::Pause, PhaseSpec::Running) => {
                (self.state.phase, self.state.reason) = (PhaseSpec::Paused, "asked for".into());
                Ok(None)
            }
            (Order::Pause, _) => wrong("paused"),
            (Order::Resume, PhaseSpec::Paused) => {
                self.state.phase = PhaseSpec::Running;
                self.begin(now, counted);
                Ok(Some(Turn::Step))
            }
            (Order::Resume, _) => wrong("resumed"),
            (Order::Promote, PhaseSpec::Finished) => wrong("promoted again"),
            (Order::Promote, _) => {
                self.finish("asked for");
                Ok(Some(Turn::Finished))
            }
            (Order::Rollback, PhaseSpec::RolledBack) => wrong("rolled back again"),
            (Order::Rollback, _) => {
                (self.state.phase, self.state.reason) = (PhaseSpec::RolledBack, "asked for".into());
                Ok(Some(Turn::Failed))
            }
        }
    }

    fn begin(&mut self, now: Instant, counted: &Counted) {
        self.state.reason = String::new();
        self.open_since = None;
        (self.since, self.before, self.step) = (now, counted.clone(), Counted::default());
    }

    fn advance(&mut self, now: Instant, counted: &Counted) -> Turn {
        if self.state.step + 1 >= self.policy.steps.len() {
            self.finish("every step was passed");
            return Turn::Finished;
        }
        self.state.step += 1;
        self.begin(now, counted);
        Turn::Step
    }

    fn finish(&mut self, reason: &str) {
        self.state.step = self.policy.steps.len().saturating_sub(1);
        (self.state.phase, self.state.reason) = (PhaseSpec::Finished, reason.into());
    }

    fn fail(&mut self, reason: String) -> Turn {
        self.state.phase = match self.policy.on_failure {
            OnFailure::Rollback => PhaseSpec::RolledBack,
            OnFailure::Pause => PhaseSpec::Paused,
        };
        self.state.reason = reason;
        Turn::Failed
    }
}

/// The weights that give the newcomer exactly this share; the others keep what they have of each other. `parts` are
/// names and the weights of the file.
pub(crate) fn weights(parts: &[(&str, u32)], newcomer: &str, percent: u32) -> Vec<(String, u32)> {
    let share = percent.min(100);
    let total: u32 = parts.iter().filter(|(name, _)| *name != newcomer).map(|(_, weight)| weight).sum();
    let count = parts.iter().filter(|(name, _)| *name != newcomer).count() as u32;
    let of = |(name, weight): &(&str, u32)| match (*name == newcomer, total) {
        (true, 0) => share * count.max(1),
        (true, total) => share * total,
        (false, 0) => 100 - share,
        (false, _) => (100 - share) * weight,
    };
    let divisor = parts.iter().map(of).fold(0, greatest_common_divisor).max(1);
    parts.iter().map(|part| (part.0.to_owned(), of(part) / divisor)).collect()
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests;
