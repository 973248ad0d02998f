//! Certificates and ticket keys that change under a running proxy without a reload, and what is told of them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde_json::Value;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::secure::Secure;
use thalweg_tests::{Admin, Connection, Directory, Identity, Message, Proxy, STEP, Upstream};

use super::super::{reload, wait_counted, watchdog};
use super::config;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn answered(client: &mut Connection) -> u16 {
    client.send(REQUEST);
    Message::read(client, Kind::Response, Instant::now() + STEP).unwrap().status()
}

/// Whether a client that trusts only this certificate is served.
fn shows(proxy: &Proxy, identity: &Identity) -> bool {
    let client = Connection::open_secure(proxy.web(), identity, "a.test");
    client.is_ok_and(|mut client| answered(&mut client) == 200)
}

fn only_certificate(admin: &Admin) -> Value {
    let shown = admin.get("/api/v1/certificates");
    assert_eq!(shown["certificates"].as_array().map(Vec::len), Some(1), "{shown:#}");
    shown["certificates"][0].clone()
}

#[test]
fn another_pair_takes_over_by_itself_and_half_of_one_does_not() {
    let _watchdog = watchdog("another_pair_takes_over_by_itself_and_half_of_one_does_not");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let (old, new) =
        (Identity::lasting(&["a.test", "b.test"], 5 * DAY + DAY / 24), Identity::new(&["a.test"]));
    let tls = format!("certificates: [ {} ]", old.write(&directory, "web"));
    let proxy = Proxy::start_in(directory, &config(&[&upstream.url()], &tls, ""));
    let admin = Admin::of(&proxy);
    let events = admin.events();
    let mut kept = Connection::open_secure(proxy.web(), &old, "a.test").unwrap();
    assert_eq!(answered(&mut kept), 200);

    let expiring = events.wait("certificate_expiring", None);
    let cause = expiring["cause"].as_str().unwrap();
    assert!(
        cause.starts_with("listener `web`, a.test, b.test (") && cause.ends_with("expires in 5 days"),
        "{cause}"
    );
    let shown = only_certificate(&admin);
    for (key, value) in [("listener", "web"), ("key_type", "ECDSA P-256")] {
        assert_eq!(shown[key], value, "{shown:#}");
    }
    assert_eq!(
        (&shown["default"], &shown["self_signed"], &shown["days_left"]),
        (&true.into(), &true.into(), &5.into())
    );
    assert_eq!(shown["names"], serde_json::json!(["a.test", "b.test"]));
    assert!(shown["problem"].is_null() && shown["serial"].as_str().is_some_and(|serial| serial.len() >= 16));
    let page = get(proxy.metrics(), "/metrics").unwrap().text();
    let sample = "thalweg_tls_certificate_not_after_timestamp_seconds{listener=\"web\",name=\"a.test\"} ";
    assert!(page.contains(sample), "{page}");

    fs::write(proxy.directory().join("web.key"), &new.key).unwrap();
    let failed = events.wait("certificate_failed", None);
    assert!(
        failed["cause"].as_str().is_some_and(|cause| cause.contains("private key of another certificate")),
        "{failed}"
    );
    let problem = only_certificate(&admin)["problem"].clone();
    assert!(problem.as_str().is_some_and(|why| why.contains("another certificate")), "{problem}");
    assert!(shows(&proxy, &old), "the old one goes on");

    fs::write(proxy.directory().join("web.pem"), &new.chain).unwrap();
    let replaced = events.wait("certificate_replaced", None);
    assert!(
        replaced["cause"].as_str().is_some_and(|cause| cause.starts_with("listener `web`, a.test (")),
        "{replaced}"
    );
    assert!(shows(&proxy, &new) && !shows(&proxy, &old), "the new one takes over");
    assert_eq!(answered(&mut kept), 200, "a connection that is open goes on");
    let shown = only_certificate(&admin);
    assert!(
        shown["problem"].is_null() && shown["days_left"].as_i64().is_some_and(|days| days > 100),
        "{shown:#}"
    );
    let of_kind = |kind: &str| events.all().iter().filter(|event| event["event"] == kind).count();
    assert_eq!(
        (of_kind("certificate_replaced"), of_kind("certificate_failed"), of_kind("certificate_expiring")),
        (1, 1, 1)
    );
    let said = proxy.stop().stderr;
    assert!(!said.contains("reloaded") && !said.contains("PRIVATE KEY"), "{said}");
}

/// Puts a pair in the place of the one that is used.
fn replace(proxy: &Proxy, identity: &Identity) {
    fs::write(proxy.directory().join("web.key"), &identity.key).unwrap();
    fs::write(proxy.directory().join("web.pem"), &identity.chain).unwrap();
}

#[test]
fn an_expired_certificate_never_takes_the_place_of_a_valid_one() {
    let _watchdog = watchdog("an_expired_certificate_never_takes_the_place_of_a_valid_one");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let [valid, next] = [(); 2].map(|()| Identity::new(&["a.test"]));
    let expired = Identity::expired(&["a.test"]);
    let tls = format!("certificates: [ {} ]", valid.write(&directory, "web"));
    let text = config(&[&upstream.url()], &tls, "");
    let proxy = Proxy::start_in(directory, &text);
    let (admin, is_refused) = (Admin::of(&proxy), |event: &Value| {
        event["cause"]
            .as_str()
            .is_some_and(|cause| cause.contains("has expired, and the one in use is valid"))
    });
    let events = admin.events();
    replace(&proxy, &expired);
    let failed = events.wait("certificate_failed", None);
    assert!(is_refused(&failed), "{failed}");
    assert!(shows(&proxy, &valid), "the valid one goes on");
    assert!(only_certificate(&admin)["problem"].as_str().is_some_and(|why| why.contains("has expired")));
    // A reload of the whole configuration changes nothing in that.
    reload(&proxy, &format!("{text}\n# read again\n"), 1);
    assert!(shows(&proxy, &valid), "the valid one goes on after a reload");
    replace(&proxy, &next);
    events.wait("certificate_replaced", None);
    assert!(shows(&proxy, &next) && !shows(&proxy, &valid));
}

#[test]
fn a_certificate_of_a_short_life_is_told_of_when_it_comes() {
    let _watchdog = watchdog("a_certificate_of_a_short_life_is_told_of_when_it_comes");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let tls = format!("certificates: [ {} ]", Identity::new(&["a.test"]).write(&directory, "web"));
    let proxy = Proxy::start_in(directory, &config(&[&upstream.url()], &tls, ""));
    let events = Admin::of(&proxy).events();
    replace(&proxy, &Identity::made_for(&["a.test"], 4 * DAY));
    let expiring = events.wait("certificate_expiring", None);
    assert!(
        expiring["cause"].as_str().is_some_and(|cause| cause.ends_with("expires in 3 days")),
        "{expiring}"
    );
    assert!(proxy.stop().stderr.contains("certificate_expiring: listener `web`, a.test ("));
}

/// Is served once, and keeps the tickets that come.
fn visit(proxy: &Proxy, client: &Arc<ClientConfig>) {
    let stream = TcpStream::connect(proxy.web()).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let secure = Secure::connect(&stream, Arc::clone(client), "example.test").unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n";
    (&stream).write_all(&secure.seal(request)).unwrap();
    let mut sealed = Vec::new();
    (&stream).read_to_end(&mut sealed).unwrap();
    let (plain, _) = secure.open(&sealed).unwrap();
    assert!(plain.starts_with(b"HTTP/1.1 200"), "{}", plain.escape_ascii());
}

/// A proxy with these ticket keys, one to a line, in `keys`.
fn sharing(upstream: &Upstream, keys: &str) -> Proxy {
    let directory = Directory::new();
    let path = directory.write("keys", keys);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let certificate = Identity::shared().write(&directory, "web");
    let tls =
        format!("certificates: [ {certificate} ], tickets: {{ keys: {{ file: \"{}\" }} }}", path.display());
    Proxy::start_in(directory, &config(&[&upstream.url()], &tls, ""))
}

#[test]
fn a_session_goes_on_at_another_process_with_the_same_keys_until_its_key_is_gone() {
    let _watchdog = watchdog("a_session_goes_on_at_another_process_with_the_same_keys_until_its_key_is_gone");
    let upstream = Upstream::saying("hello");
    let (one, two, three) = ("17".repeat(32), "2B".repeat(32), "3c".repeat(32));
    let first = sharing(&upstream, &format!("{one}\n{two}\n"));
    let second = sharing(&upstream, &format!("# the other order\n{two}\n{one}\n"));
    let handshakes = |proxy: &Proxy, full: u32, resumed: u32| {
        wait_counted(proxy, "thalweg_tls_handshakes_total", "result=\"full\"", full);
        wait_counted(proxy, "thalweg_tls_handshakes_total", "result=\"resumed\"", resumed);
    };
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let times = if version.version == rustls::ProtocolVersion::TLSv1_3 { 1 } else { 2 };
        let client = super::only(version);
        visit(&first, &client);
        visit(&second, &client);
        visit(&first, &client);
        handshakes(&first, times, times);
        handshakes(&second, 0, times);
    }
    let client = super::only(&rustls::version::TLS13);
    visit(&first, &client);
    handshakes(&first, 3, 2);
    let path = second.directory().join("keys");
    fs::write(&path, format!("{three}\n")).unwrap();
    second.process().wait_line("other keys", STEP, |line| line.ends_with("keys have changed").then_some(()));
    visit(&second, &client);
    handshakes(&second, 1, 2);
    visit(&second, &client);
    handshakes(&second, 1, 3);
    for proxy in [first, second] {
        let said = proxy.stop().stderr;
        assert!(![&one, &two, &three].iter().any(|key| said.contains(&key[..8])), "{said}");
    }
}

#[test]
fn tls_is_not_taken_from_a_port_through_the_api() {
    let _watchdog = watchdog("tls_is_not_taken_from_a_port_through_the_api");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let tls = format!("tls: {{ certificates: [ {} ] }}", Identity::shared().write(&directory, "web"));
    let address = "127.0.0.1:0";
    let text = super::super::config(&[&upstream.url()], "");
    let text = text.replace(
        &format!("web: {{ address: \"{address}\""),
        &format!("web: {{ address: \"{address}\", {tls}"),
    );
    let proxy = Proxy::start_in(directory, &text);
    let admin = Admin::of(&proxy);
    let running = fs::read_to_string(proxy.directory().join("thalweg.yaml")).unwrap();
    let put = |text: &str| {
        let tag = admin.call("GET", "/api/v1/config", "").value("etag").unwrap().to_owned();
        let fields = format!("Content-Type: application/yaml\r\nIf-Match: {tag}\r\n");
        let answer = admin.ask("PUT", "/api/v1/config", &fields, text).unwrap();
        (answer.status(), answer.text())
    };
    let plain = running.replace(&format!(", {tls}"), "");
    assert_ne!(plain, running);
    for text in [plain.clone(), plain.replace("web: {", "other: {")] {
        let (status, said) = put(&text);
        assert!(status == 403 && said.contains(".tls"), "{status} {said}");
    }
    let (status, said) = put(&running.replace("workers: 2", "workers: 2\nrequest_history: { keep: 10 }"));
    assert_eq!(status, 200, "{said}");
    let mut client = Connection::open_secure(proxy.web(), Identity::shared(), "example.test").unwrap();
    assert_eq!(answered(&mut client), 200);
}
