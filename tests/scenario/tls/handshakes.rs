//! Handshakes that fail, and those that nobody finishes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::process::Signal;
use thalweg_tests::secure::Secure;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Bare, Connection, Directory, Identity, Message, Noise, Proxy, STEP, Upstream};

use super::super::{wait_counted, watchdog};
use super::{config, only, proxy, with};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: example.test\r\n\r\n";

fn open(proxy: &Proxy) -> Connection {
    Connection::open_secure(proxy.web(), Identity::shared(), "example.test").unwrap()
}

fn answered(client: &mut Connection) -> Message {
    Message::read(client, Kind::Response, Instant::now() + STEP).unwrap()
}

fn refused(proxy: &Proxy, word: &str, times: u32) {
    wait_counted(proxy, "thalweg_tls_handshakes_total", &format!("result=\"{word}\""), times);
}

#[test]
fn plain_http_on_a_port_that_speaks_tls_is_answered_plainly() {
    let _watchdog = watchdog("plain_http_on_a_port_that_speaks_tls_is_answered_plainly");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    for request in [REQUEST, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"] {
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send(request);
        let answer = answered(&mut client);
        assert_eq!((answer.status(), answer.value("connection")), (400, Some("close")));
        assert!(answer.text().contains("plain HTTP"), "{}", answer.text());
        assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End);
    }
    assert_eq!(upstream.served(), 0);
    refused(&proxy, "plain_http", 2);
}

#[test]
fn what_is_no_tls_gets_an_alert() {
    let _watchdog = watchdog("what_is_no_tls_gets_an_alert");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    for garbage in [
        &b"\x80\x2e\x01\x03\x01\x00\x15"[..],
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x16\x03\x01\x00\x05\xff\x00\x00\x00\x00",
    ] {
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send(garbage);
        client.half_close();
        assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End, "{garbage:?}");
        let alert = client.seen();
        assert_eq!(
            (alert.len(), alert.first(), alert.get(5)),
            (7, Some(&21), Some(&2)),
            "{garbage:?}: {alert:?}"
        );
    }
}

#[test]
fn a_client_of_an_old_version_gets_a_clean_alert() {
    let _watchdog = watchdog("a_client_of_an_old_version_gets_a_clean_alert");
    let upstream = Upstream::saying("hello");
    let proxy = with(&[&upstream.url()], ", min_version: \"1.3\"");
    let stream = TcpStream::connect(proxy.web()).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let error = Secure::connect(&stream, only(&rustls::version::TLS12), "example.test").unwrap_err();
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
    refused(&proxy, "version", 1);
    let mut client = open(&proxy);
    client.send(REQUEST);
    assert_eq!(answered(&mut client).status(), 200);
}

#[test]
fn a_client_of_tls_1_1_gets_a_clean_alert() {
    let _watchdog = watchdog("a_client_of_tls_1_1_gets_a_clean_alert");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let name = |name: &str| {
        let name = [&[0, 0, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
        let list = [&[0, u8::try_from(name.len()).unwrap()], &name[..]].concat();
        [&[0, 0, 0, u8::try_from(list.len()).unwrap()], &list[..]].concat()
    };
    for minor in [0, 1, 2] {
        // SSL 3.0, TLS 1.0 and TLS 1.1: version, random, no session, ECDHE-ECDSA and -RSA with AES-128-CBC, no
        // compression.
        let mut hello = [&[3, minor][..], &[7; 32], &[0, 0, 4, 0xc0, 0x09, 0xc0, 0x13, 1, 0]].concat();
        let groups = [0, 10, 0, 4, 0, 2, 0, 23];
        let extensions = [&name("example.test")[..], &groups].concat();
        hello.extend_from_slice(&[0, u8::try_from(extensions.len()).unwrap()]);
        hello.extend_from_slice(&extensions);
        let length = u8::try_from(hello.len()).unwrap();
        let record = [&[22, 3, 1, 0, length + 4, 1, 0, 0, length], &hello[..]].concat();
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send(record);
        // Fatal, protocol_version (RFC 8446 §6.2), and the end without a reset.
        assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End, "3.{minor}");
        let alert = client.seen();
        assert_eq!((alert.len(), alert[0], &alert[3..]), (7, 21, &[0, 2, 2, 70][..]), "3.{minor}: {alert:?}");
    }
    refused(&proxy, "version", 3);
}

#[test]
fn who_does_not_finish_a_handshake_is_let_go() {
    let _watchdog = watchdog("who_does_not_finish_a_handshake_is_let_go");
    let upstream = Upstream::saying("hello");
    let proxy = with(&[&upstream.url()], ", handshake_timeout: 1s");
    let begin = Instant::now();
    let mut client = Connection::open(proxy.web()).unwrap();
    // The head of a record, and nothing of what it promises.
    client.send(b"\x16\x03\x01\x02\x00\x01".to_vec());
    assert_eq!(client.read_to_end(begin + STEP), Event::End);
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
    refused(&proxy, "time", 1);
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    let _watchdog = watchdog("a_handshake_may_come_byte_by_byte");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let name = rustls::pki_types::ServerName::try_from("example.test").unwrap();
        let mut session = rustls::ClientConnection::new(only(version), name).unwrap();
        let mut stream = TcpStream::connect(proxy.web()).unwrap();
        stream.set_read_timeout(Some(STEP)).unwrap();
        stream.set_nodelay(true).unwrap();
        session.writer().write_all(REQUEST.as_bytes()).unwrap();
        let mut plain = Vec::new();
        while !plain.ends_with(b"hello") {
            let mut sealed = Vec::new();
            while session.wants_write() {
                session.write_tls(&mut sealed).unwrap();
            }
            for byte in sealed {
                stream.write_all(&[byte]).unwrap();
            }
            let mut bytes = [0; 4096];
            let n = stream.read(&mut bytes).unwrap();
            assert!(n > 0, "the proxy ends it");
            let mut left = &bytes[..n];
            while !left.is_empty() {
                session.read_tls(&mut left).unwrap();
                let state = session.process_new_packets().unwrap();
                let before = plain.len();
                plain.resize(before + state.plaintext_bytes_to_read(), 0);
                session.reader().read_exact(&mut plain[before..]).unwrap();
            }
        }
    }
}

#[test]
fn large_bodies_pass_through_tls_in_both_directions() {
    let _watchdog = watchdog("large_bodies_pass_through_tls_in_both_directions");
    const LARGE: usize = 5_000_000;
    let upstream = Bare::start(|talk| {
        let head = talk.head()?;
        let mut noise = Noise::new(3);
        talk.body(&head).each(|bytes| assert_eq!(noise.check(bytes), Ok(())))?;
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"))?;
        talk.send(Noise::new(4).take(LARGE))
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = open(&proxy);
    client.send(format!("POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: {LARGE}\r\n\r\n"));
    client.send(Noise::new(3).take(LARGE));
    let answer = answered(&mut client);
    assert_eq!((answer.status(), answer.body.len()), (200, LARGE));
    assert_eq!(Noise::new(4).check(&answer.body), Ok(()));
}

#[test]
fn an_answer_that_breaks_off_has_no_farewell_and_a_whole_one_has() {
    let _watchdog = watchdog("an_answer_that_breaks_off_has_no_farewell_and_a_whole_one_has");
    let upstream = Bare::start(|talk| {
        let head = talk.head()?;
        match head.target() {
            "/whole" => talk.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"),
            _ => talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it"),
        }
    });
    let proxy = proxy(&[&upstream.url()]);
    for (path, parts) in [("/whole", true), ("/half", false)] {
        let stream = TcpStream::connect(proxy.web()).unwrap();
        stream.set_read_timeout(Some(STEP)).unwrap();
        let secure = Secure::connect(&stream, Arc::new(Identity::shared().client()), "example.test").unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n");
        (&stream).write_all(&secure.seal(request.as_bytes())).unwrap();
        let mut said_farewell = false;
        loop {
            let mut bytes = [0; 4096];
            match (&stream).read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(n) => said_farewell |= secure.open(&bytes[..n]).unwrap().1,
            }
        }
        assert_eq!(said_farewell, parts, "{path}");
    }
}

#[test]
fn the_port_of_https_is_left_out() {
    let _watchdog = watchdog("the_port_of_https_is_left_out");
    let upstream = Upstream::start(|request| Some(ok(request.value("host").unwrap_or_default())));
    let proxy = proxy(&[&upstream.url()]);
    for (host, kept) in [("a.test:443", "a.test"), ("a.test:80", "a.test:80"), ("A.test", "a.test")] {
        let mut client = open(&proxy);
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(answered(&mut client).text(), kept);
    }
}

#[test]
fn a_tunnel_passes_through_tls() {
    let _watchdog = watchdog("a_tunnel_passes_through_tls");
    let upstream = Bare::start(|talk| {
        talk.head()?;
        talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")?;
        let mut word = [0; 4];
        loop {
            talk.stream().read_exact(&mut word)?;
            talk.send(word)?;
        }
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = open(&proxy);
    client.send(
        "GET / HTTP/1.1\r\nHost: example.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let end = Instant::now() + STEP;
    while !client.seen().ends_with(b"\r\n\r\n") {
        assert_eq!(client.read(end), Event::Bytes);
    }
    for word in [b"ping", b"pong", b"last"] {
        let before = client.seen().len();
        client.send(*word);
        while client.seen().len() < before + 4 {
            assert_eq!(client.read(end), Event::Bytes);
        }
        assert!(client.seen().ends_with(word));
    }
}

#[test]
fn a_proxy_that_stops_ends_what_goes_through_tls_in_good_order() {
    let _watchdog = watchdog("a_proxy_that_stops_ends_what_goes_through_tls_in_good_order");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let mut client = open(&proxy);
    client.send(REQUEST);
    assert_eq!(answered(&mut client).status(), 200);
    proxy.process().signal(Signal::TERM);
    // Only a farewell counts as an end here.
    assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End);
    assert_eq!(proxy.process().wait_exit(STEP).code(), Some(0));
}

/// Says hello and nothing more.
fn silent(proxy: &Proxy) -> TcpStream {
    let name = rustls::pki_types::ServerName::try_from("example.test").unwrap();
    let config = Arc::new(Identity::shared().client());
    let mut session = rustls::ClientConnection::new(config, name).unwrap();
    let mut hello = Vec::new();
    session.write_tls(&mut hello).unwrap();
    let mut stream = TcpStream::connect(proxy.web()).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    stream.write_all(&hello).unwrap();
    stream
}

#[test]
fn many_handshakes_that_nobody_finishes_keep_nobody_out() {
    let _watchdog = watchdog("many_handshakes_that_nobody_finishes_keep_nobody_out");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "web");
    let tls = format!("certificates: [ {certificate} ], handshake_timeout: 5m");
    let text = config(&[&upstream.url()], &tls, "").replace("workers: 2", "workers: 1");
    let proxy = Proxy::start_in(directory, &text);
    // More than a worker has under way at a time.
    let silent: Vec<TcpStream> = (0..1_050).map(|_| silent(&proxy)).collect();
    let mut client = open(&proxy);
    client.send(REQUEST);
    assert_eq!(answered(&mut client).status(), 200);
    // The oldest have made room.
    wait_counted_from(&proxy, "limit", 20);
    drop(silent);
    let mut client = open(&proxy);
    client.send(REQUEST);
    assert_eq!(answered(&mut client).status(), 200);
}

/// Waits until at least so many handshakes have ended like this.
fn wait_counted_from(proxy: &Proxy, word: &str, least: u32) {
    let (end, label) = (Instant::now() + STEP, format!("result=\"{word}\"}} "));
    loop {
        let text = get(proxy.metrics(), "/metrics").unwrap().text();
        let lines = text.lines().filter(|line| line.starts_with("thalweg_tls_handshakes_total"));
        let counted = lines.filter_map(|line| line.split_once(&label)?.1.parse::<u32>().ok()).sum::<u32>();
        if counted >= least {
            return;
        }
        assert!(Instant::now() < end, "{counted} in\n{text}");
    }
}
