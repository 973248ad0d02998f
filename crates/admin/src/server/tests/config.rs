//! The configuration: shown, replaced under a condition, refused.

use super::*;

fn put(running: &Running, target: &str, tag: &str, text: &str) -> Raw {
    let fields = format!("Content-Type: application/yaml\nIf-Match: {tag}\n");
    running.send(&format!("PUT {target}"), &fields, text)
}

#[test]
fn it_is_shown_as_text_or_as_a_document() {
    let running = Running::start(Some("secret"));
    let text = running.send("GET /api/v1/config", "", "");
    assert_eq!((text.body.as_str(), text.etag()), ("listeners: {}\n", "\"c1\""));
    assert_eq!(text.field("content-type"), Some("application/yaml"));
    let document = running.send("GET /api/v1/config", "Accept: application/json\n", "");
    assert_eq!((document.etag(), &document.json()["writable"]), ("\"c1\"", &true.into()));
    assert_eq!(document.json()["text"], "listeners: {}\n");
    let known = running.send("GET /api/v1/config", "If-None-Match: W/\"c1\"\n", "");
    assert_eq!((known.status, known.etag()), (304, "\"c1\""));
    assert_eq!(running.send("GET /api/v1/config", "If-None-Match: \"c2\"\n", "").status, 200);
}

#[test]
fn it_is_replaced_only_on_top_of_what_was_read() {
    let running = Running::start(Some("secret"));
    let without = running.send("PUT /api/v1/config", "Content-Type: application/yaml\n", "routes: []\n");
    assert_eq!(without.status, 428);
    let done = put(&running, "/api/v1/config", "\"c1\"", "routes: []\n");
    assert_eq!((done.status, done.etag()), (200, "\"c2\""));
    assert_eq!(running.send("GET /api/v1/config", "", "").body, "routes: []\n");
    let stale = put(&running, "/api/v1/config", "\"c1\"", "routes: []\n");
    assert_eq!((stale.status, &stale.json()["current"]), (412, &"\"c2\"".into()));
    running.sample.edit_config();
    assert_eq!(put(&running, "/api/v1/config", "\"c2\"", "routes: []\n").status, 412);
    assert_eq!(put(&running, "/api/v1/config", "*", "routes: []\n").status, 200);
}

#[test]
fn a_dry_run_changes_nothing() {
    let running = Running::start(Some("secret"));
    let tried = put(&running, "/api/v1/config?dry_run=true", "\"c1\"", "routes: []\n");
    assert_eq!((tried.status, &tried.json()["changes"][0]["name"]), (200, &"a route".into()));
    assert_eq!(tried.field("etag"), None);
    assert_eq!(running.send("GET /api/v1/config", "", "").body, "listeners: {}\n");
}

#[test]
fn refusals_say_what_and_where() {
    let running = Running::start(Some("secret"));
    let broken = put(&running, "/api/v1/config", "*", "broken: 1\n");
    assert_eq!((broken.status, &broken.json()["mistakes"][0]["line"]), (400, &2.into()));
    let forbidden = put(&running, "/api/v1/config", "*", "admin: {}\n");
    assert_eq!((forbidden.status, &forbidden.json()["keys"][0]), (403, &"admin.address".into()));
    assert_eq!(put(&running, "/api/v1/config", "*", "readonly\n").status, 409);
    assert_eq!(put(&running, "/api/v1/config?ephemeral=true", "*", "readonly\n").status, 200);
    assert_eq!(put(&running, "/api/v1/config?ephemeral=1", "*", "routes: []\n").status, 400);
    let reload = running.send("POST /api/v1/reload", "", "");
    assert_eq!((reload.status, &reload.json()["detail"]), (503, &"the proxy runs without a file".into()));
    let text = Raw::parse(&running.raw(
        "PUT /api/v1/config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nIf-Match: *\r\n\
         Content-Type: application/yaml\r\nContent-Length: 5\r\nConnection: close\r\n\r\na: \u{e4}\n",
    ));
    assert_eq!(text.status, 200);
}

#[test]
fn a_watch_is_asked_for_with_its_thresholds() {
    let running = Running::start(Some("secret"));
    let watched =
        |query: &str| put(&running, &format!("/api/v1/config?ephemeral=true&{query}"), "*", "routes: []\n");
    assert_eq!(watched("watch=60s").json()["watch"]["until"], "1970-01-01T00:01:00.000Z");
    assert_eq!(watched("watch=60s").json()["watch"]["verdict"], "5 200 20");
    let chosen = watched("watch=1h&max_errors=1&max_p99=150&min_requests=7");
    assert_eq!(chosen.json()["watch"]["verdict"], "1 150 7");
    for (query, field) in [
        ("watch=999ms", "watch"),
        ("watch=2h", "watch"),
        ("watch=60s&max_p99=100", "max_p99"),
        ("watch=60s&max_errors=101", "max_errors"),
    ] {
        let refused = watched(query);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &field.into()), "{query}");
    }
    assert!(watched("dry_run=true").json().get("watch").is_none());
}

#[test]
fn a_plan_and_the_history_are_shown() {
    let running = Running::start(Some("secret"));
    let plan = running.send_as("reader", "GET /api/v1/plan", "", "");
    assert_eq!((plan.status, &plan.json()["dry_run"]), (200, &true.into()));
    let history = running.send_as("reader", "GET /api/v1/history", "", "");
    let entry = &history.json()["entries"][0];
    assert_eq!((&entry["origin"], &entry["at"]), (&"start".into(), &"1970-01-01T00:00:00.000Z".into()));
}

#[test]
fn an_earlier_one_is_brought_back_by_number() {
    let running = Running::start(Some("secret"));
    let back = running.json("POST /api/v1/rollback", "{}");
    assert_eq!((back.status, back.etag()), (200, "\"c2\""));
    assert!(back.json()["text"].as_str().unwrap().contains("Token"), "who asks is told: {back:?}");
    assert_eq!(running.json("POST /api/v1/rollback", r#"{"to": 1}"#).status, 200);
    assert_eq!(running.json("POST /api/v1/rollback", r#"{"to": 9}"#).status, 404);
    for bad in [r#"{"to": null}"#, r#"{"to": -1}"#, r#"{"too": 1}"#, "[]"] {
        assert_eq!(running.json("POST /api/v1/rollback", bad).status, 400, "{bad}");
    }
    let fields = "Content-Type: application/json\nIf-Match: \"c1\"\n";
    assert_eq!(running.send("POST /api/v1/rollback", fields, "{}").status, 412);
}
