//! A limit on what is under way to an endpoint that follows its latency. Pure: counts come in once a second, a
//! limit goes out.
//!
//! A server that takes c requests at once answers the c-th as fast as the first; each one more only waits. So the
//! limit falls while latency is above what it is without a queue (the baseline) by more than the tolerance,
//! and rises while it is not and the limit is made use of. That much is the gradient of Netflix's
//! concurrency limit-limits. Its baseline is an average that follows slowly: under an overload that stays it learns
//! the queue as well, and the limit drifts up without end. Here, as in Envoy's controller, the baseline is only
//! measured where there can be no queue of the limit's making:
//!
//! - while little is under way anyway: at most a *share* of the limit, 1 / (2 × tolerance);
//! - else by a *probe*: about once a minute, and sooner when the limit has halved or the last one found less than
//!   was known, the limit is that share, until what was under way has gone and enough has been answered.
//!
//! Why it does not drift: at the share of a limit L a server of c places is at most L / (2 × tolerance × c) times
//! as slow as without a queue, so that the limit that follows is the larger of tolerance × c and L / 2. A limit that
//! is too high halves with each probe. Envoy goes down to its minimum at each; where that is far below what the server
//! takes, most of its traffic waits then for no better a measurement.

use crate::policy::AdaptivePolicy;

/// Where a limit begins, within the policy's bounds.
const FIRST: f64 = 100.0;
/// Answers that the present latency is averaged over.
const PRESENT: u64 = 200;
/// Answers between two steps of the limit.
const STEP: u64 = 50;
/// Answers that the baseline is averaged over where it is measured without a probe.
const QUIET: u64 = 1_000;
/// Answers of a probe that make what was known before worth nothing.
const SURE: u64 = 200;
/// Answers that end a probe, and those that it must have to count.
const ENOUGH: u64 = 500;
const FEW: u64 = 20;
/// Seconds that a probe measures with fewer than enough.
const MEASURING: u32 = 3;
/// Seconds from one probe to the next, a quarter more or less.
const INTERVAL: f64 = 60.0;
/// And when it is to be repeated soon.
const SOON: f64 = 10.0;
/// Seconds between two at the least.
const APART: f64 = 5.0;
/// It is when one found less than this part of what was known.
const LESS: f64 = 0.8;
/// Else a probe takes at most this part of the time.
const SHARE: f64 = 0.05;
/// Longest wait for the effect of a step, in seconds.
const HOLD: f64 = 10.0;
/// How much the limit grows while there is no queue.
const GROWTH: f64 = 1.25;

/// What happened at an endpoint in the last second.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Second {
    /// Requests answered.
    pub answered: u64,
    /// The sum of their latencies, in µs.
    pub latency_us: u64,
    /// Most that was under way at once.
    pub peak: u32,
}

/// A mean over about the last `n` answers: exact while there are fewer.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    us: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, (answered, latency_us): (u64, u64), n: u64) {
        if answered == 0 {
            return;
        }
        self.count = self.count.saturating_add(answered).min(n);
        let share = (answered as f64 / self.count as f64).min(1.0);
        self.us += (latency_us as f64 / answered as f64 - self.us) * share;
    }

    fn known(self) -> Option<f64> {
        (self.count >= FEW).then_some(self.us.max(1.0))
    }

    fn seconds(self) -> f64 {
        self.us / 1e6
    }
}

/// The limit is low, to measure.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    level: f64,
    /// Seconds since it began, those since nothing more than the level was under way, and those measured.
    age: u32,
    calm: u32,
    measured: u32,
    answered: u64,
    latency_us: u64,
}

/// The limit of an endpoint.
#[derive(Clone, Debug)]
pub struct Adaptive {
    policy: AdaptivePolicy,
    limit: f64,
    present: Mean,
    baseline: Mean,
    /// Answers since the last step.
    since_step: u64,
    /// Seconds until the effect of the last step can be seen.
    hold: f64,
    probe: Option<Probe>,
    /// Seconds since the last measurement, and until the next probe.
    measured: f64,
    due: f64,
    /// The limit at the last measurement.
    measured_at: f64,
    random: fastrand::Rng,
}

impl Adaptive {
    /// That of an endpoint of which nothing is known. Seeds keep endpoints from being measured in step.
    pub fn new(policy: AdaptivePolicy, seed: u64) -> Self {
        let mut adaptive = Self {
            policy,
            limit: FIRST,
            present: Mean::default(),
            baseline: Mean::default(),
            since_step: 0,
            hold: 0.0,
            probe: None,
            measured: 0.0,
            due: 0.0,
            measured_at: FIRST,
            random: fastrand::Rng::with_seed(seed),
        };
        adaptive.set_policy(policy);
        adaptive
    }

    /// Where the limit of an endpoint begins.
    pub fn first(policy: AdaptivePolicy) -> u32 {
        Self::new(policy, 0).limit()
    }

    /// Other numbers from now on; what was learnt stays.
    pub fn set_policy(&mut self, policy: AdaptivePolicy) {
        self.policy = policy;
        self.set(self.limit);
    }

    /// The limit in force.
    pub fn limit(&self) -> u32 {
        self.probe.map_or(self.limit, |probe| probe.level).round() as u32
    }

    /// Whether the limit is low because the endpoint is being measured.
    pub fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// A second has passed; returns the limit from now on. Without `may_probe` no probe begins: the endpoints of
    /// a service take turns.
    pub fn tick(&mut self, second: Second, may_probe: bool) -> u32 {
        self.measured += 1.0;
        self.due -= 1.0;
        if let Some(probe) = self.probe {
            self.measure(probe, second);
            return self.limit();
        }
        let gained = (second.answered, second.latency_us);
        self.present.add(gained, PRESENT);
        self.since_step = self.since_step.saturating_add(second.answered);
        let is_quiet = f64::from(second.peak) <= self.level();
        if is_quiet {
            self.baseline.add(gained, QUIET);
            if second.answered >= FEW {
                self.has_measured(INTERVAL);
            }
        }
        self.step(second.peak);
        let early = self.baseline.known().is_none() || self.limit < self.measured_at / 2.0;
        // Faster than without a queue: the server is another one now.
        let faster = self.present.us < self.baseline.us * LESS;
        if (early && self.measured >= APART) || (faster && self.measured >= SOON) {
            self.due = 0.0;
        }
        if may_probe && !is_quiet && self.is_used(second.peak) && self.due <= 0.0 {
            self.probe = Some(Probe { level: self.level(), ..Probe::default() });
        }
        self.limit()
    }

    /// What is low enough to measure at.
    fn level(&self) -> f64 {
        (self.limit / (2.0 * self.tolerance())).max(f64::from(self.policy.min)).round()
    }

    fn tolerance(&self) -> f64 {
        f64::from(self.policy.tolerance.max(101)) / 100.0
    }

    fn set(&mut self, limit: f64) {
        let min = self.policy.min.max(1);
        self.limit = limit.clamp(f64::from(min), f64::from(self.policy.max.max(min)));
    }

    /// Who uses less than half of the limit says nothing of it.
    fn is_used(&self, peak: u32) -> bool {
        f64::from(peak) * 2.0 >= self.limit
    }

    /// Moves the limit, if it is known where to.
    fn step(&mut self, peak: u32) {
        self.hold -= 1.0;
        if self.hold > 0.0 || self.since_step < STEP || !self.is_used(peak) {
            return;
        }
        let (Some(baseline), Some(present)) = (self.baseline.known(), self.present.known()) else { return };
        let (slower, tolerance) = (present / baseline, self.tolerance());
        let limit = if slower <= f64::midpoint(1.0, tolerance) {
            self.limit * GROWTH + 1.0
        } else {
            // Room to rise: the root of the limit, as there.
            let target = self.limit * (tolerance / slower).clamp(0.5, 1.0) + self.limit.sqrt();
            f64::midpoint(self.limit, target)
        };
        self.set(limit);
        self.since_step = 0;
        self.hold = self.present.seconds().ceil().min(HOLD);
    }

    fn measure(&mut self, mut probe: Probe, second: Second) {
        probe.age += 1;
        // What was answered in the last seconds may have waited among those before the probe.
        let settled = self.present.seconds().min(HOLD).floor();
        if f64::from(second.peak) <= probe.level {
            if f64::from(probe.calm) >= settled {
                probe.measured += 1;
                probe.answered = probe.answered.saturating_add(second.answered);
                probe.latency_us = probe.latency_us.saturating_add(second.latency_us);
            }
            probe.calm += 1;
        }
        let enough = probe.answered >= ENOUGH || (probe.answered >= FEW && probe.measured >= MEASURING);
        let is_late = f64::from(probe.age) >= 10.0 + 2.0 * settled;
        if !enough && !is_late {
            self.probe = Some(probe);
            return;
        }
        self.probe = None;
        self.hold = 2.0;
        self.since_step = 0;
        let before = self.baseline.known();
        let age = f64::from(probe.age);
        let mut next = INTERVAL.max(age / SHARE);
        if probe.answered >= FEW {
            self.baseline.add((probe.answered, probe.latency_us), SURE);
            let found = probe.latency_us as f64 / probe.answered as f64;
            if before.is_none_or(|before| found < before * LESS) {
                next = SOON.max(2.0 * age);
            }
        }
        self.has_measured(next);
    }

    fn has_measured(&mut self, next: f64) {
        self.measured = 0.0;
        self.measured_at = self.limit;
        self.due = next * (0.75 + 0.5 * self.random.f64());
    }
}

#[cfg(test)]
mod tests;
