//! TLS that is not ended here: the name that a client asks for chooses the service.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::json;
use thalweg_tests::connection::Event;
use thalweg_tests::{Bare, Connection, Identity, Proxy, STEP, Vitals};

use super::super::watchdog;

/// The alert `unrecognized_name` (RFC 6066 §3), as a record.
const UNRECOGNIZED_NAME: &[u8] = &[0x15, 3, 3, 0, 2, 2, 112];

/// Says who it is and reads what comes, in the clear: TLS is not its matter here.
fn says(name: &'static str) -> Bare {
    Bare::start(move |talk| {
        let mut header = [0; 5];
        std::io::Read::read_exact(&mut talk.stream(), &mut header)?;
        talk.send(format!("{name} {}", header[0]))?;
        talk.rest().map(drop)
    })
}

fn tcp(bare: &Bare) -> String {
    bare.url().replace("http://", "tcp://")
}

fn proxy(sni: &str) -> Proxy {
    Proxy::start(&format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ tls: {{ address: \"127.0.0.1:0\", protocol: tls_passthrough, sni: {{ {sni} }} }} }}\n\
         defaults: {{ timeouts: {{ head: 1s }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    ))
}

/// What rustls says first when it asks for a name, with so many bytes of protocols that nobody speaks.
fn hello(name: &str, more: usize) -> Vec<u8> {
    let mut config: ClientConfig = Identity::shared().client();
    config.alpn_protocols = (0..more / 250).map(|at| vec![b'a' + (at % 26) as u8; 250]).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// What a client says that knows TLS 1.1 and nothing newer.
fn old_hello(name: &str) -> Vec<u8> {
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let names = long(&[&[0][..], &long(name.as_bytes())].concat());
    let extensions = long(&[&[0, 0][..], &long(&names)].concat());
    let body = [&[3, 2][..], &[7; 32], &[0], &long(&[0, 0x2f]), &[1, 0], &extensions].concat();
    let message = [&[1, 0][..], &long(&body)].concat();
    [&[22, 3, 1][..], &long(&message)].concat()
}

/// Who answers.
fn answer(client: &mut Connection) -> String {
    while client.seen().is_empty() {
        match client.read(Instant::now() + STEP) {
            Event::Bytes => {}
            other => return format!("{other:?}"),
        }
    }
    String::from_utf8_lossy(client.seen()).into_owned()
}

fn ask(address: SocketAddr, hello: Vec<u8>) -> String {
    let mut client = Connection::open(address).unwrap();
    client.send(hello);
    answer(&mut client)
}

#[test]
fn names_choose_services_and_who_asks_for_no_other_gets_the_default() {
    let _watchdog = watchdog("names_choose_services_and_who_asks_for_no_other_gets_the_default");
    let (exact, wild, rest) = (says("exact"), says("wild"), says("rest"));
    let [exact_url, wild_url, rest_url] = [&exact, &wild, &rest].map(tcp);
    let proxy = proxy(&format!(
        "a.example.com: [ \"{exact_url}\" ], \"*.example.com\": [ \"{wild_url}\" ], default: [ \"{rest_url}\" ]"
    ));
    let (before, tls) = (Vitals::of(&proxy), proxy.address("tls"));
    for (name, who) in [
        ("a.example.com", "exact 22"),
        ("A.Example.Com", "exact 22"),
        ("b.example.com", "wild 22"),
        ("x.a.example.com", "wild 22"),
        ("example.com", "rest 22"),
        ("other.test", "rest 22"),
        ("127.0.0.1", "rest 22"),
    ] {
        assert_eq!(ask(tls, hello(name, 0)), who, "{name}");
        // As with keys that withstand quantum computers, and far more.
        assert_eq!(ask(tls, hello(name, 12_000)), who, "{name}, in a large hello");
    }
    assert_eq!(
        ask(tls, old_hello("a.example.com")),
        "exact 22",
        "versions are a matter of those who speak them"
    );
    before.wait_for(&proxy, "connections by name");
    let lines = proxy.stop().log;
    let line = lines.iter().find(|line| line["host"] == json!("b.example.com")).unwrap();
    assert_eq!((&line["route"], &line["scheme"]), (&json!("tls *.example.com"), &json!("tls")), "{line}");
}

#[test]
fn a_hello_may_come_in_any_pieces() {
    let _watchdog = watchdog("a_hello_may_come_in_any_pieces");
    let (one, rest) = (says("one"), says("rest"));
    let proxy = proxy(&format!("a.test: [ \"{}\" ], default: [ \"{}\" ]", tcp(&one), tcp(&rest)));
    let hello = hello("a.test", 0);
    let mut client = Connection::open(proxy.address("tls")).unwrap();
    client.trickle(hello.clone(), Duration::from_micros(200));
    assert_eq!(answer(&mut client), "one 22");
    // Records of one byte each, and of a few.
    for size in [1, 3, 100] {
        let records = hello[5..].chunks(size).flat_map(|piece| {
            let len = u16::try_from(piece.len()).unwrap().to_be_bytes();
            [&[22, 3, 1][..], &len, piece].concat()
        });
        let records: Vec<u8> = records.collect();
        let who = ask(proxy.address("tls"), records);
        // What is split into more records than any client makes is refused.
        assert!(who == "one 22" || size < 100 && who.starts_with('\u{15}'), "{size}: {who:?}");
    }
}

#[test]
fn what_has_no_service_or_is_no_tls_is_told_so() {
    let _watchdog = watchdog("what_has_no_service_or_is_no_tls_is_told_so");
    let one = says("one");
    let proxy = proxy(&format!("a.test: [ \"{}\" ]", tcp(&one)));
    let (before, tls) = (Vitals::of(&proxy), proxy.address("tls"));
    let end = |bytes: Vec<u8>| {
        let mut client = Connection::open(tls).unwrap();
        client.send(bytes);
        let event = client.read_to_end(Instant::now() + STEP);
        (event, client.seen().to_vec())
    };
    assert_eq!(end(hello("b.test", 0)), (Event::End, UNRECOGNIZED_NAME.to_vec()));
    for strange in [b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec(), vec![22, 3, 1, 0, 1, 9], vec![0; 64]]
    {
        let (event, alert) = end(strange);
        assert!(event != Event::Late && alert.first() == Some(&0x15), "{event:?} {alert:?}");
    }
    // A hello that does not go on, and none at all.
    for begun in [&hello("a.test", 0)[..40], &[]] {
        let mut client = TcpStream::connect(tls).unwrap();
        client.write_all(begun).unwrap();
        let event = Connection::new(client).read_to_end(Instant::now() + STEP);
        assert_ne!(event, Event::Late, "{} bytes", begun.len());
    }
    before.wait_for(&proxy, "strange connections");
}
