//! Taps: what is refused before anybody watches, and how a stream tells of its end.

use super::*;

#[test]
fn a_condition_that_is_none_is_400_with_its_place_and_the_fields() {
    let running = Running::start(Some("secret"));
    for (query, field, part) in [
        ("where=status%3E%3D500%20or%20latncy%3E1s", "where", "column 16: `latncy` is not a field"),
        ("where=latency%3E5", "where", "has no unit"),
        ("sample=5", "sample", "is not a share"),
        ("for=2h", "for", "at most 3600s"),
        ("limit=0", "limit", "whole number"),
        ("headers=yes", "headers", "`true` or `false`"),
    ] {
        let answer = running.send(&format!("GET /api/v1/tap?{query}"), "", "");
        assert_eq!((answer.status, &answer.json()["field"]), (400, &field.into()), "{answer:?}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(part), "{answer:?}");
    }
    let unknown = running.send("GET /api/v1/tap?where=a%3D1", "", "");
    assert!(unknown.json()["help"].as_str().unwrap().contains("client_ip"), "{unknown:?}");
}

#[test]
fn a_tap_beyond_those_that_may_watch_is_409() {
    let running = Running::start(Some("secret"));
    let busy = running.send("GET /api/v1/tap?route=busy", "", "");
    assert_eq!((busy.status, &busy.json()["detail"]), (409, &"there are 8 taps already; close one".into()));
}
