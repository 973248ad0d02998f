//! Decision records: what is refused before anybody is asked, and what is answered when nobody answers.

use super::*;

const ID: &str = "01923456-789a-7000-8000-000000000000";

#[test]
fn what_is_no_id_is_400_and_what_nobody_remembers_404() {
    let running = Running::start(Some("secret"));
    for text in ["a%20b", "%3Cscript%3E", "01923456-789a-7000-8000-0000000000000"] {
        let answer = running.send(&format!("GET /api/v1/requests/{text}"), "", "");
        assert_eq!((answer.status, &answer.json()["field"]), (400, &"id".into()), "{answer:?}");
    }
    let unknown = running.send(&format!("GET /api/v1/requests/{ID}"), "", "");
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["detail"].as_str().unwrap().contains(ID), "{unknown:?}");
    assert!(unknown.json()["help"].is_string(), "{unknown:?}");
}

#[test]
fn a_worker_that_does_not_answer_is_503() {
    let running = Running::start(Some("secret"));
    let stuck = running.send("GET /api/v1/requests?route=stuck", "", "");
    assert_eq!((stuck.status, &stuck.json()["detail"]), (503, &"a worker does not answer".into()));
    assert_eq!(running.send("GET /api/v1/requests?route=other", "", "").status, 200);
}
