//! Endpoints that are left out because requests failed there, and how they come back.

use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::endpoint::Mood;
use thalweg_tests::{Endpoint, STEP};

use super::house::{House, ask, count, who};
use super::watchdog;

#[test]
fn an_endpoint_that_fails_so_often_in_a_row_gets_nothing_until_its_time_is_over() {
    let _watchdog = watchdog("an_endpoint_that_fails_so_often_in_a_row_gets_nothing_until_its_time_is_over");
    let more = ["ejection: { consecutive: 3, statuses: [ 5xx ], time: 1m }", "retry: { attempts: 1 }"];
    let house = House::new(2, &more);
    house.endpoints[0].tell(Mood::Status(500));
    while house.events.all().is_empty() {
        let answer = ask(&house.proxy, "/", "");
        assert!([200, 500].contains(&answer.status()), "{answer:?}");
    }
    house.told(0, "endpoint_down", Some(0));
    let state = house.events.all()[0].data["endpoints"][0]["state"].clone();
    assert_eq!(state, "ejected");
    let before = house.endpoints[0].count();
    assert_eq!(house.answers(60), "b".repeat(60));
    assert_eq!(house.endpoints[0].count(), before);
    // What was under way on the other worker is all that there may be more than three.
    assert_eq!(before, 3);
}

#[test]
fn an_ejected_endpoint_comes_back_by_one_trial_and_has_its_share_again() {
    let _watchdog = watchdog("an_ejected_endpoint_comes_back_by_one_trial_and_has_its_share_again");
    let more = [
        "ejection: { consecutive: 2, statuses: [ 5xx ], time: 200ms, max_time: 400ms }",
        "retry: { attempts: 2, statuses: [ 500 ], budget: 100% }",
    ];
    let house = House::new(2, &more);
    house.endpoints[0].tell(Mood::Status(500));
    while house.events.all().is_empty() {
        house.answers(1);
    }
    // Trials fail, which no client sees.
    let trials = house.endpoints[0].count() + 3;
    while house.endpoints[0].count() < trials {
        house.answers(1);
    }
    assert_eq!(house.events.all().len(), 1, "trials that fail are no news");
    house.endpoints[0].tell(Mood::Ok);
    while house.events.all().len() < 2 {
        house.answers(1);
    }
    house.told(1, "endpoint_up", Some(0));
    let answers = house.answers(40);
    assert!(count(&answers, 'a') >= 18, "{answers}");
}

#[test]
fn an_endpoint_that_refuses_connections_is_left_out_at_once_and_comes_back_by_itself() {
    let _watchdog =
        watchdog("an_endpoint_that_refuses_connections_is_left_out_at_once_and_comes_back_by_itself");
    let house = House::new(2, &["ejection: off"]);
    house.answers(4);
    house.endpoints[0].tell(Mood::Refuse);
    house.answers(20);
    house.told(0, "endpoint_down", Some(0));
    house.endpoints[0].tell(Mood::Ok);
    while house.events.all().len() < 2 {
        house.answers(1);
    }
    house.told(1, "endpoint_up", Some(0));
    let answers = house.answers(40);
    assert!(count(&answers, 'a') >= 18, "{answers}");
}

/// What was asked before it began to fail says nothing for it.
#[test]
fn an_answer_that_was_under_way_before_an_ejection_does_not_end_it() {
    let _watchdog = watchdog("an_answer_that_was_under_way_before_an_ejection_does_not_end_it");
    let more = ["ejection: { consecutive: 3, statuses: [ 5xx ], time: 1m }", "retry: { attempts: 1 }"];
    let house = House::new(2, &more);
    house.endpoints[0].tell(Mood::Slow(Duration::from_millis(1500)));
    thread::scope(|scope| {
        // One worker gets three of them at least, and asks each endpoint in turn.
        let slow: Vec<_> = (0..6).map(|_| scope.spawn(|| who(&ask(&house.proxy, "/", "")))).collect();
        let end = Instant::now() + STEP;
        while house.endpoints.iter().map(Endpoint::count).sum::<u64>() < 6 {
            assert!(Instant::now() < end, "not all are asked");
        }
        house.endpoints[0].tell(Mood::Status(500));
        while house.events.all().is_empty() {
            ask(&house.proxy, "/", "");
        }
        let names: String = slow.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(names.contains('a'), "{names}");
    });
    assert_eq!(house.answers(40), "b".repeat(40));
    assert_eq!(house.events.all().len(), 1, "{:#?}", house.events.all());
}

/// Each attempt has its own time, also on connections that were kept from before.
#[test]
fn an_attempt_after_one_that_was_too_slow_has_a_time_of_its_own() {
    let _watchdog = watchdog("an_attempt_after_one_that_was_too_slow_has_a_time_of_its_own");
    let more = [
        "ejection: off",
        "retry: { attempts: 2, per_try_timeout: 200ms, budget: 100%, min_retries_per_second: 100 }",
    ];
    let house = House::new(2, &more);
    // So that both workers keep connections to both.
    house.answers(20);
    house.endpoints[0].tell(Mood::Slow(Duration::from_secs(1)));
    assert_eq!(house.answers(8), "b".repeat(8));
    assert!(house.endpoints[0].count() > 10, "none was tried there first");
}
