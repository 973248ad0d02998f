//! When a configuration is found to do harm, and when not.

use super::*;
use thalweg_observe::Registry;

/// Meters of one worker, counted into as exchanges would.
struct Traffic(Registry);

impl Traffic {
    fn new() -> Self {
        Self(Registry::new(1))
    }

    fn add(&self, route: &str, count: u32, status: u16, ms: u64) {
        let meters = self.0.route(0, route);
        for _ in 0..count {
            meters.codes.add(status);
            meters.duration.record(Duration::from_millis(ms));
        }
    }

    fn counts(&self) -> Counts {
        self.0.route_totals().into_iter().collect()
    }
}

fn before() -> Candidate {
    let text = "listeners: { web: { address: '127.0.0.1:0' } }\nroutes: [ { to: ['http://127.0.0.1:1'] } ]\n";
    let loaded = thalweg_config::check_text("t.yaml", text, &|_| None).unwrap();
    Candidate::new(loaded, text.into(), Default::default())
}

/// A watch that begins now.
fn watching(traffic: &Traffic) -> Watcher {
    let mut watcher = Watcher::default();
    watcher.tick(Instant::now(), Counts::default);
    let next = (1, WatchOptions::of(Duration::from_secs(60)), before());
    assert!(watcher.replace(Some(next), Instant::now(), traffic.counts()).is_none());
    watcher
}

/// What is said of the traffic until now, while the watch goes on.
fn harm(watcher: &mut Watcher, traffic: &Traffic) -> Option<String> {
    match watcher.judge(Instant::now(), &traffic.counts()) {
        Verdict::Harm(_, why) => Some(why),
        Verdict::None => None,
        Verdict::Passed(_, why) => panic!("it has ended: {why}"),
    }
}

/// What is said at the end of the watch.
fn end(watcher: &mut Watcher, traffic: &Traffic) -> String {
    match watcher.judge(Instant::now() + Duration::from_secs(61), &traffic.counts()) {
        Verdict::Passed(_, why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn failures_past_the_threshold_are_harm() {
    let traffic = Traffic::new();
    traffic.add("a", 1000, 200, 1);
    let mut watcher = watching(&traffic);
    traffic.add("a", 95, 200, 1);
    traffic.add("a", 5, 502, 1);
    assert_eq!(harm(&mut watcher, &traffic), None, "5 of 100 are not more than 5 points above none");
    traffic.add("a", 1, 502, 1);
    assert!(harm(&mut watcher, &traffic).is_some(), "6 of 101 are");
}

#[test]
fn the_share_of_before_counts() {
    let traffic = Traffic::new();
    traffic.add("a", 900, 200, 1);
    traffic.add("a", 100, 500, 1);
    let mut watcher = watching(&traffic);
    traffic.add("a", 86, 200, 1);
    traffic.add("a", 14, 500, 1);
    assert_eq!(harm(&mut watcher, &traffic), None, "14 % where it was 10 %");
    traffic.add("a", 10, 500, 1);
    let why = harm(&mut watcher, &traffic).unwrap();
    assert_eq!(why, "route `a`: 21.8 % of 110 requests failed with 5xx, 10.0 % before");
    assert!(!watcher.is_watching(), "a verdict is an end");
}

#[test]
fn few_requests_and_few_failures_are_not_judged() {
    let traffic = Traffic::new();
    let mut watcher = watching(&traffic);
    traffic.add("a", 19, 500, 1);
    assert_eq!(harm(&mut watcher, &traffic), None, "fewer requests than the least");
    traffic.add("b", 16, 200, 1);
    traffic.add("b", 4, 500, 1);
    assert_eq!(harm(&mut watcher, &traffic), None, "fewer failures than the least");
    traffic.add("a", 1, 500, 1);
    assert!(harm(&mut watcher, &traffic).is_some(), "a route without a before is held against none");
}

#[test]
fn answers_that_are_not_the_servers_fault_are_no_harm() {
    let traffic = Traffic::new();
    let mut watcher = watching(&traffic);
    traffic.add("a", 1000, 404, 1);
    traffic.add("", 1000, 404, 1);
    assert_eq!(harm(&mut watcher, &traffic), None);
}

#[test]
fn a_p99_past_the_factor_is_harm() {
    let traffic = Traffic::new();
    traffic.add("a", 200, 200, 20);
    let mut watcher = watching(&traffic);
    traffic.add("a", 99, 200, 200);
    assert_eq!(harm(&mut watcher, &traffic), None, "too few");
    traffic.add("a", 1, 200, 200);
    let why = harm(&mut watcher, &traffic).unwrap();
    assert!(why.starts_with("route `a`: p99 is 248ms, 24ms before"), "{why}");
}

#[test]
fn a_p99_is_judged_only_where_there_was_one_and_it_matters() {
    let traffic = Traffic::new();
    traffic.add("fast", 1000, 200, 0);
    let mut watcher = watching(&traffic);
    traffic.add("new", 1000, 200, 5000);
    traffic.add("fast", 1000, 200, 9);
    assert_eq!(harm(&mut watcher, &traffic), None);
}

#[test]
fn what_was_counted_long_before_does_not_count() {
    let traffic = Traffic::new();
    let mut watcher = Watcher::default();
    let start = Instant::now();
    // A bad hour, then two good minutes.
    traffic.add("a", 1000, 500, 1);
    for second in [0, 61, 122] {
        watcher.tick(start + Duration::from_secs(second), || traffic.counts());
        traffic.add("a", 100, 200, 1);
    }
    let next = (1, WatchOptions::of(Duration::from_secs(60)), before());
    watcher.replace(Some(next), Instant::now(), traffic.counts());
    traffic.add("a", 80, 200, 1);
    traffic.add("a", 20, 500, 1);
    let why = harm(&mut watcher, &traffic).unwrap();
    assert!(why.ends_with("20.0 % of 100 requests failed with 5xx, 0.0 % before"), "{why}");
}

#[test]
fn a_watch_ends_with_a_summary_and_says_when_it_could_not_judge() {
    let traffic = Traffic::new();
    let mut quiet = watching(&traffic);
    traffic.add("a", 3, 200, 1);
    let why = end(&mut quiet, &traffic);
    assert_eq!(why, "kept, but not judged: in 1m there were 3 requests, and no route had 20");
    let mut busy = watching(&traffic);
    traffic.add("a", 100, 200, 1);
    assert_eq!(end(&mut busy, &traffic), "kept: in 1m 0.0 % of 100 requests failed with 5xx, 0.0 % before");
    assert!(!busy.is_watching());
}

#[test]
fn harm_at_the_last_moment_is_harm() {
    let traffic = Traffic::new();
    let mut watcher = watching(&traffic);
    traffic.add("a", 100, 500, 1);
    let verdict = watcher.judge(Instant::now() + Duration::from_secs(61), &traffic.counts());
    assert!(matches!(verdict, Verdict::Harm(..)), "{verdict:?}");
}

#[test]
fn another_configuration_ends_the_watch() {
    let traffic = Traffic::new();
    let mut watcher = watching(&traffic);
    assert_eq!(watcher.replace(None, Instant::now(), traffic.counts()).map(|watch| watch.number), Some(1));
    assert!(!watcher.is_watching());
}

#[test]
fn what_another_configuration_did_is_no_before() {
    let traffic = Traffic::new();
    let mut watcher = watching(&traffic);
    traffic.add("a", 1000, 500, 1);
    // It is taken back, and the next one is as bad.
    watcher.replace(None, Instant::now(), traffic.counts());
    traffic.add("a", 100, 200, 1);
    let next = (2, WatchOptions::of(Duration::from_secs(60)), before());
    watcher.replace(Some(next), Instant::now(), traffic.counts());
    traffic.add("a", 100, 500, 1);
    let why = harm(&mut watcher, &traffic).unwrap();
    assert!(why.ends_with("100.0 % of 100 requests failed with 5xx, 0.0 % before"), "{why}");
}

#[test]
fn a_share_of_a_few_before_is_none() {
    let traffic = Traffic::new();
    traffic.add("a", 1, 500, 1);
    let mut watcher = watching(&traffic);
    traffic.add("a", 100, 500, 1);
    assert!(harm(&mut watcher, &traffic).unwrap().ends_with("0.0 % before"));
}
