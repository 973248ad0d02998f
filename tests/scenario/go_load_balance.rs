//! The mistakes that a load balancer in Go was published with (the yardstick of the table that `cargo xtask bench ab`
//! measures), each as a test that fails on that design.
//!
//! The tests speak to the product through its binary alone, so that `THALWEG_BIN` may name a program with that design.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::admin::segment;
use thalweg_tests::message::{Kind, fetch, get};
use thalweg_tests::port::Refusing;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Connection, Directory, Held, Hook, Load, Message, Proxy, STEP, Talk, Upstream};

use super::endpoints_api::state_in;
use super::{config, proxy, watchdog};

/// Checks that find out soon.
const HEALTH: &str = "health: { path: /ping, interval: 300ms, unhealthy_after: 2, healthy_after: 1 }";

/// A configuration whose service is checked.
fn checked(endpoints: &[&str], more: &str) -> String {
    config(endpoints, more).replace("s: { endpoints:", &format!("s: {{ {HEALTH}, endpoints:"))
}

/// Asks until `wanted` holds of an answer.
fn wait_answer(web: SocketAddr, what: &str, wanted: impl Fn(&Message) -> bool) {
    let end = Instant::now() + STEP;
    while !get(web, "/").is_ok_and(|answer| wanted(&answer)) {
        assert!(Instant::now() < end, "no answer that {what}");
    }
}

/// Keeps all requests that an upstream has read.
fn noted() -> (Upstream, Arc<Mutex<Vec<Message>>>) {
    let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let upstream = Upstream::start(move |request| {
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(request.clone());
        Some(ok(&format!("{}", notes.len())))
    });
    (upstream, seen)
}

/// The mistake: the status is written as a header field, so that every answer is 200.
#[test]
fn the_status_of_the_upstream_is_the_status_of_the_client() {
    let _watchdog = watchdog("the_status_of_the_upstream_is_the_status_of_the_client");
    let upstream = Upstream::start(|request| {
        let status = request.target().trim_start_matches('/');
        Some(format!("HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    let proxy = proxy(&[&upstream.url()]);
    for status in [200, 201, 301, 302, 400, 401, 403, 404, 409, 410, 418, 429, 500, 502, 503, 504] {
        let answer = get(proxy.web(), &format!("/{status}")).unwrap();
        assert_eq!(answer.status(), status, "{answer:?}");
        assert!(answer.value("status").is_none(), "{answer:?}");
    }
}

/// The mistake: of all fields only `Content-Length` and `Content-Type` are passed on; `Set-Cookie` is lost.
#[test]
fn every_field_of_a_response_reaches_the_client() {
    let _watchdog = watchdog("every_field_of_a_response_reaches_the_client");
    let fields = "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2; HttpOnly\r\nLocation: /there\r\nETag: \"x\"\r\n\
        Cache-Control: no-store\r\nX-Own: of the application\r\nContent-Type: text/html; charset=utf-8\r\n";
    let upstream = Upstream::start(move |_| {
        Some(format!("HTTP/1.1 302 Found\r\n{fields}Content-Length: 2\r\n\r\nhi").into_bytes())
    });
    let proxy = proxy(&[&upstream.url()]);
    let answer = get(proxy.web(), "/").unwrap();
    for field in fields.lines() {
        let (name, value) = field.split_once(": ").unwrap();
        assert!(answer.values(name).any(|got| got == value), "{field} is lost: {answer:?}");
    }
    assert_eq!(answer.values("set-cookie").count(), 2);
}

/// The mistakes: a cache whose key has no host, no query and no cookies, that keeps private responses and ignores
/// `Cache-Control` and `Vary`. Nothing is cached here unless a route says so.
#[test]
fn no_response_stands_in_for_that_of_another_request() {
    let _watchdog = watchdog("no_response_stands_in_for_that_of_another_request");
    let (upstream, seen) = noted();
    let proxy = proxy(&[&upstream.url()]);
    let requests = [
        ("/page", "one.test", ""),
        ("/page", "two.test", ""),
        ("/page?id=1", "one.test", ""),
        ("/page?id=2", "one.test", ""),
        ("/page", "one.test", "Cookie: user=1\r\n"),
        ("/page", "one.test", "Cookie: user=2\r\n"),
        ("/page", "one.test", "Accept-Language: de\r\n"),
        ("/page", "one.test", ""),
    ];
    for (number, (target, host, fields)) in requests.iter().enumerate() {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        let answer = fetch(proxy.web(), &request).unwrap();
        assert_eq!(
            answer.text(),
            (number + 1).to_string(),
            "answered from what was kept: {target} {host} {fields}"
        );
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let got = seen.iter().map(|request| (request.target(), request.value("host").unwrap_or_default()));
    assert!(got.eq(requests.iter().map(|(target, host, _)| (*target, *host))), "{seen:?}");
}

/// The mistakes: a POST is answered from the cache, and its body is consumed by the hash and never restored.
#[test]
fn a_post_is_sent_every_time_and_with_its_whole_body() {
    let _watchdog = watchdog("a_post_is_sent_every_time_and_with_its_whole_body");
    let (upstream, seen) = noted();
    let proxy = proxy(&[&upstream.url()]);
    let body = "order=7&".repeat(4096);
    let request = format!(
        "POST /order HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for number in 1..=3 {
        assert_eq!(fetch(proxy.web(), &request).unwrap().text(), number.to_string());
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request.body == body.as_bytes()), "a body is not what was sent");
}

/// The mistake: one hasher is shared by all requests at once, so that one may get the answer of another.
#[test]
fn clients_at_once_get_each_their_own_answer() {
    let _watchdog = watchdog("clients_at_once_get_each_their_own_answer");
    let upstream = Upstream::start(|request| Some(ok(&format!("{} {}", request.target(), request.text()))));
    let proxy = proxy(&[&upstream.url()]);
    thread::scope(|scope| {
        for client in 0..16 {
            let web = proxy.web();
            scope.spawn(move || {
                let mut connection = Connection::open(web).unwrap();
                for number in 0..50 {
                    let body = format!("of {client}, {number}");
                    connection.send(format!(
                        "POST /{client}/{number} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    ));
                    let answer = Message::read(&mut connection, Kind::Response, Instant::now() + STEP).unwrap();
                    assert_eq!(answer.text(), format!("/{client}/{number} {body}"));
                }
            });
        }
    });
}

/// The mistakes: round robin never looks whether a server is alive, and a request that meets a dead one is answered 500
/// though others live.
#[test]
fn a_server_that_is_down_costs_no_request() {
    let _watchdog = watchdog("a_server_that_is_down_costs_no_request");
    let (down, up) = (Refusing::new(), Upstream::saying("up"));
    let proxy = proxy(&[&format!("http://{}", down.address()), &up.url()]);
    for _ in 0..100 {
        let answer = get(proxy.web(), "/").unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "up"), "{answer:?}");
    }
}

/// The mistake: an error of one server is the client's, without a try of another.
#[test]
fn a_request_that_one_server_breaks_off_is_answered_by_another() {
    let _watchdog = watchdog("a_request_that_one_server_breaks_off_is_answered_by_another");
    let (broken, up) = (Upstream::start(|_| None), Upstream::saying("up"));
    let text = config(&[&broken.url(), &up.url()], "");
    // One in two requests needs a second attempt here, until the broken one is ejected.
    let proxy = Proxy::start(&text.replace("s: { endpoints:", "s: { retry: { budget: 100% }, endpoints:"));
    for _ in 0..20 {
        let answer = get(proxy.web(), "/").unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "up"), "{answer:?}");
    }
    assert!(broken.connections() > 0, "it was never asked");
}

/// The mistake: whatever goes wrong upstream is 500, as if the proxy were broken, without a cause.
#[test]
fn a_failure_of_every_server_is_a_gateway_error_with_its_cause() {
    let _watchdog = watchdog("a_failure_of_every_server_is_a_gateway_error_with_its_cause");
    let broken = Upstream::start(|_| None);
    let garbled = Upstream::start(|_| Some(b"what?\r\n\r\n".to_vec()));
    let refusing = Refusing::new();
    for url in [broken.url(), garbled.url(), format!("http://{}", refusing.address())] {
        let proxy = proxy(&[&url]);
        let answer = get(proxy.web(), "/").unwrap();
        assert!(matches!(answer.status(), 502..=504), "{url}: {answer:?}");
        assert!(answer.value("proxy-status").unwrap().contains("error="), "{answer:?}");
    }
}

/// The mistake: the index of round robin and the pool are changed under different locks, so that for a moment the index
/// points past the end while a server is removed.
#[test]
fn servers_that_leave_under_load_leave_no_gap() {
    let _watchdog = watchdog("servers_that_leave_under_load_leave_no_gap");
    let upstreams = [0; 6].map(|_| Upstream::saying("here"));
    let urls = upstreams.each_ref().map(Upstream::url);
    let urls = urls.each_ref().map(|url| &**url);
    let directory = Directory::new();
    let text = config(&urls, &state_in(&directory));
    let proxy = Proxy::start_in(directory, &text);
    let (admin, load) = (Admin::of(&proxy), Load::start(proxy.web(), 16));
    for _ in 0..20 {
        // From the end: the index of the last one is the one that is out of range when it is gone.
        for url in urls[1..].iter().rev() {
            let answer = admin.call("DELETE", &format!("/api/v1/services/s/endpoints/{}", segment(url)), "");
            assert!(matches!(answer.status(), 200 | 202), "{}", answer.text());
        }
        load.wait_for(50);
        for url in &urls[1..] {
            let body = json!({ "url": url }).to_string();
            assert_eq!(admin.call("POST", "/api/v1/services/s/endpoints", &body).status(), 201);
        }
        load.wait_for(50);
    }
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
    assert_eq!(proxy.stop().status.code(), Some(0));
}

/// The mistake: a server that was found dead is removed for good.
#[test]
fn a_server_that_died_is_used_again_when_it_is_back() {
    let _watchdog = watchdog("a_server_that_died_is_used_again_when_it_is_back");
    let (staying, dying) = (Upstream::saying("staying"), Upstream::saying("dying"));
    let address = dying.address();
    let proxy = Proxy::start(&checked(&[&staying.url(), &dying.url()], ""));
    wait_answer(proxy.web(), "is of the one that will die", |answer| answer.text() == "dying");
    drop(dying);
    let (mut in_a_row, end) = (0, Instant::now() + STEP);
    while in_a_row < 10 {
        assert!(Instant::now() < end, "its death is not found");
        in_a_row = if get(proxy.web(), "/").is_ok_and(|answer| answer.text() == "staying") {
            in_a_row + 1
        } else {
            0
        };
    }
    let _back = Upstream::start_at(address, |_| Some(ok("back")));
    wait_answer(proxy.web(), "is of the one that came back", |answer| answer.text() == "back");
}

/// The mistake: the loop of health checks ends with the first verdict, so that nothing is ever found again.
#[test]
fn a_server_that_fails_its_checks_is_checked_on_until_it_passes() {
    let _watchdog = watchdog("a_server_that_fails_its_checks_is_checked_on_until_it_passes");
    let (well, checks) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let (state, count) = (Arc::clone(&well), Arc::clone(&checks));
    let flapping = Upstream::start(move |request| {
        if request.target() != "/ping" {
            return Some(ok("flapping"));
        }
        count.fetch_add(1, Ordering::AcqRel);
        let down = b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n".to_vec();
        Some(if state.load(Ordering::Acquire) { ok("") } else { down })
    });
    let staying = Upstream::saying("staying");
    let proxy = Proxy::start(&checked(&[&staying.url(), &flapping.url()], ""));
    for _ in 0..3 {
        wait_answer(proxy.web(), "is of the one that flaps", |answer| answer.text() == "flapping");
        well.store(false, Ordering::Release);
        // Nothing is wrong with its requests: only checks can tell. Two of them are enough, eight must be made.
        let (end, until) = (Instant::now() + STEP, checks.load(Ordering::Acquire) + 8);
        while checks.load(Ordering::Acquire) < until {
            assert!(Instant::now() < end, "it is not checked any more");
            thread::yield_now();
        }
        for _ in 0..8 {
            assert_eq!(get(proxy.web(), "/").unwrap().text(), "staying", "it fails its checks");
        }
        well.store(true, Ordering::Release);
    }
}

/// The mistake: the death of the last server ends the process.
#[test]
fn the_death_of_the_last_server_is_a_503_and_not_the_end() {
    let _watchdog = watchdog("the_death_of_the_last_server_is_a_503_and_not_the_end");
    let upstreams = [Upstream::saying("one"), Upstream::saying("two")];
    let (address, urls) = (upstreams[0].address(), upstreams.each_ref().map(Upstream::url));
    let proxy = Proxy::start(&checked(&[&urls[0], &urls[1]], ""));
    wait_answer(proxy.web(), "is 200", |answer| answer.status() == 200);
    drop(upstreams);
    wait_answer(proxy.web(), "is 503", |answer| answer.status() == 503);
    for _ in 0..20 {
        assert!(matches!(get(proxy.web(), "/").unwrap().status(), 502 | 503));
    }
    assert!(proxy.process().is_running());
    let _back = Upstream::start_at(address, |_| Some(ok("back")));
    wait_answer(proxy.web(), "is of the one that came back", |answer| answer.text() == "back");
}

/// The mistake: the webhook of a death waits until the dead server has drained.
#[test]
fn the_webhook_is_sent_at_the_death_and_not_after_the_drain() {
    let _watchdog = watchdog("the_webhook_is_sent_at_the_death_and_not_after_the_drain");
    let (hook, held) = (Hook::start(), Held::start("held"));
    // Its requests are served, its checks find nothing at that path's port.
    let nobody = Refusing::new();
    let webhooks = format!("webhooks: [ {{ url: \"{}\" }} ]\n", hook.url());
    let health =
        format!("{{ path: /ping, port: {}, interval: 500ms, unhealthy_after: 2", nobody.address().port());
    let text = config(&[&held.url()], &webhooks)
        .replace("s: { endpoints:", &format!("s: {{ when_down: try_all, health: {health} }}, endpoints:"));
    let proxy = Proxy::start(&text);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    let told = hook.wait("endpoint_down", Some(&held.url()));
    assert_eq!(told.event["endpoints"][0]["state"], "unhealthy", "with how all stand: {}", told.event);
    held.release();
    assert_eq!(client.body(&head).each(|_| {}).unwrap(), 11, "the response was under way all the while");
}

/// The mistake: a drain has no deadline, so that one long request keeps a server for ever.
#[test]
fn a_drain_ends_at_its_deadline_however_long_a_request_takes() {
    let _watchdog = watchdog("a_drain_ends_at_its_deadline_however_long_a_request_takes");
    let held = Held::start("held");
    let proxy = proxy(&[&held.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let (head, begin) = (client.head().unwrap(), Instant::now());
    let path = format!("/api/v1/services/s/endpoints/{}?drain=200ms", segment(&held.url()));
    assert_eq!(Admin::of(&proxy).call("DELETE", &path, "").status(), 202);
    client.body(&head).each(|_| {}).unwrap_err();
    let took = begin.elapsed();
    assert!((Duration::from_millis(200)..STEP / 2).contains(&took), "{took:?}");
    let end = Instant::now() + STEP;
    while !Admin::of(&proxy).get("/api/v1/services/s")["endpoints"].as_array().unwrap().is_empty() {
        assert!(Instant::now() < end, "it drains for ever");
    }
}

/// The mistake: the address of a client is what stands before the first colon, which of an IPv6 address is a piece.
#[test]
fn a_client_with_an_ipv6_address_is_known_by_the_whole_of_it() {
    let _watchdog = watchdog("a_client_with_an_ipv6_address_is_known_by_the_whole_of_it");
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let (upstream, seen) = noted();
    let text = config(&[&upstream.url()], "")
        .replace("web: { address: \"127.0.0.1:0\" }", "web: { address: \"[::1]:0\" }")
        .replace("{ to: s }", "{ match: { client: [ \"::1/128\" ] }, to: s }");
    let proxy = Proxy::start(&text);
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200, "the route is for this client");
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(seen[0].value("x-forwarded-for"), Some("::1"), "{seen:?}");
    assert_eq!(proxy.stop().log[0]["client_ip"], "::1");
}

/// The mistake: who says in a header field that they are somebody else is believed.
#[test]
fn who_says_to_be_somebody_else_is_not_believed() {
    let _watchdog = watchdog("who_says_to_be_somebody_else_is_not_believed");
    let (upstream, seen) = noted();
    let text =
        config(&[&upstream.url()], "").replace("{ to: s }", "{ match: { client: [ 127.0.0.1 ] }, to: s }");
    let proxy = Proxy::start(&text);
    for field in ["X-Real-IP: 203.0.113.7", "X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.7"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{field}\r\nConnection: close\r\n\r\n");
        assert_eq!(
            fetch(proxy.web(), &request).unwrap().status(),
            200,
            "the route is for 127.0.0.1: {field}"
        );
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(seen.len(), 3);
    for request in seen.iter() {
        let told = format!("{request:?}");
        assert!(!told.contains("203.0.113.7"), "{told}");
        assert_eq!(request.value("x-forwarded-for"), Some("127.0.0.1"), "{told}");
    }
    drop(seen);
    assert!(proxy.stop().log.iter().all(|record| record["client_ip"] == "127.0.0.1"));
}

/// The mistake: servers are added and removed by paths of the public listener.
#[test]
fn administration_is_not_on_the_public_listener() {
    let _watchdog = watchdog("administration_is_not_on_the_public_listener");
    let (upstream, seen) = noted();
    let proxy = proxy(&[&upstream.url()]);
    let targets = [
        "GET /api/v1/services",
        "GET /api/v1/status",
        "GET /metrics",
        "GET /healthz",
        "POST /add",
        "POST /remove",
        "POST /api/v1/stop",
        "POST /api/v1/services/s/endpoints",
        "DELETE /api/v1/services/s/endpoints/x",
    ];
    for target in targets {
        let request =
            format!("{target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(fetch(proxy.web(), &request).unwrap().status(), 200, "{target} is the application's");
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let got: Vec<_> = seen.iter().map(|request| request.start.trim_end_matches(" HTTP/1.1")).collect();
    assert_eq!(got, targets, "every one of them reached the application");
    assert_eq!(Admin::of(&proxy).get("/api/v1/services/s")["endpoints"].as_array().unwrap().len(), 1);
}

/// The mistake: whoever reaches the administration may use it.
#[test]
fn administration_asks_who_is_there() {
    let _watchdog = watchdog("administration_asks_who_is_there");
    let (upstream, directory) = (Upstream::saying("here"), Directory::new());
    let more = state_in(&directory) + "admin: { address: \"127.0.0.1:0\" }\n";
    let text = config(&[&upstream.url()], &more);
    let proxy = Proxy::start_in(directory, &text);
    for token in [None, Some("guess")] {
        let stranger = Admin::on_tcp(&proxy, token);
        let body = json!({ "url": "http://127.0.0.1:1" }).to_string();
        assert_eq!(stranger.call("POST", "/api/v1/services/s/endpoints", &body).status(), 401);
        assert_eq!(stranger.call("GET", "/api/v1/services", "").status(), 401);
    }
    let token = std::fs::read_to_string(proxy.directory().join("kept/admin.token")).unwrap();
    let known = Admin::on_tcp(&proxy, Some(token.trim()));
    assert_eq!(known.get("/api/v1/services/s")["endpoints"].as_array().unwrap().len(), 1);
}
