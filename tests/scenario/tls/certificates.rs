//! Which certificate a client sees, and how another one takes its place.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use thalweg_tests::message::Kind;
use thalweg_tests::secure::Secure;
use thalweg_tests::{Connection, Directory, Identity, Message, Proxy, STEP, Upstream};

use super::super::{reload, watchdog};
use super::config;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: example.test\r\n\r\n";

/// Whether a client that trusts only `identity` is served when it asks for `name`.
fn serves(proxy: &Proxy, identity: &Identity, name: &str) -> bool {
    let Ok(mut client) = Connection::open_secure(proxy.web(), identity, name) else { return false };
    client.send(REQUEST.replace("example.test", name));
    Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap().status() == 200
}

#[test]
fn a_client_sees_the_certificate_of_the_name_that_it_asks_for() {
    let _watchdog = watchdog("a_client_sees_the_certificate_of_the_name_that_it_asks_for");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let identities =
        [Identity::new(&["a.test"]), Identity::new(&["*.a.test", "b.test"]), Identity::new(&["x.a.test"])];
    let names = ["first", "second", "third"];
    let written: Vec<String> =
        identities.iter().zip(names).map(|(identity, name)| identity.write(&directory, name)).collect();
    let tls = format!("certificates: [ {} ]", written.join(", "));
    let proxy = Proxy::start_in(directory, &config(&[&upstream.url()], &tls, ""));
    for (at, name) in [(0, "a.test"), (1, "y.a.test"), (1, "b.test"), (2, "x.a.test"), (1, "Y.A.test")] {
        assert!(serves(&proxy, &identities[at], name), "{name}");
    }
    // Who asks for no name that is known sees the first one.
    let stream = TcpStream::connect(proxy.web()).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let error = Secure::connect(&stream, Arc::new(identities[0].client()), "unknown.test").unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
}

#[test]
fn a_certificate_is_exchanged_under_load_and_nobody_is_dropped() {
    let _watchdog = watchdog("a_certificate_is_exchanged_under_load_and_nobody_is_dropped");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let identities = [Identity::new(&["example.test"]), Identity::new(&["example.test"])];
    let tls = format!("certificates: [ {} ]", identities[0].write(&directory, "web"));
    let text = config(&[&upstream.url()], &tls, "");
    let proxy = Proxy::start_in(directory, &text);
    let both = Arc::new(identities[0].client_with(&identities[1]));
    let mut kept = Connection::open_secure(proxy.web(), &identities[0], "example.test").unwrap();
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    // Whichever of the two it sees, it is served.
                    let stream = TcpStream::connect(proxy.web()).unwrap();
                    stream.set_read_timeout(Some(STEP)).unwrap();
                    let secure = Secure::connect(&stream, both.clone(), "example.test").unwrap();
                    (&stream).write_all(&secure.seal(REQUEST.as_bytes())).unwrap();
                    let mut bytes = [0; 4096];
                    let mut plain = Vec::new();
                    while !plain.ends_with(b"hello") {
                        let n = (&stream).read(&mut bytes).unwrap();
                        assert!(n > 0, "a client is dropped");
                        plain.extend(secure.open(&bytes[..n]).unwrap().0);
                    }
                    served.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        for turn in 1..=6 {
            identities[turn % 2].write_into(proxy.directory(), "web");
            reload(&proxy, &text, turn);
            assert!(serves(&proxy, &identities[turn % 2], "example.test"), "turn {turn}");
            assert!(!serves(&proxy, &identities[1 - turn % 2], "example.test"), "turn {turn}");
            kept.send(REQUEST);
            let answer = Message::read(&mut kept, Kind::Response, Instant::now() + STEP).unwrap();
            assert_eq!(answer.status(), 200, "a connection that is there goes on");
        }
        stop.store(true, Ordering::Release);
    });
    assert!(served.load(Ordering::Acquire) > 0);
}
