//! What is agreed on with endpoints that are reached through TLS (ALPN), and WebSockets.

use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use thalweg_tests::message::fetch;
use thalweg_tests::upstream::Listener;
use thalweg_tests::{Directory, Front, Identity, Proxy, STEP, Upstream};
use tungstenite::Message as Said;

use super::{config, watchdog};
use crate::scenario::http2::websocket::echo;

/// A proxy before these endpoints, which takes HTTP/2 without TLS or, with `identity`, through it.
fn back(identity: Option<&Identity>, endpoint: &str) -> Proxy {
    let directory = Directory::new();
    let key = match identity {
        Some(identity) => format!("tls: {{ certificates: [ {} ] }}", identity.write(&directory, "web")),
        None => "h2c: true".to_owned(),
    };
    let plain = "web: { address: \"127.0.0.1:0\"";
    Proxy::start_in(directory, &config(&[endpoint], "").replace(plain, &format!("{plain}, {key}")))
}

/// A proxy before the other one, with these keys of the service.
fn front(identity: &Identity, url: &str, service: &str) -> Proxy {
    let directory = Directory::new();
    identity.write(&directory, "trusted");
    let trusted = directory.path().join("trusted.pem");
    let tls = if url.starts_with("https") {
        format!("tls: {{ ca: \"{}\" }}, ", trusted.display())
    } else {
        String::new()
    };
    let text =
        config(&[url], "").replace("services: { s: {", &format!("services: {{ s: {{ {tls}{service}, "));
    Proxy::start_in(directory, &text)
}

fn url(back: &Proxy, scheme: &str) -> String {
    format!("{scheme}://127.0.0.1:{}", back.web().port())
}

#[test]
fn the_endpoint_chooses_unless_it_is_said() {
    let _watchdog = watchdog("the_endpoint_chooses_unless_it_is_said");
    let upstream = Upstream::saying("hello");
    let identity = Identity::new(&["127.0.0.1"]);
    for (service, proto) in
        [("protocol: auto", "HTTP/2.0"), ("protocol: http1", "HTTP/1.1"), ("protocol: http2", "HTTP/2.0")]
    {
        let back = back(Some(&identity), &upstream.url());
        let front = front(&identity, &url(&back, "https"), service);
        for _ in 0..3 {
            let answer =
                fetch(front.web(), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
            assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"), "{service}");
        }
        drop(front);
        let log = back.stop().log;
        assert!(log.len() == 3 && log.iter().all(|line| line["proto"] == proto), "{service}: {log:?}");
    }
}

#[test]
fn an_endpoint_that_knows_no_http_2_is_told_apart() {
    let _watchdog = watchdog("an_endpoint_that_knows_no_http_2_is_told_apart");
    let upstream = Upstream::saying("hello");
    let identity = Identity::new(&["127.0.0.1"]);
    let tls = Front::start(identity.server(), upstream.address());
    for (service, status) in [("protocol: auto", 200), ("protocol: http2", 502)] {
        let front = front(&identity, &tls.url(), service);
        let answer =
            fetch(front.web(), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(answer.status(), status, "{service}: {answer:?}");
        let told = answer.value("proxy-status").unwrap_or_default();
        assert_eq!(told.contains("tls_protocol_error"), status == 502, "{told}");
    }
}

#[test]
fn websockets_go_over_streams_or_over_http_1() {
    let _watchdog = watchdog("websockets_go_over_streams_or_over_http_1");
    let echo = echo();
    let endpoint = format!("http://{}", echo.address());
    let identity = Identity::new(&["127.0.0.1"]);
    for (scheme, service, proto) in [
        ("http", "protocol: http2", "HTTP/2.0"),
        ("https", "protocol: http2", "HTTP/2.0"),
        ("https", "protocol: auto", "HTTP/1.1"),
    ] {
        let back = back((scheme == "https").then_some(&identity), &endpoint);
        let front = front(&identity, &url(&back, scheme), service);
        let stream = TcpStream::connect(front.web()).unwrap();
        stream.set_read_timeout(Some(STEP)).unwrap();
        let (mut socket, answer) = tungstenite::client("ws://a.test/chat", stream).unwrap();
        assert_eq!(answer.status(), 101, "{scheme}, {service}");
        for said in ["hello", "and again"] {
            socket.send(Said::text(said)).unwrap();
            assert_eq!(socket.read().unwrap(), Said::text(said), "{scheme}, {service}");
        }
        socket.close(None).unwrap();
        while socket.read().is_ok() {}
        drop((socket, front));
        let log = back.stop().log;
        assert_eq!(
            (&log[0]["proto"], &log[0]["status"]),
            (&proto.into(), &101.into()),
            "{scheme}, {service}"
        );
    }
}

#[test]
fn an_endpoint_that_takes_no_websockets_over_streams_is_told_apart() {
    let _watchdog = watchdog("an_endpoint_that_takes_no_websockets_over_streams_is_told_apart");
    let (accepted, connections) = mpsc::channel();
    let endpoint = Listener::start(accepted);
    let front =
        front(&Identity::new(&["127.0.0.1"]), &format!("http://{}", endpoint.address()), "protocol: http2");
    let asking = thread::spawn(move || {
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let asked = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{upgrade}{key}\r\n");
        (fetch(front.web(), &asked).unwrap(), front)
    });
    let _endpoint = thalweg_tests::Frames::accept(connections.recv_timeout(STEP).unwrap(), &[]);
    let (answer, _front) = asking.join().unwrap();
    assert_eq!(answer.status(), 502);
    assert!(answer.value("proxy-status").unwrap().contains("http_upgrade_failed"), "{answer:?}");
}
