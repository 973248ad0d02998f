//! `mirror`: copies of requests go to another service, and nothing that becomes of them changes anything for the
//! client.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use thalweg_tests::message::fetch;
use thalweg_tests::talk::chunk;
use thalweg_tests::{Bare, Message, Proxy, STEP, Talk, Upstream, message::get, upstream::ok};

use super::{wait_counted, watchdog};

/// A service that tells of every request.
fn telling() -> (Upstream, Receiver<Message>) {
    let (told, seen) = mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let upstream = Upstream::start(move |request: &Message| {
        let _ = told.lock().unwrap().send(request.clone());
        Some(ok("shadow"))
    });
    (upstream, seen)
}

fn mirroring(primary: &str, shadow: &str, mirror: &str) -> Proxy {
    Proxy::start(&format!(
        "access_log: {{ format: json, path: \"{{log}}\" }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\", h2c: true }} }}\n\
         services:\n  main: {{ endpoints: \"{primary}\" }}\n  shadow: {{ endpoints: \"{shadow}\" }}\n\
         routes: [ {{ to: main, filters: [ {{ strip_prefix: /api }}, {{ mirror: {mirror} }} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    ))
}

/// One request of every kind of framing, each answered by the service itself.
fn ask_all(proxy: &Proxy) {
    let get = "GET /api/a?b=1 HTTP/1.1\r\nHost: a.test\r\nX-Own: 1\r\n\r\n";
    let post = "POST /api/p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello";
    for request in [get, post] {
        assert_eq!(fetch(proxy.web(), request).unwrap().text(), "main", "{request}");
    }
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send("POST /api/c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    for piece in ["one ", "two ", "three"] {
        talk.send(chunk(piece.as_bytes())).unwrap();
    }
    talk.send("0\r\n\r\n").unwrap();
    assert_eq!(talk.head().unwrap().status(), 200);
}

#[test]
fn a_copy_is_what_goes_upstream_with_its_body() {
    let _watchdog = watchdog("a_copy_is_what_goes_upstream_with_its_body");
    let (main, (shadow, seen)) = (Upstream::saying("main"), telling());
    let proxy = mirroring(&main.url(), &shadow.url(), "shadow");
    ask_all(&proxy);
    let copies: Vec<Message> = (0..3).map(|_| seen.recv_timeout(STEP).unwrap()).collect();
    let find = |target: &str| copies.iter().find(|copy| copy.target() == target).unwrap();
    let plain = find("/a?b=1");
    assert_eq!((plain.value("host"), plain.value("x-own")), (Some("a.test"), Some("1")), "{plain:?}");
    assert_eq!(plain.value("x-forwarded-for"), Some("127.0.0.1"), "{plain:?}");
    assert_eq!(find("/p").text(), "hello");
    let chunked = find("/c");
    assert_eq!((chunked.text().as_str(), chunked.value("content-length")), ("one two three", Some("13")));
    assert_eq!(main.served(), 3);
    wait_counted(&proxy, "thalweg_upstream_requests_total", "\"shadow\"", 3);
    let log = proxy.stop().log;
    assert_eq!(log.len(), 3, "copies have no line: {log:?}");
    assert!(log.iter().all(|line| line["service"] == "main" && line["fault"].is_null()), "{log:?}");
}

#[test]
fn a_shadow_that_is_dead_or_silent_or_endless_changes_nothing() {
    let _watchdog = watchdog("a_shadow_that_is_dead_or_silent_or_endless_changes_nothing");
    let main = Upstream::saying("main");
    let endless = Bare::start(|talk| {
        talk.head()?;
        talk.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let piece = chunk(&[b'x'; 64 * 1024]);
        loop {
            talk.send(&piece)?;
        }
    });
    let silent = Bare::start(|talk| {
        talk.head()?;
        talk.rest().map(drop)
    });
    let dead = {
        let gone = Bare::start(|_| Ok(()));
        gone.url()
    };
    for (kind, shadow) in [("dead", &dead), ("silent", &silent.url()), ("endless", &endless.url())] {
        let proxy = mirroring(&main.url(), shadow, "{ to: shadow, timeout: 500ms }");
        let began = Instant::now();
        for _ in 0..5 {
            ask_all(&proxy);
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{kind}: {:?}", began.elapsed());
        let copies = "route=\"calls to shadow\"";
        wait_counted(&proxy, "thalweg_requests_total", copies, 15);
        let ended = proxy.stop();
        assert_eq!(ended.log.len(), 15, "{kind}");
        assert!(ended.log.iter().all(|line| line["status"] == 200 && line["attempts"] == 1), "{kind}");
    }
}

#[test]
fn a_body_over_the_bound_is_not_copied_and_counted() {
    let _watchdog = watchdog("a_body_over_the_bound_is_not_copied_and_counted");
    let (main, (shadow, seen)) = (Upstream::saying("main"), telling());
    let proxy = mirroring(&main.url(), &shadow.url(), "{ to: shadow, max_body: 8B }");
    let large = "x".repeat(100_000);
    let known = format!("POST /k HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{large}", large.len());
    assert_eq!(fetch(proxy.web(), &known).unwrap().text(), "main");
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send("POST /c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    talk.send(chunk(large.as_bytes())).unwrap();
    talk.send("0\r\n\r\n").unwrap();
    assert_eq!(talk.head().unwrap().status(), 200);
    assert_eq!(get(proxy.web(), "/small").unwrap().text(), "main");
    assert_eq!(seen.recv_timeout(STEP).unwrap().target(), "/small");
    assert!(seen.try_recv().is_err(), "only the small one is copied");
}

#[test]
fn a_cookie_chooses_the_service_and_a_draw_is_kept() {
    let _watchdog = watchdog("a_cookie_chooses_the_service_and_a_draw_is_kept");
    let (main, a, b) = (Upstream::saying("main"), Upstream::saying("a"), Upstream::saying("b"));
    let proxy = Proxy::start(&format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services:\n  main: {{ endpoints: \"{}\" }}\n\
         \x20 a: {{ endpoints: \"{}\", filters: [ {{ headers: {{ response: {{ set: {{ X-Of: \"{{service}}\" }} }} }} }} ] }}\n\
         \x20 b: {{ endpoints: \"{}\" }}\n\
         routes:\n\
         \x20 - match: {{ path: /drawn }}\n    to: main\n    \
         filters: [ {{ split: {{ cookie: v, to: {{ a: a, b: b }}, share: {{ b: 100% }}, sticky: 1d }} }} ]\n\
         \x20 - to: main\n    filters: [ {{ split: {{ cookie: v, to: {{ a: a, b: b }} }} }} ]\n",
        main.url(),
        a.url(),
        b.url()
    ));
    let ask = |path: &str, cookie: &str| {
        fetch(proxy.web(), &format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nCookie: {cookie}\r\n\r\n"))
            .unwrap()
    };
    assert_eq!(ask("/", "x=1").text(), "main");
    let chosen = ask("/", "v=a");
    // The filters of the chosen service are called, and know it.
    assert_eq!((chosen.text().as_str(), chosen.value("x-of")), ("a", Some("a")));
    assert_eq!(ask("/", "v=unknown").text(), "main");
    let drawn = ask("/drawn", "x=1");
    assert_eq!(drawn.text(), "b");
    assert_eq!(
        drawn.value("set-cookie"),
        Some("v=b; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"),
        "{drawn:?}"
    );
    let kept = ask("/drawn", "v=a");
    assert_eq!((kept.text().as_str(), kept.value("set-cookie")), ("a", None));
}
