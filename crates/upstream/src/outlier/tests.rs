use super::*;
use proptest::prelude::*;

fn sample(requests: u64, failures: u64, latency_us: u64) -> Sample {
    let answered = requests - failures;
    Sample { requests, failures, answered, latency_us: latency_us * answered }
}

fn judged(totals: Sample) -> Judged {
    Judged { totals, is_out: false }
}

fn indices(found: &[(usize, Cause)]) -> Vec<usize> {
    found.iter().map(|(at, _)| *at).collect()
}

#[test]
fn what_is_older_than_the_window_is_forgotten() {
    let mut window = Window::new(Duration::from_secs(10), 0, Sample::default());
    assert_eq!(window.push(500, sample(10, 5, 1)), sample(10, 5, 1));
    assert_eq!(window.push(9_900, sample(30, 5, 1)).requests, 30);
    assert_eq!(window.push(10_000, sample(30, 5, 1)), sample(20, 0, 1));
    assert_eq!(window.push(19_999, sample(30, 5, 1)), Sample::default());
}

#[test]
fn the_counts_from_before_the_window_are_not_in_it() {
    let mut window = Window::new(Duration::from_secs(10), 77_000, sample(1_000, 500, 1));
    assert_eq!(window.push(78_000, sample(1_001, 500, 1)).requests, 1);
    assert_eq!(window.totals().failures, 0);
    window.clear();
    assert_eq!(window.push(78_100, sample(1_001, 500, 1)), Sample::default());
}

#[test]
fn a_share_of_failures_ejects_once_there_were_enough_requests() {
    let policy = EjectionPolicy { failures: Some(50), ..EjectionPolicy::default() };
    let members = [sample(19, 19, 0), sample(20, 10, 1), sample(20, 9, 1), sample(0, 0, 0)].map(judged);
    assert_eq!(find_outliers(&policy, &members), [(1, Cause::Failures(0.5))]);
}

#[test]
fn no_more_than_the_share_that_may_be_out_and_the_worst_first() {
    let policy = EjectionPolicy { failures: Some(10), ..EjectionPolicy::default() };
    let mut members = [40, 100, 60, 80, 50].map(|failures| judged(sample(100, failures, 1)));
    assert_eq!(indices(&find_outliers(&policy, &members)), [1, 3]);
    members[1].is_out = true;
    assert_eq!(indices(&find_outliers(&policy, &members)), [3]);
    members[3].is_out = true;
    assert!(find_outliers(&policy, &members).is_empty());
    assert!(find_outliers(&policy, &members[..1]).is_empty(), "one alone stays");
    let all = EjectionPolicy { max_share: 100, ..policy };
    assert_eq!(indices(&find_outliers(&all, &members)), [2, 4, 0]);
}

#[test]
fn the_success_rate_is_compared_with_all_and_needs_five_for_envoys_factor() {
    let policy = EjectionPolicy { success_rate: Some(19), ..EjectionPolicy::default() };
    let members = [1, 0, 2, 1, 0, 30].map(|failures| judged(sample(100, failures, 1)));
    let found = find_outliers(&policy, &members);
    assert!(
        matches!(found[..], [(5, Cause::SuccessRate { own, .. })] if (own - 0.7).abs() < 1e-9),
        "{found:?}"
    );
    // Not even one that fails always is so far from the mean of four.
    let four = [0, 0, 0, 100].map(|failures| judged(sample(100, failures, 1)));
    assert!(find_outliers(&policy, &four).is_empty());
    let five = [0, 0, 0, 0, 100].map(|failures| judged(sample(100, failures, 1)));
    assert_eq!(indices(&find_outliers(&policy, &five)), [4]);
    let lower = EjectionPolicy { success_rate: Some(10), ..policy };
    assert_eq!(indices(&find_outliers(&lower, &four)), [3]);
    assert!(find_outliers(&lower, &four[2..]).is_empty(), "two are no population");
}

#[test]
fn who_is_slower_than_the_others_is_found_among_three() {
    let policy = EjectionPolicy { latency: Some(200), ..EjectionPolicy::default() };
    let members = [1_000, 1_100, 2_201].map(|latency| judged(sample(100, 0, latency)));
    let found = find_outliers(&policy, &members);
    assert_eq!(found, [(2, Cause::Latency { own: 2_201.0, median: 1_100.0 })]);
    let exactly = [1_000, 1_100, 2_200].map(|latency| judged(sample(100, 0, latency)));
    assert!(find_outliers(&policy, &exactly).is_empty());
    assert!(find_outliers(&policy, &members[1..]).is_empty());
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let count = prop_oneof![0u64..100, any::<u64>()];
    (count.clone(), count.clone(), count.clone(), count).prop_map(
        |(requests, failures, answered, latency_us)| Sample { requests, failures, answered, latency_us },
    )
}

proptest! {
    /// Beside a list of all gains with their times.
    #[test]
    fn a_window_holds_what_was_gained_in_it(
        gains in prop::collection::vec((0u64..3_000, 0u64..50), 1..60),
        begin in 0u64..1_000_000,
    ) {
        let mut window = Window::new(Duration::from_secs(10), begin, Sample::default());
        let (mut now, mut requests, mut all) = (begin, 0, Vec::new());
        for (wait, gain) in gains {
            now += wait;
            requests += gain;
            all.push((now, gain));
            let totals = window.push(now, Sample { requests, ..Sample::default() });
            let first = (now / 1_000).saturating_sub(9);
            let expected: u64 = all.iter().filter(|(at, _)| at / 1_000 >= first).map(|(_, gain)| gain).sum();
            prop_assert_eq!(totals.requests, expected);
        }
    }

    /// Counters that go back, stand still or jump, at times that do the same.
    #[test]
    fn a_window_bears_everything(steps in prop::collection::vec((any::<u64>(), any_sample()), 0..40), length: u64) {
        let mut window = Window::new(Duration::from_millis(length), 0, Sample::default());
        for (now, counters) in steps {
            window.push(now, counters);
        }
    }

    #[test]
    fn outliers_are_members_in_service_within_their_share_and_each_once(
        members in prop::collection::vec((any_sample(), prop::bool::weighted(0.2)), 0..20),
        (failures, success_rate, latency) in
            (prop::option::of(1u32..=100), prop::option::of(1u32..=100), prop::option::of(110u32..=10_000)),
        (min_requests, max_share) in (0u32..50, 0u32..=100),
    ) {
        let policy =
            EjectionPolicy { failures, success_rate, latency, min_requests, max_share, ..EjectionPolicy::default() };
        let members: Vec<_> = members.into_iter().map(|(totals, is_out)| Judged { totals, is_out }).collect();
        let found = find_outliers(&policy, &members);
        let out = members.iter().filter(|member| member.is_out).count();
        prop_assert!(found.is_empty() || (found.len() + out) * 100 <= members.len() * max_share as usize);
        let mut seen = indices(&found);
        prop_assert!(seen.iter().all(|at| !members[*at].is_out));
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), found.len());
        prop_assert!(found.is_empty() || failures.or(success_rate).or(latency).is_some());
    }
}
