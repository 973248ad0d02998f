//! `GET /api/v1/explain`: what arrives at the proxy, and what is refused before.

use super::*;

#[test]
fn the_question_arrives_as_it_was_asked() {
    let running = Running::start(Some("secret"));
    let path =
        "/api/v1/explain?method=PUT&url=http://h/a%3Fb=%2541&header=x-a:%201&header=x-b:2&from=::1&all=true";
    let answer = running.send(&format!("GET {path}"), "", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let request = &answer.json()["request"];
    assert_eq!(request["method"], "PUT");
    assert_eq!(request["url"], "http://h/a?b=%41");
    assert_eq!(request["client"], "::1");
    assert_eq!(request["listener"], r#"[("x-a", "1"), ("x-b", "2")] true"#);
    assert_eq!(answer.json()["outcome"]["answered"]["status"], 404);
}

#[test]
fn text_is_given_where_it_is_asked_for() {
    let running = Running::start(Some("secret"));
    let answer = running.send("GET /api/v1/explain?url=/&text=true", "", "");
    assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
    assert!(answer.body.starts_with("GET a.test/"), "{answer:?}");
}

#[test]
fn what_cannot_be_asked_names_the_parameter() {
    let running = Running::start(Some("secret"));
    for (query, field) in [
        ("", "url"),
        ("?url=/&url=/", "url"),
        ("?url=/&from=localhost", "from"),
        ("?url=/&header=a", "header"),
        ("?url=/&listener=nowhere", "listener"),
        ("?url=/&what=1", "what"),
    ] {
        let answer = running.send(&format!("GET /api/v1/explain{query}"), "", "");
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.body.contains(field), "{query}: {answer:?}");
    }
}
