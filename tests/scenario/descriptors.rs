//! Fewer descriptors than connections.

use std::time::Instant;

use thalweg_tests::connection::Event;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::{Connection, Message, Proxy, STEP, Upstream};

use super::{config, watchdog};

/// More connections than 256 descriptors can hold.
const CONNECTIONS: usize = 400;

#[test]
fn more_connections_than_descriptors_are_answered_or_refused_and_it_recovers() {
    let _watchdog = watchdog("more_connections_than_descriptors_are_answered_or_refused_and_it_recovers");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start_with_descriptors(256, &config(&[&upstream.url()], ""));
    let mut clients: Vec<Connection> =
        (0..CONNECTIONS).map(|_| Connection::open(proxy.web()).unwrap()).collect();
    for client in &clients {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    let deadline = Instant::now() + STEP;
    let (mut answered, mut refused, mut closed) = (0, 0, 0);
    for client in &mut clients {
        match Message::read(client, Kind::Response, deadline) {
            Ok(answer) if answer.status() == 200 => answered += 1,
            Ok(answer) => {
                assert_eq!(answer.status(), 503, "{answer:?}");
                assert!(answer.value("proxy-status").unwrap().contains("connection_limit_reached"));
                refused += 1;
            }
            // Past the bound on simultaneous refusals a connection is closed without words.
            Err(_) if matches!(client.end(), Some(Event::End | Event::Reset)) => closed += 1,
            Err(reason) => panic!("a connection hangs: {reason}"),
        }
    }
    assert!(answered >= 50, "{answered} answered, {refused} refused, {closed} closed");
    assert!(refused + closed > 0, "256 descriptors cannot hold {answered} connections and their upstreams");
    drop(clients);

    let end = Instant::now() + STEP;
    while !get(proxy.web(), "/").is_ok_and(|answer| answer.status() == 200) {
        assert!(Instant::now() < end, "it does not recover");
    }
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0));
    let said = ended.stderr.to_lowercase();
    assert!(!said.contains("emfile") && !said.contains("too many open files"), "{said}");
}

#[test]
fn connections_over_the_configured_limit_are_refused_and_it_recovers() {
    let _watchdog = watchdog("connections_over_the_configured_limit_are_refused_and_it_recovers");
    let upstream = Upstream::saying("hello");
    let more = "limits: { max_connections: 8 }";
    let proxy = Proxy::start(&config(&[&upstream.url()], more));
    let mut clients: Vec<Connection> = Vec::new();
    for _ in 0..8 {
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!(answer.status(), 200);
        clients.push(client);
    }
    let answer = get(proxy.web(), "/").unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.value("proxy-status").unwrap().contains("connection_limit_reached"), "{answer:?}");
    drop(clients);
    let end = Instant::now() + STEP;
    while !get(proxy.web(), "/").is_ok_and(|answer| answer.status() == 200) {
        assert!(Instant::now() < end, "it does not recover");
    }
}
