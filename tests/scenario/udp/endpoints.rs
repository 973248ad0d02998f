//! Endpoints that refuse, come, are drained and taken away.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::admin::segment;
use thalweg_tests::message::get;
use thalweg_tests::{Admin, Proxy, STEP};

use super::super::{wait_counted, watchdog};
use super::{Client, Echo, config, nowhere, proxy};

#[test]
fn another_endpoint_gets_the_datagram_that_one_refuses() {
    let _watchdog = watchdog("another_endpoint_gets_the_datagram_that_one_refuses");
    let echo = Echo::start();
    let proxy = Proxy::start(&config(&[nowhere(), nowhere(), echo.url()], ("", ""), ""));
    for _ in 0..12 {
        // Sent once.
        Client::of(&proxy).echoes(b"whoever is there");
    }
    assert_eq!(echo.heard(), 12, "and nobody hears it twice");
    let text = get(proxy.metrics(), "/metrics").unwrap().text();
    let refused = text
        .lines()
        .filter(|line| line.starts_with("thalweg_upstream_connects_total") && line.contains("failed"));
    let refused: u32 = refused.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).sum();
    assert!((2..=8).contains(&refused), "who has refused is left out: {refused}");
}

#[test]
fn where_nobody_is_left_a_session_ends_and_who_comes_back_is_found() {
    let _watchdog = watchdog("where_nobody_is_left_a_session_ends_and_who_comes_back_is_found");
    let url = nowhere();
    let proxy = Proxy::start(&config(std::slice::from_ref(&url), ("", ""), ""));
    let client = Client::of(&proxy);
    client.is_ignored();
    wait_counted(&proxy, "thalweg_requests_total", "code=\"503\"", 1);
    let _echo = Echo::at(url.trim_start_matches("udp://").parse().unwrap());
    client.echoes_at_last(b"back");
    client.echoes(b"and it stays");
    let line = &proxy.stop().log[0];
    let told = (&line["status"], &line["fault"], &line["bytes_out"]);
    assert_eq!(told, (&json!(503), &json!("destination_unavailable"), &json!(0)), "{line}");
}

#[test]
fn a_session_goes_on_elsewhere_when_its_endpoint_dies() {
    let _watchdog = watchdog("a_session_goes_on_elsewhere_when_its_endpoint_dies");
    let (one, two) = (Echo::start(), Echo::start());
    // As many as there are: who moves needs no second place.
    let proxy = proxy(&[&one, &two], "", ", limits: { max_connections: 10 }");
    let clients: Vec<_> = (0..10).map(|_| Client::of(&proxy)).collect();
    clients.iter().for_each(|client| client.echoes(b"hello"));
    assert!(one.heard() > 0 && two.heard() > 0);
    drop(one);
    clients.iter().for_each(|client| client.echoes_at_last(b"again"));
    clients.iter().for_each(|client| client.echoes(b"once"));
    wait_counted(&proxy, "thalweg_connections_active", "dns", 10);
    let lines = proxy.stop().log;
    assert_eq!(lines.len(), 10, "they are the same sessions");
    let moved = lines.iter().find(|line| line["attempts"] == 2).unwrap();
    assert_eq!((&moved["status"], &moved["fault"]), (&json!(200), &json!(null)), "{moved}");
}

/// Nobody answers there, so that not to refuse has to be enough.
#[test]
fn who_comes_back_is_used_again_also_where_it_never_answers() {
    let _watchdog = watchdog("who_comes_back_is_used_again_also_where_it_never_answers");
    let url = nowhere();
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let endpoints = [url.clone(), format!("udp://{}", other.local_addr().unwrap())];
    let proxy = Proxy::start(&config(&endpoints, ("", ""), ""));
    // The first is refused, and the second endpoint gets it all.
    for _ in 0..4 {
        Client::of(&proxy).send(b"log line");
    }
    let end = Instant::now() + STEP;
    while !proxy.process().stderr().contains("set aside") {
        assert!(Instant::now() < end, "{}", proxy.process().stderr());
        thread::yield_now();
    }
    let back = std::net::UdpSocket::bind(url.trim_start_matches("udp://")).unwrap();
    let end = Instant::now() + STEP;
    while !proxy.process().stderr().contains("accepts connections again") {
        assert!(Instant::now() < end, "{}", proxy.process().stderr());
        Client::of(&proxy).send(b"log line");
        thread::sleep(Duration::from_millis(20)); // A line now and then.
    }
    back.set_read_timeout(Some(STEP)).unwrap();
    assert_eq!(back.recv(&mut [0; 99]).unwrap(), 8);
}

#[test]
fn the_breaker_hears_what_came_of_its_trials() {
    let _watchdog = watchdog("the_breaker_hears_what_came_of_its_trials");
    // Bound, and never read from; at an address that no other test takes a port of.
    let mute = std::net::UdpSocket::bind("127.0.0.99:0").unwrap();
    let address = mute.local_addr().unwrap();
    let service = ", timeouts: { idle: 200ms }, breaker: { min_requests: 4, open: 300ms, trials: 2 }";
    let proxy =
        Proxy::start(&config(&[format!("udp://{address}")], (", expected_responses: 1", service), ""));
    let says = |words: &str| proxy.process().stderr().contains(words);
    let until_told = |words: &str| {
        let end = Instant::now() + STEP;
        while !says(words) {
            assert!(Instant::now() < end, "{}", proxy.process().stderr());
            // One after the other: of a flood the kernel drops what the endpoint has no time for.
            let client = Client::of(&proxy);
            client.send(b"question");
            client.next(Duration::from_millis(20));
        }
    };
    until_told("its breaker is open again: a trial failed");
    drop(mute);
    let _echo = Echo::at(address);
    until_told("its breaker is closed");
    Client::of(&proxy).echoes(b"question");
}

#[test]
fn a_drained_endpoint_gets_no_new_sessions_and_keeps_the_old_until_its_time_is_over() {
    let _watchdog =
        watchdog("a_drained_endpoint_gets_no_new_sessions_and_keeps_the_old_until_its_time_is_over");
    let (one, two) = (Echo::start(), Echo::start());
    let proxy = proxy(&[&one, &two], "", "");
    let admin = Admin::of(&proxy);
    let clients: Vec<_> = (0..8).map(|_| Client::of(&proxy)).collect();
    clients.iter().for_each(|client| client.echoes(b"hello"));
    let (at_one, at_two) = (one.heard(), two.heard());
    for (wrong, status) in [("http://127.0.0.1:1", 409), ("tcp://127.0.0.1:1", 409), ("unix:/nowhere", 403)] {
        let answer = admin.call("POST", "/api/v1/services/s/endpoints", &format!("{{\"url\":\"{wrong}\"}}"));
        assert_eq!(answer.status(), status, "{}", answer.text());
    }
    let path = format!("/api/v1/services/s/endpoints/{}", segment(&two.url()));
    assert_eq!(admin.call("PATCH", &path, "{\"state\":\"draining\"}").status(), 200);
    for _ in 0..4 {
        Client::of(&proxy).echoes(b"to the one that is left");
    }
    assert_eq!((one.heard(), two.heard()), (at_one + 4, at_two));
    clients.iter().for_each(|client| client.echoes(b"still here"));
    assert_eq!((one.heard(), two.heard()), (2 * at_one + 4, 2 * at_two));
    assert!(matches!(admin.call("DELETE", &format!("{path}?drain=100ms"), "").status(), 200 | 202));
    wait_counted(&proxy, "thalweg_requests_total", "dns", at_two as u32);
    clients.iter().for_each(|client| client.echoes(b"to the other one"));
    assert_eq!(two.heard(), 2 * at_two);
    let third = Echo::start();
    let body = format!("{{\"url\":\"{}\"}}", third.url());
    assert_eq!(admin.call("POST", "/api/v1/services/s/endpoints", &body).status(), 201);
    let service = admin.get("/api/v1/services/s");
    let known = service["endpoints"].as_array().unwrap().iter().any(|it| it["url"] == third.url());
    assert!(known, "{service}");
}

#[test]
fn a_session_is_told_of_while_it_lasts_and_when_it_is_over() {
    let _watchdog = watchdog("a_session_is_told_of_while_it_lasts_and_when_it_is_over");
    let echo = Echo::start();
    let proxy = proxy(&[&echo], ", expected_responses: 2", "");
    let client = Client::of(&proxy);
    client.echoes(b"one");
    echo.say(b"two");
    assert_eq!(client.next(STEP).unwrap(), b"two");
    wait_counted(&proxy, "thalweg_requests_total", "dns", 1);
    let admin = Admin::of(&proxy);
    let records = admin.get("/api/v1/requests");
    let record = &records["requests"][0];
    assert_eq!(
        (&record["listener"], &record["status"], &record["bytes_out"]),
        (&json!("dns"), &json!(200), &json!(6)),
        "{records}"
    );
}

#[test]
fn a_hash_of_the_address_keeps_a_client_at_one_endpoint_over_sessions() {
    let _watchdog = watchdog("a_hash_of_the_address_keeps_a_client_at_one_endpoint_over_sessions");
    let echoes: Vec<_> = (0..4).map(|_| Echo::start()).collect();
    let all: Vec<_> = echoes.iter().collect();
    let proxy = proxy(&all, "", ", balance: { hash: { on: client_ip } }");
    for _ in 0..20 {
        Client::of(&proxy).echoes(b"from one address and many ports");
    }
    let mut heard: Vec<_> = echoes.iter().map(Echo::heard).collect();
    heard.sort_unstable();
    assert_eq!(heard, [0, 0, 0, 20]);
}
