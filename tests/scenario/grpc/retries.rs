//! `retry.grpc_statuses`: a call that ends badly in the head of its response is made again elsewhere.

use thalweg_tests::message::fetch;
use thalweg_tests::{Message, Proxy, Upstream};

use super::watchdog;
use crate::scenario::config;

/// A response that is nothing but a status.
fn ended(status: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0";
    format!("{head}\r\ngrpc-status: {status}\r\n\r\n").into_bytes()
}

/// A response with a message and this status behind it.
fn ended_later(status: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}5\r\n\0\0\0\0\0\r\n0\r\ngrpc-status: {status}\r\n\r\n").into_bytes()
}

/// An endpoint whose every call ends so, and one whose calls end well.
fn house(answer: Vec<u8>, service: &str) -> (Upstream, Upstream, Proxy) {
    let (bad, well) = (Upstream::start(move |_| Some(answer.clone())), Upstream::start(|_| Some(ended("0"))));
    let service = format!("services: {{ s: {{ {service}, ");
    let text = config(&[&bad.url(), &well.url()], "").replace("services: { s: { ", &service);
    (bad, well, Proxy::start(&text))
}

fn call(proxy: &Proxy) -> Message {
    let head = "POST /a.B/C HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\nConnection: close";
    fetch(proxy.web(), &format!("{head}\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0")).unwrap()
}

#[test]
fn a_call_that_ends_in_a_listed_way_is_made_again_elsewhere() {
    let _watchdog = watchdog("a_call_that_ends_in_a_listed_way_is_made_again_elsewhere");
    let (bad, _well, proxy) = house(ended("14"), "retry: { grpc_statuses: [ unavailable ], budget: 100% }");
    for _ in 0..10 {
        let answer = call(&proxy);
        assert_eq!(answer.value("grpc-status"), Some("0"), "{answer:?}");
    }
    assert!(bad.served() > 0, "the bad one was never asked");
    let log = proxy.stop().log;
    let twice: Vec<_> = log.iter().filter(|record| record["attempts"] == 2).collect();
    assert_eq!(twice.len() as u64, bad.served(), "{log:?}");
    assert!(twice.iter().all(|record| record["failed"][0]["fault"] == "http_response_status"), "{log:?}");
    assert!(log.iter().all(|record| record["grpc_status"] == "ok"), "{log:?}");
}

#[test]
fn what_is_not_listed_or_ends_later_is_passed_on() {
    let _watchdog = watchdog("what_is_not_listed_or_ends_later_is_passed_on");
    for answer in [ended("13"), ended("banana"), ended_later("14")] {
        let (bad, _well, proxy) = house(answer, "retry: { grpc_statuses: [ unavailable ], budget: 100% }");
        (0..4).for_each(|_| drop(call(&proxy)));
        assert!(bad.served() > 0);
        let log = proxy.stop().log;
        assert!(log.iter().all(|record| record["attempts"] == 1), "{log:?}");
    }
}

#[test]
fn what_is_no_call_is_not_made_again_for_a_field_of_that_name() {
    let _watchdog = watchdog("what_is_no_call_is_not_made_again_for_a_field_of_that_name");
    let (bad, well, proxy) = house(ended("14"), "retry: { grpc_statuses: [ unavailable ], budget: 100% }");
    let said = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    (0..4).for_each(|_| drop(fetch(proxy.web(), said).unwrap()));
    assert!(bad.served() > 0 && bad.served() + well.served() == 4);
}

#[test]
fn an_end_of_a_call_counts_as_the_status_that_says_the_same() {
    let _watchdog = watchdog("an_end_of_a_call_counts_as_the_status_that_says_the_same");
    let (bad, _well, proxy) = house(ended("14"), "ejection: { consecutive: 1, statuses: [ 503 ], time: 1h }");
    (0..10).for_each(|_| drop(call(&proxy)));
    assert_eq!(bad.served(), 1, "it was ejected for its first answer");
}
