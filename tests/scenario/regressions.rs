//! What a review of the first release found and a transcript cannot show: it depends on how bytes arrive together,
//! on time, or on what the upstream's socket sees.
//!
//! Drains that cut connections are in `drain.rs`.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use thalweg_tests::connection::Event;
use thalweg_tests::message::{Kind, fetch, get};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Connection, Message, Proxy, STEP, Upstream};

use super::{config, frozen, proxy, spoken, watchdog};

/// Requests that one connection sends at once.
const PIPELINED: usize = 20_000;
/// Most of them that may be answered before an exchange that began beside them is. A conversation gives way every
/// 32; this leaves room for the time that the upstream takes on a busy machine.
const BEFORE: usize = 2_000;

/// Sends a request and reads its answer.
fn ask(client: &mut Connection, request: &str) -> Message {
    client.send(request);
    Message::read(client, Kind::Response, Instant::now() + STEP).unwrap()
}

/// Sends as many of `PIPELINED` requests without a route as the kernel takes at once; gives the rest too.
fn pipelined(address: SocketAddr) -> (TcpStream, Vec<u8>) {
    let request = "GET /nowhere HTTP/1.1\r\nHost: b.test\r\n\r\n";
    let last = "GET /nowhere HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n";
    let mut bytes = (request.repeat(PIPELINED - 1) + last).into_bytes();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    while let Ok(taken) = stream.write(&bytes) {
        bytes.drain(..taken);
        if bytes.is_empty() {
            break;
        }
    }
    stream.set_nonblocking(false).unwrap();
    (stream, bytes)
}

/// Sends the rest and counts the answers, until the connection ends.
fn count_answers(stream: TcpStream, rest: Vec<u8>) -> usize {
    let mut client = Connection::new(stream);
    client.send(rest);
    client.read_to_end(Instant::now() + STEP * 5);
    String::from_utf8_lossy(client.seen()).matches("HTTP/1.1 404 ").count()
}

#[test]
fn a_client_that_pipelines_requests_without_a_route_does_not_hold_the_others() {
    let _watchdog = watchdog("a_client_that_pipelines_requests_without_a_route_does_not_hold_the_others");
    let upstream = Upstream::saying("hello");
    let text = config(&[&upstream.url()], "")
        .replace("workers: 2\n", "workers: 1\n")
        .replace("routes: [ { to: s } ]", "routes: [ { match: { host: a.test }, to: s } ]");
    let proxy = Proxy::start(&text);
    let (many, mut one) = frozen(&proxy, || {
        let (stream, rest) = pipelined(proxy.web());
        let one = spoken(proxy.web(), "GET /one HTTP/1.1\r\nHost: a.test\r\n\r\n");
        (thread::spawn(move || count_answers(stream, rest)), one)
    });
    let answer = Message::read(&mut one, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(many.join().unwrap(), PIPELINED, "every pipelined request is answered");
    // The log of one worker is in the order in which exchanges ended: unlike a time, it says the same on every machine.
    let log = proxy.stop().log;
    let before = log.iter().position(|record| record["path"] == "/one").unwrap();
    assert!(before < BEFORE, "{before} pipelined requests were answered before an exchange beside them");
}

#[test]
fn an_answer_slower_than_the_pools_idle_time_does_not_cost_its_connection() {
    let _watchdog = watchdog("an_answer_slower_than_the_pools_idle_time_does_not_cost_its_connection");
    let upstream = Upstream::start(|request| {
        if request.target() == "/slow" {
            // Not to wait for something: this is how slow the service is.
            thread::sleep(Duration::from_millis(1500));
        }
        Some(ok("hello"))
    });
    let text = config(&[&upstream.url()], "");
    let proxy = Proxy::start(&text.replace(" ] } }\nroutes", " ], pool: { idle: 1s } } }\nroutes"));
    let mut client = Connection::open(proxy.web()).unwrap();
    for path in ["/", "/slow", "/", "/slow", "/"] {
        let answer = ask(&mut client, &format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        assert_eq!(answer.status(), 200, "{path}");
    }
    assert_eq!(upstream.connections(), 1, "upstream connections for requests one after the other");
}

#[test]
fn a_malformed_chunked_body_costs_no_upstream_connection() {
    let _watchdog = watchdog("a_malformed_chunked_body_costs_no_upstream_connection");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let malformed = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    for _ in 0..5 {
        assert_eq!(fetch(proxy.web(), malformed).unwrap().status(), 400);
    }
    // Connections are accepted in order: when this one is served, those before it have been counted.
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    assert_eq!(upstream.connections(), 1, "upstream connections for one well-formed request");
}

#[test]
fn an_empty_line_behind_a_body_is_no_request() {
    let _watchdog = watchdog("an_empty_line_behind_a_body_is_no_request");
    let upstream = Upstream::saying("hello");
    let head = Duration::from_millis(300);
    let proxy =
        Proxy::start(&config(&[&upstream.url()], "defaults: { timeouts: { head: 300ms, keep_alive: 30s } }"));
    let post = "POST /post HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello\r\n";
    let mut client = Connection::open(proxy.web()).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&mut client, post).status(), 200);
        // Were the empty line the beginning of a head, its deadline would pass now.
        assert_eq!(client.read(Instant::now() + head * 3), Event::Late, "the connection lives on in silence");
    }
    assert_eq!(ask(&mut client, "GET /get HTTP/1.1\r\nHost: a.test\r\n\r\n").status(), 200);
    assert_eq!(ask(&mut client, post).status(), 200);
    client.close();
    let log = proxy.stop().log;
    let paths: Vec<_> = log.iter().map(|record| record["path"].as_str().unwrap_or_default()).collect();
    assert_eq!(paths, ["/post", "/post", "/get", "/post"], "{log:?}");
}

#[test]
fn a_body_sent_with_urgent_data_is_not_stalled() {
    let _watchdog = watchdog("a_body_sent_with_urgent_data_is_not_stalled");
    let upstream = Upstream::start(|request| Some(ok(&request.text())));
    let proxy = proxy(&[&upstream.url()]);
    let mut client = frozen(&proxy, || urgent(proxy.web()));
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "0123456789abcdefghij"));
}

/// A request with an urgent byte in the middle of its body; the byte itself is no part of the stream (tcp(7)).
fn urgent(address: SocketAddr) -> Connection {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 20\r\n\r\n0123456789").unwrap();
    assert_eq!(send(&stream, b"!", SendFlags::OOB), Ok(1));
    stream.write_all(b"abcdefghij").unwrap();
    Connection::new(stream)
}
