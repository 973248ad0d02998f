//! Whether a newcomer keeps its gates: a comparison of counts, without a clock.
//!
//! Both gates are shares of requests: of those that failed, and of those that took longer than is allowed. A gate is
//! broken when the share is over its bound beyond what chance explains (the lower end of the Wilson interval, 95 %); it
//! is kept when the share as counted is not over it. Between the two it is open, and more requests decide.

use std::time::Duration;
use thalweg_observe::RouteTotals;
use thalweg_proxy::plan::CanaryGates;

/// The quantile of the normal distribution for 95 % on both sides.
const Z: f64 = 1.96;
/// Fewer than this are chance, whatever their share.
const HITS: u64 = 3;
/// The share of responses that may be slower than the bound on p99.
const SLOW: f64 = 0.01;

/// Below this a factor says little.
const FLOOR: Duration = Duration::from_millis(10);

/// What the counts say.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// There were too few requests.
    TooFew,
    /// All gates are kept.
    Kept,
    /// One is over its bound, maybe by chance.
    Open(String),
    /// One is broken, for this reason.
    Broken(String),
}

/// Judges what was counted since a step began. `baseline` is that of the same time, where it had enough requests.
pub(super) fn judge(gates: &CanaryGates, newcomer: &RouteTotals, baseline: Option<&RouteTotals>) -> Verdict {
    if newcomer.requests() < gates.min_requests {
        return Verdict::TooFew;
    }
    let baseline = baseline.filter(|baseline| baseline.requests() >= gates.min_requests);
    let mut open = None;
    for gate in [errors(gates, newcomer, baseline), slowness(gates, newcomer, baseline)].into_iter().flatten()
    {
        let Gate { hits, bound, words } = gate;
        let requests = newcomer.requests();
        if hits >= HITS && lower_end(hits, requests) > bound {
            return Verdict::Broken(words);
        }
        if hits as f64 / requests as f64 > bound {
            open.get_or_insert(words);
        }
    }
    open.map_or(Verdict::Kept, Verdict::Open)
}

/// Requests that count against a bound on their share, and what is said when it is broken.
struct Gate {
    hits: u64,
    bound: f64,
    words: String,
}

fn errors(gates: &CanaryGates, newcomer: &RouteTotals, baseline: Option<&RouteTotals>) -> Option<Gate> {
    let of_baseline = gates.error_ratio_over_baseline.zip(baseline).map(|(points, baseline)| {
        baseline.errors as f64 / baseline.requests().max(1) as f64 + f64::from(points) / 100.0
    });
    let absolute = gates.max_error_ratio.map(|percent| f64::from(percent) / 100.0);
    let bound = [of_baseline, absolute].into_iter().flatten().min_by(f64::total_cmp)?;
    let share = newcomer.errors as f64 / newcomer.requests().max(1) as f64;
    let words = format!(
        "{} of {} requests failed ({:.1} %, the gate is {:.1} %{})",
        newcomer.errors,
        newcomer.requests(),
        share * 100.0,
        bound * 100.0,
        compared(of_baseline == Some(bound)),
    );
    Some(Gate { hits: newcomer.errors, bound, words })
}

fn slowness(gates: &CanaryGates, newcomer: &RouteTotals, baseline: Option<&RouteTotals>) -> Option<Gate> {
    let of_baseline = gates.p99_over_baseline.zip(baseline).and_then(|(percent, baseline)| {
        let p99 = baseline.quantile(1.0 - SLOW)?;
        Some(p99.mul_f64(f64::from(percent) / 100.0).max(FLOOR))
    });
    let bound = [of_baseline, gates.p99].into_iter().flatten().min()?;
    let hits = newcomer.slower_than(bound);
    let words = format!(
        "{hits} of {} responses took longer than {} ({:.1} %, the gate is 1 %{})",
        newcomer.requests(),
        thalweg_core::units::duration_text(rounded(bound)),
        hits as f64 / newcomer.requests().max(1) as f64 * 100.0,
        compared(of_baseline == Some(bound)),
    );
    Some(Gate { hits, bound: SLOW, words })
}

fn compared(is_relative: bool) -> &'static str {
    if is_relative { ", by the baseline" } else { "" }
}

fn rounded(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// The lower end of the Wilson interval of a share.
fn lower_end(hits: u64, of: u64) -> f64 {
    if hits == 0 {
        return 0.0;
    }
    let (n, p) = (of as f64, hits as f64 / of.max(1) as f64);
    let middle = p + Z * Z / (2.0 * n);
    let spread = Z * ((p * (1.0 - p) + Z * Z / (4.0 * n)) / n).sqrt();
    ((middle - spread) / (1.0 + Z * Z / n)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATES: CanaryGates = CanaryGates {
        min_requests: 100,
        max_error_ratio: None,
        error_ratio_over_baseline: Some(1),
        p99: None,
        p99_over_baseline: Some(150),
    };

    /// So many requests, of which some failed, and some took a second.
    fn totals(requests: u64, errors: u64, slow: u64) -> RouteTotals {
        let mut totals = RouteTotals::sample(Duration::from_millis(8), requests - slow, errors);
        totals.record(Duration::from_secs(1), slow);
        totals
    }

    #[test]
    fn few_requests_say_nothing() {
        assert_eq!(judge(&GATES, &totals(99, 99, 0), Some(&totals(1000, 0, 0))), Verdict::TooFew);
    }

    #[test]
    fn errors_are_compared_with_those_of_the_baseline() {
        let baseline = totals(10_000, 200, 0);
        let verdict = |errors| judge(&GATES, &totals(1000, errors, 0), Some(&baseline));
        assert_eq!(verdict(20), Verdict::Kept);
        assert_eq!(verdict(30), Verdict::Kept);
        assert!(matches!(verdict(33), Verdict::Open(_)), "{:?}", verdict(33));
        let Verdict::Broken(words) = verdict(60) else { panic!("{:?}", verdict(60)) };
        assert_eq!(words, "60 of 1000 requests failed (6.0 %, the gate is 3.0 %, by the baseline)");
    }

    #[test]
    fn one_early_error_breaks_nothing() {
        let verdict = judge(&GATES, &totals(100, 2, 0), Some(&totals(1000, 0, 0)));
        assert!(matches!(verdict, Verdict::Open(_)), "{verdict:?}");
    }

    #[test]
    fn without_a_baseline_only_absolute_gates_hold() {
        assert_eq!(judge(&GATES, &totals(1000, 500, 500), None), Verdict::Kept);
        let gates = CanaryGates { max_error_ratio: Some(5), p99: Some(Duration::from_millis(100)), ..GATES };
        assert!(matches!(judge(&gates, &totals(1000, 500, 0), None), Verdict::Broken(_)));
        let Verdict::Broken(words) = judge(&gates, &totals(1000, 0, 50), None) else { panic!("kept") };
        assert_eq!(words, "50 of 1000 responses took longer than 100ms (5.0 %, the gate is 1 %)");
    }

    #[test]
    fn nothing_is_broken_by_less_than_three() {
        let gates = CanaryGates { min_requests: 1, max_error_ratio: Some(0), ..GATES };
        assert_eq!(judge(&gates, &totals(135, 0, 0), None), Verdict::Kept);
        assert!(matches!(judge(&gates, &totals(10, 2, 0), None), Verdict::Open(_)));
        assert!(matches!(judge(&gates, &totals(10, 3, 0), None), Verdict::Broken(_)));
    }

    #[test]
    fn responses_of_nearly_the_same_time_are_no_slower() {
        let at = |ms| RouteTotals::sample(Duration::from_millis(ms), 1000, 0);
        for (baseline, newcomer) in [(24, 26), (8, 11), (90, 130)] {
            assert_eq!(
                judge(&GATES, &at(newcomer), Some(&at(baseline))),
                Verdict::Kept,
                "{baseline} {newcomer}"
            );
        }
        assert!(matches!(judge(&GATES, &at(300), Some(&at(90))), Verdict::Broken(_)));
        let gates = CanaryGates { p99: Some(Duration::from_millis(800)), ..GATES };
        assert_eq!(judge(&gates, &at(550), None), Verdict::Kept);
    }

    #[test]
    fn slowness_is_compared_with_the_baseline() {
        let baseline = totals(1000, 0, 0);
        assert_eq!(judge(&GATES, &totals(1000, 0, 9), Some(&baseline)), Verdict::Kept);
        assert!(matches!(judge(&GATES, &totals(1000, 0, 30), Some(&baseline)), Verdict::Broken(_)));
        // A baseline that is as slow excuses the newcomer.
        assert_eq!(judge(&GATES, &totals(1000, 0, 30), Some(&totals(1000, 0, 30))), Verdict::Kept);
    }

    #[test]
    fn the_interval_is_that_of_the_tables() {
        assert!((lower_end(10, 100) - 0.0552).abs() < 0.001);
        assert!((100..1000).all(|of| lower_end(0, of) == 0.0));
    }
}
