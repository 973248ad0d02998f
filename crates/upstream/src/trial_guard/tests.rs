use super::*;
use crate::service_shared::Notifier;
use proptest::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

const POLICY: BreakerPolicy = BreakerPolicy {
    failures: 50,
    window: Duration::from_secs(10),
    min_requests: 20,
    open: Duration::from_secs(5),
    trials: 3,
};

fn service(policy: BreakerPolicy) -> (Arc<ServiceShared>, Arc<AtomicUsize>) {
    let rings = Arc::new(AtomicUsize::new(0));
    let heard = rings.clone();
    let bell = Notifier::new(move || {
        heard.fetch_add(1, Relaxed);
    });
    let service = Arc::new(ServiceShared::new("s".into(), 2, bell));
    service.set_breaker(Some(policy), Instant::now());
    (service, rings)
}

/// Lets so many requests fail.
fn fail(service: &ServiceShared, requests: u32) {
    (0..requests).for_each(|at| service.count(at as usize % 2, None));
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn it_opens_by_what_all_workers_counted_and_says_how_long() {
    let ((service, rings), now) = (service(POLICY), Instant::now());
    fail(&service, 19);
    assert_eq!(service.judge(now), None);
    assert!(service.admit(now).unwrap().is_none());
    fail(&service, 1);
    assert_eq!(rings.load(Relaxed), 0);
    assert_eq!(service.judge(now), Some(BreakerChange::Opened));
    assert_eq!((service.breaker(), rings.load(Relaxed)), (BreakerState::Open, 1));
    let refused = service.admit(now + secs(2)).unwrap_err();
    assert_eq!(refused.after, secs(3));
}

/// Time passes and requests succeed after some trouble: neither opens the breaker, though each brings the window to
/// `min_requests` with a share of failures above the bound.
#[test]
fn it_opens_at_a_failure_alone_and_never_when_the_trouble_is_over() {
    let ((service, rings), start) = (service(POLICY), Instant::now());
    for _ in 0..15 {
        fail(&service, 1);
        assert_eq!(service.judge(start), None);
    }
    for ms in (100..9_000).step_by(100) {
        service.count(0, Some(Duration::ZERO));
        service.tick_breaker(start + Duration::from_millis(ms));
        assert_eq!(service.breaker(), BreakerState::Closed, "{ms} ms");
    }
    assert!(service.admit(start + secs(9)).unwrap().is_none());
    assert!(!service.breaker_has_opened());
    assert_eq!(rings.load(Relaxed), 0);
}

#[test]
fn it_opens_at_the_failure_that_is_one_too_many_and_tells_so_once() {
    let ((service, _), start) = (service(POLICY), Instant::now());
    let mut opened = None;
    // A failure and a success every 10 ms: 20 requests, half of them failed, after the tenth.
    for at in 0..20 {
        let now = start + Duration::from_millis(at * 10);
        service.count(0, Some(Duration::ZERO));
        fail(&service, 1);
        if service.judge(now).is_some() {
            opened = Some(at);
            break;
        }
    }
    assert_eq!(opened, Some(9));
    assert!(service.admit(start + Duration::from_millis(90)).is_err(), "at once, not with the next second");
    assert!(service.breaker_has_opened());
    assert!(!service.breaker_has_opened());
}

/// Successes that came long before a failure do not hide it.
#[test]
fn what_succeeded_before_the_window_does_not_count_at_the_next_failure() {
    let ((service, _), start) = (service(POLICY), Instant::now());
    (0..1_000).for_each(|_| service.count(0, Some(Duration::ZERO)));
    (0..=12).for_each(|at| service.tick_breaker(start + secs(at)));
    fail(&service, 20);
    assert_eq!(service.judge(start + secs(12)), Some(BreakerChange::Opened));
}

#[test]
fn once_closed_it_is_not_opened_again_by_what_failed_before() {
    let ((service, rings), now) = (service(POLICY), Instant::now());
    fail(&service, 1_000);
    service.judge(now);
    let trials: Vec<_> = (0..3).map(|_| service.admit(now + secs(5)).unwrap().unwrap()).collect();
    assert_eq!(service.breaker(), BreakerState::HalfOpen);
    assert_eq!(service.admit(now + secs(5)).unwrap_err().after, Duration::ZERO, "the trials decide");
    let changes: Vec<_> = trials.into_iter().filter_map(|trial| trial.succeeded(now + secs(6))).collect();
    assert_eq!(changes, [BreakerChange::Closed]);
    assert_eq!(service.breaker(), BreakerState::Closed);
    assert_eq!(rings.load(Relaxed), 3, "opened, half open, closed");
    assert_eq!(service.judge(now + secs(7)), None);
    fail(&service, 20);
    assert_eq!(service.judge(now + secs(8)), Some(BreakerChange::Opened));
}

#[test]
fn another_policy_begins_closed_and_trials_from_before_say_nothing_of_it() {
    let ((service, _), now) = (service(POLICY), Instant::now());
    fail(&service, 100);
    service.judge(now);
    let old = service.admit(now + secs(5)).unwrap().unwrap();
    service.set_breaker(Some(POLICY), now);
    assert_eq!(service.breaker(), BreakerState::HalfOpen, "the same policy changes nothing");
    service.set_breaker(Some(BreakerPolicy { trials: 1, ..POLICY }), now + secs(5));
    assert_eq!(service.breaker(), BreakerState::Closed);
    fail(&service, 100);
    service.judge(now + secs(6));
    let new = service.admit(now + secs(11)).unwrap().unwrap();
    assert_eq!(old.succeeded(now + secs(11)), None);
    assert_eq!(new.succeeded(now + secs(11)), Some(BreakerChange::Closed));
    service.set_breaker(None, now + secs(12));
    fail(&service, 100);
    assert_eq!(service.judge(now + secs(13)), None);
}

#[derive(Clone, Debug)]
enum Step {
    Count(u32, bool),
    Judge,
    Wait(u64),
    Come,
    /// One under way ends: in success, failure, or without a word.
    End(usize, Option<bool>),
    Reload(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1u32..30, any::<bool>()).prop_map(|(count, failed)| Step::Count(count, failed)),
        3 => Just(Step::Judge),
        3 => (0u64..4_000).prop_map(Step::Wait),
        8 => Just(Step::Come),
        6 => (0usize..16, prop::option::of(prop::bool::weighted(0.7))).prop_map(|(at, end)| Step::End(at, end)),
        1 => (1u32..4).prop_map(Step::Reload),
    ]
}

proptest! {
    /// Exchanges of several workers in any order: never more trials under way than the policy allows, none
    /// within the open time, and it closes once all that come succeed.
    #[test]
    fn trials_are_few_and_it_always_recovers(steps in prop::collection::vec(step(), 0..300), trials in 1u32..4) {
        let mut policy = BreakerPolicy { trials, ..POLICY };
        let (service, _) = service(policy);
        let (mut now, mut under_way) = (Instant::now(), Vec::<TrialGuard>::new());
        let mut opened = None;
        for step in steps {
            let change = match step {
                Step::Count(count, true) => { fail(&service, count); None }
                Step::Count(count, false) => {
                    (0..count).for_each(|at| service.count(at as usize % 2, Some(Duration::ZERO)));
                    None
                }
                Step::Judge => service.judge(now),
                Step::Wait(ms) => { now += Duration::from_millis(ms); None }
                Step::Reload(trials) => {
                    // Those of another policy are counted anew.
                    if policy.trials != trials { under_way.clear(); opened = None; }
                    policy.trials = trials;
                    service.set_breaker(Some(policy), now);
                    None
                }
                Step::Come => {
                    let (state, came) = (service.breaker(), service.admit(now));
                    let still_open = opened.is_some_and(|at| now < at + POLICY.open);
                    prop_assert_eq!(matches!(came, Ok(None)), state == BreakerState::Closed);
                    prop_assert!(came.is_err() || !still_open);
                    under_way.extend(came.ok().flatten());
                    let now = under_way.iter().filter(|guard| guard.trial == under_way[under_way.len() - 1].trial);
                    prop_assert!(now.count() <= policy.trials as usize);
                    None
                }
                Step::End(at, end) if !under_way.is_empty() => {
                    let guard = under_way.swap_remove(at % under_way.len());
                    match end {
                        Some(true) => guard.succeeded(now),
                        Some(false) => guard.failed(now),
                        None => None,
                    }
                }
                Step::End(..) => None,
            };
            match change {
                Some(BreakerChange::Opened) => opened = Some(now),
                Some(BreakerChange::Closed) => opened = None,
                None => {}
            }
        }
        drop(under_way);
        now += POLICY.open + Duration::from_millis(1);
        for _ in 0..policy.trials {
            if let Some(guard) = service.admit(now).expect("trials are free") {
                guard.succeeded(now);
            }
        }
        prop_assert_eq!(service.breaker(), BreakerState::Closed);
    }
}

/// Workers on threads of their own, with every fifth trial given up and the service well again from some
/// moment on.
#[test]
fn workers_on_threads_never_try_more_at_once_than_allowed_and_close_it() {
    let (service, _) = service(POLICY);
    let (start, clock, under_way) = (Instant::now(), AtomicU64::new(0), Mutex::new(Vec::new()));
    let well = AtomicBool::new(false);
    fail(&service, 100);
    service.judge(start);
    let now = || start + Duration::from_millis(clock.load(Relaxed));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (service, clock, under_way, well, now) = (&service, &clock, &under_way, &well, &now);
            scope.spawn(move || {
                for turn in 0..5_000 {
                    clock.fetch_add(2, Relaxed);
                    if (worker, turn) == (0, 4_000) {
                        well.store(true, Relaxed);
                    }
                    let Ok(Some(guard)) = service.admit(now()) else { continue };
                    let trial = guard.trial;
                    let mut trials = under_way.lock().unwrap();
                    trials.push(trial);
                    let now_under_way = trials.iter().filter(|other| **other == trial).count();
                    drop(trials);
                    assert!(now_under_way <= POLICY.trials as usize, "{now_under_way} are under way");
                    std::thread::yield_now();
                    let mut trials = under_way.lock().unwrap();
                    let at = trials.iter().position(|other| *other == trial).unwrap();
                    trials.swap_remove(at);
                    drop(trials);
                    match well.load(Relaxed) {
                        true => drop(guard.succeeded(now())),
                        false if turn % 5 == 0 => drop(guard),
                        false => drop(guard.failed(now())),
                    }
                }
            });
        }
    });
    for _ in 0..POLICY.trials {
        let later = now() + POLICY.open;
        if let Some(guard) = service.admit(later).expect("a trial is free") {
            guard.succeeded(later);
        }
    }
    assert_eq!(service.breaker(), BreakerState::Closed);
}
