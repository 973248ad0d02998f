//! Clients that mean harm, or are only slow, behind TLS: they come no further than without it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::message::Kind;
use thalweg_tests::secure::Secure;
use thalweg_tests::{Bare, Connection, Directory, Identity, Message, Proxy, STEP, Upstream};

use super::super::{wait_counted, watchdog};
use super::config;

fn start(url: &str, more: &str) -> Proxy {
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "web");
    Proxy::start_in(directory, &config(&[url], &format!("certificates: [ {certificate} ]"), more))
}

#[test]
fn whole_answers_end_with_a_farewell_however_they_end() {
    let _watchdog = watchdog("whole_answers_end_with_a_farewell_however_they_end");
    const BODY: usize = 20_000;
    let until_close = Bare::start(|talk| {
        talk.head()?;
        talk.send("HTTP/1.0 200 OK\r\n\r\n")?;
        talk.send(vec![b'x'; BODY])
    });
    let length = Bare::start(|talk| {
        talk.head()?;
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n"))?;
        talk.send(vec![b'x'; BODY])?;
        talk.rest().map(drop)
    });
    let nobody = "http://127.0.0.1:1".to_owned();
    for (url, request, body) in [
        (until_close.url(), "GET / HTTP/1.0\r\nHost: example.test\r\n\r\n", BODY),
        (until_close.url(), "GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n", BODY),
        (until_close.url(), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", BODY),
        (length.url(), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", BODY),
        (length.url(), "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n", BODY),
        (nobody, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", 0),
    ] {
        let proxy = start(&url, "");
        let mut client = Connection::open_secure(proxy.web(), Identity::shared(), "example.test").unwrap();
        client.send(request);
        assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End, "{request:?}");
        assert!(client.seen().len() > body, "{request:?}: {} bytes", client.seen().len());
    }
}

#[test]
fn slow_handshakes_make_room_for_others() {
    let _watchdog = watchdog("slow_handshakes_make_room_for_others");
    let upstream = Upstream::saying("hello");
    let proxy = start(&upstream.url(), "limits: { max_connections: 16 }");
    // The beginning of a record each; more of them than there are places.
    let attackers: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(proxy.web()).unwrap();
            stream.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
            stream
        })
        .collect();
    let end = Instant::now() + STEP;
    let mut served = 0;
    while served < 10 {
        assert!(Instant::now() < end, "only {served} are served");
        // One that comes while all places are just being taken may be refused: it comes again.
        let client = Connection::open_secure(proxy.web(), Identity::shared(), "example.test");
        let Ok(mut client) = client else { continue };
        client.send("GET / HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n");
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP);
        served += usize::from(answer.is_ok_and(|answer| answer.status() == 200));
    }
    drop(attackers);
}

#[test]
fn the_beginning_of_a_record_has_the_deadline_of_a_head() {
    let _watchdog = watchdog("the_beginning_of_a_record_has_the_deadline_of_a_head");
    let upstream = Upstream::saying("hello");
    let proxy = start(&upstream.url(), "defaults: { timeouts: { head: 1s, keep_alive: 5m } }");
    let mut stream = TcpStream::connect(proxy.web()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let _secure = Secure::connect(&stream, Arc::new(Identity::shared().client()), "example.test").unwrap();
    wait_counted(&proxy, "thalweg_tls_handshakes_total", "result=\"full\"", 1);
    stream.write_all(b"\x17\x03\x03\x40\x00").unwrap();
    let begin = Instant::now();
    let mut buffer = [0; 1024];
    // A byte now and then buys no time.
    loop {
        assert!(begin.elapsed() < STEP, "it is still there");
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let _ = stream.write_all(b"x");
            }
            Err(_) => break,
        }
    }
}
