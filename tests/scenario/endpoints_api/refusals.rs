//! Requests that the admin API refuses, and that change nothing then.

use std::sync::{Arc, Barrier};
use std::thread;

use serde_json::{Value, json};
use thalweg_tests::admin::json as document;
use thalweg_tests::{Admin, Upstream};

use super::{TOKENS, guarded, path_of, remove, urls};
use crate::scenario::watchdog;

const ENDPOINTS: &str = "/api/v1/services/s/endpoints";
const KNOWN: &str = "http://127.0.0.1:1";

/// Asks for a change that must be refused so, with a problem document; the document.
fn refused(admin: &Admin, (method, path, body): (&str, &str, &str), status: u16) -> Value {
    let answer = admin.call(method, path, body);
    let told = format!("{method} {path} {body}: {} {}", answer.start, answer.text());
    assert_eq!(answer.status(), status, "{told}");
    assert_eq!(answer.value("content-type"), Some("application/problem+json"), "{told}");
    let problem = document(&answer);
    assert_eq!(problem["status"], status, "{told}");
    assert!(!problem["detail"].as_str().unwrap().is_empty(), "{told}");
    problem
}

fn post(body: &str) -> (&str, &str, &str) {
    ("POST", ENDPOINTS, body)
}

#[test]
fn bad_input_is_refused_with_the_cause_and_changes_nothing() {
    let _watchdog = watchdog("bad_input_is_refused_with_the_cause_and_changes_nothing");
    let proxy = guarded(&[KNOWN], "");
    let admin = Admin::of(&proxy);
    let before = admin.call("GET", "/api/v1/services", "");
    let known = path_of(KNOWN);
    refused(&admin, post(r#"{"url": "http://127.0.0.1:1"}"#), 409);
    refused(&admin, post(r#"{"url": "http://127.0.0.1:1/"}"#), 409);
    let unknown = ("POST", "/api/v1/services/none/endpoints", r#"{"url": "http://127.0.0.1:2"}"#);
    assert!(refused(&admin, unknown, 404)["detail"].as_str().unwrap().contains("none"));
    for path in [path_of("http://127.0.0.1:2"), format!("{ENDPOINTS}/0123456789abcdef")] {
        refused(&admin, ("PATCH", &path, r#"{"weight": 1}"#), 404);
        refused(&admin, ("DELETE", &path, ""), 404);
        refused(&admin, ("GET", &path, ""), 404);
    }
    for url in [
        "",
        "127.0.0.1:2",
        "ftp://127.0.0.1:2",
        "http://",
        "http://127.0.0.1:99999",
        "http://a b:80",
        "http://[::1",
        "http://u:p@a:1",
    ] {
        assert_eq!(refused(&admin, post(&json!({ "url": url }).to_string()), 400)["field"], "url", "{url}");
    }
    for (body, field) in [
        (r#"{"url": 7}"#, "url"),
        ("{}", "url"),
        (r#"{"weight": 1}"#, "url"),
        (r#"{"url": "http://127.0.0.1:2", "weight": 1001}"#, "weight"),
        (r#"{"url": "http://127.0.0.1:2", "weight": -1}"#, "weight"),
        (r#"{"url": "http://127.0.0.1:2", "weight": "much"}"#, "weight"),
        (r#"{"url": "http://127.0.0.1:2", "tier": 10}"#, "tier"),
        (r#"{"url": "http://127.0.0.1:2", "wieght": 1}"#, "wieght"),
    ] {
        assert_eq!(refused(&admin, post(body), 400)["field"], field, "{body}");
    }
    for (body, field) in [
        (r#"{"weight": 1001}"#, "weight"),
        (r#"{"weight": 0.5}"#, "weight"),
        (r#"{"state": "unhealthy"}"#, "state"),
        (r#"{"state": 1}"#, "state"),
        (r#"{"url": "http://127.0.0.1:3"}"#, "url"),
    ] {
        assert_eq!(refused(&admin, ("PATCH", &known, body), 400)["field"], field, "{body}");
    }
    refused(&admin, ("PATCH", &known, "{}"), 400);
    for drain in ["30", "-1s", "2h", "soon"] {
        let problem = refused(&admin, ("DELETE", &format!("{known}?drain={drain}"), ""), 400);
        assert_eq!(problem["field"], "drain", "{drain}");
    }
    assert_eq!(refused(&admin, ("DELETE", &format!("{known}?dran=1s"), ""), 400)["field"], "dran");
    let broken = refused(&admin, post("{\"url\":\n  oops}"), 400);
    assert_eq!(broken["line"], 2, "{broken}");
    let answer = admin.call("PUT", ENDPOINTS, "{}");
    assert_eq!((answer.status(), answer.value("allow")), (405, Some("POST")), "{}", answer.text());
    let answer = admin.ask("POST", ENDPOINTS, "Content-Type: text/plain\r\n", "{}").unwrap();
    assert_eq!(answer.status(), 415);

    let after = admin.call("GET", "/api/v1/services", "");
    assert_eq!(after.value("etag"), before.value("etag"), "nothing has changed");
    assert_eq!(urls(&admin), [KNOWN]);
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let _watchdog = watchdog("a_body_that_is_too_large_is_refused");
    let proxy = guarded(&[KNOWN], "");
    for admin in [Admin::of(&proxy), Admin::on_tcp(&proxy, Some(TOKENS.0))] {
        let fields = "Content-Type: application/json\r\n";
        let just = format!("{{\"url\": \"{}\"}}", "x".repeat((1 << 20) - 11));
        assert_eq!(just.len(), 1 << 20);
        let answer = admin.ask("POST", ENDPOINTS, fields, &just).unwrap();
        assert_eq!((answer.status(), &document(&answer)["field"]), (400, &json!("url")), "1 MiB is read");
        let answer = admin.ask("POST", ENDPOINTS, fields, &(just + " ")).unwrap();
        assert_eq!(answer.status(), 413, "{}", answer.text());
    }
}

#[test]
fn without_a_token_or_with_a_wrong_one_the_answer_is_401() {
    let _watchdog = watchdog("without_a_token_or_with_a_wrong_one_the_answer_is_401");
    let proxy = guarded(&[KNOWN], "");
    let (write, read) = TOKENS;
    let same_length = "x".repeat(write.len());
    let wrong = [
        None,
        Some(""),
        Some("x"),
        Some(&*same_length),
        Some(&write[..write.len() - 1]),
        Some("write-token-0123456789x"),
    ];
    let paths =
        ["/api/v1/services", "/api/v1/config", "/api/v1/events", "/api/v1/audit", "/api/v1/none", "/metrics"];
    for token in wrong {
        let stranger = Admin::on_tcp(&proxy, token);
        for path in paths {
            let answer = stranger.call("GET", path, "");
            assert_eq!(answer.status(), 401, "{token:?} {path}: {}", answer.text());
            assert!(answer.value("www-authenticate").unwrap().starts_with("Bearer"), "{answer:?}");
        }
        refused(&stranger, ("POST", ENDPOINTS, r#"{"url": "http://127.0.0.1:2"}"#), 401);
        refused(&stranger, ("DELETE", &path_of(KNOWN), ""), 401);
        assert_eq!(stranger.call("GET", "/livez", "").status(), 200, "probes need none");
    }
    let reader = Admin::on_tcp(&proxy, Some(read));
    assert_eq!(urls(&reader), [KNOWN]);
    for (method, path, body) in [
        ("POST", ENDPOINTS, r#"{"url": "http://127.0.0.1:2"}"#),
        ("POST", ENDPOINTS, "{"),
        ("PATCH", &*path_of(KNOWN), r#"{"weight": 0}"#),
        ("DELETE", &*path_of(KNOWN), ""),
        ("PUT", "/api/v1/config", "x"),
        ("POST", "/api/v1/reload", ""),
        ("POST", "/api/v1/stop", ""),
    ] {
        refused(&reader, (method, path, body), 403);
    }
    let admin = Admin::of(&proxy);
    assert_eq!(urls(&admin), [KNOWN], "nothing has changed");
    assert_eq!(admin.get(&path_of(KNOWN))["weight"], 1);
}

#[test]
fn of_concurrent_writers_with_the_same_tag_exactly_one_wins() {
    let _watchdog = watchdog("of_concurrent_writers_with_the_same_tag_exactly_one_wins");
    let upstream = Upstream::saying("here");
    let proxy = guarded(&[&upstream.url()], "");
    let admin = Admin::of(&proxy);
    for round in 0..10_u16 {
        let tag = admin.call("GET", "/api/v1/services", "").value("etag").unwrap().to_owned();
        let start = Arc::new(Barrier::new(8));
        let writers = (0..8_u16).map(|writer| {
            let (admin, tag, start) = (admin.clone(), tag.clone(), Arc::clone(&start));
            thread::spawn(move || {
                let fields = format!("Content-Type: application/json\r\nIf-Match: {tag}\r\n");
                let body = json!({ "url": format!("http://127.0.0.1:{}", 1000 + writer) }).to_string();
                start.wait();
                admin.ask("POST", ENDPOINTS, &fields, &body).unwrap()
            })
        });
        let writers: Vec<_> = writers.collect();
        let answers: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let of = |status| answers.iter().filter(move |answer| answer.status() == status);
        assert_eq!((of(201).count(), of(412).count()), (1, 7), "round {round}: {answers:?}");
        let winner = of(201).next().unwrap();
        let now = winner.value("etag").unwrap();
        assert_ne!(now, tag);
        for loser in of(412) {
            assert!(
                now.contains(document(loser)["current"].as_str().unwrap().trim_matches('"')),
                "{loser:?} {now}"
            );
        }
        assert_eq!(urls(&admin).len(), 2);
        remove(&admin, document(winner)["url"].as_str().unwrap(), "?drain=0s");
        assert_eq!(urls(&admin), [upstream.url()]);
    }
}

#[test]
fn a_tag_of_an_earlier_process_does_not_match() {
    let _watchdog = watchdog("a_tag_of_an_earlier_process_does_not_match");
    let (first, second) = (guarded(&[KNOWN], ""), guarded(&[KNOWN], ""));
    let tag = Admin::of(&first).call("GET", "/api/v1/services", "").value("etag").unwrap().to_owned();
    let fields = format!("Content-Type: application/json\r\nIf-Match: {tag}\r\n");
    let change = |admin: &Admin| admin.ask("PATCH", &path_of(KNOWN), &fields, r#"{"weight": 2}"#).unwrap();
    assert_eq!(change(&Admin::of(&second)).status(), 412);
    assert_eq!(change(&Admin::of(&first)).status(), 200);
    assert_eq!(change(&Admin::of(&first)).status(), 412, "once");
}
