use crate::auth::AuthSpec;
use crate::tests::{Asked, Beside, built};
use crate::{Fetched, Filter, Job, JobResult, Subrequest, Verdict};
use std::sync::Arc;
use thalweg_core::{Fault, FaultKind};

fn try_forward(json: &str) -> Result<Arc<dyn Filter>, String> {
    built::<AuthSpec>(&format!(r#"{{"forward_auth": {json}}}"#)).build(&Beside(std::env::temp_dir()))
}

fn question(verdict: Verdict) -> Subrequest {
    match verdict {
        Verdict::Wait(Job::Fetch(question)) => *question,
        other => panic!("{other:?}"),
    }
}

fn answer(status: u16, fields: &str) -> JobResult {
    JobResult::Fetched(Ok(Fetched { status, fields: fields.into(), body: b"body".to_vec() }))
}

fn resume(asked: &mut Asked, filter: &dyn Filter, got: JobResult) -> Verdict {
    asked.call(|cx| filter.resume(cx, got))
}

fn request() -> Asked {
    let mut asked = Asked::at("/a").with("Cookie", "s=1").with("X-Own", "1").with("X-User", "root");
    asked = asked.with("X-Forwarded-Uri", "/forged");
    asked.query = Some("b=1".into());
    asked
}

#[test]
fn the_service_is_told_of_the_request_and_its_fields_cannot_be_forged() {
    let filter = try_forward(
        r#"{"service": "judge", "path": "/verify", "copy": ["X-User", "X-Team"], "user": "X-User"}"#,
    );
    let filter = filter.unwrap();
    let mut asked = request();
    let question = question(asked.send(&*filter));
    let lines = String::from_utf8(question.fields).unwrap();
    assert_eq!(
        lines,
        "Cookie: s=1\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /a?b=1\r\nX-Original-Method: GET\r\n\
         X-Original-URL: https://shop.test/a?b=1\r\n"
    );
    assert_eq!(
        (&*question.service, &*question.target, &*question.host),
        ("judge", &b"/verify"[..], &b"shop.test"[..])
    );
    let verdict = resume(&mut asked, &*filter, answer(204, "X-User: ada\r\nX-Other: 1\r\n"));
    assert!(matches!(verdict, Verdict::Continue));
    assert_eq!(
        asked.request_lines(),
        "Cookie: s=1\r\nX-Own: 1\r\nX-Forwarded-Uri: /forged\r\nX-User: ada\r\n"
    );
    assert_eq!(asked.outcome.identity.unwrap().user, "ada");
    // What it says nothing of is removed too.
    let mut asked = request();
    asked.send(&*filter);
    resume(&mut asked, &*filter, answer(200, ""));
    assert!(!asked.request_lines().contains("X-User"));
    assert_eq!(filter.calls(), [Arc::<str>::from("judge")]);
}

/// A service that folds `_` and `-` took the client's `X_Original_URL` for the place that it was asked about.
#[test]
fn no_spelling_of_a_field_that_says_what_is_asked_comes_from_the_client() {
    let filter = try_forward(r#"{"service": "judge", "fields": ["*"]}"#).unwrap();
    let mut asked = Asked::at("/a").with("X-Own", "1");
    for name in ["X_Original_URL", "x-original_url", "X.Original.Method", "X_Forwarded_Uri", "Content_Type"] {
        asked = asked.with(name, "/forged");
    }
    let lines = String::from_utf8(question(asked.send(&*filter)).fields).unwrap();
    assert!(lines.contains("X-Own: 1") && !lines.contains("/forged"), "{lines}");
}

#[test]
fn its_refusal_is_the_answer_and_its_failure_is_none() {
    let filter = try_forward(r#"{"service": "judge"}"#).unwrap();
    let mut asked = request();
    asked.send(&*filter);
    let got =
        answer(302, "Location: /login\r\nSet-Cookie: a=1\r\nConnection: close\r\nContent-Length: 9\r\n");
    let Verdict::Reply(reply) = resume(&mut asked, &*filter, got) else { panic!("it passes") };
    assert_eq!((reply.status, reply.body.length()), (302, Some(4)));
    assert_eq!(String::from_utf8(reply.fields).unwrap(), "Location: /login\r\nSet-Cookie: a=1\r\n");
    let down = || JobResult::Fetched(Err(Fault::new(FaultKind::ConnectionRefused, "down")));
    let allowing = try_forward(r#"{"service": "judge", "on_failure": "allow", "copy": ["X-User"]}"#).unwrap();
    for got in [down, || answer(500, "X-User: ada\r\n")] {
        let mut asked = request();
        asked.send(&*filter);
        let Verdict::Fault(fault) = resume(&mut asked, &*filter, got()) else { panic!("it passes") };
        assert_eq!(fault.status, 503);
        let mut asked = request();
        asked.send(&*allowing);
        assert!(matches!(resume(&mut asked, &*allowing, got()), Verdict::Continue));
        assert!(!asked.request_lines().contains("X-User"), "it is unasked, not forged");
    }
}

#[test]
fn its_fields_cannot_be_forged_by_those_whom_another_method_knows() {
    let spec = |more: &str| {
        let any =
            r#"[{"network": "192.0.2.0/24"}, {"forward_auth": {"service": "judge", "copy": ["X-User"]}}]"#;
        built::<AuthSpec>(&format!(r#"{{"any": {any}{more}}}"#)).build(&Beside(std::env::temp_dir())).unwrap()
    };
    let forged = || request().with("x_user", "root");
    let mut asked = forged();
    assert!(matches!(asked.send(&*spec("")), Verdict::Continue));
    assert!(!asked.request_lines().contains("root"), "{}", asked.request_lines());
    // What `forward` says stays.
    let mut asked = forged();
    asked.send(&*spec(r#", "forward": {"X-User": "of the office"}"#));
    assert!(asked.request_lines().ends_with("X-User: of the office\r\n"), "{}", asked.request_lines());
    // In a dry run of the filter, those pass of whom nothing is known.
    let filter = spec(r#", "dry_run": true"#);
    let mut asked = forged();
    asked.client_ip = "198.51.100.1".parse().unwrap();
    question(asked.send(&*filter));
    assert!(matches!(resume(&mut asked, &*filter, answer(403, "")), Verdict::Continue));
    assert!(!asked.request_lines().contains("root"), "{}", asked.request_lines());
    // What the service itself has said stays, and nothing that servers take for it.
    let filter = spec("");
    let mut asked = forged();
    asked.client_ip = "198.51.100.1".parse().unwrap();
    asked.send(&*filter);
    resume(&mut asked, &*filter, answer(200, "X-User: ada\r\n"));
    assert!(asked.request_lines().ends_with("X-User: ada\r\n") && !asked.request_lines().contains("root"));
}

#[test]
fn answers_are_remembered_by_what_tells_clients_apart() {
    let json = r#"{"service": "judge", "copy": ["X-User"], "cache": {"ttl": "10s"}}"#;
    let filter = try_forward(json).unwrap();
    let mut asked = request();
    asked.send(&*filter);
    resume(&mut asked, &*filter, answer(200, "X-User: ada\r\n"));
    let mut again = request();
    assert!(matches!(again.send(&*filter), Verdict::Continue));
    assert!(again.request_lines().ends_with("X-User: ada\r\n"));
    let mut other = Asked::at("/a").with("Cookie", "s=2");
    other.query = Some("b=1".into());
    question(other.send(&*filter));
    let mut elsewhere = Asked::at("/b").with("Cookie", "s=1");
    question(elsewhere.send(&*filter));
    // A refusal is not remembered.
    resume(&mut elsewhere, &*filter, answer(401, ""));
    let mut elsewhere = Asked::at("/b").with("Cookie", "s=1");
    question(elsewhere.send(&*filter));
}

/// The cache key had only the configured fields: a decision about one client's address or token was reused for others
/// (issue 43).
#[test]
fn requests_that_the_service_would_see_differently_share_no_answer() {
    let json = r#"{"service": "judge", "fields": ["Cookie", "X-Role"], "cache": {"ttl": "10s"}}"#;
    let filter = try_forward(json).unwrap();
    let known = || Asked::at("/a").with("Cookie", "s=1").with("X-Role", "reader");
    let mut first = known();
    question(first.send(&*filter));
    resume(&mut first, &*filter, answer(200, ""));
    assert!(matches!(known().send(&*filter), Verdict::Continue));
    assert!(matches!(known().with("Accept", "b/c").send(&*filter), Verdict::Continue), "it is not seen");
    let changed = |change: fn(&mut Asked)| {
        let mut asked = known();
        change(&mut asked);
        asked
    };
    for (what, mut asked) in [
        ("the client's address", changed(|asked| asked.client_ip = "198.51.100.1".parse().unwrap())),
        ("the method", changed(|asked| asked.method = "POST")),
        ("the scheme", changed(|asked| asked.scheme = "http")),
        ("the path", Asked::at("/b").with("Cookie", "s=1").with("X-Role", "reader")),
        ("an empty query", changed(|asked| asked.query = Some(String::new()))),
        ("a field that is seen", Asked::at("/a").with("Cookie", "s=1").with("X-Role", "admin")),
        ("a second value", known().with("X-Role", "admin")),
        ("a field that is not there", Asked::at("/a").with("Cookie", "s=1")),
    ] {
        assert!(matches!(asked.send(&*filter), Verdict::Wait(Job::Fetch(_))), "{what} makes no difference");
    }
}

#[test]
fn fields_for_the_client_come_with_the_response() {
    let filter = try_forward(r#"{"service": "judge", "to_client": ["Set-Cookie"]}"#).unwrap();
    let mut asked = request();
    asked.send(&*filter);
    resume(&mut asked, &*filter, answer(200, "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n"));
    asked.answer(&*filter);
    assert_eq!(asked.response_lines(), "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (json, why) in [
        ("{}", "no service"),
        (r#"{"service": "a", "path": "//b"}"#, "no path"),
        (r#"{"service": "a", "method": "get"}"#, "no method"),
        (r#"{"service": "a", "timeout": "61s"}"#, "must be from 1ms to 60s"),
        (r#"{"service": "a", "copy": ["Content-Length"]}"#, "no field"),
        (r#"{"service": "a", "copy": ["Cookie"]}"#, "cannot have"),
        (r#"{"service": "a", "cache": {"ttl": "2h"}}"#, "must be from 1s to 1h"),
    ] {
        let error = try_forward(json).unwrap_err();
        assert!(error.contains(why), "{json}: {error}");
    }
}
