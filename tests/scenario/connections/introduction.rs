//! The PROXY protocol: what a trusted peer says of its client holds for everything, and nobody else is believed.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::connection::Event;
use thalweg_tests::message::Kind;
use thalweg_tests::{Connection, Directory, Identity, Message, Proxy, STEP, Talk, Upstream as Http, Vitals};

use super::super::tunnels::Upstream;
use super::super::watchdog;
use super::{config, open, tcp};

/// What a peer says of a client in version 1, and in version 2 (a signature, PROXY over TCP4, 12 bytes).
const V1: &[u8] = b"PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x09\xc0\0\x02\x01\x12\x67\x01\xbb";

/// A proxy whose listener `web` takes requests, and `safe` too, through TLS; both hear peers in `from`.
fn hears(url: &str, from: &str) -> Proxy {
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "safe");
    let hears = format!("proxy_protocol: {{ {from} }}");
    let text = super::super::config(&[url], "defaults: { timeouts: { head: 1s } }").replace(
        "web: { address: \"127.0.0.1:0\" }",
        &format!(
            "web: {{ address: \"127.0.0.1:0\", {hears} }}, safe: {{ address: \"127.0.0.1:0\", {hears}, tls: {{ certificates: [ {certificate} ] }} }}"
        ),
    );
    Proxy::start_in(directory, &text)
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

/// Asks, with these bytes first; the address that the endpoint was told.
fn ask(proxy: &Proxy, first: &[u8]) -> Result<Message, String> {
    let mut client = Connection::open(proxy.web()).map_err(|error| error.to_string())?;
    client.send([first, REQUEST.as_bytes()].concat());
    Message::read(&mut client, Kind::Response, Instant::now() + STEP)
}

/// An endpoint that says for whom a request came.
fn tells() -> Http {
    Http::start(|request| {
        let body = request.value("x-forwarded-for").unwrap_or_default().to_owned();
        Some(thalweg_tests::upstream::ok(&body))
    })
}

#[test]
fn requests_come_from_whom_a_trusted_peer_names() {
    let _watchdog = watchdog("requests_come_from_whom_a_trusted_peer_names");
    let upstream = tells();
    let proxy = hears(&upstream.url(), "from: [ 127.0.0.0/8 ]");
    let before = Vitals::of(&proxy);
    for (said, client) in [
        (V1, "203.0.113.9"),
        (V2, "203.0.113.9"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "127.0.0.1"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n", "2001:db8::7"),
    ] {
        assert_eq!(ask(&proxy, said).unwrap().text(), client, "{}", said.escape_ascii());
    }
    // Byte by byte, and with more than one request behind it.
    let mut client = Connection::open(proxy.web()).unwrap();
    let twice = [V2, b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", REQUEST.as_bytes()].concat();
    client.trickle(twice, Duration::from_micros(100));
    assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End);
    assert_eq!(String::from_utf8_lossy(client.seen()).matches("203.0.113.9").count(), 2);
    for wrong in [&b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"[..], b"PROXY TCP4 nobody\r\n", b"PROXY ", b""] {
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send(wrong);
        let event = client.read_to_end(Instant::now() + STEP);
        assert!(event != Event::Late && client.seen().is_empty(), "{event:?} {:?}", client.seen());
    }
    // Somebody who looks whether we are there.
    Talk::open(proxy.web()).unwrap().half_close();
    before.wait_for(&proxy, "connections of a peer");
    let log = proxy.stop().log;
    let line = log.iter().find(|line| line["client_ip"] == json!("2001:db8::7")).unwrap();
    assert_eq!(line["client_port"], json!(1), "{line}");
    assert_eq!(log.iter().filter(|line| line["status"] == json!(400)).count(), 2, "what was wrong is told");
    assert_eq!(log.iter().filter(|line| line["status"] == json!(408)).count(), 2, "and what did not come");
    assert_eq!(log.len(), 5 + 2 + 4, "{log:?}");
}

#[test]
fn tls_begins_behind_the_words_of_a_peer() {
    let _watchdog = watchdog("tls_begins_behind_the_words_of_a_peer");
    let upstream = tells();
    let proxy = hears(&upstream.url(), "from: [ 127.0.0.0/8 ]");
    let mut stream = std::net::TcpStream::connect(proxy.address("safe")).unwrap();
    std::io::Write::write_all(&mut stream, V2).unwrap();
    let mut client = rustls_stream(stream);
    std::io::Write::write_all(&mut client, REQUEST.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = client.read_to_string(&mut answer);
    assert!(answer.ends_with("203.0.113.9"), "{answer}");
}

/// A client of TLS on a connection that is there.
fn rustls_stream(
    stream: std::net::TcpStream,
) -> rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream> {
    stream.set_read_timeout(Some(STEP)).unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let config = std::sync::Arc::new(Identity::shared().client());
    rustls::StreamOwned::new(rustls::ClientConnection::new(config, name).unwrap(), stream)
}

#[test]
fn who_is_not_trusted_is_a_client_and_words_may_be_optional() {
    let _watchdog = watchdog("who_is_not_trusted_is_a_client_and_words_may_be_optional");
    let upstream = tells();
    let proxy = hears(&upstream.url(), "from: [ 192.0.2.0/24 ]");
    assert_eq!(ask(&proxy, b"").unwrap().text(), "127.0.0.1");
    assert_eq!(ask(&proxy, V1).unwrap().status(), 400, "to a client these words are no request");
    let proxy = hears(&upstream.url(), "from: [ 127.0.0.0/8 ], required: false");
    assert_eq!(ask(&proxy, b"").unwrap().text(), "127.0.0.1");
    assert_eq!(ask(&proxy, V1).unwrap().text(), "203.0.113.9");
}

#[test]
fn endpoints_of_connections_are_told_of_clients() {
    let _watchdog = watchdog("endpoints_of_connections_are_told_of_clients");
    let upstream = Upstream::start();
    for (version, said) in [("v1", V1), ("v2", &V2[..12])] {
        let text = config(&[tcp(&upstream)], &format!(", send_proxy_protocol: {version}"), "");
        let text = text.replacen("to: s }", "to: s, proxy_protocol: { from: [ 127.0.0.1 ] } }", 1);
        let proxy = Proxy::start(&text);
        let mut client = open(&proxy);
        client.send([V2, b"hello"].concat()).unwrap();
        let mut server: Talk = upstream.next();
        let mut got = vec![0; said.len()];
        server.stream().read_exact(&mut got).unwrap();
        assert_eq!(got, said);
        client.half_close();
        let rest = server.rest().unwrap();
        assert!(rest.ends_with(b"hello"), "{}", rest.escape_ascii());
        if version == "v2" {
            // PROXY, TCP4; the addresses and ports that were announced.
            assert_eq!((&rest[..2], &rest[4..16]), (&b"\x21\x11"[..], &V2[16..28]));
        } else {
            assert_eq!(rest, b"hello");
        }
        drop(server);
        let line = proxy.stop().log.pop().unwrap();
        assert_eq!((&line["bytes_in"], &line["client_ip"]), (&json!(5), &json!("203.0.113.9")), "{line}");
    }
}
