use super::answer::{Answer, read};
use super::*;
use crate::Fetched;
use crate::tests::{Asked, built};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

fn filter(json: &str) -> Arc<dyn Filter> {
    built::<ExtSpec>(json).build().unwrap()
}

fn question(verdict: Verdict) -> (Subrequest, Value) {
    match verdict {
        Verdict::Wait(Job::Fetch(question)) => {
            let document = serde_json::from_slice(&question.body).unwrap();
            (*question, document)
        }
        other => panic!("{other:?}"),
    }
}

fn answer(status: u16, body: &Value) -> JobResult {
    let body = body.to_string().into_bytes();
    JobResult::Fetched(Ok(Fetched { status, fields: Vec::new(), body }))
}

fn resume(asked: &mut Asked, filter: &dyn Filter, got: JobResult) -> Verdict {
    asked.call(|cx| filter.resume(cx, got))
}

fn request() -> Asked {
    let mut asked = Asked::at("/a").with("Cookie", "s=1").with("X-Own", "1").with("X-User", "root");
    asked.query = Some("b=1".into());
    asked
}

#[test]
fn the_service_is_sent_the_head_without_credentials() {
    let filter = filter(r#"{"service": "judge", "path": "/v1?strict=1"}"#);
    let (question, document) = question(request().send(&*filter));
    assert_eq!((&*question.service, &*question.target), ("judge", &b"/v1?strict=1"[..]));
    assert_eq!(
        document,
        json!({
            "version": 1, "phase": "request", "id": "id-1", "listener": "web", "route": "r", "service": "s",
            "method": "GET", "scheme": "https", "host": "shop.test", "port": 443, "path": "/a", "query": "b=1",
            "upstream_path": "/a", "client": "192.0.2.1", "user": null,
            "fields": [["X-Own", "1"], ["X-User", "root"]],
        })
    );
    assert_eq!(filter.calls(), [Arc::<str>::from("judge")]);
    assert_eq!(filter.argument(), "judge /v1, within 1s");
}

#[test]
fn fields_are_sent_as_the_configuration_lists_them() {
    for (fields, expected) in [
        (r#"["*"]"#, json!([["Cookie", "s=1"], ["X-Own", "1"], ["X-User", "root"]])),
        (r#"["cookie"]"#, json!([["Cookie", "s=1"]])),
        ("[]", json!([])),
    ] {
        let filter = filter(&format!(r#"{{"service": "judge", "fields": {fields}}}"#));
        let (_, document) = question(request().send(&*filter));
        assert_eq!(document["fields"], expected, "{fields}");
    }
}

#[test]
fn a_body_is_received_first_and_sent_whole() {
    let filter = filter(r#"{"service": "judge", "send": "body", "max_body": "2KiB"}"#);
    let mut asked = request();
    assert!(matches!(asked.send(&*filter), Verdict::Wait(Job::Body(2048))));
    let (_, document) = question(resume(&mut asked, &*filter, JobResult::Body(Some(b"\0\xff".to_vec()))));
    assert_eq!(document["body_base64"], "AP8=");
    let (_, document) = question(resume(&mut asked, &*filter, JobResult::Body(None)));
    assert!(document.as_object().unwrap().contains_key("body_base64") && document["body_base64"].is_null());
}

#[test]
fn a_request_goes_on_changed_as_the_service_says() {
    let filter = filter(r#"{"service": "judge"}"#);
    let mut asked = request();
    asked.send(&*filter);
    let got = answer(
        200,
        &json!({
            "decision": "continue", "set_fields": { "X-User": "ada", "X-Team": [ "a", "b" ] },
            "add_fields": { "X-Own": "2" }, "remove_fields": [ "cookie" ], "path": "/x/../b%2e", "query": "c=2",
            "host": "b.test:81", "response_fields": { "Set-Cookie": [ "a=1", "b=2" ] }, "reason": "ada\nis known",
        }),
    );
    assert!(matches!(resume(&mut asked, &*filter, got), Verdict::Continue));
    assert_eq!(asked.request_lines(), "X-Own: 1\r\nX-Team: a\r\nX-Team: b\r\nX-User: ada\r\nX-Own: 2\r\n");
    assert_eq!((asked.path().as_str(), asked.target.host()), ("/b.", Some(&b"b.test:81"[..])));
    assert_eq!(asked.target.query(), &QueryEdit::Replaced(b"c=2".to_vec()));
    assert_eq!(asked.outcome.reason.as_deref(), Some("ext: ada is known"));
    asked.answer(&*filter);
    assert_eq!(asked.response_lines(), "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n");
    // 204 is the short form of an answer that changes nothing.
    let mut asked = request();
    asked.send(&*filter);
    let before = asked.request_lines();
    let nothing = JobResult::Fetched(Ok(Fetched { status: 204, ..Fetched::default() }));
    assert!(matches!(resume(&mut asked, &*filter, nothing), Verdict::Continue));
    assert_eq!(asked.request_lines(), before);
}

#[test]
fn a_response_of_the_service_is_the_clients() {
    let filter = filter(r#"{"service": "judge"}"#);
    for (body, expected) in
        [(json!({ "body": "no" }), &b"no"[..]), (json!({ "body_base64": "AP8=" }), b"\0\xff")]
    {
        let mut document = json!({ "decision": "respond", "status": 403, "fields": { "X-Why": "no" } });
        document.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let mut asked = request();
        asked.send(&*filter);
        let Verdict::Reply(reply) = resume(&mut asked, &*filter, answer(200, &document)) else {
            panic!("it passes")
        };
        assert_eq!((reply.status, reply.fields.as_slice()), (403, &b"X-Why: no\r\n"[..]));
        let ReplyBody::Bytes(body) = reply.body else { panic!("{:?}", reply.body) };
        assert_eq!(&*body, expected);
        assert_eq!(asked.outcome.reason.as_deref(), Some("ext: `judge` answers 403"));
    }
}

/// Answers that are none, and a word of why.
fn unusable() -> Vec<(Value, &'static str)> {
    let long = "x".repeat(40_000);
    let many: Vec<String> = (0..65).map(|at| format!("x-{at}")).collect();
    vec![
        (json!({}), "cannot be read"),
        (json!({ "decision": "allow" }), "cannot be read"),
        (json!({ "decision": "continue", "unknown": 1 }), "cannot be read"),
        (json!({ "decision": "continue", "version": 2 }), "another version"),
        (json!({ "decision": "continue", "status": 200 }), "goes on"),
        (json!({ "decision": "continue", "set_fields": { "Content-Length": "1" } }), "may not name"),
        (json!({ "decision": "continue", "set_fields": { "content_length": "1" } }), "may not name"),
        (json!({ "decision": "continue", "add_fields": { "Transfer-Encoding": "chunked" } }), "may not name"),
        (json!({ "decision": "continue", "add_fields": { "Host": "a" } }), "may not name"),
        (json!({ "decision": "continue", "remove_fields": [ "Connection" ] }), "may not name"),
        (json!({ "decision": "continue", "set_fields": { "X-A": "a\r\nX-B: b" } }), "invalid value"),
        (json!({ "decision": "continue", "set_fields": { "X A": "a" } }), "may not name"),
        (json!({ "decision": "continue", "set_fields": { "X-A": 1 } }), "is not text"),
        (json!({ "decision": "continue", "set_fields": { "X-A": long } }), "more than"),
        (json!({ "decision": "continue", "remove_fields": many }), "more than"),
        (json!({ "decision": "continue", "path": "b" }), "`path`"),
        (json!({ "decision": "continue", "path": "//b" }), "`path`"),
        (json!({ "decision": "continue", "path": "/b?c" }), "`path`"),
        (json!({ "decision": "continue", "path": "/b c" }), "`path`"),
        (json!({ "decision": "continue", "path": "/../b%zz" }), "`path`"),
        (json!({ "decision": "continue", "query": "a b" }), "`query`"),
        (json!({ "decision": "continue", "host": "a b" }), "`host`"),
        (json!({ "decision": "respond" }), "without a `status`"),
        (json!({ "decision": "respond", "status": 101 }), "from 200 to 599"),
        (json!({ "decision": "respond", "status": 600 }), "from 200 to 599"),
        (json!({ "decision": "respond", "status": 204, "body": "x" }), "has a body"),
        (json!({ "decision": "respond", "status": 200, "body": "x", "body_base64": "eA==" }), "both"),
        (json!({ "decision": "respond", "status": 200, "body_base64": "?" }), "no base64"),
        (json!({ "decision": "respond", "status": 200, "fields": { "Date": "now" } }), "may not name"),
        (json!({ "decision": "respond", "status": 200, "path": "/" }), "changes the request"),
    ]
}

#[test]
fn an_answer_that_is_none_changes_nothing() {
    let shut = filter(r#"{"service": "judge"}"#);
    let open = filter(r#"{"service": "judge", "on_failure": "pass"}"#);
    assert!(shut.guards() && !open.guards());
    for (document, why) in unusable() {
        let mut asked = request();
        asked.send(&*shut);
        let Verdict::Fault(fault) = resume(&mut asked, &*shut, answer(200, &document)) else {
            panic!("{document} passes")
        };
        let reason = asked.outcome.reason.as_deref().unwrap_or_default();
        assert_eq!(fault.status, 503, "{document}");
        assert!(reason.starts_with("ext: no usable answer of `judge`: ") && reason.contains(why), "{reason}");
        assert!(reason.len() < 300, "{reason}");
        let mut asked = request();
        let before = asked.request_lines();
        asked.send(&*open);
        assert!(
            matches!(resume(&mut asked, &*open, answer(200, &document)), Verdict::Continue),
            "{document}"
        );
        assert_eq!((asked.request_lines(), asked.path()), (before, "/a".to_owned()), "{document}");
        assert!(asked.outcome.reason.unwrap().contains("passes without `judge`"));
    }
}

#[test]
fn a_service_that_cannot_be_asked_is_named_and_one_that_is_late_is_a_timeout() {
    let filter = filter(r#"{"service": "judge"}"#);
    for (got, expected, why) in [
        (JobResult::Fetched(Err(Fault::new(FaultKind::ConnectionRefused, "down"))), 503, "down"),
        (JobResult::Fetched(Err(Fault::new(FaultKind::HttpResponseTimeout, "late"))), 504, "late"),
        (answer(500, &json!({})), 503, "it answers 500"),
        (answer(201, &json!({ "decision": "continue" })), 503, "it answers 201"),
    ] {
        let mut asked = request();
        asked.send(&*filter);
        let Verdict::Fault(fault) = resume(&mut asked, &*filter, got) else { panic!("it passes") };
        assert_eq!(fault.status, expected);
        let reason = asked.outcome.reason.unwrap();
        assert!(reason.contains("`judge`") && reason.ends_with(why), "{reason}");
    }
}

#[test]
fn nobody_is_asked_in_a_dry_run() {
    let mut asked = request();
    asked.is_dry_run = true;
    assert!(matches!(asked.send(&*filter(r#"{"service": "judge", "send": "body"}"#)), Verdict::Continue));
}

/// Whatever bytes a request has, the document says exactly those.
#[test]
fn the_document_says_every_byte() {
    let mut random = fastrand::Rng::with_seed(100);
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        let written = question::text(&bytes).to_string();
        let read: Value = serde_json::from_str(&written).unwrap();
        let back = match &read {
            Value::String(text) => text.clone().into_bytes(),
            other => STANDARD.decode(other["base64"].as_str().unwrap()).unwrap(),
        };
        assert_eq!(back, bytes);
    }
}

/// Answers that are damaged in any way are refused or hold what the request's path relies on; none panics.
#[test]
fn damaged_answers_are_refused_or_sound() {
    let mut random = fastrand::Rng::with_seed(100);
    let sound = json!({
        "decision": "continue", "set_fields": { "X-User": "ada" }, "remove_fields": [ "cookie" ], "path": "/x/y",
        "query": "c=2", "host": "b.test", "reason": "r",
    });
    let mut seeds: Vec<Vec<u8>> =
        unusable().iter().map(|(document, _)| document.to_string().into_bytes()).collect();
    seeds.retain(|seed| seed.len() < 1_000);
    seeds.extend((0..20).map(|_| sound.to_string().into_bytes()));
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut bytes = seeds[random.usize(..seeds.len())].clone();
        for _ in 0..random.usize(..3) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] = random.u8(..),
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let Ok(Answer::Continue(change)) = read(200, &bytes) else { continue };
        taken += 1;
        for (name, value) in change.set.iter().chain(&change.add) {
            assert!(may_be_changed(name) && !value.contains(['\r', '\n', '\0']), "{name:?}: {value:?}");
        }
        let path = change.path.unwrap_or_else(|| b"/".to_vec());
        assert!(
            path.starts_with(b"/")
                && !path.starts_with(b"//")
                && path.iter().all(|byte| octet::is_target(*byte))
        );
        assert!(change.query.unwrap_or_default().iter().all(|byte| octet::is_target(*byte)));
    }
    assert!(taken > 1_000, "{taken}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (json, why) in [
        ("{}", "`ext` has no service"),
        (r#"{"service": "a", "path": "//b"}"#, "is no path"),
        (r#"{"service": "a", "timeout": "61s"}"#, "`timeout` of `ext`"),
        (r#"{"service": "a", "send": "body", "max_body": "1MiB"}"#, "`max_body` of `ext` must be"),
        (r#"{"service": "a", "max_body": "1KiB"}"#, "without `send: body`"),
        (r#"{"service": "a", "fields": ["Content-Length"]}"#, "no field that a filter may use"),
    ] {
        let error = built::<ExtSpec>(json).build().unwrap_err();
        assert!(error.contains(why), "{json}: {error}");
    }
}
