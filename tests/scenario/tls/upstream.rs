//! Endpoints that are reached through TLS: who is believed, what is kept, and what is told when it goes wrong.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use thalweg_tests::front::Ending;
use thalweg_tests::message::{Kind, fetch};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Bare, Connection, Directory, Front, Identity, Message, Proxy, STEP, Upstream};
use tungstenite::protocol::Message as Said;

use super::super::{config, reload, wait_counted, watchdog, websocket};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A configuration with these keys of the service, `@` being the directory.
fn text(directory: &std::path::Path, endpoints: &[&str], service: &str) -> String {
    let with = format!("services: {{ s: {{ {service}");
    let with = with.replace('@', &directory.to_string_lossy());
    config(endpoints, "").replace("services: { s: {", &(with + ","))
}

/// A proxy before these endpoints, with `trusted.pem` in its directory.
fn trusting(identity: &Identity, endpoints: &[&str], service: &str) -> Proxy {
    let directory = Directory::new();
    identity.write(&directory, "trusted");
    let text = text(directory.path(), endpoints, service);
    Proxy::start_in(directory, &text)
}

/// The answer to a request of a new client.
fn ask(proxy: &Proxy) -> Message {
    fetch(proxy.web(), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap()
}

/// What is written of `trusted.pem`.
const TRUSTED: &str = "tls: { ca: \"@/trusted.pem\" }";

/// The fault that an answer tells.
fn fault(answer: &Message) -> String {
    let status = answer.value("proxy-status").unwrap_or_default();
    let error = status.split("error=").nth(1).unwrap_or_default();
    error.split(';').next().unwrap_or_default().to_owned()
}

/// Waits until the proxy has told this.
fn wait_told(proxy: &Proxy, words: &str) {
    let end = Instant::now() + STEP;
    while !proxy.process().stderr().contains(words) {
        assert!(Instant::now() < end, "`{words}` is not told in\n{}", proxy.process().stderr());
        thread::yield_now();
    }
}

#[test]
fn an_endpoint_is_believed_whose_certificate_is_trusted_and_for_its_name() {
    let _watchdog = watchdog("an_endpoint_is_believed_whose_certificate_is_trusted_and_for_its_name");
    let upstream = Upstream::start(|request| {
        let said = |name| request.value(name).unwrap_or("-").to_owned();
        Some(ok(&format!("{} {}", said("host"), said("x-forwarded-proto"))))
    });
    for (names, named, more, asked) in [
        (&["127.0.0.1"][..], false, "", None),
        (&["localhost"], true, "", Some("localhost")),
        (&["*.app.test"], false, ", server_name: x.app.test", Some("x.app.test")),
        (&["10.9.8.7"], true, ", server_name: 10.9.8.7", None),
        (&["127.0.0.1"], false, ", min_version: 1.3", None),
    ] {
        let identity = Identity::new(names);
        let front = Front::start(identity.server(), upstream.address());
        let url = if named { front.named_url() } else { front.url() };
        let proxy = trusting(&identity, &[&url], &TRUSTED.replace(" }", &format!("{more} }}")));
        let answer = ask(&proxy);
        assert_eq!((answer.status(), answer.text().as_str()), (200, "a.test http"), "{names:?}");
        assert_eq!(front.names(), [asked.map(str::to_owned)], "{names:?}");
        wait_counted(&proxy, "thalweg_upstream_tls_handshakes_total", "result=\"full\"", 1);
        let log = proxy.stop().log;
        assert!(log[0]["tls_us"].as_u64().unwrap() > 0, "{log:?}");
    }
}

#[test]
fn who_is_not_believed_gets_no_request() {
    let _watchdog = watchdog("who_is_not_believed_gets_no_request");
    let upstream = Upstream::saying("hello");
    let (good, other) = (Identity::new(&["127.0.0.1"]), Identity::new(&["app.test"]));
    let expired = Identity::expired(&["127.0.0.1"]);
    let (certificate, protocol) = ("tls_certificate_error", "tls_protocol_error");
    for (shown, trusted, service, expected, told) in [
        (&good, &other, TRUSTED, certificate, "the issuer of the server's certificate is not trusted"),
        (&other, &other, TRUSTED, certificate, "it is not for 127.0.0.1, but for app.test"),
        (&expired, &expired, TRUSTED, certificate, "the server's certificate has expired"),
        // Whom the system trusts has not signed it.
        (&good, &good, "", certificate, "the issuer of the server's certificate is not trusted"),
    ] {
        let front = Front::start(shown.server(), upstream.address());
        let service = if service.is_empty() { "retry: { attempts: 2 }" } else { service };
        let proxy = trusting(trusted, &[&front.url()], service);
        let answer = ask(&proxy);
        assert_eq!((answer.status(), fault(&answer).as_str()), (502, expected), "{told}: {answer:?}");
        wait_told(&proxy, told);
        wait_counted(&proxy, "thalweg_upstream_tls_handshakes_total", "result=\"failed\"", 1);
        wait_counted(&proxy, "thalweg_upstream_connects_total", "result=\"failed\"", 1);
        assert_eq!(front.full() + front.resumed(), 0, "{told}");
    }
    // Nobody speaks TLS there, or ends it in the middle.
    let plain = Bare::start(|talk| {
        talk.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
        talk.rest().map(drop)
    });
    let silent = Bare::start(|talk| {
        talk.half_close();
        talk.rest().map(drop)
    });
    for address in [plain.address(), silent.address()] {
        let proxy = trusting(&good, &[&format!("https://{address}")], TRUSTED);
        let answer = ask(&proxy);
        assert_eq!((answer.status(), fault(&answer).as_str()), (502, protocol), "{answer:?}");
    }
    assert_eq!(upstream.served(), 0);
}

#[test]
fn whom_nobody_verifies_is_believed_and_that_is_told() {
    let _watchdog = watchdog("whom_nobody_verifies_is_believed_and_that_is_told");
    let upstream = Upstream::saying("hello");
    let expired = Identity::expired(&["elsewhere.test"]);
    let front = Front::start(expired.server(), upstream.address());
    let service = "tls: { insecure_skip_verify: true }";
    let proxy = trusting(&expired, &[&front.url()], service);
    assert_eq!(ask(&proxy).status(), 200);
    let warning = "the certificates of the service `s` are not verified";
    assert_eq!(proxy.process().stderr().matches(warning).count(), 1);
    let services = Admin::of(&proxy).get("/api/v1/services");
    assert_eq!(services["services"][0]["insecure_skip_verify"], true, "{services}");
    reload(
        &proxy,
        &text(proxy.directory(), &[&front.url()], &format!("{service}, retry: {{ attempts: 3 }}")),
        1,
    );
    assert_eq!(proxy.process().stderr().matches(warning).count(), 2, "{}", proxy.process().stderr());
}

#[test]
fn an_endpoint_that_wants_a_certificate_is_shown_one() {
    let _watchdog = watchdog("an_endpoint_that_wants_a_certificate_is_shown_one");
    let upstream = Upstream::saying("hello");
    let (server, client) = (Identity::new(&["127.0.0.1"]), Identity::new(&["client.test"]));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let front = Front::start(server.server_of(&[version], Some(&client)), upstream.address());
        let directory = Directory::new();
        let certificate = client.write(&directory, "client").replace("{ ", "").replace(" }", "");
        server.write(&directory, "trusted");
        let service = format!("tls: {{ ca: \"@/trusted.pem\", {certificate} }}");
        let text = text(directory.path(), &[&front.url()], &service);
        let proxy = Proxy::start_in(directory, &text);
        assert_eq!(ask(&proxy).status(), 200);
        assert_eq!(front.shown(), 1);
        // Without one the endpoint says so; in TLS 1.3 only when the request is on its way.
        let proxy = trusting(&server, &[&front.url()], TRUSTED);
        let answer = ask(&proxy);
        let told = (answer.status(), fault(&answer));
        assert_eq!(told, (502, "tls_alert_received".to_owned()), "{version:?} {answer:?}");
    }
}

#[test]
fn sessions_are_resumed_where_they_may_be() {
    let _watchdog = watchdog("sessions_are_resumed_where_they_may_be");
    let upstream = Upstream::saying("hello");
    let identity = Identity::new(&["127.0.0.1"]);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (more, resumed) in [("", 4), (", resumption: false", 0)] {
            let front = Front::start(identity.server_of(&[version], None), upstream.address());
            let tls = TRUSTED.replace(" }", &format!("{more} }}"));
            let proxy = trusting(&identity, &[&front.url()], &format!("pool: {{ max_requests: 1 }}, {tls}"));
            for _ in 0..5 {
                assert_eq!(ask(&proxy).status(), 200);
            }
            assert_eq!((front.resumed(), front.full()), (resumed, 5 - resumed), "{version:?} {more}");
            let metric = "thalweg_upstream_tls_handshakes_total";
            wait_counted(&proxy, metric, "result=\"resumed\"", u32::try_from(resumed).unwrap());
        }
    }
}

#[test]
fn what_only_concerns_tls_leaves_a_kept_connection_alone() {
    let _watchdog = watchdog("what_only_concerns_tls_leaves_a_kept_connection_alone");
    let upstream = Upstream::saying("hello");
    let identity = Identity::new(&["127.0.0.1"]);
    let front = Front::start(identity.server(), upstream.address());
    let proxy = trusting(&identity, &[&front.url()], TRUSTED);
    // One client, that is one worker.
    let mut client = Connection::open(proxy.web()).unwrap();
    for method in ["GET", "GET", "POST", "POST"] {
        client.send(GET.replace("GET", method));
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!(answer.status(), 200);
        front.refresh();
    }
    assert_eq!((front.full(), upstream.connections()), (1, 1));
}

#[test]
fn a_body_whose_end_was_not_told_is_broken() {
    let _watchdog = watchdog("a_body_whose_end_was_not_told_is_broken");
    let upstream = Bare::start(|talk| {
        talk.head()?;
        talk.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of it")
    });
    let identity = Identity::new(&["127.0.0.1"]);
    for (ending, whole) in [(Ending::Farewell, true), (Ending::Cut, false)] {
        let front = Front::ending(identity.server(), upstream.address(), ending);
        let proxy = trusting(&identity, &[&front.url()], TRUSTED);
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send(GET);
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP);
        assert_eq!(answer.is_ok(), whole, "{ending:?}: {answer:?}");
        let log = proxy.stop().log;
        let fault = log[0]["fault"].as_str();
        assert_eq!(fault, (!whole).then_some("http_response_incomplete"), "{log:?}");
    }
}

#[test]
fn a_handshake_that_takes_too_long_is_late() {
    let _watchdog = watchdog("a_handshake_that_takes_too_long_is_late");
    let upstream = Upstream::saying("hello");
    let identity = Identity::new(&["127.0.0.1"]);
    // It accepts, reads, and says nothing.
    let silent = Bare::start(|talk| talk.rest().map(drop));
    let silent = format!("https://{}", silent.address());
    let times = "timeouts: { connect: 300ms }";
    let proxy = trusting(&identity, &[&silent], &format!("{times}, retry: {{ attempts: 1 }}, {TRUSTED}"));
    let answer = ask(&proxy);
    assert_eq!((answer.status(), fault(&answer).as_str()), (504, "connection_timeout"), "{answer:?}");
    let log = proxy.stop().log;
    assert!(log[0]["tls_us"].as_u64().unwrap() >= 200_000, "{log:?}");
    // Another one is asked, also with what may not be sent twice.
    let front = Front::start(identity.server(), upstream.address());
    let more = format!("{times}, ejection: off, {TRUSTED}");
    let proxy = trusting(&identity, &[&silent, &front.url()], &more);
    for _ in 0..4 {
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody");
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!(answer.status(), 200);
    }
    wait_counted(&proxy, "thalweg_upstream_tls_handshakes_total", "result=\"failed\"", 1);
}

#[test]
fn other_terms_make_other_connections() {
    let _watchdog = watchdog("other_terms_make_other_connections");
    let upstream = Upstream::saying("hello");
    let (good, other) = (Identity::new(&["127.0.0.1"]), Identity::new(&["127.0.0.1"]));
    let front = Front::start(good.server(), upstream.address());
    let proxy = trusting(&good, &[&front.url()], TRUSTED);
    let config = text(proxy.directory(), &[&front.url()], TRUSTED);
    let mut client = Connection::open(proxy.web()).unwrap();
    let mut again = || {
        client.send(GET);
        Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap()
    };
    assert_eq!((again().status(), again().status()), (200, 200));
    // The same terms in other words: the connection lives on.
    reload(&proxy, &format!("# another text\n{config}"), 1);
    assert_eq!(again().status(), 200);
    assert_eq!(front.full(), 1);
    other.write_into(proxy.directory(), "trusted");
    reload(&proxy, &config, 2);
    assert_eq!(fault(&again()), "tls_certificate_error");
    good.write_into(proxy.directory(), "trusted");
    reload(&proxy, &config, 3);
    assert_eq!(again().status(), 200);
    assert_eq!((front.full(), front.resumed()), (2, 0), "tickets do not outlast the terms");
}

#[test]
fn checks_go_through_tls_on_the_same_terms() {
    let _watchdog = watchdog("checks_go_through_tls_on_the_same_terms");
    let upstream = Upstream::saying("hello");
    let (good, other) = (Identity::new(&["127.0.0.1"]), Identity::new(&["127.0.0.1"]));
    let fronts = [&good, &other].map(|identity| Front::start(identity.server(), upstream.address()));
    let health = "health: { path: /, interval: 100ms, initial: unhealthy }";
    let proxy = trusting(
        &good,
        &[&fronts[0].url(), &fronts[1].url()],
        &format!("{health}, ejection: off, {TRUSTED}"),
    );
    wait_told(&proxy, "unhealthy: the issuer of the server's certificate is not trusted");
    let end = Instant::now() + STEP;
    while ask(&proxy).status() != 200 {
        assert!(Instant::now() < end, "nobody is well");
    }
    for _ in 0..6 {
        assert_eq!(ask(&proxy).status(), 200);
    }
    assert_eq!(fronts[1].full(), 0);
    // The other one is mended: what it shows is trusted now.
    good.write_into(proxy.directory(), "first");
    std::fs::write(proxy.directory().join("trusted.pem"), format!("{}{}", good.chain, other.chain)).unwrap();
    let urls = [&*fronts[0].url(), &*fronts[1].url()];
    reload(&proxy, &text(proxy.directory(), &urls, &format!("{health}, ejection: off, {TRUSTED}")), 1);
    let end = Instant::now() + STEP;
    while fronts[1].full() == 0 {
        assert!(Instant::now() < end, "it is not asked");
        thread::yield_now();
    }
}

#[test]
fn large_bodies_go_both_ways() {
    let _watchdog = watchdog("large_bodies_go_both_ways");
    const LENGTH: usize = 1 << 20;
    let upstream = Upstream::start(|request| {
        let mut answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len()).into_bytes();
        answer.extend_from_slice(&request.body);
        Some(answer)
    });
    let identity = Identity::new(&["127.0.0.1"]);
    let front = Front::start(identity.server(), upstream.address());
    let proxy = trusting(&identity, &[&front.url()], TRUSTED);
    let body: Vec<u8> = (0..LENGTH).map(|at| (at / 251 + at % 253) as u8).collect();
    let mut client = Connection::open(proxy.web()).unwrap();
    for _ in 0..2 {
        client.send(format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LENGTH}\r\n\r\n"));
        client.send(body.clone());
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        assert!(answer.status() == 200 && answer.body == body, "{} bytes", answer.body.len());
    }
    assert_eq!(front.full(), 1);
}

#[test]
fn websockets_pass_through_tls() {
    let _watchdog = watchdog("websockets_pass_through_tls");
    let echo = websocket::Echo::start();
    let identity = Identity::new(&["127.0.0.1"]);
    let front = Front::start(identity.server(), echo.address());
    let proxy = trusting(&identity, &[&front.url()], TRUSTED);
    let mut socket = websocket::connect(&proxy);
    for length in [0, 1, 125, 65_536, 300_000] {
        let said = Said::binary(vec![b'x'; length]);
        socket.send(said.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), said, "{length}");
    }
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    drop(socket);
    let log = proxy.stop().log;
    assert!(log[0]["status"] == 101 && log[0]["fault"].is_null(), "{log:?}");
}

#[test]
fn a_copy_goes_to_another_endpoint_through_tls() {
    let _watchdog = watchdog("a_copy_goes_to_another_endpoint_through_tls");
    let identity = Identity::new(&["127.0.0.1"]);
    let (asked, was_asked) = mpsc::channel();
    let slow = Bare::start(move |talk| {
        talk.head()?;
        let _ = asked.send(());
        talk.rest().map(drop)
    });
    let quick = Upstream::saying("quick");
    let fronts = [slow.address(), quick.address()].map(|to| Front::start(identity.server(), to));
    let hedge = "retry: { attempts: 2, hedge: { after: 100ms, budget: 100% } }";
    let urls = [&*fronts[0].url(), &*fronts[1].url()];
    let proxy = trusting(&identity, &urls, &format!("{hedge}, {TRUSTED}"));
    let end = Instant::now() + STEP;
    // Until the slow one was asked first.
    while was_asked.try_recv().is_err() {
        let answer = ask(&proxy);
        assert_eq!((answer.status(), answer.text().as_str()), (200, "quick"));
        assert!(Instant::now() < end, "the slow one is never asked");
    }
    wait_counted(&proxy, "thalweg_upstream_hedges_won_total", "\"s\"", 1);
}

#[test]
fn connections_are_handed_from_worker_to_worker() {
    let _watchdog = watchdog("connections_are_handed_from_worker_to_worker");
    let upstream = Upstream::saying("hello");
    let identity = Identity::new(&["127.0.0.1"]);
    let front = Front::start(identity.server(), upstream.address());
    let limits = "limits: { max_connections: 1, queue: { size: 100, timeout: 5s } }";
    let proxy = trusting(&identity, &[&front.url()], &format!("{limits}, {TRUSTED}"));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Connection::open(proxy.web()).unwrap();
                for _ in 0..10 {
                    client.send(GET);
                    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
                    assert_eq!(answer.status(), 200);
                }
            });
        }
    });
    assert_eq!(upstream.served(), 80);
    assert!(front.full() + front.resumed() <= 2, "{} connections", front.full() + front.resumed());
}

#[test]
fn the_admin_api_adds_endpoints_that_are_verified_and_changes_no_scheme() {
    let _watchdog = watchdog("the_admin_api_adds_endpoints_that_are_verified_and_changes_no_scheme");
    let upstream = Upstream::saying("hello");
    let identity = Identity::new(&["127.0.0.1"]);
    let fronts = [0, 1].map(|_| Front::start(identity.server(), upstream.address()));
    let proxy = trusting(&identity, &[&fronts[0].url()], TRUSTED);
    let admin = Admin::of(&proxy);
    let add = |url: &str| {
        let body = format!("{{ \"url\": \"{url}\" }}");
        admin.call("POST", "/api/v1/services/s/endpoints", &body).status()
    };
    assert_eq!(add(&fronts[1].url()), 201);
    assert_eq!(add(&fronts[1].url()), 409, "it is there");
    assert_eq!(add(&format!("http://{}", fronts[1].address())), 409, "under another scheme");
    let end = Instant::now() + STEP;
    while fronts.iter().any(|front| front.full() + front.resumed() == 0) {
        assert_eq!(ask(&proxy).status(), 200);
        assert!(Instant::now() < end, "one is never asked");
    }
    // Where the file says nothing, those are trusted whom the system trusts.
    let proxy = trusting(&identity, &[&upstream.url()], "ejection: off");
    let admin = Admin::of(&proxy);
    let body = format!("{{ \"url\": \"{}\" }}", fronts[0].url());
    assert_eq!(admin.call("POST", "/api/v1/services/s/endpoints", &body).status(), 201);
    wait_told_after(&proxy, "the issuer of the server's certificate is not trusted");
    // Gone and back under another scheme would be somebody else.
    let path = format!("/api/v1/services/s/endpoints/{}", thalweg_tests::admin::segment(&upstream.url()));
    assert!(matches!(admin.call("DELETE", &path, "").status(), 200 | 202));
    let body = format!("{{ \"url\": \"https://{}\" }}", upstream.address());
    assert_eq!(admin.call("POST", "/api/v1/services/s/endpoints", &body).status(), 409);
}

/// Asks until the proxy has told this.
fn wait_told_after(proxy: &Proxy, words: &str) {
    let end = Instant::now() + STEP;
    while !proxy.process().stderr().contains(words) {
        ask(proxy);
        assert!(Instant::now() < end, "`{words}` is not told in\n{}", proxy.process().stderr());
    }
}
