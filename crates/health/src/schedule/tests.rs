use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use thalweg_upstream::HealthPolicy;

const SECOND: Duration = Duration::from_secs(1);

fn target(host: u8, policy: &HealthPolicy) -> Target {
    Target {
        address: PeerAddress::Tcp(([10, 0, 0, host], 80).into()),
        authority: "a.test".into(),
        tls: None,
        speaks_http2: false,
        policy: Arc::new(policy.clone()),
    }
}

fn failed() -> Outcome {
    Outcome::Failed("status 503".into())
}

fn passed() -> Outcome {
    Outcome::Passed("status 200".into())
}

/// Takes the next turn, whenever it comes.
fn turn(schedule: &mut Schedule) -> (Instant, Turn) {
    let now = schedule.next_turn().unwrap();
    (now, schedule.take(now).unwrap())
}

#[test]
fn equal_targets_are_one_check() {
    let policy = HealthPolicy::default();
    let mut schedule = Schedule::new(1);
    let now = Instant::now();
    schedule.set(now, &[target(1, &policy), target(1, &policy), target(2, &policy)]);
    let later = now + 2 * SECOND;
    assert!(schedule.take(later).is_some() && schedule.take(later).is_some());
    assert!(schedule.take(later).is_none());
}

#[test]
fn who_stays_keeps_turn_and_verdict_through_a_reload() {
    let policy = HealthPolicy { unhealthy_after: 2, ..HealthPolicy::default() };
    let mut schedule = Schedule::new(1);
    schedule.set(Instant::now(), &[target(1, &policy)]);
    let (now, first) = turn(&mut schedule);
    assert!(schedule.end(now, first.id, &failed()).is_none());
    let due = schedule.next_turn().unwrap();
    // The same again from another file, with a neighbour, long before its turn.
    schedule.set(now, &[target(2, &policy), target(1, &policy)]);
    assert!(schedule.turns.iter().any(|Reverse((at, id))| (*at, *id) == (due, first.id)));
    schedule.set(now, &[target(1, &policy)]);
    assert_eq!(schedule.next_turn(), Some(due));
    let (now, second) = turn(&mut schedule);
    let report = schedule.end(now, second.id, &failed()).unwrap();
    assert!(report.changed && !report.healthy, "the second failure in a row counts");
}

#[test]
fn who_is_asked_in_a_new_way_begins_with_the_old_verdict_and_says_so() {
    let policy = HealthPolicy { unhealthy_after: 1, ..HealthPolicy::default() };
    let mut schedule = Schedule::new(1);
    schedule.set(Instant::now(), &[target(1, &policy)]);
    let (now, first) = turn(&mut schedule);
    assert!(schedule.end(now, first.id, &failed()).unwrap().changed);
    schedule.set(now, &[target(1, &HealthPolicy { interval: 7 * SECOND, ..policy })]);
    assert!(!schedule.has(first.id));
    let (now, second) = turn(&mut schedule);
    let report = schedule.end(now, second.id, &passed()).unwrap();
    assert!(!report.healthy && !report.changed, "one of the two passed checks that it takes: {report:?}");
    let (now, third) = turn(&mut schedule);
    let report = schedule.end(now, third.id, &passed()).unwrap();
    assert!(report.healthy && report.changed);
}

#[test]
fn a_check_of_a_target_that_is_gone_says_nothing() {
    let policy = HealthPolicy::default();
    let mut schedule = Schedule::new(1);
    schedule.set(Instant::now(), &[target(1, &policy)]);
    let (now, first) = turn(&mut schedule);
    schedule.set(now, &[]);
    assert!(schedule.end(now, first.id, &passed()).is_none());
    assert_eq!(schedule.next_turn(), None);
}

#[test]
fn what_could_not_be_asked_is_neither_passed_nor_failed() {
    let policy = HealthPolicy { unhealthy_after: 1, ..HealthPolicy::default() };
    let mut schedule = Schedule::new(1);
    schedule.set(Instant::now(), &[target(1, &policy)]);
    for _ in 0..5 {
        let (now, turn) = turn(&mut schedule);
        assert!(schedule.end(now, turn.id, &Outcome::NotAsked("no descriptors left".into())).is_none());
    }
    let (now, last) = turn(&mut schedule);
    assert!(schedule.end(now, last.id, &failed()).unwrap().changed);
}

#[test]
fn what_is_down_is_asked_at_the_interval_for_that() {
    let policy =
        HealthPolicy { unhealthy_after: 1, interval_down: Some(60 * SECOND), ..HealthPolicy::default() };
    let mut schedule = Schedule::new(1);
    schedule.set(Instant::now(), &[target(1, &policy)]);
    let (now, first) = turn(&mut schedule);
    schedule.end(now, first.id, &failed());
    let wait = schedule.next_turn().unwrap() - now;
    assert!(wait >= 54 * SECOND && wait <= 66 * SECOND, "{wait:?}");
}

#[test]
fn a_check_that_outlasts_the_interval_is_followed_by_the_next_and_not_by_two() {
    let policy = HealthPolicy::default();
    let mut schedule = Schedule::new(1);
    schedule.set(Instant::now(), &[target(1, &policy)]);
    let (now, first) = turn(&mut schedule);
    assert!(schedule.take(now + 60 * SECOND).is_none(), "it is under way");
    let ended = now + 20 * SECOND;
    schedule.end(ended, first.id, &passed());
    assert_eq!(schedule.next_turn(), Some(ended));
}

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<(u8, u32)>),
    Wait(u64),
    End(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => prop::collection::vec((0u8..6, 1u32..3), 0..8).prop_map(Step::Set),
        4 => (0u64..8000).prop_map(Step::Wait),
        4 => (0usize..8, any::<bool>()).prop_map(|(at, good)| Step::End(at, good)),
    ]
}

proptest! {
    /// Whatever comes in whatever order: nobody is under way twice, nobody is forgotten, nobody who is
    /// gone is asked.
    #[test]
    fn every_target_either_waits_or_is_under_way(steps in prop::collection::vec(step(), 0..120)) {
        let mut schedule = Schedule::new(3);
        let mut now = Instant::now();
        let mut under_way: Vec<Turn> = Vec::new();
        let mut wanted: HashSet<Target> = HashSet::new();
        for step in steps {
            match step {
                Step::Set(hosts) => {
                    let of = |(host, after)| {
                        target(host, &HealthPolicy { unhealthy_after: after, ..HealthPolicy::default() })
                    };
                    let targets: Vec<_> = hosts.into_iter().map(of).collect();
                    schedule.set(now, &targets);
                    wanted = targets.into_iter().collect();
                    under_way.retain(|turn| schedule.has(turn.id));
                }
                Step::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    while let Some(turn) = schedule.take(now) {
                        prop_assert!(wanted.contains(&turn.target));
                        prop_assert!(under_way.iter().all(|other| other.target != turn.target));
                        under_way.push(turn);
                    }
                }
                Step::End(at, good) if !under_way.is_empty() => {
                    let turn = under_way.swap_remove(at % under_way.len());
                    let outcome = if good { passed() } else { failed() };
                    schedule.end(now, turn.id, &outcome);
                }
                Step::End(..) => {}
            }
            prop_assert_eq!(schedule.entries.len(), wanted.len());
            prop_assert_eq!(schedule.turns.len() + under_way.len(), wanted.len());
        }
    }
}
