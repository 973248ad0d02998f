//! Destinations that stand, sealed, in the first label of the host: a label leads where it says, over every protocol,
//! for as long as it is good; whatever is wrong with one, its client is told the same.

mod control;
mod hostile;

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use thalweg_sealed::{Destination, Key, Keyring, Minutes, Secret, To};
use thalweg_tests::connection::Event;
use thalweg_tests::front::Front;
use thalweg_tests::message::get;
use thalweg_tests::{
    Admin, Bare, Connection, Directory, Identity, Message, Proxy, STEP, Talk, Upstream, Vitals,
};

use super::watchdog;
use super::websocket::Echo;

const DOMAIN: &str = "svc.localhost";
const HOUR: Duration = Duration::from_secs(3600);

/// 128 hexadecimal digits that nobody else has.
fn digits(id: u8) -> String {
    format!("{id:02x}").repeat(64)
}

fn keyring(id: u8, domain: &str) -> Keyring {
    Keyring::new(vec![Key { id, secret: Secret::from_hex(&digits(id)).unwrap() }], domain).unwrap()
}

/// A host name that leads there, by key 1, for an hour.
fn seal(address: SocketAddr) -> String {
    seal_for(&keyring(1, DOMAIN), To::Address(address), false, HOUR)
}

fn seal_for(keyring: &Keyring, to: To, tls: bool, ttl: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let label = keyring.seal(&Destination { to, tls, expires: Minutes::after(now, ttl) }).unwrap();
    format!("{label}.{}", keyring.domain())
}

/// A configuration whose route takes labels of key 1; `sealed` and `more` are further keys, of the target and at the
/// top.
fn config(sealed: &str, more: &str) -> String {
    let allow = if sealed.contains("allow:") { "" } else { ", allow: [ \"127.0.0.0/8:1024-65535\" ]" };
    let keys = format!("keys: [ {{ id: 1, secret: \"{}\" }} ]", digits(1));
    let keys = if sealed.contains("keys:") { String::new() } else { format!(", {keys}") };
    let listeners = "listeners: { web: { address: \"127.0.0.1:0\", h2c: true } }\n";
    let listeners = if more.contains("listeners:") { "" } else { listeners };
    format!(
        "workers: 2\n\
         admin: {{ address: \"127.0.0.1:0\" }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         routes: [ {{ name: previews, match: {{ host: \"*.{DOMAIN}\" }}, \
         to: {{ sealed: {{ domain: \"*.{DOMAIN}\"{keys}{allow}{sealed} }} }} }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n{listeners}{more}\n"
    )
}

/// Asks for `/` at this host.
fn ask(address: SocketAddr, host: &str) -> Message {
    ask_with(address, host, "")
}

fn ask_with(address: SocketAddr, host: &str, fields: &str) -> Message {
    let mut talk = Connection::open(address).unwrap();
    talk.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n"));
    Message::read(&mut talk, thalweg_tests::message::Kind::Response, Instant::now() + STEP).unwrap()
}

fn refused(address: SocketAddr, host: &str) {
    let answer = ask(address, host);
    assert_eq!(answer.status(), 404, "{host}: {}", answer.text());
    let told = answer.value("proxy-status").unwrap();
    assert_eq!(told, "thalweg; error=destination_not_found; details=\"no route matches the request\"");
}

#[test]
fn a_label_leads_to_the_address_that_it_names_and_to_no_other() {
    let _watchdog = watchdog("a_label_leads_to_the_address_that_it_names_and_to_no_other");
    let (one, other) = (Upstream::saying("one"), Upstream::saying("other"));
    let proxy = Proxy::start(&config("", ""));
    let before = Vitals::of(&proxy);
    for (upstream, says) in [(&one, "one"), (&other, "other")] {
        let host = seal(upstream.address());
        for host in [host.clone(), host.to_uppercase(), format!("{host}:8443")] {
            let answer = ask(proxy.web(), &host);
            assert_eq!((answer.status(), answer.text().as_str()), (200, says), "{host}");
        }
    }
    // A connection of a client takes requests for both, and those to destinations are used again.
    let mut client = Talk::open(proxy.web()).unwrap();
    for (upstream, says) in [(&one, "one"), (&other, "other"), (&one, "one")] {
        let host = seal(upstream.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
        let head = client.head().unwrap();
        let mut body = Vec::new();
        client.body(&head).each(|bytes| body.extend_from_slice(bytes)).unwrap();
        assert_eq!(body, says.as_bytes());
    }
    assert!(one.connections() < one.served(), "{} of {}", one.connections(), one.served());
    let over_h2 = Command::new("curl")
        .args(["-s", "--max-time", "20", "--http2-prior-knowledge", "-w", " %{http_version}"])
        .args(["-H", &format!("Host: {}", seal(other.address())), &format!("http://{}/", proxy.web())])
        .output();
    let over_h2 = over_h2.unwrap();
    assert_eq!(String::from_utf8_lossy(&over_h2.stdout), "other 2", "{over_h2:?}");
    drop(client);
    before.wait_for(&proxy, "labels");
}

#[test]
fn websockets_go_where_their_label_says() {
    let _watchdog = watchdog("websockets_go_where_their_label_says");
    let echo = Echo::start();
    let proxy = Proxy::start(&config("", ""));
    let host = seal(echo.address());
    let stream = TcpStream::connect(proxy.web()).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let (mut socket, _) = tungstenite::client(format!("ws://{host}/"), stream).unwrap();
    socket.send(tungstenite::Message::text("hello")).unwrap();
    assert_eq!(socket.read().unwrap().into_text().unwrap().as_str(), "hello");
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    drop(socket);
    let ended = proxy.stop();
    let (log, label) = (ended.log, host.split('.').next().unwrap());
    assert!(!format!("{log:?}").contains(label) && log[0]["status"] == 101, "{log:?}");
    assert_eq!(log[0]["endpoint"], json!(format!("http://{}", echo.address())));
}

/// Says what it got of a connection's first bytes, and echoes the rest.
fn echo_bytes() -> Bare {
    Bare::start(|talk| {
        let mut bytes = [0; 4096];
        loop {
            match std::io::Read::read(&mut talk.stream(), &mut bytes)? {
                0 => return Ok(()),
                count => talk.send(&bytes[..count])?,
            }
        }
    })
}

/// A listener's `tls:`, with a certificate for everything below the domain, as it is issued.
fn listener_tls(directory: &Directory, identity: &Identity) -> String {
    identity.write(directory, "site")
}

#[test]
fn tls_is_passed_on_by_its_name_or_ended_here() {
    let _watchdog = watchdog("tls_is_passed_on_by_its_name_or_ended_here");
    let wild = format!("*.{DOMAIN}");
    let (directory, identity) = (Directory::new(), Identity::new(&[&wild]));
    let pair = listener_tls(&directory, &identity);
    let keys = format!("keys: [ {{ id: 1, secret: \"{}\" }} ]", digits(1));
    let to =
        format!("{{ sealed: {{ domain: \"*.{DOMAIN}\", {keys}, allow: [ \"127.0.0.0/8:1024-65535\" ] }} }}");
    let listeners = format!(
        "listeners:\n  passed: {{ address: \"127.0.0.1:0\", protocol: tls_passthrough, sni: {{ \"{wild}\": {to} }} }}\n  \
         ended: {{ address: \"127.0.0.1:0\", protocol: tcp, to: {to}, tls: {{ certificates: [ {pair} ] }} }}\n  \
         web: {{ address: \"127.0.0.1:0\", tls: {{ certificates: [ {pair} ] }} }}\n"
    );
    let (raw, http) = (echo_bytes(), Upstream::saying("here"));
    let secure = Front::start(identity.server(), raw.address());
    let proxy = Proxy::start_in(directory, &config("", &listeners));
    let secure_echo = |listener: &str, host: &str| {
        let stream = TcpStream::connect(proxy.address(listener)).unwrap();
        stream.set_read_timeout(Some(STEP)).unwrap();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let client = ClientConnection::new(Arc::new(identity.client()), name).unwrap();
        let mut stream = StreamOwned::new(client, stream);
        stream.write_all(b"hello").map_err(|error| error.to_string())?;
        let mut back = [0; 5];
        std::io::Read::read_exact(&mut stream, &mut back).map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&back).into_owned())
    };
    // Its client speaks TLS with the destination itself, whatever the label says of that.
    for tls in [false, true] {
        let host = seal_for(&keyring(1, DOMAIN), To::Address(secure.address()), tls, HOUR);
        assert_eq!(secure_echo("passed", &host).unwrap(), "hello", "{tls}");
    }
    assert_eq!(secure_echo("ended", &seal(raw.address())).unwrap(), "hello");
    let answer = Connection::open_secure(proxy.web(), &identity, &seal(http.address()));
    assert!(answer.is_ok());
    let stranger = seal_for(&keyring(2, DOMAIN), To::Address(secure.address()), false, HOUR);
    assert!(secure_echo("passed", &stranger).unwrap_err().contains("UnrecognisedName"));
    assert!(secure_echo("ended", &stranger).is_err());
    let ended = proxy.stop();
    let all = format!("{:?}{}", ended.log, ended.stderr);
    assert!(!all.contains(&stranger[..63]) && all.contains("sealed:2:"), "{all}");
}

#[test]
fn a_destination_through_tls_is_verified_as_the_route_says() {
    let _watchdog = watchdog("a_destination_through_tls_is_verified_as_the_route_says");
    let upstream = Upstream::saying("secure");
    let (identity, stranger) = (Identity::new(&["app.internal"]), Identity::new(&["app.internal"]));
    let front = Front::start(identity.server(), upstream.address());
    let host = seal_for(&keyring(1, DOMAIN), To::Address(front.address()), true, HOUR);
    let with = |identity: &Identity, name: &str| {
        let directory = Directory::new();
        identity.write(&directory, "peer");
        let ca = directory.path().join("peer.pem");
        let tls = format!(", tls: {{ ca: \"{}\", server_name: {name} }}", ca.display());
        let proxy = Proxy::start_in(directory, &config(&tls, ""));
        ask(proxy.web(), &host)
    };
    let answer = with(&identity, "app.internal");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "secure"));
    for (identity, name) in [(&stranger, "app.internal"), (&identity, "other.internal")] {
        let answer = with(identity, name);
        let told = answer.value("proxy-status").unwrap();
        assert!(answer.status() == 502 && told.contains("error=tls_"), "{told}");
    }
    // Without a word about it nothing is sent in the clear, nor to whoever answers.
    let proxy = Proxy::start(&config("", ""));
    let answer = ask(proxy.web(), &host);
    let told = answer.value("proxy-status").unwrap();
    assert!(answer.status() == 502 && told.contains("error=tls_certificate_error"), "{told}");
    assert_eq!(upstream.served(), 1);
}

#[test]
fn a_label_may_name_a_service_that_the_route_lets_it_name() {
    let _watchdog = watchdog("a_label_may_name_a_service_that_the_route_lets_it_name");
    let (named, hidden, unix) =
        (Upstream::saying("named"), Upstream::saying("hidden"), Upstream::saying("host"));
    let services = format!(
        "services:\n  app: {{ endpoints: [ \"{}\" ] }}\n  secret: {{ endpoints: [ \"{}\" ] }}\n  \
         host: {{ endpoints: [ \"http://localhost:{}\" ] }}\n",
        named.url(),
        hidden.url(),
        unix.address().port()
    );
    let to = |name: &str| {
        let keyring = keyring(1, DOMAIN);
        seal_for(&keyring, To::Service(keyring.service(name)), false, HOUR)
    };
    let proxy = Proxy::start(&config(", services: [ app, host ], allow: [ \"10.0.0.0/8:80\" ]", &services));
    // What the configuration itself says by address was allowed by it.
    assert_eq!(ask(proxy.web(), &to("app")).text(), "named");
    refused(proxy.web(), &to("secret"));
    refused(proxy.web(), &to("nobody"));
    // What a name stands for now was allowed by nobody: it may be another address tomorrow.
    refused(proxy.web(), &to("host"));
    let allowed =
        Proxy::start(&config(", services: [ host ], allow: [ \"127.0.0.1:1024-65535\" ]", &services));
    assert_eq!(ask(allowed.web(), &to("host")).text(), "host");
    assert_eq!((named.served(), hidden.served(), unix.served()), (1, 0, 1));
}

#[test]
fn a_destination_takes_so_much_at_once_and_another_one_is_not_its_matter() {
    let _watchdog = watchdog("a_destination_takes_so_much_at_once_and_another_one_is_not_its_matter");
    let (told, came) = std::sync::mpsc::channel();
    let busy = Bare::start(move |talk| {
        let _ = talk.head()?;
        let _ = told.send(());
        talk.rest().map(drop)
    });
    let free = Upstream::saying("free");
    let proxy = Proxy::start(&config(", max_in_flight: 2", ""));
    let before = Vitals::of(&proxy);
    let host = seal(busy.address());
    let hold = || {
        let mut client = Talk::open(proxy.web()).unwrap();
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
        came.recv_timeout(STEP).unwrap();
        client
    };
    let held = [hold(), hold()];
    let answer = ask(proxy.web(), &host);
    let told = answer.value("proxy-status").unwrap();
    assert!(answer.status() == 503 && told.contains("connection_limit_reached"), "{told}");
    assert_eq!(ask(proxy.web(), &seal(free.address())).text(), "free");
    drop(held);
    before.wait_for(&proxy, "a bound");
    // Their places are free again.
    drop(hold());
    before.wait_for(&proxy, "a place that is free again");
}

/// An echo of HTTP at every address of 127/8, with the address that was asked.
fn everywhere() -> Upstream {
    Upstream::start_at(SocketAddr::from(([0, 0, 0, 0], 0)), |request| {
        let _ = request;
        Some(thalweg_tests::upstream::ok("anywhere"))
    })
}

/// The `n`-th address of 127.1.0.0/16 and on.
fn somewhere(n: u32, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from((0x7f01_0000 + n).to_be_bytes()), port)
}

#[test]
fn destinations_leave_nothing_behind() {
    let _watchdog =
        thalweg_tests::Watchdog::new("destinations_leave_nothing_behind", Duration::from_secs(900));
    let many: u32 = if std::env::var("THALWEG_LONG").is_ok() { 1_000_000 } else { 6_000 };
    let upstream = everywhere();
    let proxy = Proxy::start(&config("", ""));
    let keys = keyring(1, DOMAIN);
    let port = upstream.address().port();
    let visit = |range: std::ops::Range<u32>| {
        let mut client = Talk::open(proxy.web()).unwrap();
        for n in range {
            let host = seal_for(&keys, To::Address(somewhere(n, port)), false, HOUR);
            client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
            let head = client.head().unwrap();
            assert_eq!(head.status(), 200, "{n}: {head:?}");
            client.body(&head).each(|_| {}).unwrap();
        }
    };
    let series = || {
        let text = get(proxy.metrics(), "/metrics").unwrap().text();
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    visit(0..2_000);
    let (before, lines) = (thalweg_tests::vitals::resident(&proxy), series());
    visit(2_000..2_000 + many);
    let after = thalweg_tests::vitals::resident(&proxy);
    assert_eq!(series(), lines, "no series for a destination");
    let grown = after.saturating_sub(before);
    assert!(grown < 8 << 20, "{many} destinations have left {grown} bytes behind");
}

#[test]
fn what_a_port_or_descriptor_lacks_is_a_fault_and_sources_are_used_in_turn() {
    let _watchdog = watchdog("what_a_port_or_descriptor_lacks_is_a_fault_and_sources_are_used_in_turn");
    let (told, from) = std::sync::mpsc::channel();
    let upstream = Bare::start(move |talk| {
        let _ = talk.head()?;
        let _ = told.send(talk.stream().peer_addr()?.ip());
        talk.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    });
    let proxy = Proxy::start(&config(", sources: [ 127.0.0.8, 127.0.0.9, 192.0.2.1 ]", ""));
    let mut seen = std::collections::HashSet::new();
    let end = Instant::now() + STEP;
    // An address that is not the machine's is passed over.
    while seen.len() < 2 && Instant::now() < end {
        assert_eq!(ask(proxy.web(), &seal(upstream.address())).status(), 200);
        seen.insert(from.recv_timeout(STEP).unwrap());
    }
    assert_eq!(seen, ["127.0.0.8", "127.0.0.9"].map(|ip| ip.parse().unwrap()).into());
    let nowhere = Proxy::start(&config(", sources: [ 192.0.2.1 ]", ""));
    let answer = ask(nowhere.web(), &seal(upstream.address()));
    let told = answer.value("proxy-status").unwrap();
    assert!(answer.status() == 503 && told.contains("error=connection_limit_reached"), "{told}");
}

/// What a decision record says of the only exchange with this fault.
fn record_of(proxy: &Proxy, fault: &str) -> Value {
    let all = Admin::of(proxy).get(&format!("/api/v1/requests?fault={fault}"));
    all["requests"][0].clone()
}

fn write_file(directory: &std::path::Path, name: &str, text: &str) {
    let fresh = directory.join(format!("{name}.new"));
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, directory.join(name)).unwrap();
}

fn ends(event: Event) -> bool {
    !matches!(event, Event::Bytes)
}
