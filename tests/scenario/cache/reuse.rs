//! What is stored answers more than it was fetched for: parts, heads, conditions, and when the service cannot.

use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::{Endpoint, STEP};

use super::{MINUTE, Origin, ask, caching, good, reply, send, watchdog};

const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz";
const VALIDATORS: &str =
    "ETag: \"v1\"\r\nLast-Modified: Wed, 25 Nov 2026 14:00:00 GMT\r\nAccept-Ranges: bytes\r\n";
/// It is stale when it comes, and may be used all the same while it is fetched again.
const STALE: &str = "Cache-Control: max-age=60, stale-while-revalidate=600\r\nAge: 100\r\n";

/// An endpoint whose only page has validators.
fn alphabet() -> Origin {
    Origin::start(|_, _| Some(good(VALIDATORS, ALPHABET)))
}

#[test]
fn parts_come_from_what_is_stored() {
    let _watchdog = watchdog("parts_come_from_what_is_stored");
    let origin = alphabet();
    let proxy = caching(&origin.url(), "{}", "");
    assert_eq!(ask(&proxy, "/", "").text(), ALPHABET);
    for (range, part, of) in [
        ("bytes=0-0", "a", "bytes 0-0/26"),
        ("bytes=2-4", "cde", "bytes 2-4/26"),
        ("bytes=20-", "uvwxyz", "bytes 20-25/26"),
        ("bytes=-2", "yz", "bytes 24-25/26"),
        ("bytes=20-1000", "uvwxyz", "bytes 20-25/26"),
    ] {
        let answer = ask(&proxy, "/", &format!("Range: {range}\r\n"));
        assert_eq!((answer.status(), answer.text().as_str()), (206, part), "{range}");
        assert_eq!(answer.value("content-range"), Some(of), "{range}");
    }
    let beyond = ask(&proxy, "/", "Range: bytes=26-\r\n");
    assert_eq!((beyond.status(), beyond.value("content-range")), (416, Some("bytes */26")));
    let other = ask(&proxy, "/", "Range: bytes=2-4\r\nIf-Range: \"v0\"\r\n");
    assert_eq!((other.status(), other.text().as_str()), (200, ALPHABET), "it has changed since");
    assert_eq!(origin.asked("/"), 1);
}

#[test]
fn a_head_comes_from_a_stored_get() {
    let _watchdog = watchdog("a_head_comes_from_a_stored_get");
    let origin = alphabet();
    let proxy = caching(&origin.url(), "{}", "");
    ask(&proxy, "/", "");
    let head = send(&proxy, "HEAD", "/", "");
    assert_eq!(
        (head.status(), head.value("content-length"), head.value("etag")),
        (200, Some("26"), Some("\"v1\""))
    );
    assert_eq!(origin.asked("/"), 1);
}

#[test]
fn conditions_are_answered_from_what_is_stored() {
    let _watchdog = watchdog("conditions_are_answered_from_what_is_stored");
    let origin = alphabet();
    let proxy = caching(&origin.url(), "{}", "");
    ask(&proxy, "/", "");
    for (condition, status) in [
        ("If-None-Match: \"v1\"", 304),
        ("If-None-Match: \"v0\", W/\"v1\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"v0\"", 200),
        ("If-Modified-Since: Wed, 25 Nov 2026 14:00:00 GMT", 304),
        ("If-Modified-Since: Wed, 25 Nov 2026 13:59:59 GMT", 200),
        ("If-None-Match: \"v0\"\r\nIf-Modified-Since: Wed, 25 Nov 2026 14:00:00 GMT", 200),
    ] {
        let answer = ask(&proxy, "/", &format!("{condition}\r\n"));
        assert_eq!(answer.status(), status, "{condition}");
        assert_eq!(answer.value("etag"), Some("\"v1\""), "{condition}");
        assert_eq!(answer.text(), if status == 304 { "" } else { ALPHABET }, "{condition}");
    }
    assert_eq!(origin.asked("/"), 1);
}

#[test]
fn what_the_service_confirms_is_used_again() {
    let _watchdog = watchdog("what_the_service_confirms_is_used_again");
    let origin = Origin::start(|request, before| {
        let confirmed = before > 0 && request.value("if-none-match") == Some("\"v1\"");
        Some(if confirmed {
            b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nCache-Control: max-age=60\r\nX-Of: 304\r\n\r\n"
                .to_vec()
        } else {
            reply("200 OK", "Cache-Control: max-age=60\r\nAge: 100\r\nETag: \"v1\"\r\nX-Of: 200\r\n", "page")
        })
    });
    let proxy = caching(&origin.url(), "{}", "");
    assert_eq!(ask(&proxy, "/", "").text(), "page");
    for _ in 0..2 {
        let answer = ask(&proxy, "/", "");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "page"));
        assert_eq!(answer.value("x-of"), Some("304"), "the fields are those of the confirmation");
    }
    assert_eq!(origin.asked("/"), 2, "one confirmation holds for a minute");
}

#[test]
fn a_stale_response_is_used_while_one_request_fetches_it_again() {
    let _watchdog = watchdog("a_stale_response_is_used_while_one_request_fetches_it_again");
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let origin = Origin::start(move |_, before| {
        if before == 0 {
            return Some(reply("200 OK", STALE, "old"));
        }
        let _ = may_go.lock().unwrap().recv_timeout(STEP);
        Some(good("", "new"))
    });
    let proxy = caching(&origin.url(), "{}", "");
    assert_eq!(ask(&proxy, "/", "").text(), "old");
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let address = proxy.web();
            let request = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
            thread::spawn(move || thalweg_tests::message::fetch(address, request).unwrap().text())
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), "old", "nobody waits for the endpoint");
    }
    let end = Instant::now() + STEP;
    while origin.asked("/") < 2 {
        assert!(Instant::now() < end, "nobody fetches it again");
        thread::yield_now();
    }
    assert_eq!(origin.asked("/"), 2, "one fetch beside twenty answers");
    go.send(()).unwrap();
    while ask(&proxy, "/", "").text() != "new" {
        assert!(Instant::now() < end, "the new one is not stored");
        thread::yield_now();
    }
    assert_eq!(origin.asked("/"), 2);
}

#[test]
fn a_stale_response_stands_in_for_an_error() {
    let _watchdog = watchdog("a_stale_response_stands_in_for_an_error");
    let origin = Origin::start(|request, before| {
        let fields = if request.target() == "/strict" {
            "Cache-Control: max-age=60, must-revalidate\r\nAge: 100\r\nETag: \"v\"\r\n"
        } else {
            "Cache-Control: max-age=60, stale-if-error=600\r\nAge: 100\r\nETag: \"v\"\r\n"
        };
        match (before, request.target()) {
            (0, _) => Some(reply("200 OK", fields, "page")),
            (_, "/closes") => None,
            _ => Some(reply("503 Service Unavailable", "", "error")),
        }
    });
    let proxy = caching(&origin.url(), "{}", "");
    for (path, status, text) in [("/errs", 200, "page"), ("/closes", 200, "page"), ("/strict", 503, "error")]
    {
        assert_eq!(ask(&proxy, path, "").text(), "page");
        let answer = ask(&proxy, path, "");
        assert_eq!((answer.status(), answer.text().as_str()), (status, text), "{path}");
    }
}

#[test]
fn a_stale_response_stands_in_for_an_endpoint_that_was_killed() {
    let _watchdog = watchdog("a_stale_response_stands_in_for_an_endpoint_that_was_killed");
    let endpoint = Endpoint::start(env!("CARGO_BIN_EXE_test-endpoint"), "one");
    let proxy = caching(&endpoint.url(), "{ default_ttl: 1s }", "");
    assert_eq!(ask(&proxy, "/", "").text(), "one");
    endpoint.kill();
    let end = Instant::now() + STEP;
    loop {
        let answer = ask(&proxy, "/", "");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "one"));
        let age: u64 = answer.value("age").and_then(|age| age.parse().ok()).unwrap_or_default();
        if age >= 3 {
            break;
        }
        assert!(Instant::now() < end, "it stays {age} s old");
        thread::sleep(Duration::from_millis(50)); // Not to ask thousands of times.
    }
    // What was never stored cannot stand in.
    assert_eq!(ask(&proxy, "/other", "").status() / 100, 5);
}

#[test]
fn unsafe_methods_take_away_what_they_may_have_changed() {
    let _watchdog = watchdog("unsafe_methods_take_away_what_they_may_have_changed");
    let origin = Origin::start(|request, before| {
        Some(match request.start.split(' ').next() {
            Some("GET") => good("", &format!("answer {before}")),
            _ if request.value("x-fails").is_some() => reply("500 Internal Server Error", "", ""),
            _ => reply("200 OK", "Location: /moved\r\nContent-Location: http://b.test/foreign\r\n", ""),
        })
    });
    let proxy = caching(&origin.url(), "{}", "");
    for (number, method) in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"].into_iter().enumerate() {
        let path = format!("/page{number}");
        let stored = ask(&proxy, &path, "").text();
        send(&proxy, method, &path, "Content-Length: 0\r\nX-Fails: yes\r\n");
        assert_eq!(ask(&proxy, &path, "").text(), stored, "{method} that fails");
        send(&proxy, method, &path, "Content-Length: 0\r\n");
        assert_ne!(ask(&proxy, &path, "").text(), stored, "{method}");
    }
    let moved = ask(&proxy, "/moved", "").text();
    send(&proxy, "POST", "/elsewhere", "Content-Length: 0\r\n");
    assert_ne!(ask(&proxy, "/moved", "").text(), moved, "Location");
    for (method, path) in [("OPTIONS", "/safe"), ("HEAD", "/safe")] {
        let stored = ask(&proxy, path, "").text();
        send(&proxy, method, path, "");
        assert_eq!(ask(&proxy, path, "").text(), stored, "{method}");
    }
}

/// Who writes to one host must not take away what another one has stored (RFC 9111 §4.4).
#[test]
fn an_unsafe_method_takes_nothing_away_from_another_host() {
    let _watchdog = watchdog("an_unsafe_method_takes_nothing_away_from_another_host");
    let origin = Origin::start(|request, before| {
        Some(match request.start.starts_with("GET ") {
            true => good("", &format!("answer {before}")),
            false => reply("200 OK", "Location: http://b.test/victim\r\n", ""),
        })
    });
    let proxy = caching(&origin.url(), "{}", "");
    let victim = "GET /victim HTTP/1.1\r\nHost: b.test\r\n\r\n";
    let stored = thalweg_tests::message::fetch(proxy.web(), victim).unwrap().text();
    send(&proxy, "POST", "/attack", "Content-Length: 0\r\n");
    assert_eq!(thalweg_tests::message::fetch(proxy.web(), victim).unwrap().text(), stored);
}

/// What is stored has no validator: only its length says that the page is another one now (RFC 9111 §4.3.5).
#[test]
fn a_head_with_another_length_takes_away_what_is_stored() {
    let _watchdog = watchdog("a_head_with_another_length_takes_away_what_is_stored");
    let origin = Origin::start(|request, before| {
        if request.start.starts_with("HEAD ") {
            return Some(format!("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n{MINUTE}\r\n").into());
        }
        Some(reply("200 OK", STALE, if before == 0 { "page" } else { "new page" }))
    });
    let proxy = caching(&origin.url(), "{}", "");
    assert_eq!(ask(&proxy, "/", "").text(), "page");
    // It does not want a stale one: the service is asked.
    assert_eq!(send(&proxy, "HEAD", "/", "Cache-Control: max-age=10\r\n").status(), 200);
    assert_eq!(ask(&proxy, "/", "").text(), "new page");
}
