//! Endpoints of HTTP/2 that mean harm, or are broken: what they do costs the request that they have, their connection
//! at most, and hardly any memory. Everybody else is served, and so is the next request.

use std::panic::catch_unwind;
use std::time::Duration;

use thalweg_tests::connection::Event;
use thalweg_tests::h2_endpoint_attacks::{self, Client, EndpointAttack, HostileEndpoint};
use thalweg_tests::message::{fetch, get};
use thalweg_tests::vitals::{forget_most_resident, most_resident, resident};
use thalweg_tests::{Proxy, Upstream, Watchdog};

use super::{config, http2};

/// Bytes that the memory of the proxy may grow by.
const GROWN: u64 = 8 << 20;
const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

fn is_met(attack: EndpointAttack) {
    let (name, told, client, ends) = (attack.name, attack.told, attack.client, attack.ends);
    let (hostile, near) = (HostileEndpoint::start(attack), Upstream::saying("hello"));
    let service = format!(
        "services: {{ near: {{ endpoints: [ \"{}\" ] }}, s: {{ retry: {{ attempts: 1 }},",
        near.url()
    );
    let text = http2(&config(&[&hostile.url()], ""))
        .replace("services: { s: {", &service)
        .replace("routes: [", "routes: [ { match: { path: /near }, to: near },")
        .replace("workers: 2", "workers: 1");
    let proxy = Proxy::start(&text);
    let serves = |path: &str| assert_eq!(get(proxy.web(), path).unwrap().status(), 200, "{name}, {path}");
    serves("/near");
    serves("/");
    let memory = resident(&proxy);
    forget_most_resident(&proxy);
    hostile.set_hostile(true);
    let answer = fetch(proxy.web(), GET).map(|answer| answer.status());
    hostile.set_hostile(false);
    let expected = match client {
        Client::Gets502 => matches!(answer, Ok(502 | 503)),
        Client::GetsInterim => matches!(answer, Ok(103)),
        Client::IsBrokenOff => answer.is_err(),
        Client::MayBeServed => matches!(answer, Ok(200 | 502)),
    };
    assert!(expected, "{name}: {client:?}, but {answer:?}");
    if ends {
        let ending = hostile.ending();
        assert!(matches!(ending, Event::End | Event::Reset), "{name}: {ending:?}");
    }
    let grown = most_resident(&proxy).saturating_sub(memory);
    eprintln!("{name}: memory grew by {} KiB at most", grown / 1024);
    assert!(grown < GROWN, "{name}: memory grew by {grown} bytes");
    serves("/near");
    serves("/");
    let said = proxy.stop().stderr;
    let line = told.map(|told| format!("an endpoint of HTTP/2: {told}"));
    assert_eq!(line.is_some_and(|line| said.contains(&line)), told.is_some(), "{name}: {told:?} in\n{said}");
    assert!(!said.contains("panicked"), "{name}: {said}");
}

fn are_met(name: &str, attacks: Vec<EndpointAttack>) {
    let _watchdog = Watchdog::new(name, Duration::from_secs(120));
    let failed = |attack| catch_unwind(|| is_met(attack)).is_err();
    let failed: Vec<_> = attacks.into_iter().map(|attack| (attack.name, failed(attack))).collect();
    assert!(failed.iter().all(|(_, failed)| !failed), "{failed:?}");
}

#[test]
fn endpoints_that_flood_lose_their_connection() {
    are_met("endpoints_that_flood_lose_their_connection", h2_endpoint_attacks::floods());
}

#[test]
fn heads_of_endpoints_without_end_are_refused() {
    are_met("heads_of_endpoints_without_end_are_refused", h2_endpoint_attacks::sections());
}

#[test]
fn endpoints_that_break_the_rules_cost_their_request() {
    are_met("endpoints_that_break_the_rules_cost_their_request", h2_endpoint_attacks::broken());
}
