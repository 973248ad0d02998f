//! Endpoints that are asked whether they are well, and what follows from what they say.

use std::time::Instant;

use thalweg_tests::STEP;
use thalweg_tests::endpoint::Mood;

use super::house::{House, QUICK_CHECKS, ask, config, config_with, count, endpoints};
use super::watchdog;

fn is_unavailable(house: &House) {
    let answer = ask(&house.proxy, "/", "");
    assert_eq!(answer.status(), 503, "{answer:?}");
    let status = answer.value("proxy-status").unwrap();
    assert!(status.contains("destination_unavailable"), "{status}");
}

#[test]
fn an_endpoint_that_failed_its_checks_is_still_asked_and_comes_back() {
    let _watchdog = watchdog("an_endpoint_that_failed_its_checks_is_still_asked_and_comes_back");
    let house = House::new(2, &[QUICK_CHECKS, "ejection: off"]);
    let bad = &house.endpoints[0];
    bad.tell(Mood::Status(503));
    house.told(0, "endpoint_down", Some(0));
    assert_eq!(house.answers(20), "b".repeat(20));
    assert_eq!(bad.count(), 0, "no request has found it out");
    let (checks, end) = (bad.checks(), Instant::now() + STEP);
    while bad.checks() < checks + 3 {
        assert!(Instant::now() < end, "it is not asked any more");
    }
    bad.tell(Mood::Ok);
    house.told(1, "endpoint_up", Some(0));
    let answers = house.answers(20);
    assert!(count(&answers, 'a') >= 8, "{answers}");
}

#[test]
fn with_before_traffic_no_request_comes_before_the_first_check_has_passed() {
    let _watchdog = watchdog("with_before_traffic_no_request_comes_before_the_first_check_has_passed");
    let endpoints = endpoints(2);
    endpoints.iter().for_each(|endpoint| endpoint.tell(Mood::Status(503)));
    let health = QUICK_CHECKS.replace("health: {", "health: { initial: unhealthy,");
    let text = config(&endpoints, &[&health]);
    let house = House::of(endpoints, &text);
    for _ in 0..10 {
        is_unavailable(&house);
    }
    house.endpoints[1].tell(Mood::Ok);
    house.told(0, "endpoint_up", Some(1));
    assert_eq!(house.answers(20), "b".repeat(20));
    assert_eq!(house.endpoints[0].count(), 0, "it has never passed");
    house.endpoints[0].tell(Mood::Ok);
    house.told(0, "endpoint_up", Some(0));
    let answers = house.answers(20);
    assert!(count(&answers, 'a') >= 8, "{answers}");
}

#[test]
fn when_all_fail_their_checks_clients_are_told_so_until_one_passes() {
    let _watchdog = watchdog("when_all_fail_their_checks_clients_are_told_so_until_one_passes");
    let house = House::new(2, &[QUICK_CHECKS]);
    house.endpoints.iter().for_each(|endpoint| endpoint.tell(Mood::Status(503)));
    house.told(0, "service_unavailable", None);
    for _ in 0..10 {
        is_unavailable(&house);
    }
    assert_eq!(house.endpoints.iter().map(|endpoint| endpoint.count()).sum::<u64>(), 0);
    let hears = |what: &str| {
        house.proxy.process().wait_line(what, STEP, |line| line.starts_with(what).then_some(()));
    };
    hears("thalweg: service `s`: all 2 endpoints are down (2 unhealthy)");
    house.endpoints[1].tell(Mood::Ok);
    house.told(0, "service_available", None);
    assert_eq!(house.answers(10), "b".repeat(10));
    hears("thalweg: service `s`: an endpoint can be used again, after ");
    let stderr = house.proxy.process().stderr();
    assert_eq!(stderr.matches("endpoints are down").count(), 1, "{stderr}");
}

#[test]
fn with_try_all_those_that_failed_their_checks_serve_when_all_did() {
    let _watchdog = watchdog("with_try_all_those_that_failed_their_checks_serve_when_all_did");
    // They answer 200 to everything.
    let health = QUICK_CHECKS.replace("200", "204");
    let house = House::new(2, &[&health, "when_down: try_all"]);
    house.told(0, "service_unavailable", None);
    house.answers(20);
    assert_eq!(house.endpoints.iter().map(|endpoint| endpoint.count()).sum::<u64>(), 20);
}

#[test]
fn a_response_of_the_configuration_stands_in_when_all_are_down() {
    let _watchdog = watchdog("a_response_of_the_configuration_stands_in_when_all_are_down");
    let page = "when_down: { status: 502, content_type: text/html, body: \"<h1>soon</h1>\" }";
    let house = House::new(2, &[&QUICK_CHECKS.replace("200", "204"), page]);
    house.told(0, "service_unavailable", None);
    let answer = ask(&house.proxy, "/", "");
    assert_eq!((answer.status(), answer.text().as_str()), (502, "<h1>soon</h1>"));
    assert_eq!(answer.value("content-type"), Some("text/html"));
}

#[test]
fn backups_serve_while_the_others_are_down_and_stop_when_one_is_back() {
    let _watchdog = watchdog("backups_serve_while_the_others_are_down_and_stop_when_one_is_back");
    let endpoints = endpoints(3);
    let urls = format!(
        "[ \"{}\", \"{}\", {{ url: \"{}\", backup: true }} ]",
        endpoints[0].url(),
        endpoints[1].url(),
        endpoints[2].url()
    );
    let mut house = House::of(endpoints, &config_with(&urls, &[QUICK_CHECKS]));
    assert_eq!(count(&house.answers(20), 'c'), 0);
    house.endpoints[0].kill();
    house.told(0, "endpoint_down", Some(0));
    assert_eq!(house.answers(20), "b".repeat(20), "one of the others is well");
    house.endpoints[1].kill();
    house.told(0, "endpoint_down", Some(1));
    assert_eq!(house.answers(20), "c".repeat(20));
    house.endpoints[0].restart();
    house.told(0, "endpoint_up", Some(0));
    assert_eq!(house.answers(20), "a".repeat(20));
}

#[test]
fn below_the_panic_threshold_even_those_that_fail_their_checks_serve() {
    let _watchdog = watchdog("below_the_panic_threshold_even_those_that_fail_their_checks_serve");
    let more = [QUICK_CHECKS, "ejection: off", "panic_threshold: 50%", "retry: { attempts: 1 }"];
    let house = House::new(4, &more);
    for at in [0, 1] {
        house.endpoints[at].tell(Mood::Status(503));
        house.told(0, "endpoint_down", Some(at));
    }
    let answers = house.answers(20);
    assert_eq!(count(&answers, 'c') + count(&answers, 'd'), 20, "half is not below half");
    house.endpoints[2].tell(Mood::Status(503));
    house.told(0, "endpoint_down", Some(2));
    for _ in 0..40 {
        ask(&house.proxy, "/", "");
    }
    let counts: Vec<_> = house.endpoints.iter().map(|endpoint| endpoint.count()).collect();
    assert!(counts.iter().all(|count| *count >= 8), "{counts:?}");
}

#[test]
fn a_slow_start_is_seen_after_a_comeback() {
    let _watchdog = watchdog("a_slow_start_is_seen_after_a_comeback");
    let house = House::new(2, &[QUICK_CHECKS, "slow_start: 4s"]);
    house.endpoints[0].tell(Mood::Status(503));
    house.told(0, "endpoint_down", Some(0));
    house.endpoints[0].tell(Mood::Ok);
    house.told(0, "endpoint_up", Some(0));
    let up = house.events.all().pop().unwrap();
    assert_eq!(up.data["endpoints"][0]["state"], "slow_start", "{up:?}");
    let begun = Instant::now();
    let answers = house.answers(60);
    // A request in ten at first, and half a second later one in eight; by the full share it would be 30 of 60.
    if begun.elapsed().as_millis() < 1000 {
        let early = count(&answers, 'a');
        assert!(early < 18, "{early} of 60 at once: {answers}");
    }
    house.ask_until("its full share", 40, |answers| count(answers, 'a') >= 19);
}
