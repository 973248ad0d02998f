//! Requests for a host that their connection was not made for.

use std::sync::Arc;
use std::time::Instant;

use thalweg_tests::message::Kind;
use thalweg_tests::{Authority, Connection, Directory, Identity, Message, Proxy, STEP, Upstream};

use super::super::{reload, watchdog};
use super::config;

/// `open.test`, `*.wild.test` and 127.0.0.1 with one certificate; `other.test` with another one; `closed.test` with a
/// third one, for which clients show theirs.
struct Place {
    open: Identity,
    other: Identity,
    closed: Identity,
    authority: Authority,
    proxy: Proxy,
    /// What a configuration says of the three certificates.
    entries: [String; 3],
    upstream: String,
}

impl Place {
    fn new(upstream: &Upstream) -> Self {
        let directory = Directory::new();
        let open = Identity::new(&["open.test", "*.wild.test", "127.0.0.1"]);
        let (other, closed) = (Identity::new(&["other.test"]), Identity::new(&["closed.test"]));
        let authority = Authority::new("Clients");
        directory.write("ca.pem", &authority.pem);
        let ca = directory.path().join("ca.pem").display().to_string();
        let own = format!(", client_auth: {{ ca: \"{ca}\" }} }}");
        let entries = [
            open.write(&directory, "open"),
            other.write(&directory, "other"),
            closed.write(&directory, "closed").replace(" }", &own),
        ];
        let upstream = upstream.url();
        let text = text(&upstream, &entries.each_ref().map(String::as_str));
        Self { open, other, closed, authority, proxy: Proxy::start_in(directory, &text), entries, upstream }
    }

    /// A connection for this name, or address.
    fn connect(&self, name: &str) -> Connection {
        let identity = match name {
            "other.test" => &self.other,
            "closed.test" => {
                let shown = self.authority.issue("alice", -1..30, 1);
                let client = shown.client(&self.closed, rustls::DEFAULT_VERSIONS);
                return Connection::open_as(self.proxy.web(), Arc::new(client), name).unwrap();
            }
            _ => &self.open,
        };
        Connection::open_secure(self.proxy.web(), identity, name).unwrap()
    }

    /// The status of a request for this host on a connection for this name.
    fn status(&self, name: &str, host: &str) -> u16 {
        status(&mut self.connect(name), host)
    }
}

fn text(upstream: &str, entries: &[&str]) -> String {
    config(&[upstream], &format!("certificates: [ {} ]", entries.join(", ")), "")
}

fn status(client: &mut Connection, host: &str) -> u16 {
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    Message::read(client, Kind::Response, Instant::now() + STEP).unwrap().status()
}

#[test]
fn a_connection_serves_the_hosts_that_it_could_have_been_made_for() {
    let _watchdog = watchdog("a_connection_serves_the_hosts_that_it_could_have_been_made_for");
    let upstream = Upstream::saying("hello");
    let place = Place::new(&upstream);
    for (name, host, expected) in [
        ("open.test", "open.test", 200),
        ("open.test", "OPEN.test:443", 200),
        ("open.test", "open.test.:8443", 200),
        // The same certificate, by a wildcard and as the first one for what has none.
        ("open.test", "a.wild.test", 200),
        ("a.wild.test", "b.wild.test", 200),
        ("open.test", "unknown.test", 200),
        ("open.test", "127.0.0.1", 200),
        ("open.test", "[::1]:443", 200),
        ("open.test", "other.test", 421),
        ("a.wild.test", "closed.test", 421),
        ("other.test", "other.test", 200),
        ("other.test", "open.test", 421),
        ("other.test", "unknown.test", 421),
        // What a host asks of its clients cannot be gone around, in no direction.
        ("closed.test", "closed.test", 200),
        ("closed.test", "open.test", 421),
        ("closed.test", "127.0.0.1", 421),
        // Who names nobody goes by an address, and is bound by what is asked only.
        ("127.0.0.1", "127.0.0.1", 200),
        ("127.0.0.1", "other.test", 200),
        ("127.0.0.1", "closed.test", 421),
    ] {
        assert_eq!(place.status(name, host), expected, "{name} {host}");
    }
    let mut client = place.connect("other.test");
    client.send("GET https://closed.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n");
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!((answer.status(), answer.value("connection")), (421, Some("close")));
    let mut client = place.connect("closed.test");
    client.send("GET / HTTP/1.0\r\n\r\n");
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!(answer.status(), 421, "no host at all");
    // No 421 reached the upstream.
    let log = place.proxy.stop().log;
    let refused: Vec<_> = log.iter().filter(|line| line["status"] == 421).collect();
    assert!(refused.iter().all(|line| line["fault_detail"] == "the connection was made for another host"));
    assert_eq!(upstream.served(), (log.len() - refused.len()) as u64);
}

#[test]
fn who_names_nobody_is_served_also_where_unknown_names_are_refused() {
    let _watchdog = watchdog("who_names_nobody_is_served_also_where_unknown_names_are_refused");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let open = Identity::new(&["open.test", "127.0.0.1"]);
    let entry = open.write(&directory, "open");
    let text = config(&[&upstream.url()], &format!("certificates: [ {entry} ], unknown_name: refuse"), "");
    let proxy = Proxy::start_in(directory, &text);
    for (name, host, expected) in [
        ("127.0.0.1", "health.internal", 200),
        ("127.0.0.1", "open.test", 200),
        ("open.test", "health.internal", 421),
    ] {
        let mut client = Connection::open_secure(proxy.web(), &open, name).unwrap();
        assert_eq!(status(&mut client, host), expected, "{name} {host}");
    }
}

#[test]
fn a_reload_does_not_make_old_connections_good_for_more() {
    let _watchdog = watchdog("a_reload_does_not_make_old_connections_good_for_more");
    let upstream = Upstream::saying("hello");
    let place = Place::new(&upstream);
    let mut old = place.connect("other.test");
    assert_eq!(status(&mut old, "other.test"), 200);
    let mut wild = place.connect("open.test");
    // From now on one certificate is for both, and clients show theirs for it. The old connection has shown nothing.
    let both = Identity::new(&["other.test", "closed.test"]);
    both.write_into(place.proxy.directory(), "closed");
    let text = text(&place.upstream, &[&place.entries[0], &place.entries[2]]);
    reload(&place.proxy, &text, 1);
    assert_eq!(status(&mut old, "other.test"), 200, "an open connection goes on");
    assert_eq!(status(&mut old, "closed.test"), 421);
    // A renewed certificate is no other one.
    Identity::new(&["open.test", "*.wild.test"]).write_into(place.proxy.directory(), "open");
    reload(&place.proxy, &text, 2);
    assert_eq!(status(&mut wild, "a.wild.test"), 200);
    assert_eq!(status(&mut wild, "closed.test"), 421);
}
