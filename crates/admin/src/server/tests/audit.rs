//! The audit log: who changed what, and what was refused.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn entries(running: &Running, query: &str) -> Vec<serde_json::Value> {
    let answer = running.unix("GET", &format!("/api/v1/audit{query}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    json(&answer)["entries"].as_array().unwrap().clone()
}

#[test]
fn changes_and_refused_changes_have_an_entry_each() {
    let running = Running::start(Some("secret"));
    assert!(entries(&running, "").is_empty());
    let id = "0198c0de-0000-7000-8000-000000000001";
    let fields = format!("Content-Type: application/json\nX-Request-Id: {id}\n");
    let place = "/api/v1/services/checkout/endpoints/http%3A%2F%2F10.0.0.1%3A8080";
    let changed = running.send(&format!("PATCH {place}"), &fields, r#"{"weight":7}"#);
    assert_eq!((changed.status, changed.field("x-request-id")), (200, Some(id)));
    let refused = running.send_as("reader", &format!("DELETE {place}"), "", "");
    let unknown = running.unix("DELETE", "/api/v1/services/checkout/endpoints/other");
    assert_eq!((refused.status, unknown.status), (403, 404));
    running.send("GET /api/v1/services", "", "");
    let all = entries(&running, "");
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(
        (&all[0]["request_id"], &all[0]["method"], &all[0]["target"]),
        (&id.into(), &"PATCH".into(), &place.into())
    );
    assert_eq!((&all[0]["before"]["weight"], &all[0]["after"]["weight"]), (&1.into(), &7.into()));
    assert_eq!((&all[0]["who"]["role"], &all[0]["status"]), (&"write".into(), &200.into()));
    assert!(all[0]["who"]["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(all[0]["at"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&all[1]["who"]["role"], &all[1]["status"]), (&"read".into(), &403.into()));
    assert_eq!(all[1]["request_id"].as_str(), refused.field("x-request-id"));
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!((&all[2]["who"]["uid"], &all[2]["status"]), (&uid.into(), &404.into()));
    assert_eq!(all[2]["detail"], "there is no endpoint `other`");
    assert!(all[2].get("before").is_none() && all[2].get("after").is_none());
    assert_eq!(entries(&running, "?last=1"), all[2..]);
    let file = running.folder.0.join("state/audit.log");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn those_without_a_token_leave_no_entry() {
    let running = Running::start(Some("secret"));
    assert_eq!(running.admin(None, "POST", "/api/v1/stop").status, 401);
    assert_eq!(running.admin(Some("other"), "POST", "/api/v1/stop").status, 401);
    assert_eq!(running.admin(None, "POST", "/livez").status, 405);
    assert_eq!(running.metrics("POST", "/api/v1/stop").status, 404);
    assert!(entries(&running, "").is_empty());
    assert!(!running.folder.0.join("state/audit.log").exists());
}

#[test]
fn a_log_that_cannot_be_written_is_told_once_and_stops_no_change() {
    let running = Running::start(Some("secret"));
    // A directory in its place: not even root can append to it.
    std::fs::create_dir_all(running.folder.0.join("state/audit.log")).unwrap();
    for _ in 0..3 {
        assert_eq!(running.unix("POST", "/api/v1/stop").status, 202);
    }
    // Behind the entries in the same queue, so they have been tried by now.
    assert_eq!(running.unix("GET", "/api/v1/audit").status, 503);
    let complaints = running.sample.complaints.lock().unwrap().clone();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("audit.log cannot be written: "), "{complaints:?}");
    assert_eq!(running.sample.stops.load(Ordering::Relaxed), 3);
}

#[test]
fn every_change_is_written_when_the_thread_ends() {
    let mut running = Running::start(Some("secret"));
    for _ in 0..50 {
        assert_eq!(running.unix("POST", "/api/v1/stop").status, 202);
    }
    running.handle.take().unwrap().shutdown();
    let text = std::fs::read_to_string(running.folder.0.join("state/audit.log")).unwrap();
    assert_eq!(text.lines().count(), 50);
}
