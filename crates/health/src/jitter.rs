//! When checks happen, so that they do not happen together. Pure.
//!
//! What looks random follows from the target and a seed: a target keeps its place from one
//! [`Checks::set`](crate::Checks::set) to the next, and two proxies with the same endpoints do not beat in time.

use crate::target::Target;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// First checks are spread over the interval, but not over more than this.
const FIRST: Duration = Duration::from_secs(1);
/// The interval varies by this share of itself to either side.
const JITTER: f64 = 0.1;

/// The number that a target's times follow from.
pub(crate) fn place(seed: u64, target: &Target) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, target).hash(&mut hasher);
    hasher.finish()
}

/// From the moment when a target becomes known to its first check.
pub(crate) fn first(place: u64, target: &Target) -> Duration {
    if target.policy.starts_unhealthy {
        return Duration::ZERO;
    }
    target.policy.interval.min(FIRST).mul_f64(fraction(place))
}

/// From the start of the check number `round` to the start of the next.
pub(crate) fn next(place: u64, round: u64, interval: Duration) -> Duration {
    interval.mul_f64(1.0 + JITTER * (2.0 * fraction(place.wrapping_add(mix(round))) - 1.0))
}

/// 0 up to, not including, 1.
fn fraction(number: u64) -> f64 {
    (mix(number) >> 11) as f64 / (1u64 << 53) as f64
}

/// SplitMix64's finalizer: every bit of the result depends on every bit of the number.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use thalweg_upstream::{HealthPolicy, PeerAddress};

    fn target(host: u16, policy: &Arc<HealthPolicy>) -> Target {
        let [high, low] = host.to_be_bytes();
        Target {
            address: PeerAddress::Tcp(([10, 0, high, low], 80).into()),
            authority: "a.test".into(),
            tls: None,
            speaks_http2: false,
            policy: policy.clone(),
        }
    }

    #[test]
    fn the_first_checks_of_a_thousand_targets_are_spread_over_a_second() {
        let policy = Arc::new(HealthPolicy::default());
        let mut tenths = [0; 10];
        let mut per_millisecond = vec![0; 1000];
        for host in 0..1000 {
            let target = target(host, &policy);
            let wait = first(place(7, &target), &target).as_micros() as usize;
            tenths[wait / 100_000] += 1;
            per_millisecond[wait / 1000] += 1;
        }
        assert!(tenths.iter().all(|count| (60..=140).contains(count)), "{tenths:?}");
        assert!(per_millisecond.iter().all(|count| *count <= 8));
    }

    #[test]
    fn a_target_that_must_be_known_before_traffic_is_asked_at_once() {
        let policy = Arc::new(HealthPolicy { starts_unhealthy: true, ..HealthPolicy::default() });
        let target = target(1, &policy);
        assert_eq!(first(place(7, &target), &target), Duration::ZERO);
    }

    #[test]
    fn another_seed_is_another_rhythm() {
        let target = target(1, &Arc::new(HealthPolicy::default()));
        assert_ne!(first(place(1, &target), &target), first(place(2, &target), &target));
        assert_eq!(place(1, &target), place(1, &target));
    }

    proptest! {
        #[test]
        fn intervals_stay_within_a_tenth_and_are_right_on_average(place: u64, millis in 100u64..3_600_000) {
            let interval = Duration::from_millis(millis);
            let waits: Vec<_> = (0..500).map(|round| next(place, round, interval).as_secs_f64()).collect();
            let length = interval.as_secs_f64();
            let (least, most) = (length * 0.9 - 1e-6, length * 1.1 + 1e-6);
            prop_assert!(waits.iter().all(|wait| (least..most).contains(wait)));
            let mean = waits.iter().sum::<f64>() / 500.0;
            // The deviation of the mean of 500 is 0.0026 of the interval; six of them.
            prop_assert!((mean / length - 1.0).abs() < 0.016, "{mean} of {length}");
        }
    }
}
