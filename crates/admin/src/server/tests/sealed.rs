//! Labels that the API seals.

use super::sample::LABEL;
use super::*;

const BODY: &str = r#"{ "destination": "10.0.0.7:3000", "ttl": "1h" }"#;

#[test]
fn a_label_is_answered_whole_and_audited_without_what_could_be_used() {
    let running = Running::start(Some("secret"));
    let answer = running.send("POST /api/v1/sealed", "Content-Type: application/json\n", BODY);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["host"], format!("{LABEL}.svc.example.com"));
    let entries = running.unix("GET", "/api/v1/audit");
    let text = json(&entries)["entries"].to_string();
    assert!(text.contains("sealed:1:838872e2") && !text.contains(LABEL), "{text}");
}

#[test]
fn what_is_wrong_is_named() {
    let running = Running::start(Some("secret"));
    for (body, field) in [
        (r#"{ "destination": "10.0.0.8:3000", "ttl": "1h" }"#, "destination"),
        (r#"{ "destination": "10.0.0.7:3000", "ttl": "soon" }"#, "ttl"),
        (r#"{ "destination": "10.0.0.7:3000" }"#, "ttl"),
        (r#"{ "destination": "10.0.0.7:3000", "ttl": "1h", "way": 1 }"#, "way"),
    ] {
        let answer = running.send("POST /api/v1/sealed", "Content-Type: application/json\n", body);
        assert_eq!((answer.status, &answer.json()["field"]), (400, &field.into()), "{body}: {answer:?}");
    }
}
