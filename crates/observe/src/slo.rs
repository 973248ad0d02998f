//! Objectives (SLOs): which share of the exchanges must be good, and how fast what may be bad is used up.
//!
//! An objective keeps two rings of sums, good and bad: minutes for six hours and hours for 30 days, 18 KB. At each
//! reading of the meters ([`Slo::note`]) it looks at pairs of windows, a long one that says that it matters and a short
//! one that says that it goes on (Google, The Site Reliability Workbook, chapter 5): it burns when the budget is used
//! up 14.4 times too fast over 1 h and 5 m, or 6 times over 6 h and 30 m. Time is an argument.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use thalweg_core::written;

use crate::meter::BOUNDS_US;
use crate::series::Timeline;
use crate::totals::{Object, ObjectKind, Totals};

/// Objectives that there may be.
pub const SLOS: usize = 100;
/// The shortest and the longest window.
pub const WINDOW_MIN: Duration = Duration::from_secs(3_600);
/// What is kept: 30 days.
pub const WINDOW_MAX: Duration = Duration::from_secs(30 * 86_400);
/// Pairs of windows, in seconds, short and long, and how many times too fast the budget may be used up in both.
pub const PAIRS: [(u64, u64, f64); 2] = [(300, 3_600, 14.4), (1_800, 21_600, 6.0)];
/// The windows, in seconds.
pub const WINDOWS: [u64; 4] = [300, 1_800, 3_600, 21_600];
/// Bad exchanges in the long window of a pair, below which it says nothing: one of three is no outage.
pub const BAD_MIN: u64 = 10;
/// How long it must have been well until it is said to have recovered, in milliseconds.
const CALM_MS: u64 = 120_000;
const MINUTES: usize = 361;
const HOURS: usize = 721;

/// What an objective is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SloSubject {
    /// The route of this name.
    Route(Arc<str>),
    /// The service of this name.
    Service(Arc<str>),
}

impl SloSubject {
    /// The thing whose meters are read.
    pub fn object(&self) -> Object<'_> {
        match self {
            Self::Route(name) => Object { kind: ObjectKind::Route, service: "", name },
            Self::Service(name) => Object { kind: ObjectKind::Service, service: "", name },
        }
    }
}

/// One objective, as configured.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SloPolicy {
    /// Its name.
    #[serde(skip)]
    pub name: Arc<str>,
    /// What it is about.
    #[serde(serialize_with = "subject")]
    pub about: SloSubject,
    /// The share that must be good, in millionths.
    #[serde(serialize_with = "share")]
    pub target: u32,
    /// Over this time, 1 h to 30 d, in whole hours.
    #[serde(serialize_with = "written::duration")]
    pub window: Duration,
    /// What takes longer is bad too: one of the bounds of the histograms.
    #[serde(serialize_with = "written::duration")]
    pub slower_than: Option<Duration>,
}

fn subject<S: Serializer>(about: &SloSubject, serializer: S) -> Result<S::Ok, S::Error> {
    match about {
        SloSubject::Route(name) => serializer.collect_str(&format_args!("route {name}")),
        SloSubject::Service(name) => serializer.collect_str(&format_args!("service {name}")),
    }
}

fn share<S: Serializer>(ppm: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{}%", f64::from(*ppm) / 1e4))
}

/// Exchanges, and those of them that were bad.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Judged {
    /// All.
    pub total: u64,
    /// Those that failed or were too slow.
    pub bad: u64,
}

impl Judged {
    /// What these counts are to an objective with this bound.
    fn of(counts: &Totals, slower_than: Option<Duration>) -> Self {
        let is_slow = |at: usize| {
            let least = at.checked_sub(1).map_or(0, |below| BOUNDS_US[below]);
            slower_than.is_some_and(|bound| u128::from(least) >= bound.as_micros())
        };
        // One that is slow and failed is bad once.
        let slow = counts.buckets.iter().zip(&counts.failed).enumerate().filter(|(at, _)| is_slow(*at));
        let slow: u64 = slow.map(|(_, (all, failed))| all.saturating_sub(*failed)).sum();
        Self { total: counts.requests, bad: counts.errors.saturating_add(slow).min(counts.requests) }
    }

    fn add(&mut self, more: Self) {
        self.total = self.total.saturating_add(more.total);
        self.bad = self.bad.saturating_add(more.bad);
    }

    /// How many times too fast the budget is used up, where so many millionths must be good.
    fn burn(self, target: u32) -> f64 {
        let allowed = f64::from(1_000_000 - target.min(999_999)) / 1e6;
        if self.total == 0 { 0.0 } else { self.bad as f64 / self.total as f64 / allowed }
    }
}

/// What an objective begins or ceases to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SloChange {
    /// Its budget is used up too fast.
    Burning,
    /// It is no longer.
    Recovered,
}

/// How an objective stands.
#[derive(Clone, Debug, PartialEq)]
pub struct SloStanding {
    /// What is configured.
    pub policy: SloPolicy,
    /// In the window, as far as it is known.
    pub judged: Judged,
    /// How much of the window is known, in seconds.
    pub covered_s: u64,
    /// What is left of the budget of the window, 0 to 1.
    pub budget_left: f64,
    /// Windows in seconds, and how many times too fast the budget was used up in each.
    pub burn: [(u64, f64); WINDOWS.len()],
    /// Whether it burns.
    pub is_burning: bool,
}

/// One ring of sums.
#[derive(Clone, Debug)]
struct Sums {
    timeline: Timeline,
    places: Box<[Judged]>,
}

/// A step that is kept: its number, and what was counted in it.
pub type KeptStep = (u64, u64, u64);

impl Sums {
    fn new(step_s: u64, places: usize) -> Self {
        Self {
            timeline: Timeline::new(step_s, places),
            places: vec![Judged::default(); places].into_boxed_slice(),
        }
    }

    fn add(&mut self, unix_ms: u64, judged: Judged) {
        self.turn_to(self.timeline.step_of(unix_ms));
        self.places[self.timeline.newest()].add(judged);
    }

    fn turn_to(&mut self, step: u64) {
        for age in 0..self.timeline.turn_to(step) {
            self.places[self.timeline.place(age)] = Judged::default();
        }
    }

    /// What was counted in so many steps, the one that goes on among them.
    fn last(&self, steps: usize) -> Judged {
        let mut sum = Judged::default();
        let ages = 0..steps.min(self.timeline.filled);
        ages.for_each(|age| sum.add(self.places[self.timeline.place(age)]));
        sum
    }

    fn kept(&self) -> Vec<KeptStep> {
        let ages = (0..self.timeline.filled).rev();
        let steps = ages.map(|age| (age, self.places[self.timeline.place(age)]));
        let head = self.timeline.head;
        let kept = steps.filter(|(age, judged)| judged.total > 0 || *age == 0);
        kept.map(|(age, judged)| (head.saturating_sub(age as u64), judged.total, judged.bad)).collect()
    }

    /// Takes over what was kept; what lies in the future is moved so that it ends now.
    fn restore(&mut self, kept: &[KeptStep], unix_ms: u64) {
        let newest = kept.iter().map(|(step, ..)| *step).max().unwrap_or(0);
        let shift = newest.saturating_sub(self.timeline.step_of(unix_ms));
        for (step, total, bad) in kept {
            // In their order; who has changed it has changed what is known.
            let step = step.saturating_sub(shift).max(self.timeline.head);
            self.turn_to(step);
            self.places[self.timeline.newest()].add(Judged { total: *total, bad: (*bad).min(*total) });
        }
    }
}

/// An objective and what is known of it.
#[derive(Clone, Debug)]
pub struct Slo {
    policy: SloPolicy,
    minutes: Sums,
    hours: Sums,
    before: Totals,
    is_burning: bool,
    /// Since when it is well, in milliseconds since the Unix epoch.
    calm_since: Option<u64>,
}

impl Slo {
    /// Nothing is known of it. What the meters have counted until now is left out.
    pub fn new(policy: SloPolicy, before: Totals) -> Self {
        let (minutes, hours) = (Sums::new(60, MINUTES), Sums::new(3_600, HOURS));
        Self { policy, minutes, hours, before, is_burning: false, calm_since: None }
    }

    /// The policy of this name may have changed: whether what is known holds for it too.
    pub fn follows(&mut self, policy: &SloPolicy) -> bool {
        let fits = self.policy.about == policy.about && self.policy.slower_than == policy.slower_than;
        if fits {
            self.policy = policy.clone();
        }
        fits
    }

    /// What it is about.
    pub fn policy(&self) -> &SloPolicy {
        &self.policy
    }

    /// The meters say this now. Says what has changed.
    pub fn note(&mut self, totals: &Totals, unix_ms: u64) -> Option<SloChange> {
        let judged = Judged::of(&totals.since(&self.before), self.policy.slower_than);
        self.before = *totals;
        self.minutes.add(unix_ms, judged);
        self.hours.add(unix_ms, judged);
        let burns = PAIRS.iter().any(|(short, long, bound)| {
            let (short, long) = (self.minutes_of(*short), self.minutes_of(*long));
            let target = self.policy.target;
            long.bad >= BAD_MIN && short.burn(target) > *bound && long.burn(target) > *bound
        });
        match (self.is_burning, burns) {
            (false, true) => {
                (self.is_burning, self.calm_since) = (true, None);
                Some(SloChange::Burning)
            }
            (true, true) => {
                self.calm_since = None;
                None
            }
            (true, false) => {
                // After a jump of the clock it waits anew.
                let since = self.calm_since.filter(|since| *since <= unix_ms).unwrap_or(unix_ms);
                self.calm_since = Some(since);
                let is_over = unix_ms - since >= CALM_MS;
                self.is_burning = !is_over;
                is_over.then_some(SloChange::Recovered)
            }
            (false, false) => None,
        }
    }

    fn minutes_of(&self, window_s: u64) -> Judged {
        self.minutes.last(usize::try_from(window_s / 60).unwrap_or(MINUTES))
    }

    /// How it stands.
    pub fn standing(&self) -> SloStanding {
        let hours = usize::try_from(self.policy.window.as_secs() / 3_600).unwrap_or(HOURS);
        let judged = self.hours.last(hours);
        let seconds = |steps: usize, step_s: u64| (steps as u64).saturating_mul(step_s);
        let (minutes, hours_known) = (self.minutes.timeline.filled, self.hours.timeline.filled);
        // The hour that goes on is not whole; its minutes are known.
        let known = seconds(minutes, 60).max(seconds(hours_known.saturating_sub(1), 3_600));
        SloStanding {
            judged,
            covered_s: known.min(self.policy.window.as_secs()),
            budget_left: (1.0 - judged.burn(self.policy.target)).clamp(0.0, 1.0),
            burn: WINDOWS.map(|window| (window, self.minutes_of(window).burn(self.policy.target))),
            is_burning: self.is_burning,
            policy: self.policy.clone(),
        }
    }

    /// Minutes, hours, and whether it burns: what outlasts the process.
    pub fn kept(&self) -> (Vec<KeptStep>, Vec<KeptStep>, bool) {
        (self.minutes.kept(), self.hours.kept(), self.is_burning)
    }

    /// Takes over what was kept, at this moment in milliseconds since the Unix epoch.
    pub fn restore(&mut self, (minutes, hours, is_burning): (&[KeptStep], &[KeptStep], bool), unix_ms: u64) {
        self.minutes.restore(minutes.get(..MINUTES.min(minutes.len())).unwrap_or_default(), unix_ms);
        self.hours.restore(hours.get(..HOURS.min(hours.len())).unwrap_or_default(), unix_ms);
        self.is_burning = is_burning;
    }
}

#[cfg(test)]
mod tests;
