//! Certificates that an authority issues: against Pebble, strict, with a fifth of all nonces refused.

mod house;
mod on_demand;
mod trouble;

use std::time::Instant;

use thalweg_tests::message::Kind;
use thalweg_tests::{Connection, Message, STEP};

use super::{wait_counted, watchdog};
use house::{House, MONTH};

#[test]
fn a_name_is_checked_in_a_handshake() {
    let Some(house) = House::new("challenge: tls_alpn, domains: [ a.acme.test, b.acme.test ]") else {
        return;
    };
    let _watchdog = watchdog("a_name_is_checked_in_a_handshake");
    house.open(MONTH);
    for name in ["a.acme.test", "b.acme.test"] {
        house.wait_issued(name, 1);
        assert_eq!(house.serves(name), Ok(200), "{name}");
    }
    wait_counted(&house.proxy, "thalweg_acme_orders_total", "result=\"issued\"", 2);
    let stderr = house.proxy.process().stderr();
    assert!(stderr.contains("no certificate yet for a.acme.test, b.acme.test: "), "{stderr}");
}

#[test]
fn a_name_is_checked_over_plain_http_before_any_route() {
    let Some(house) = House::new("challenge: http, key_type: rsa2048") else { return };
    let _watchdog = watchdog("a_name_is_checked_over_plain_http_before_any_route");
    house.open(MONTH);
    // Hosts of routes are asked for where no domain is written.
    house.wait_issued("routed.acme.test", 1);
    assert_eq!(house.serves("routed.acme.test"), Ok(200));
    // What nobody has asked for goes to the routes, also below that path.
    let mut client = Connection::open(house.proxy.web()).unwrap();
    client.send("GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: routed.acme.test\r\n\r\n");
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!((answer.status(), &answer.body[..]), (200, &b"hello"[..]));
}

#[test]
fn a_wildcard_is_checked_in_the_dns() {
    let keys = "challenge: dns, domains: [ \"*.w.acme.test\" ], key_type: p384, dns: { {hook} }";
    let Some(house) = House::new(keys) else { return };
    let _watchdog = watchdog("a_wildcard_is_checked_in_the_dns");
    house.open(MONTH);
    house.wait_issued("*.w.acme.test", 1);
    assert_eq!(house.serves("x.w.acme.test"), Ok(200));
    assert!(house.serves("w.acme.test").is_err() && house.serves("x.y.w.acme.test").is_err());
    assert_eq!(
        house.pebble.calls(),
        ["set _acme-challenge.w.acme.test", "unset _acme-challenge.w.acme.test"]
    );
}

#[test]
fn what_was_issued_is_there_after_a_restart_without_the_authority() {
    let Some(house) = House::new("domains: [ a.acme.test ]") else { return };
    let _watchdog = watchdog("what_was_issued_is_there_after_a_restart_without_the_authority");
    house.open(MONTH);
    house.wait_issued("a.acme.test", 1);
    let client = house.pebble.client();
    house.pebble.stop();
    let house = house.restart();
    let address = house.proxy.address("secure");
    thalweg_tests::pebble::shake_hands(address, &client, "a.acme.test").unwrap();
    let stderr = house.proxy.process().stderr();
    assert!(!stderr.contains("no certificate"), "{stderr}");
}

#[test]
fn certificates_are_renewed_under_load_and_nobody_is_dropped() {
    let Some(house) = House::new("domains: [ a.acme.test ]") else { return };
    let _watchdog = watchdog("certificates_are_renewed_under_load_and_nobody_is_dropped");
    house.open(20);
    house.wait_issued("a.acme.test", 1);
    let client = house.pebble.client();
    let mut kept = house.connect("a.acme.test").unwrap();
    let (mut served, mut ask) = (0, || {
        kept.send("GET / HTTP/1.1\r\nHost: a.acme.test\r\n\r\n");
        let answer = Message::read(&mut kept, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!(answer.status(), 200);
    });
    while house.issued("a.acme.test") < 3 {
        // New ones are let in and the old one goes on.
        thalweg_tests::pebble::shake_hands(house.proxy.address("secure"), &client, "a.acme.test").unwrap();
        ask();
        served += 1;
    }
    assert!(served > 10);
    wait_counted(&house.proxy, "thalweg_acme_orders_total", "result=\"renewed\"", 2);
}
