//! Objectives over hours and days, in no time.

use super::*;

/// The beginning of an hour, in milliseconds.
const START: u64 = 1_800_000_000_000;
const MINUTE: u64 = 60_000;

fn policy(target: u32, window_h: u64, slower_than: Option<Duration>) -> SloPolicy {
    let (name, about) = ("checkout".into(), SloSubject::Route("checkout".into()));
    SloPolicy { name, about, target, window: Duration::from_secs(window_h * 3_600), slower_than }
}

struct Run {
    slo: Slo,
    totals: Totals,
    now: u64,
    said: Vec<(u64, SloChange)>,
}

impl Run {
    fn new(policy: SloPolicy) -> Self {
        Self {
            slo: Slo::new(policy, Totals::default()),
            totals: Totals::default(),
            now: START,
            said: Vec::new(),
        }
    }

    /// So many minutes, each with 1,000 exchanges of which so many fail.
    fn minutes(&mut self, minutes: u64, failed: u64) {
        for _ in 0..minutes {
            self.totals.requests += 1_000;
            self.totals.errors += failed;
            self.totals.buckets[0] += 1_000;
            self.totals.failed[0] += failed;
            if let Some(change) = self.slo.note(&self.totals, self.now) {
                self.said.push(((self.now - START) / MINUTE, change));
            }
            self.now += MINUTE;
        }
    }
}

#[test]
fn a_total_outage_is_told_soon_and_its_end_too() {
    let mut run = Run::new(policy(999_000, 24, None));
    run.minutes(120, 0);
    run.minutes(30, 1_000);
    run.minutes(60, 0);
    let said: Vec<_> = run.said.iter().map(|(_, change)| *change).collect();
    assert_eq!(said, [SloChange::Burning, SloChange::Recovered]);
    // One hour at 14.4 times the budget is 0.86 minutes of an outage of everything.
    assert_eq!(run.said[0].0, 120);
    assert!((180..=182).contains(&run.said[1].0), "{:?}", run.said);
}

#[test]
fn a_slow_burn_is_told_later_and_what_the_budget_bears_never() {
    let mut run = Run::new(policy(999_000, 720, None));
    run.minutes(600, 5);
    assert!(run.said.is_empty(), "five times is allowed: {:?}", run.said);
    run.minutes(600, 7);
    assert_eq!(run.said.len(), 1);
    assert!((775..=785).contains(&run.said[0].0), "{:?}", run.said);
    let standing = run.slo.standing();
    assert_eq!(standing.judged, Judged { total: 1_200_000, bad: 7_200 });
    assert!(standing.is_burning && standing.budget_left == 0.0, "{standing:?}");
    assert!((standing.burn[3].1 - 7.0).abs() < 0.01, "{standing:?}");
}

#[test]
fn a_few_failures_of_a_few_are_no_outage() {
    let mut slo = Slo::new(policy(999_000, 24, None), Totals::default());
    let totals = Totals { requests: 10, errors: BAD_MIN - 1, ..Totals::default() };
    assert_eq!(slo.note(&totals, START), None);
    let totals = Totals { requests: 11, errors: BAD_MIN, ..Totals::default() };
    assert_eq!(slo.note(&totals, START + MINUTE), Some(SloChange::Burning));
}

#[test]
fn slow_ones_are_bad_and_one_that_is_slow_and_failed_is_bad_once() {
    let counts = |slow: u64, failed: u64| {
        let mut counts = Totals { requests: 100, errors: failed, ..Totals::default() };
        // Above 500 ms, up to 1 s.
        counts.buckets[10] = slow;
        counts.buckets[9] = 100 - slow;
        counts.failed[10] = failed;
        counts
    };
    let half = Some(Duration::from_millis(500));
    assert_eq!(Judged::of(&counts(20, 5), half), Judged { total: 100, bad: 20 });
    assert_eq!(Judged::of(&counts(20, 5), None), Judged { total: 100, bad: 5 });
    assert_eq!(Judged::of(&counts(20, 0), Some(Duration::from_secs(1))), Judged { total: 100, bad: 0 });
}

#[test]
fn the_budget_is_that_of_the_window_and_comes_back() {
    let mut run = Run::new(policy(990_000, 2, None));
    run.minutes(60, 5);
    let standing = run.slo.standing();
    assert!((standing.budget_left - 0.5).abs() < 1e-6, "{standing:?}");
    assert_eq!(standing.covered_s, 3_600);
    run.minutes(121, 0);
    let standing = run.slo.standing();
    assert_eq!((standing.budget_left, standing.covered_s), (1.0, 7_200));
}

#[test]
fn what_is_kept_is_taken_over_whatever_the_clock_says() {
    let mut run = Run::new(policy(999_000, 48, None));
    run.minutes(300, 2);
    let (minutes, hours, is_burning) = run.slo.kept();
    for (now, total) in
        [(run.now, 300_000), (run.now + 24 * 60 * MINUTE, 300_000), (START / 2, 300_000), (START * 2, 0)]
    {
        let mut slo = Slo::new(run.slo.policy().clone(), run.totals);
        slo.restore((&minutes, &hours, is_burning), now);
        slo.note(&run.totals, now);
        assert_eq!(slo.standing().judged.total, total, "{now}");
    }
    // Nonsense is no panic.
    let mut slo = Slo::new(run.slo.policy().clone(), run.totals);
    slo.restore((&[(u64::MAX, 1, 9), (3, 1, 1)], &[(0, u64::MAX, 0); 900], true), START);
    slo.note(&run.totals, 0);
    assert!(slo.standing().budget_left >= 0.0);
}

#[test]
fn a_clock_that_jumps_neither_panics_nor_burns() {
    let mut run = Run::new(policy(999_000, 24, None));
    for now in [START, START - 7_200_000, START + 86_400_000, 0, u64::MAX / 2, START] {
        run.now = now;
        run.minutes(2, 0);
    }
    assert!(run.said.is_empty());
}
