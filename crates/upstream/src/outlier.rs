//! Who of a service's members fails more, or is slower, than the others. Pure: counters and time come in.
//!
//! The control thread samples each member's counters at every tick into a [`Window`] and asks
//! [`find_outliers`] whom the policy leaves out. Failures one after the other are not judged here: workers
//! see those at once.

use crate::EjectionPolicy;
use std::time::Duration;

/// Parts of a window; the oldest falls out as a whole.
const SLOTS: usize = 10;
/// Members with enough requests that there must be before one is compared with the others.
const POPULATION: usize = 3;

/// Counts of one member: since its start where it is a sample, in the window where it is a total.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sample {
    /// Requests that ended.
    pub requests: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Those that were answered: the ones whose latency is known.
    pub answered: u64,
    /// The sum of their latencies, in µs.
    pub latency_us: u64,
}

impl Sample {
    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            requests: with(self.requests, other.requests),
            failures: with(self.failures, other.failures),
            answered: with(self.answered, other.answered),
            latency_us: with(self.latency_us, other.latency_us),
        }
    }

    /// 0 to 1. Counters are not read in one moment, so that there can be more failures than requests.
    fn failed_share(self) -> f64 {
        self.failures.min(self.requests) as f64 / self.requests.max(1) as f64
    }

    fn mean_latency(self) -> f64 {
        self.latency_us as f64 / self.answered.max(1) as f64
    }
}

/// What counters gained in the last span of time, exact to a tenth of it.
#[derive(Clone, Debug)]
pub struct Window {
    slot_ms: u64,
    /// The number of the newest slot, counted from time 0.
    newest: u64,
    slots: [Sample; SLOTS],
    last: Sample,
}

impl Window {
    /// A window of `length` that begins at `now_ms` (of any clock that does not go back), when the counters
    /// stand at `counters`.
    pub fn new(length: Duration, now_ms: u64, counters: Sample) -> Self {
        let slot_ms = (u64::try_from(length.as_millis()).unwrap_or(u64::MAX) / SLOTS as u64).max(1);
        Self { slot_ms, newest: now_ms / slot_ms, slots: [Sample::default(); SLOTS], last: counters }
    }

    /// Now the counters stand at `counters`; returns what they gained in the window. A counter that went
    /// back began anew.
    pub fn push(&mut self, now_ms: u64, counters: Sample) -> Sample {
        let newest = (now_ms / self.slot_ms).max(self.newest);
        for passed in (self.newest..newest).take(SLOTS) {
            self.slots[((passed + 1) % SLOTS as u64) as usize] = Sample::default();
        }
        self.newest = newest;
        let gained = counters.each(self.last, |now, before| now.checked_sub(before).unwrap_or(now));
        self.last = counters;
        let slot = &mut self.slots[(newest % SLOTS as u64) as usize];
        *slot = slot.each(gained, u64::saturating_add);
        self.totals()
    }

    /// What they gained in the window up to the last push.
    pub fn totals(&self) -> Sample {
        self.slots.iter().fold(Sample::default(), |sum, slot| sum.each(*slot, u64::saturating_add))
    }

    /// Forgets what was gained, not where the counters stand: a member that comes back is judged by what it
    /// does from now on, and so is a service whose breaker closes.
    pub fn clear(&mut self) {
        self.slots = [Sample::default(); SLOTS];
    }
}

/// A member to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    /// What it did in the window.
    pub totals: Sample,
    /// It is out already by a rule of the policy: it takes a place of the share that may be.
    pub is_out: bool,
}

/// Why a member is left out. Shares are 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// `failures`: this share of its requests failed.
    Failures(f64),
    /// `success_rate`: its share of successes is below the bound that follows from all.
    SuccessRate {
        /// Its own.
        own: f64,
        /// The mean of all minus the policy's standard deviations.
        bound: f64,
    },
    /// `latency`: its mean is above the policy's share of the median of all means; µs.
    Latency {
        /// Its own.
        own: f64,
        /// The median of all.
        median: f64,
    },
}

/// Whom the policy leaves out now, the worst first: by share of failures, then by latency. Not more than
/// `max_share` of all members together with those that are out already, rounded down: one alone is never left out
/// by a share below 100 %.
///
/// Comparisons need three members with `min_requests` in the window. In a population of n, none can be
/// more than √(n−1) standard deviations below the mean, so that the 1.9 of Envoy needs five members.
pub fn find_outliers(policy: &EjectionPolicy, members: &[Judged]) -> Vec<(usize, Cause)> {
    let allowed = members.len() * policy.max_share.min(100) as usize / 100;
    let places = allowed.saturating_sub(members.iter().filter(|member| member.is_out).count());
    let enough = u64::from(policy.min_requests.max(1));
    let population = |count: fn(&Sample) -> u64| -> Vec<Sample> {
        let totals = members.iter().filter(|member| !member.is_out).map(|member| member.totals);
        totals.filter(|totals| count(totals) >= enough).collect()
    };
    let bound = policy
        .success_rate
        .and_then(|tenths| success_bound(&population(|totals| totals.requests), f64::from(tenths) / 10.0));
    let median = policy.latency.and_then(|_| median_latency(&population(|totals| totals.answered)));
    let cause = |totals: &Sample| {
        let failed = totals.failed_share();
        if totals.requests >= enough {
            if policy.failures.is_some_and(|percent| failed * 100.0 >= f64::from(percent)) {
                return Some(Cause::Failures(failed));
            }
            let own = 1.0 - failed;
            if let Some(bound) = bound.filter(|bound| own < *bound) {
                return Some(Cause::SuccessRate { own, bound });
            }
        }
        let median = median.filter(|_| totals.answered >= enough)?;
        let own = totals.mean_latency();
        let percent = f64::from(policy.latency?);
        (own * 100.0 > median * percent).then_some(Cause::Latency { own, median })
    };
    let judged = members.iter().enumerate().filter(|(_, member)| !member.is_out);
    let mut found: Vec<_> = judged.filter_map(|(at, member)| Some((at, cause(&member.totals)?))).collect();
    let badness = |at: usize| (members[at].totals.failed_share(), members[at].totals.mean_latency());
    found.sort_by(|(a, _), (b, _)| {
        let ((failed_a, slow_a), (failed_b, slow_b)) = (badness(*a), badness(*b));
        failed_b.total_cmp(&failed_a).then(slow_b.total_cmp(&slow_a)).then(a.cmp(b))
    });
    found.truncate(places);
    found
}

/// The mean share of successes minus `deviations` standard deviations.
fn success_bound(population: &[Sample], deviations: f64) -> Option<f64> {
    if population.len() < POPULATION {
        return None;
    }
    let shares = || population.iter().map(|totals| 1.0 - totals.failed_share());
    let count = population.len() as f64;
    let mean = shares().sum::<f64>() / count;
    let variance = shares().map(|share| (share - mean).powi(2)).sum::<f64>() / count;
    // Shares that are equal but for rounding are equal.
    (variance > 1e-12).then(|| mean - deviations * variance.sqrt())
}

fn median_latency(population: &[Sample]) -> Option<f64> {
    if population.len() < POPULATION {
        return None;
    }
    let mut means: Vec<_> = population.iter().map(|totals| totals.mean_latency()).collect();
    means.sort_by(f64::total_cmp);
    let half = means.len() / 2;
    Some(if means.len() % 2 == 1 { means[half] } else { (means[half - 1] + means[half]) / 2.0 })
}

#[cfg(test)]
mod tests;
