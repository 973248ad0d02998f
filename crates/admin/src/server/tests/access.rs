//! Lists of addresses.

use super::*;

const JSON: &str = "Content-Type: application/json\n";

#[test]
fn an_address_is_put_into_a_list_and_taken_out() {
    let running = Running::start(Some("secret"));
    let body = r#"{"network": "192.0.2.7", "for": "1h", "reason": "scans"}"#;
    let answer = running.send("POST /api/v1/access/blocked", JSON, body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((&answer.json()["network"], &answer.json()["reason"]), (&"192.0.2.7".into(), &"scans".into()));
    let answer = running.send("GET /api/v1/access/blocked", "", "");
    assert_eq!(answer.json()["entries"][0]["network"], "192.0.2.7");
    assert_eq!(running.send("DELETE /api/v1/access/blocked?network=192.0.2.7", "", "").status, 200);
    assert_eq!(running.send("DELETE /api/v1/access/blocked?network=192.0.2.8", "", "").status, 404);
    assert_eq!(running.send("GET /api/v1/access", "", "").json()["lists"][0]["added"], 1);
}

#[test]
fn what_is_wrong_is_named() {
    let running = Running::start(Some("secret"));
    for (body, part) in [
        (r#"{"network": "192.0.2.7", "for": "0s"}"#, "1s to 3650d"),
        (r#"{"network": "192.0.2.7", "for": "soon"}"#, "`for`"),
        (r#"{"network": "192.0.2.7", "reason": "a\u0007"}"#, "`reason`"),
        (r#"{"network": "nobody"}"#, "no network"),
        (r#"{"for": "1h"}"#, "network"),
        (r#"{"network": "192.0.2.7", "because": ""}"#, "because"),
    ] {
        let answer = running.send("POST /api/v1/access/blocked", JSON, body);
        assert!(
            answer.status == 400 && answer.json()["detail"].as_str().unwrap().contains(part),
            "{body}: {answer:?}"
        );
    }
    let missing = running.send("DELETE /api/v1/access/blocked", "", "");
    assert_eq!(missing.status, 400);
    let body = r#"{"network": "192.0.2.7"}"#;
    assert_eq!(running.send("POST /api/v1/access/none", JSON, body).status, 404);
}
