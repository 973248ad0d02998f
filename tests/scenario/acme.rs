//! Certificates that an authority issues: against Pebble, strict, with a fifth of all nonces refused.

mod house;
mod on_demand;
mod trouble;

use std::time::Instant;

use serde_json::json;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::{Admin, Connection, Message, STEP};

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
fn a_check_over_plain_http_is_answered_where_everybody_else_is_sent_to_tls() {
    let redirecting = |text: &str| {
        text.replace(
            "web: { address: \"127.0.0.1:0\"",
            "web: { address: \"127.0.0.1:0\", redirect_https: true",
        )
    };
    let keys = "challenge: http, domains: [ a.acme.test ]";
    let Some(house) = House::new_changed(keys, redirecting) else { return };
    let _watchdog = watchdog("a_check_over_plain_http_is_answered_where_everybody_else_is_sent_to_tls");
    // The authority would go where it is sent: that it has not been sent anywhere is counted.
    let redirected = || {
        let text = get(house.proxy.metrics(), "/metrics").unwrap().text();
        text.lines().any(|line| line.starts_with("thalweg_requests_total{") && line.contains("code=\"308\""))
    };
    house.open(MONTH);
    house.wait_issued("a.acme.test", 1);
    assert!(!redirected());
    let mut client = Connection::open(house.proxy.web()).unwrap();
    client.send("GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: a.acme.test\r\n\r\n");
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!(answer.status(), 308);
    wait_counted(&house.proxy, "thalweg_requests_total", "code=\"308\"", 1);
    assert!(redirected());
}

#[test]
fn what_is_issued_is_listed_and_its_end_is_measured() {
    let keys = "domains: [ a.acme.test, b.acme.test ]";
    let Some(house) = House::new(keys) else { return };
    let _watchdog = watchdog("what_is_issued_is_listed_and_its_end_is_measured");
    let admin = Admin::of(&house.proxy);
    let shown = |name: &str| {
        let all = admin.get("/api/v1/certificates");
        let all = all["certificates"].as_array().unwrap().clone();
        assert_eq!(all.len(), 2, "{all:#?}");
        all.into_iter().find(|one| one["names"] == json!([name])).unwrap()
    };
    let ends = |name: &str| {
        let text = get(house.proxy.metrics(), "/metrics").unwrap().text();
        let start = format!(
            "thalweg_tls_certificate_not_after_timestamp_seconds{{listener=\"secure\",name=\"{name}\"}} "
        );
        text.lines().find_map(|line| line.strip_prefix(&start)?.parse::<f64>().ok())
    };
    let before = shown("b.acme.test");
    assert_eq!((&before["placeholder"], &before["self_signed"]), (&json!(true), &json!(true)), "{before:#}");
    assert_eq!((ends("a.acme.test"), &before["default"]), (None, &json!(false)));
    assert_eq!(shown("a.acme.test")["default"], true);
    // Two days: that it ends before long is no news of what is new.
    house.open(2 * 24 * 60 * 60);
    for name in ["a.acme.test", "b.acme.test"] {
        house.wait_issued(name, 1);
        let after = shown(name);
        assert_eq!(
            (&after["placeholder"], &after["self_signed"]),
            (&json!(false), &json!(false)),
            "{after:#}"
        );
        assert_eq!((&after["listener"], &after["days_left"]), (&json!("secure"), &json!(1)), "{after:#}");
        assert!(after["authority"].as_str().unwrap().starts_with("https://"), "{after:#}");
        assert_eq!((after.get("cert"), after.get("key")), (None, None));
        // It is told a moment before it is measured.
        let end = Instant::now() + STEP;
        while ends(name).is_none() {
            assert!(Instant::now() < end, "{name}");
            std::thread::yield_now();
        }
    }
    assert!(!house.proxy.process().stderr().contains("certificate_expiring"));
}

#[test]
fn what_is_issued_and_ends_before_long_is_told() {
    let Some(house) = House::new("domains: [ a.acme.test ]") else { return };
    let _watchdog = watchdog("what_is_issued_and_ends_before_long_is_told");
    // A day, and what passes until somebody looks.
    house.open(24 * 60 * 60 + 2);
    house.wait_issued("a.acme.test", 1);
    let days_left =
        || Admin::of(&house.proxy).get("/api/v1/certificates")["certificates"][0]["days_left"].clone();
    let end = Instant::now() + STEP;
    while days_left() != 0 {
        assert!(Instant::now() < end, "{}", days_left());
        std::thread::yield_now();
    }
    let house = house.restart();
    let start = "thalweg: certificate_expiring: listener `secure`, a.acme.test (from https://";
    let told = house
        .proxy
        .process()
        .wait_line("the end", STEP, |line| line.starts_with(start).then(|| line.to_owned()));
    assert!(told.ends_with("): it expires in less than a day"), "{told}");
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
