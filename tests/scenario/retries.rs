//! Trying again: when, where, how often, and what the client gets when nothing helps.

use std::time::{Duration, Instant};

use thalweg_tests::message::{fetch, get};
use thalweg_tests::{Proxy, Upstream};

use super::scripted::{GET, House, OK, response};
use super::{config, wait_counted, watchdog};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
const POST: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

/// An endpoint that answers everything with 503, and one that is well.
fn busy_and_well() -> (Upstream, Upstream) {
    (Upstream::start(|_| Some(BUSY.into())), Upstream::saying("well"))
}

/// A proxy before these endpoints, with `retry: { … }`.
fn proxy(endpoints: &[&Upstream], retry: &str) -> Proxy {
    let urls: Vec<_> = endpoints.iter().map(|endpoint| endpoint.url()).collect();
    let urls: Vec<_> = urls.iter().map(|url| &**url).collect();
    let service = format!("services: {{ s: {{ retry: {{ {retry} }}, ");
    Proxy::start(&config(&urls, "").replace("services: { s: { ", &service))
}

#[test]
fn a_listed_status_moves_an_idempotent_request_to_another_endpoint() {
    let _watchdog = watchdog("a_listed_status_moves_an_idempotent_request_to_another_endpoint");
    let (busy, well) = busy_and_well();
    let proxy = proxy(&[&busy, &well], "statuses: [ 503 ], budget: 100%");
    for _ in 0..10 {
        let answer = get(proxy.web(), "/").unwrap();
        assert_eq!((answer.status(), answer.text()), (200, "well".into()));
    }
    assert!(busy.served() > 0, "the busy one was never asked");
    let busy = busy.served();
    let log = proxy.stop().log;
    let twice = log.iter().filter(|record| record["attempts"] == 2 && record["status"] == 200).count();
    for record in log.iter().filter(|record| record["attempts"] == 2) {
        let failed = record["failed"].as_array().unwrap();
        assert_eq!((failed.len(), &failed[0]["fault"]), (1, &"http_response_status".into()), "{record}");
        assert_ne!(failed[0]["endpoint"], record["endpoint"], "{record}");
    }
    assert!(log.iter().all(|record| record["attempts"] != 1 || record["failed"].is_null()), "{log:?}");
    assert_eq!(twice as u64, busy, "{log:?}");
    assert!(log.iter().all(|record| record["endpoint"] == well.url()), "{log:?}");
}

#[test]
fn a_status_moves_no_request_that_is_not_idempotent() {
    let _watchdog = watchdog("a_status_moves_no_request_that_is_not_idempotent");
    let (busy, well) = busy_and_well();
    let proxy = proxy(&[&busy, &well], "statuses: [ 503 ], budget: 100%");
    let answers: Vec<_> = (0..10).map(|_| fetch(proxy.web(), POST).unwrap()).collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status() == 503).collect();
    assert!(!refused.is_empty(), "{answers:?}");
    assert!(refused.iter().all(|answer| answer.text() == "busy"), "{answers:?}");
    assert_eq!((refused.len() as u64, well.served()), (busy.served(), 10 - busy.served()));
}

#[test]
fn a_status_that_is_not_listed_is_passed_on() {
    let _watchdog = watchdog("a_status_that_is_not_listed_is_passed_on");
    let busy = Upstream::start(|_| Some(BUSY.into()));
    let other = Upstream::start(|_| Some(BUSY.into()));
    let proxy = proxy(&[&busy, &other], "statuses: [ 502, 504-599 ], budget: 100%");
    let answer = get(proxy.web(), "/").unwrap();
    assert_eq!((answer.status(), answer.text()), (503, "busy".into()));
    assert_eq!(busy.served() + other.served(), 1);
}

#[test]
fn without_a_budget_left_the_client_gets_the_endpoints_own_response() {
    let _watchdog = watchdog("without_a_budget_left_the_client_gets_the_endpoints_own_response");
    let (one, two) = (Upstream::start(|_| Some(BUSY.into())), Upstream::start(|_| Some(BUSY.into())));
    let proxy = proxy(&[&one, &two], "statuses: [ 503 ], attempts: 3, budget: 0%, min_retries_per_second: 0");
    let answer = get(proxy.web(), "/").unwrap();
    assert_eq!((answer.status(), answer.text()), (503, "busy".into()));
    assert_eq!(answer.value("proxy-status"), None, "{answer:?}");
    assert_eq!(one.served() + two.served(), 1);
    wait_counted(&proxy, "thalweg_limit_hits_total", "\"retries\"", 1);
}

#[test]
fn with_one_attempt_nothing_is_tried_again() {
    let _watchdog = watchdog("with_one_attempt_nothing_is_tried_again");
    let house = House::start(2, "retry: { attempts: 1, statuses: [ 503 ], budget: 100% }", "");
    let mut client = house.client(GET);
    house.asked().talk.send(BUSY).unwrap();
    assert_eq!(response(&mut client).0.status(), 503);
    client.send(GET).unwrap();
    drop(house.asked());
    assert_eq!(client.head().unwrap().status(), 502);
    assert!(house.is_quiet(), "another attempt");
}

#[test]
fn every_endpoint_is_asked_once_and_the_last_ones_response_is_passed_on() {
    let _watchdog = watchdog("every_endpoint_is_asked_once_and_the_last_ones_response_is_passed_on");
    let house = House::start(3, "retry: { attempts: 9, statuses: [ 503 ], budget: 1000% }", "");
    let mut client = house.client(GET);
    let mut ports: Vec<_> = Vec::new();
    for i in 0..3 {
        let mut asked = house.asked();
        asked.talk.send(BUSY.replace("busy", &format!("bus{i}"))).unwrap();
        ports.push(asked.port);
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3, "one of them was asked again");
    let (head, body) = response(&mut client);
    assert_eq!((head.status(), &body[..]), (503, &b"bus2"[..]));
    assert_eq!(head.value("proxy-status"), None);
    assert!(house.is_quiet(), "another attempt");
}

#[test]
fn attempts_that_are_used_up_pass_the_last_response_on() {
    let _watchdog = watchdog("attempts_that_are_used_up_pass_the_last_response_on");
    let house = House::start(3, "retry: { attempts: 2, statuses: [ 503 ], budget: 1000% }", "");
    let mut client = house.client(GET);
    let mut first = house.asked();
    first.talk.send(BUSY).unwrap();
    let mut second = house.asked();
    assert_ne!(first.port, second.port);
    second.talk.send(BUSY.replace("busy", "last")).unwrap();
    assert_eq!(response(&mut client).1, b"last");
    assert!(house.is_quiet(), "another attempt");
}

#[test]
fn an_attempt_that_takes_too_long_moves_on() {
    let _watchdog = watchdog("an_attempt_that_takes_too_long_moves_on");
    let house = House::start(2, "retry: { per_try_timeout: 200ms, budget: 100% }", "");
    let mut client = house.client(GET);
    let mut silent = house.asked();
    let mut other = house.asked();
    assert_ne!(silent.port, other.port);
    silent.talk.assert_ends("the attempt that is over");
    other.talk.send(OK).unwrap();
    assert_eq!(response(&mut client).0.status(), 200);
    let log = house.proxy.stop().log;
    assert_eq!(log[0]["attempts"], 2, "{log:?}");
}

#[test]
fn the_time_for_the_request_bounds_all_attempts() {
    let _watchdog = watchdog("the_time_for_the_request_bounds_all_attempts");
    let retry = "retry: { attempts: 9, per_try_timeout: 700ms, budget: 1000% }";
    let house = House::start(5, retry, "defaults: { timeouts: { request: 2s } }");
    let began = Instant::now();
    let mut client = house.client(GET);
    let mut asked = [house.asked(), house.asked()];
    let (head, _) = response(&mut client);
    let passed = began.elapsed();
    assert_eq!(head.status(), 504);
    assert!(
        head.value("proxy-status").unwrap().contains("longer than `timeouts.request` allows"),
        "{head:?}"
    );
    assert!(passed >= Duration::from_secs(2), "{passed:?}");
    asked.iter_mut().for_each(|asked| asked.talk.assert_ends("an attempt of an exchange that is over"));
    let log = house.proxy.stop().log;
    let attempts = log[0]["attempts"].as_u64().unwrap();
    assert!((2..=3).contains(&attempts), "700 ms each within 2 s: {log:?}");
}

#[test]
fn after_an_interim_response_nothing_is_tried_again() {
    let _watchdog = watchdog("after_an_interim_response_nothing_is_tried_again");
    // Without a pool every attempt is a connection that the test sees.
    let service = "pool: { max_idle: 0 }, retry: { statuses: [ 503 ], per_try_timeout: 1s, budget: 1000% }";
    let house = House::start(2, service, "");
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let begin = || {
        let mut client = house.client(GET);
        let mut asked = house.asked();
        asked.talk.send(hints).unwrap();
        assert_eq!(client.head().unwrap().status(), 103);
        (client, asked)
    };

    let (mut client, asked) = begin();
    drop(asked);
    assert_eq!(client.head().unwrap().status(), 502, "it closed");
    assert!(house.is_quiet(), "another attempt after a close");

    let (mut client, mut asked) = begin();
    asked.talk.send(BUSY).unwrap();
    assert_eq!(response(&mut client).1, b"busy");
    assert!(house.is_quiet(), "another attempt after a status");

    let (mut client, _asked) = begin();
    assert_eq!(client.head().unwrap().status(), 504, "it says no more");
    assert!(house.is_quiet(), "another attempt after silence");
}

#[test]
fn a_body_goes_to_the_next_endpoint_whole() {
    let _watchdog = watchdog("a_body_goes_to_the_next_endpoint_whole");
    let house = House::start(2, "retry: { statuses: [ 503 ], budget: 1000% }", "");
    let sent = thalweg_tests::Noise::new(3).take(20 * 1024);
    let put = format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", sent.len());
    let mut client = house.client(&put);
    // In two parts, of which the second comes when the endpoint has the first.
    client.send(&sent[..15_000]).unwrap();
    let mut first = house.asked();
    client.send(&sent[15_000..]).unwrap();
    assert!(first.body() == sent, "the first got something else");
    first.talk.send(BUSY).unwrap();
    let mut second = house.asked();
    assert!(second.body() == sent, "the second got something else");
    second.talk.send(OK).unwrap();
    assert_eq!(response(&mut client).0.status(), 200);
}

#[test]
fn a_body_beyond_what_is_kept_is_sent_once() {
    let _watchdog = watchdog("a_body_beyond_what_is_kept_is_sent_once");
    let house = House::start(2, "retry: { statuses: [ 503 ], budget: 1000% }", "");
    let sent = thalweg_tests::Noise::new(4).take(200 * 1024);
    let put = format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", sent.len());
    let mut client = house.client(&put);
    client.send(&sent).unwrap();
    let mut asked = house.asked();
    assert!(asked.body() == sent);
    asked.talk.send(BUSY).unwrap();
    assert_eq!(response(&mut client).1, b"busy");
    assert!(house.is_quiet(), "another attempt");
}
