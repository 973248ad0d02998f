//! What is bounded: sessions, of a listener and of a client, and the time that a flood takes of others.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketType, bind, socket};
use thalweg_tests::message::get;
use thalweg_tests::{Proxy, STEP, Upstream, machine_time};

use super::super::{quantile, wait_counted, watchdog};
use super::{Client, Echo, config, proxy};

#[test]
fn past_its_bound_a_listener_drops_what_new_clients_send() {
    let _watchdog = watchdog("past_its_bound_a_listener_drops_what_new_clients_send");
    let echo = Echo::start();
    let proxy = proxy(&[&echo], ", limits: { max_connections: 3 }", "");
    let clients: Vec<_> = (0..3).map(|_| Client::of(&proxy)).collect();
    clients.iter().for_each(|client| client.echoes(b"hello"));
    let fourth = Client::of(&proxy);
    fourth.is_ignored();
    fourth.is_ignored();
    wait_counted(&proxy, "thalweg_datagrams_dropped_total", "no_place", 2);
    wait_counted(&proxy, "thalweg_connections_refused_total", "dns", 2);
    clients.iter().for_each(|client| client.echoes(b"still here"));
    assert!(
        proxy.process().stderr().contains("no place for another session"),
        "{}",
        proxy.process().stderr()
    );
}

#[test]
fn who_was_answered_and_has_been_silent_for_long_makes_room() {
    let _watchdog = watchdog("who_was_answered_and_has_been_silent_for_long_makes_room");
    let echo = Echo::start();
    let text = config(&[echo.url()], (", limits: { max_connections: 2 }", ", timeouts: { idle: 4s }"), "");
    let proxy = Proxy::start(&text.replace("workers: 2", "workers: 1"));
    let (silent, busy) = (Client::of(&proxy), Client::of(&proxy));
    silent.echoes(b"hello");
    busy.echoes(b"hello");
    let third = Client::of(&proxy);
    let end = Instant::now() + STEP;
    loop {
        third.send(b"is there room?");
        busy.echoes(b"here");
        if third.next(Duration::from_millis(100)).is_some() {
            break;
        }
        assert!(Instant::now() < end, "there is no room");
    }
    wait_counted(&proxy, "thalweg_requests_total", "dns", 1);
    busy.echoes(b"still here");
    third.echoes(b"and here");
}

#[test]
fn a_client_has_as_many_sessions_as_it_may() {
    let _watchdog = watchdog("a_client_has_as_many_sessions_as_it_may");
    let echo = Echo::start();
    let text = config(&[echo.url()], ("", ""), "limits: { max_connections_per_client: 2 }");
    let proxy = Proxy::start(&text);
    let clients: Vec<_> = (0..2).map(|_| Client::of(&proxy)).collect();
    clients.iter().for_each(|client| client.echoes(b"hello"));
    Client::of(&proxy).is_ignored();
    wait_counted(&proxy, "thalweg_limit_hits_total", "connections_per_client", 1);
    let other = UdpSocket::bind("127.0.0.9:0").unwrap();
    other.set_read_timeout(Some(STEP)).unwrap();
    other.connect(proxy.address("dns")).unwrap();
    other.send(b"another one").unwrap();
    assert_eq!(other.recv(&mut [0; 99]).unwrap(), 11);
}

#[test]
fn what_says_that_it_comes_from_a_listener_goes_round_in_no_circle() {
    let _watchdog = watchdog("what_says_that_it_comes_from_a_listener_goes_round_in_no_circle");
    let echo = Echo::start();
    let both = "to: s }, other: { address: \"0.0.0.0:0\", protocol: udp, to: s } }";
    let proxy = Proxy::start(&config(&[echo.url()], ("", ""), "").replacen("to: s } }", both, 1));
    let (dns, other) = (proxy.address("dns"), proxy.address("other"));
    for (from, to) in [(dns.to_string(), other), (format!("127.0.0.9:{}", other.port()), dns)] {
        // As whoever invents the address of a sender would say.
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        set_socket_reuseport(&socket, true).unwrap();
        bind(&socket, &from.parse::<SocketAddr>().unwrap()).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], to.port()));
        UdpSocket::from(socket).send_to(b"round and round", to).unwrap();
    }
    wait_counted(&proxy, "thalweg_datagrams_dropped_total", "source", 2);
    Client::of(&proxy).echoes(b"hello");
    assert_eq!(echo.heard(), 1, "the client's alone");
}

#[test]
fn the_bounds_of_a_service_hold_for_sessions() {
    let _watchdog = watchdog("the_bounds_of_a_service_hold_for_sessions");
    let echo = Echo::start();
    for bound in ["max_in_flight: 2", "max_connections: 2"] {
        let proxy = proxy(&[&echo], "", &format!(", limits: {{ {bound} }}"));
        let clients: Vec<_> = (0..2).map(|_| Client::of(&proxy)).collect();
        clients.iter().for_each(|client| client.echoes(b"hello"));
        Client::of(&proxy).is_ignored();
        wait_counted(&proxy, "thalweg_datagrams_dropped_total", "no_place", 1);
        clients.iter().for_each(|client| client.echoes(b"still here"));
    }
}

#[test]
fn a_flood_keeps_requests_of_the_same_worker_waiting_for_a_moment_only() {
    let _watchdog = watchdog("a_flood_keeps_requests_of_the_same_worker_waiting_for_a_moment_only");
    let (echo, site) = (Echo::start(), Upstream::saying("hello"));
    let more = format!("routes: [ {{ to: [ \"{}\" ] }} ]", site.url());
    let text = config(&[echo.url()], ("", ""), &more).replace("workers: 2", "workers: 1");
    let text = text.replace("listeners: {", "listeners: { web: { address: \"127.0.0.1:0\" },");
    let proxy = Proxy::start(&text);
    let (address, stops) = (proxy.address("dns"), AtomicBool::new(false));
    let mut times = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let clients: Vec<_> = (0..8).map(|_| Client::to(address)).collect();
                while !stops.load(Relaxed) {
                    clients.iter().for_each(|client| drop(client.0.send(&[7; 512])));
                }
            });
        }
        let times: Vec<_> = (0..200)
            .map(|_| {
                let begin = machine_time();
                assert_eq!(get(proxy.web(), "/").unwrap().text(), "hello");
                machine_time() - begin
            })
            .collect();
        stops.store(true, Relaxed);
        times
    });
    times.sort_unstable();
    let (median, last) = (quantile(&times, 0.5), quantile(&times, 0.99));
    // Four threads flood, answer, ask and serve on what CPUs there are.
    assert!(median < Duration::from_millis(50) && last < Duration::from_millis(500), "{median:?}, {last:?}");
    assert!(echo.heard() > 1000, "there was a flood: {}", echo.heard());
    Client::of(&proxy).echoes_at_last(b"and it is over");
}
