//! Listeners that take connections and no requests: bytes go both ways from the first one on, whoever has it; names
//! choose services where clients speak TLS that is not ended here; and whatever ends, ends on both sides.

mod databases;
mod introduction;
mod names;

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::admin::segment;
use thalweg_tests::connection::Event;
use thalweg_tests::process::Signal;
use thalweg_tests::{
    Admin, Connection, Directory, Identity, Noise, Proxy, STEP, Talk, Upstream as Http, Vitals,
};

use super::tunnels::{Upstream, carries};
use super::{reload, wait_counted, watchdog};

/// Bytes that go each way where every one of them counts.
const PAYLOAD: usize = 8 << 20;

/// A listener `db` before a service of these endpoints; `more` are further top-level keys.
fn config(endpoints: &[String], of_service: &str, more: &str) -> String {
    let endpoints = endpoints.iter().map(|url| format!("\"{url}\"")).collect::<Vec<_>>().join(", ");
    let shutdown = if more.contains("shutdown:") { "" } else { "shutdown: { delay: 0s, grace: 5s }\n" };
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ db: {{ address: \"127.0.0.1:0\", protocol: tcp, to: s }} }}\n\
         services: {{ s: {{ endpoints: [ {endpoints} ]{of_service} }} }}\n\
         {shutdown}{more}\n"
    )
}

fn proxy(upstreams: &[&Upstream], of_service: &str) -> Proxy {
    let endpoints: Vec<_> = upstreams.iter().map(|upstream| tcp(upstream)).collect();
    Proxy::start(&config(&endpoints, of_service, ""))
}

fn tcp(upstream: &Upstream) -> String {
    upstream.url().replace("http://", "tcp://")
}

fn open(proxy: &Proxy) -> Talk {
    Talk::open(proxy.address("db")).unwrap()
}

/// An address of this machine at which nobody listens.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tcp://{}", listener.local_addr().unwrap())
}

#[test]
fn either_side_has_the_first_word() {
    let _watchdog = watchdog("either_side_has_the_first_word");
    let upstream = Upstream::start();
    let proxy = proxy(&[&upstream], "");
    let before = Vitals::of(&proxy);
    let (mut client, mut server) = (open(&proxy), upstream.next());
    carries(&mut server, &mut client, "220 ready");
    carries(&mut client, &mut server, "hello");
    let (mut other, mut its_server) = (open(&proxy), upstream.next());
    carries(&mut other, &mut its_server, "hello");
    carries(&mut its_server, &mut other, "220 ready");
    drop((client, server, other, its_server));
    before.wait_for(&proxy, "two connections");
}

#[test]
fn every_byte_goes_both_ways_and_each_side_ends_for_itself() {
    let _watchdog = watchdog("every_byte_goes_both_ways_and_each_side_ends_for_itself");
    let upstream = Upstream::start();
    let proxy = proxy(&[&upstream], "");
    let before = Vitals::of(&proxy);
    // All of it, and the end, before the endpoint is connected to.
    let (mut client, bytes) = (open(&proxy), Noise::new(7).take(PAYLOAD));
    let sent = bytes.clone();
    let mut writer = client.writer().unwrap();
    let sends = thread::spawn(move || {
        std::io::Write::write_all(&mut writer, &sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut server = upstream.next();
    assert!(server.rest().unwrap() == bytes, "what the endpoint got");
    sends.join().unwrap();
    // The other direction goes on.
    let sends = thread::spawn(move || {
        server.send(&bytes).unwrap();
        (server, bytes)
    });
    let mut got = vec![0; PAYLOAD];
    std::io::Read::read_exact(&mut client.stream(), &mut got).unwrap();
    let (server, bytes) = sends.join().unwrap();
    assert!(got == bytes, "what the client got");
    drop(server);
    assert_eq!(client.rest().unwrap(), b"");
    before.wait_for(&proxy, "a connection");
    let line = proxy.stop().log.pop().unwrap();
    let told = (&line["bytes_in"], &line["bytes_out"], &line["status"], &line["fault"]);
    assert_eq!(told, (&json!(PAYLOAD), &json!(PAYLOAD), &json!(200), &json!(null)), "{line}");
    assert_eq!(
        (&line["scheme"], &line["listener"], &line["service"]),
        (&json!("tcp"), &json!("db"), &json!("s"))
    );
}

#[test]
fn a_reset_is_passed_on() {
    let _watchdog = watchdog("a_reset_is_passed_on");
    let upstream = Upstream::start();
    let proxy = proxy(&[&upstream], "");
    let before = Vitals::of(&proxy);
    let (mut client, mut server) = (open(&proxy), upstream.next());
    carries(&mut client, &mut server, "hello");
    server.reset();
    assert_eq!(client.rest().unwrap_err().kind(), ErrorKind::ConnectionReset);
    let (mut client, mut server) = (open(&proxy), upstream.next());
    carries(&mut client, &mut server, "hello");
    client.reset();
    assert_eq!(
        server.rest().unwrap_err().kind(),
        ErrorKind::ConnectionReset,
        "an end would say that this is all"
    );
    before.wait_for(&proxy, "resets");
}

#[test]
fn another_endpoint_takes_what_one_does_not() {
    let _watchdog = watchdog("another_endpoint_takes_what_one_does_not");
    let upstream = Upstream::start();
    let proxy = Proxy::start(&config(&[nowhere(), tcp(&upstream), nowhere()], "", ""));
    for _ in 0..6 {
        let (mut client, mut server) = (open(&proxy), upstream.next());
        carries(&mut client, &mut server, "hello");
    }
    let alone = Proxy::start(&config(&[nowhere()], "", ""));
    assert_eq!(open(&alone).rest().unwrap(), b"", "nobody is there: the connection ends");
    let mut spoken = open(&alone);
    spoken.send("what is said is read: this is no reset").unwrap();
    assert_eq!(spoken.rest().unwrap(), b"");
    let line = alone.stop().log.pop().unwrap();
    assert_eq!((&line["status"], &line["fault"]), (&json!(503), &json!("destination_unavailable")), "{line}");
}

/// What a worker remembers of a request over HTTP/2 to an endpoint must not count for the next connection.
#[test]
fn another_endpoint_takes_it_also_where_requests_were_served_before() {
    let _watchdog = watchdog("another_endpoint_takes_it_also_where_requests_were_served_before");
    let (upstream, site) = (Upstream::start(), Http::saying("hello"));
    let inner = Proxy::start(&super::http2::h2c(&super::config(&[&site.url()], "")));
    let url = format!("http://{}", inner.web());
    let text = config(&[nowhere(), tcp(&upstream), nowhere()], "", "routes: [ { to: http2 } ]");
    let text = text
        .replace("workers: 2", "workers: 1")
        .replace("listeners: {", "listeners: { web: { address: \"127.0.0.1:0\" },")
        .replace(
            "services: {",
            &format!("services: {{ http2: {{ protocol: http2, endpoints: [ \"{url}\" ] }},"),
        );
    let proxy = Proxy::start(&text);
    for _ in 0..6 {
        assert_eq!(thalweg_tests::message::get(proxy.web(), "/").unwrap().text(), "hello");
        let (mut client, mut server) = (open(&proxy), upstream.next());
        carries(&mut client, &mut server, "hello");
    }
}

#[test]
fn the_endpoint_with_the_fewest_connections_gets_the_next() {
    let _watchdog = watchdog("the_endpoint_with_the_fewest_connections_gets_the_next");
    let (one, two) = (Upstream::start(), Upstream::start());
    let text = config(&[tcp(&one), tcp(&two)], ", balance: least_requests", "");
    let proxy = Proxy::start(&text.replace("workers: 2", "workers: 1"));
    let mut held: Vec<_> = (0..10).map(|_| open(&proxy)).collect();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        first.push(one.next());
        second.push(two.next());
    }
    for client in &mut held {
        client.send("x").unwrap();
    }
    // What has gone through has been counted before.
    for server in first.iter_mut().chain(&mut second) {
        server.stream().read_exact(&mut [0]).unwrap();
    }
    let service = Admin::of(&proxy).get("/api/v1/services/s");
    let counted: Vec<_> =
        service["endpoints"].as_array().unwrap().iter().map(|it| &it["requests_total"]).collect();
    assert_eq!(counted, [&json!(5), &json!(5)], "{service}");
}

#[test]
fn silence_ends_a_connection_in_time_and_a_word_does_not() {
    let _watchdog = watchdog("silence_ends_a_connection_in_time_and_a_word_does_not");
    let upstream = Upstream::start();
    let proxy = proxy(&[&upstream], ", timeouts: { idle: 400ms }");
    let (mut busy, mut server) = (open(&proxy), upstream.next());
    let (mut silent, mut its_server) = (open(&proxy), upstream.next());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1200) {
        carries(&mut busy, &mut server, "still here");
        thread::sleep(Duration::from_millis(50)); // The pace of a client that is slow, not silent.
    }
    silent.assert_ends("nothing was said");
    its_server.assert_ends("nothing was said");
    carries(&mut server, &mut busy, "still here");
}

#[test]
fn a_drained_endpoint_gets_no_new_connections_and_keeps_the_old_until_its_time_is_over() {
    let _watchdog =
        watchdog("a_drained_endpoint_gets_no_new_connections_and_keeps_the_old_until_its_time_is_over");
    let (one, two) = (Upstream::start(), Upstream::start());
    // One worker: two that choose at the same moment may choose the same.
    let text = config(&[tcp(&one), tcp(&two)], ", balance: least_requests", "");
    let proxy = Proxy::start(&text.replace("workers: 2", "workers: 1"));
    let admin = Admin::of(&proxy);
    let mut clients: Vec<_> = (0..2).map(|_| open(&proxy)).collect();
    let (mut stays, mut goes) = (one.next(), two.next());
    let wrong = admin.call("POST", "/api/v1/services/s/endpoints", "{\"url\":\"http://127.0.0.1:1\"}");
    assert_eq!(wrong.status(), 409, "{}", wrong.text());
    let path = format!("/api/v1/services/s/endpoints/{}", segment(&tcp(&two)));
    assert_eq!(admin.call("PATCH", &path, "{\"state\":\"draining\"}").status(), 200);
    for _ in 0..4 {
        let (mut client, mut server) = (open(&proxy), one.next());
        carries(&mut client, &mut server, "to the one that is left");
    }
    goes.send("still here").unwrap();
    let seen = clients.iter().position(|client| {
        let _ = client.stream().set_read_timeout(Some(Duration::from_millis(300)));
        std::io::Read::read_exact(&mut client.stream(), &mut [0; 10]).is_ok()
    });
    let seen = seen.unwrap();
    assert!(matches!(admin.call("DELETE", &format!("{path}?drain=100ms"), "").status(), 200 | 202));
    goes.assert_ends("its drain is over");
    let mut gone = clients.remove(seen);
    let _ = gone.stream().set_read_timeout(Some(STEP));
    gone.assert_ends("its endpoint is gone");
    let mut kept = clients.remove(0);
    let _ = kept.stream().set_read_timeout(Some(STEP));
    carries(&mut stays, &mut kept, "nothing happened here");
}

#[test]
fn the_proxy_waits_for_its_connections_when_it_stops_and_then_ends_them() {
    let _watchdog = watchdog("the_proxy_waits_for_its_connections_when_it_stops_and_then_ends_them");
    let upstream = Upstream::start();
    let text = config(&[tcp(&upstream)], "", "shutdown: { delay: 0s, grace: 1s }");
    let proxy = Proxy::start(&text);
    let (mut client, mut server) = (open(&proxy), upstream.next());
    carries(&mut client, &mut server, "hello");
    proxy.process().signal(Signal::TERM);
    carries(&mut server, &mut client, "last words");
    client.half_close();
    assert_eq!(server.rest().unwrap(), b"");
    drop(server);
    assert_eq!(client.rest().unwrap(), b"");
    assert_eq!(proxy.ended(STEP).status.code(), Some(0), "all had ended");
    let proxy = Proxy::start(&text);
    let (mut client, mut server) = (open(&proxy), upstream.next());
    carries(&mut client, &mut server, "hello");
    proxy.process().signal(Signal::TERM);
    client.assert_ends("the time is over");
    server.assert_ends("the time is over");
    let ended = proxy.ended(STEP);
    assert_eq!((ended.status.code(), ended.log.len()), (Some(3), 1), "one had to be ended");
    assert_eq!(ended.log[0]["fault"], "proxy_stopped", "{}", ended.log[0]);
}

#[test]
fn a_reload_keeps_connections_and_sends_new_ones_elsewhere() {
    let _watchdog = watchdog("a_reload_keeps_connections_and_sends_new_ones_elsewhere");
    let (one, two) = (Upstream::start(), Upstream::start());
    let proxy = proxy(&[&one], "");
    let (mut client, mut server) = (open(&proxy), one.next());
    carries(&mut client, &mut server, "before");
    reload(&proxy, &config(&[tcp(&two)], "", ""), 1);
    let (mut next, mut its_server) = (open(&proxy), two.next());
    carries(&mut next, &mut its_server, "after");
    carries(&mut server, &mut client, "and before");
}

#[test]
fn the_kernel_asks_after_peers_only_where_their_silence_may_last() {
    let _watchdog = watchdog("the_kernel_asks_after_peers_only_where_their_silence_may_last");
    let time = fs::read_to_string("/proc/sys/net/ipv4/tcp_keepalive_time").unwrap();
    let time: u64 = time.trim().parse().unwrap();
    let upstream = Upstream::start();
    let config = |idle| {
        let more = format!("defaults: {{ timeouts: {{ idle: {idle}s }} }}");
        config(&[tcp(&upstream)], "", &more).replace("workers: 2", "workers: 1")
    };
    let proxy = Proxy::start(&config(time - 1));
    for (changes, is_asked_after) in [false, true, false].into_iter().enumerate() {
        if changes > 0 {
            reload(&proxy, &config(time - 1 + u64::from(is_asked_after)), changes);
            // Who has been served by the worker knows that it has heard of the reload.
            let (mut client, mut server) = (open(&proxy), upstream.next());
            carries(&mut client, &mut server, "hello");
        }
        let (mut client, mut server) = (open(&proxy), upstream.next());
        carries(&mut client, &mut server, "hello");
        carries(&mut server, &mut client, "220 ready");
        for peer in [client.stream(), server.stream()] {
            assert_eq!(has_keepalive(peer), is_asked_after, "{changes}: {peer:?}");
        }
    }
}

/// Whether the kernel will ask the other end of `peer`'s connection after it (proc(5), `/proc/net/tcp`).
fn has_keepalive(peer: &TcpStream) -> bool {
    let hex = |address: SocketAddr| format!("0100007F:{:04X}", address.port());
    let ends = format!("{} {} 01 ", hex(peer.peer_addr().unwrap()), hex(peer.local_addr().unwrap()));
    loop {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        // The table is read in pieces, and others come and go meanwhile.
        let line = table.lines().find(|line| line.contains(&ends)).unwrap_or_default();
        match line.split_whitespace().nth(5).map(|timer| &timer[..2]) {
            Some("02") => return true,
            Some("00") => return false,
            // Not in the table, or what was sent has not been acknowledged yet.
            _ => thread::yield_now(),
        }
    }
}

#[test]
fn what_a_kept_client_asks_after_a_reload_goes_to_no_database() {
    let _watchdog = watchdog("what_a_kept_client_asks_after_a_reload_goes_to_no_database");
    let (database, site) = (Upstream::start(), Http::saying("hello"));
    let text = config(&[tcp(&database)], "", "");
    let http = text.replacen("protocol: tcp, to: s", "protocol: http", 1);
    let http = http.replace("tcp://", "unix:/nowhere/").replacen(
        "services: {",
        &format!("routes: [ {{ to: [ \"{}\" ] }} ]\nservices: {{", site.url()),
        1,
    );
    let proxy = Proxy::start(&http);
    let mut client = open(&proxy);
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nCookie: secret\r\n\r\n";
    client.send(request).unwrap();
    let head = client.head().unwrap();
    client.body(&head).each(|_| {}).unwrap();
    reload(&proxy, &text, 1);
    let _ = client.send(request);
    client.assert_ends("HTTP is not spoken there any more");
    let (mut next, mut server) = (open(&proxy), database.next());
    carries(&mut next, &mut server, "the first that comes");
}

#[test]
fn who_has_too_many_connections_is_shut_out() {
    let _watchdog = watchdog("who_has_too_many_connections_is_shut_out");
    let upstream = Upstream::start();
    let text = config(&[tcp(&upstream)], "", "limits: { max_connections_per_client: 2 }");
    let proxy = Proxy::start(&text);
    let held: Vec<_> = (0..2).map(|_| (open(&proxy), upstream.next())).collect();
    let mut third = open(&proxy);
    assert_eq!(third.rest().unwrap(), b"", "there is no word of HTTP in it");
    wait_counted(&proxy, "thalweg_limit_hits_total", "connections_per_client", 1);
    drop(held);
}

#[test]
fn tls_is_ended_where_the_listener_has_a_certificate() {
    let _watchdog = watchdog("tls_is_ended_where_the_listener_has_a_certificate");
    let upstream = Upstream::start();
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "db");
    let text = config(&[tcp(&upstream)], "", "");
    let text = text.replacen("to: s }", &format!("to: s, tls: {{ certificates: [ {certificate} ] }} }}"), 1);
    let proxy = Proxy::start_in(directory, &text);
    let before = Vitals::of(&proxy);
    let mut client = Connection::open_secure(proxy.address("db"), Identity::shared(), "localhost").unwrap();
    let mut server = upstream.next();
    server.send("220 ready").unwrap();
    while client.seen() != b"220 ready" {
        assert_eq!(client.read(Instant::now() + STEP), Event::Bytes);
    }
    client.send("hello");
    let mut got = [0; 5];
    std::io::Read::read_exact(&mut server.stream(), &mut got).unwrap();
    assert_eq!(&got, b"hello");
    drop(server);
    assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End, "told of, not cut off");
    client.close();
    before.wait_for(&proxy, "a connection through TLS");
    let line = proxy.stop().log.pop().unwrap();
    assert_eq!((&line["host"], &line["scheme"]), (&json!("localhost"), &json!("tls")), "{line}");
}
