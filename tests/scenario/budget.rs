//! The budget: bounds on connections and exchanges hold, say so, and let go again.

mod uploads;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use thalweg_tests::connection::Event;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::{Connection, Message, Proxy, STEP, Upstream};

use super::descriptors::gated;
use super::{config, wait_counted, watchdog};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// The value of a metric without labels.
fn metric(proxy: &Proxy, name: &str) -> f64 {
    let text = get(proxy.metrics(), "/metrics").unwrap().text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

/// Waits until nothing is under way and next to nothing is used, and a request is served.
fn recovers(proxy: &Proxy) {
    let end = Instant::now() + STEP;
    loop {
        let served = get(proxy.web(), "/").is_ok_and(|answer| answer.status() == 200);
        let saturation = metric(proxy, "thalweg_saturation");
        if served && saturation < 0.3 && metric(proxy, "thalweg_requests_active") == 0.0 {
            return;
        }
        assert!(Instant::now() < end, "it does not recover: served {served}, saturation {saturation}");
    }
}

/// A connection from another address of this machine.
pub(super) fn open_from(source: &str, to: SocketAddr) -> Connection {
    let source: IpAddr = source.parse().unwrap();
    let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::new(source, 0)).unwrap();
    connect(&socket, &to).unwrap();
    Connection::new(TcpStream::from(socket))
}

/// Asks and reads the answer; the connection stays open.
fn ask(client: &mut Connection) -> Message {
    client.send(REQUEST);
    Message::read(client, Kind::Response, Instant::now() + STEP).unwrap()
}

/// Asks on a new connection; gives its answer and itself.
pub(super) fn ask_from(source: &str, to: SocketAddr) -> (u16, Connection) {
    let mut client = open_from(source, to);
    (ask(&mut client).status(), client)
}

/// Tries until a client from `source` is served.
fn is_served_again(source: &str, to: SocketAddr) {
    let end = Instant::now() + STEP;
    while ask_from(source, to).0 != 200 {
        assert!(Instant::now() < end, "{source} is not served again");
    }
}

#[test]
fn a_client_has_as_many_connections_as_it_may_and_others_are_not_concerned() {
    let _watchdog = watchdog("a_client_has_as_many_connections_as_it_may_and_others_are_not_concerned");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], "limits: { max_connections_per_client: 3 }"));
    let mut kept: Vec<_> = (0..3).map(|_| ask_from("127.0.0.1", proxy.web())).collect();
    assert!(kept.iter().all(|(status, _)| *status == 200));

    let mut fourth = open_from("127.0.0.1", proxy.web());
    let refused = ask(&mut fourth);
    assert_eq!(refused.status(), 429);
    let cause = refused.value("proxy-status").unwrap();
    assert!(cause.contains("connection_limit_reached"), "{refused:?}");
    assert!(cause.contains("`limits.max_connections_per_client`"), "the bound is named: {refused:?}");
    assert!(refused.value("retry-after").is_some() && refused.value("connection") == Some("close"));
    let id = refused.value("x-request-id").unwrap().to_owned();
    assert!(refused.value("date").is_some() && refused.text().contains(&id), "{refused:?}");
    assert_eq!(
        fourth.read_to_end(Instant::now() + STEP),
        Event::End,
        "the answer is not followed by a reset"
    );

    assert_eq!(ask_from("127.0.0.2", proxy.web()).0, 200, "another address has its own count");
    for (_, client) in &mut kept {
        assert_eq!(ask(client).status(), 200, "the connections that are open go on");
    }
    kept.pop();
    is_served_again("127.0.0.1", proxy.web());
    let log = proxy.stop().log;
    let record = log.iter().find(|record| record["id"] == *id).expect("a refused connection has a line");
    assert_eq!((&record["status"], &record["client_ip"]), (&429.into(), &"127.0.0.1".into()), "{record}");
    assert_eq!((&record["listener"], &record["fault"]), (&"web".into(), &"connection_limit_reached".into()));
}

#[test]
fn ipv6_clients_are_counted_too() {
    let _watchdog = watchdog("ipv6_clients_are_counted_too");
    let upstream = Upstream::saying("hello");
    let config = config(&[&upstream.url()], "limits: { max_connections_per_client: 2 }");
    let proxy =
        Proxy::start(&config.replace("web: { address: \"127.0.0.1:0\" }", "web: { address: \":0\" }"));
    let port = proxy.web().port();
    let (v6, v4) = (SocketAddr::new("::1".parse().unwrap(), port), SocketAddr::from(([127, 0, 0, 1], port)));
    if TcpStream::connect(v6).is_err() {
        return eprintln!("skipped: no IPv6 here");
    }
    let end = Instant::now() + STEP;
    let kept = loop {
        // The connection of the look above may be open for a moment still.
        let kept = [ask_from("::1", v6), ask_from("::1", v6)];
        if kept.iter().all(|(status, _)| *status == 200) {
            break kept;
        }
        assert!(Instant::now() < end, "two connections are not served");
    };
    assert_eq!(ask_from("::1", v6).0, 429);
    assert_eq!(ask_from("127.0.0.1", v4).0, 200, "IPv4 over the same listener is another client");
    drop(kept);
    is_served_again("::1", v6);
}

#[test]
fn trusted_proxies_bring_as_many_connections_as_they_like() {
    let _watchdog = watchdog("trusted_proxies_bring_as_many_connections_as_they_like");
    let upstream = Upstream::saying("hello");
    let more = "limits: { max_connections_per_client: 1 }\ntrusted_proxies: [ \"127.0.0.1\" ]";
    let proxy = Proxy::start(&config(&[&upstream.url()], more));
    let kept: Vec<_> = (0..4).map(|_| ask_from("127.0.0.1", proxy.web())).collect();
    assert!(kept.iter().all(|(status, _)| *status == 200));
    let other = ask_from("127.0.0.2", proxy.web());
    assert_eq!((other.0, ask_from("127.0.0.2", proxy.web()).0), (200, 429));
}

#[test]
fn a_client_that_opens_too_many_connections_keeps_nobody_waiting() {
    let _watchdog = watchdog("a_client_that_opens_too_many_connections_keeps_nobody_waiting");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], "limits: { max_connections_per_client: 1 }"));
    let kept = ask_from("127.0.0.1", proxy.web());
    // Far more than can be answered at once: they do not even speak.
    let flood: Vec<_> = (0..300).map(|_| open_from("127.0.0.1", proxy.web())).collect();
    let asked = Instant::now();
    assert_eq!(ask_from("127.0.0.2", proxy.web()).0, 200);
    assert!(asked.elapsed() < Duration::from_secs(1), "another client waited {:?}", asked.elapsed());
    for mut client in flood {
        assert!(matches!(client.read_to_end(Instant::now() + STEP), Event::End | Event::Reset));
    }
    drop(kept);
    is_served_again("127.0.0.1", proxy.web());
    let log = proxy.stop().log;
    let lines: Vec<_> = log.iter().filter(|record| record["fault"] == "connection_limit_reached").collect();
    let seconds = usize::try_from(asked.elapsed().as_secs()).unwrap() + 2;
    assert!(!lines.is_empty() && lines.len() <= 10 * seconds, "{} lines in {seconds} s", lines.len());
}

#[test]
fn a_listener_has_as_many_connections_as_it_may_and_the_other_stays_open() {
    let _watchdog = watchdog("a_listener_has_as_many_connections_as_it_may_and_the_other_stays_open");
    let upstream = Upstream::saying("hello");
    let listeners = "listeners: { web: { address: \"127.0.0.1:0\", limits: { max_connections: 2 } }, \
                     free: { address: \"127.0.0.1:0\" } }";
    let config =
        config(&[&upstream.url()], "").replace("listeners: { web: { address: \"127.0.0.1:0\" } }", listeners);
    let proxy = Proxy::start(&config);
    // Heads that are not whole: they keep their places, for nobody can say that they are silent.
    let begun: Vec<_> = (0..2).map(|_| open_from("127.0.0.1", proxy.web())).collect();
    begun.iter().for_each(|client| client.send("GET / HTTP/1.1\r\n"));
    wait_counted(&proxy, "thalweg_connections_active", "listener=\"web\"", 2);
    let refused = ask(&mut open_from("127.0.0.1", proxy.web()));
    assert_eq!(refused.status(), 503);
    let cause = refused.value("proxy-status").unwrap();
    assert!(cause.contains("`limits.max_connections` of the listener"), "the bound is named: {refused:?}");
    let free = proxy.address("free");
    let kept: Vec<_> = (0..4).map(|_| ask_from("127.0.0.1", free)).collect();
    assert!(kept.iter().all(|(status, _)| *status == 200), "the other listener has no bound");
    drop(begun);
    is_served_again("127.0.0.1", proxy.web());
}

#[test]
fn exchanges_over_their_bound_are_refused_and_it_recovers() {
    let _watchdog = watchdog("exchanges_over_their_bound_are_refused_and_it_recovers");
    let (upstream, gate, asked) = gated();
    let proxy = Proxy::start(&config(&[&upstream.url()], "limits: { max_in_flight: 3 }"));
    let mut under_way: Vec<_> = (0..3).map(|_| open_from("127.0.0.1", proxy.web())).collect();
    under_way.iter().for_each(|client| client.send(REQUEST));
    (0..3).for_each(|_| asked.recv_timeout(STEP).unwrap());
    assert!(metric(&proxy, "thalweg_saturation") >= 1.0);
    for _ in 0..4 {
        // Whichever worker takes it: the bound is that of the process.
        let mut client = open_from("127.0.0.1", proxy.web());
        let refused = ask(&mut client);
        assert_eq!(refused.status(), 503);
        assert!(refused.value("retry-after").is_some(), "{refused:?}");
        assert!(refused.value("proxy-status").unwrap().contains("connection_limit_reached"), "{refused:?}");
    }
    gate.open();
    for client in &mut under_way {
        let answer = Message::read(client, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!(answer.status(), 200);
    }
    drop(under_way);
    recovers(&proxy);
}

#[test]
fn saturation_rises_with_connections_and_falls_again() {
    let _watchdog = watchdog("saturation_rises_with_connections_and_falls_again");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], "limits: { max_connections: 20 }"));
    assert!(metric(&proxy, "thalweg_saturation") < 0.3);
    let kept: Vec<_> = (0..10).map(|_| ask_from("127.0.0.1", proxy.web())).collect();
    assert!(kept.iter().all(|(status, _)| *status == 200));
    let saturation = metric(&proxy, "thalweg_saturation");
    assert!((0.5..0.7).contains(&saturation), "{saturation} with 10 of 20 connections");
    drop(kept);
    recovers(&proxy);
}

#[test]
fn where_memory_is_small_idle_connections_make_room_for_many_new_ones_oldest_first() {
    let _watchdog =
        watchdog("where_memory_is_small_idle_connections_make_room_for_many_new_ones_oldest_first");
    let upstream = Upstream::saying("hello");
    // 450 silent connections fit, or 70 of which each may bring a full queue: 300 and 40 are too much together.
    let config = config(&[&upstream.url()], "limits: { memory: 21MiB }").replace("workers: 2", "workers: 1");
    let proxy = Proxy::start(&config);
    let mut silent = Vec::new();
    for _ in 0..300 {
        let (status, client) = ask_from("127.0.0.1", proxy.web());
        assert_eq!(status, 200);
        silent.push(client);
    }
    let mut fresh: Vec<_> = (0..40).map(|_| open_from("127.0.0.1", proxy.web())).collect();
    assert_eq!(silent[0].read_to_end(Instant::now() + STEP), Event::End, "the oldest gives way");
    assert!(fresh.iter_mut().all(|client| ask(client).status() == 200), "nobody who comes is refused");

    // Who is left can go on, and whoever was silent for longer than them is gone.
    let goes_on = |client: &mut Connection| {
        client.send(REQUEST);
        Message::read(client, Kind::Response, Instant::now() + STEP)
            .is_ok_and(|answer| answer.status() == 200)
    };
    let served: Vec<bool> = silent.iter_mut().map(goes_on).collect();
    assert!(served.is_sorted(), "{served:?}");
    // How many are gone depends on how soon the new ones, once served, count as silent themselves.
    let gone = served.iter().filter(|served| !**served).count();
    assert!((1..250).contains(&gone), "{gone} of 300 are gone");
    drop((silent, fresh));
    recovers(&proxy);
}

#[test]
fn where_memory_is_small_clients_that_say_nothing_lock_nobody_out() {
    let _watchdog = watchdog("where_memory_is_small_clients_that_say_nothing_lock_nobody_out");
    let upstream = Upstream::saying("hello");
    let config = config(&[&upstream.url()], "limits: { memory: 21MiB }").replace("workers: 2", "workers: 1");
    let proxy = Proxy::start(&config);
    let speechless: Vec<_> = (0..150).map(|_| open_from("127.0.0.1", proxy.web())).collect();
    // Long before the deadline for their heads: those that have had a second to speak give way.
    let asked = Instant::now();
    is_served_again("127.0.0.2", proxy.web());
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    drop(speechless);
    recovers(&proxy);
}
