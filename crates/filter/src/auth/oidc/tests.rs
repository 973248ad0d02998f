use crate::auth::AuthSpec;
use crate::tests::{Asked, Beside, built};
use crate::{Filter, Job, Reply, ReplyBody, Verdict};
use std::sync::Arc;
use thalweg_access::oidc::{Login, Sealer, Session};
use thalweg_access::{Digest, digest};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_795_521_600;

fn try_oidc(json: &str) -> Result<Arc<dyn Filter>, String> {
    let corp = r#""corp": {"issuer": "https://id.test", "client_id": "shop"}"#;
    let json = json.replace("CORP", corp).replace("SECRET", &format!(r#""secret": {{"value": "{SECRET}"}}"#));
    built::<AuthSpec>(&format!(r#"{{"oidc": {json}}}"#)).build(&Beside(std::env::temp_dir()))
}

fn one() -> Arc<dyn Filter> {
    try_oidc(r#"{"providers": {CORP}, SECRET, "after_logout": ["/bye", "https://a.test/"]}"#).unwrap()
}

fn sealer() -> Sealer {
    Sealer::new(vec![SECRET.into()]).unwrap()
}

/// The mark of `corp`, as it stands in sessions.
fn mark() -> String {
    use base64::Engine as _;
    let whole: Digest = digest(&[b"corp", b"https://id.test", b"shop"]);
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&whole[..12])
}

fn session(change: impl FnOnce(&mut Session)) -> String {
    let mut session = Session {
        provider: mark(),
        id_token: "e30.eyJzdWIiOiJhZGEiLCJlbWFpbCI6ImFAYi5jIn0.x".into(),
        access_token: None,
        refresh_token: None,
        begun: NOW - 10,
        renewed: NOW - 10,
        ends: NOW + 3600,
    };
    change(&mut session);
    format!("__Host-thalweg_session=1.{}", session.seal(&sealer()).unwrap())
}

fn page(path: &str) -> Asked {
    Asked::at(path).with("Accept", "text/html,*/*")
}

fn reply(verdict: Verdict) -> Box<Reply> {
    match verdict {
        Verdict::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn lines(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.fields).into_owned()
}

#[test]
fn a_session_passes_and_its_cookies_go_no_further() {
    let filter = one();
    for _ in 0..2 {
        let cookie =
            format!("a=1; {}; thalweg_session_login_x=1; __Host-thalweg_session_1=y", session(|_| {}));
        let mut asked = page("/").with("Cookie", &cookie);
        assert!(matches!(asked.send(&*filter), Verdict::Continue));
        assert_eq!(asked.request_lines(), "Accept: text/html,*/*\r\nCookie: a=1\r\n");
        let identity = asked.outcome.identity.unwrap();
        assert_eq!((&*identity.user, &*identity.claim("email").unwrap()), ("ada", "a@b.c"));
    }
}

#[test]
fn a_session_that_does_not_count_is_none() {
    let other = Sealer::new(vec![vec![9; 32]]).unwrap();
    let foreign = Session::open(&sealer(), session(|_| {}).split_once("=1.").unwrap().1.as_bytes()).unwrap();
    for (cookie, reason) in [
        (session(|it| it.ends = NOW), "oidc: the session is over"),
        (session(|it| it.begun = NOW - 43_200), "oidc: the session is over"),
        (session(|it| it.provider = "x".into()), "oidc: the session is of a provider that is not configured"),
        (session(|_| {}).replace("=1.", "=2."), "oidc: the cookies of the session are not whole"),
        (session(|_| {}).replace("=1.", "=1.A"), "oidc: the session was not made here, or was changed"),
        ("__Host-thalweg_session=1.".into(), "oidc: the session was not made here, or was changed"),
        (
            format!("__Host-thalweg_session=1.{}", foreign.seal(&other).unwrap()),
            "oidc: the session was not made here, or was changed",
        ),
        (
            format!("__Host-thalweg_session=1.{}", "A".repeat(64 * 1024)),
            "oidc: the session was not made here, or was changed",
        ),
        ("thalweg_session=1.x".into(), "oidc: no session"),
    ] {
        let mut asked = page("/").with("Cookie", &cookie);
        assert!(matches!(asked.send(&*one()), Verdict::Wait(Job::Call(_))), "{reason}");
        assert_eq!(asked.outcome.reason.as_deref(), Some(reason));
    }
    // One that can be refreshed is.
    for ends in [NOW, NOW + 10] {
        let cookie = session(|it| {
            (it.renewed, it.ends, it.refresh_token) = (NOW - 3600, ends, Some("r".into()));
        });
        assert!(matches!(page("/").with("Cookie", &cookie).send(&*one()), Verdict::Wait(Job::Call(_))));
    }
}

#[test]
fn only_browsers_that_load_a_page_are_sent_to_log_in() {
    let mut post = page("/");
    post.method = "POST";
    for asked in [
        post,
        Asked::at("/"),
        Asked::at("/").with("Accept", "application/json"),
        page("/").with("X-Requested-With", "XMLHttpRequest"),
        page("/").with("Sec-Fetch-Mode", "cors"),
    ] {
        let mut asked = asked;
        let Verdict::Fault(fault) = asked.send(&*one()) else { panic!("{}", asked.request_lines()) };
        assert_eq!(fault.status, 401);
    }
    let several = try_oidc(
        r#"{"providers": {CORP, "other": {"issuer": "https://o.test", "client_id": "x", "title": "<O>"}}, SECRET}"#,
    );
    let several = several.unwrap();
    let mut asked = page("/a");
    asked.query = Some("b=1&c=2".into());
    let sent = reply(asked.send(&*several));
    assert_eq!(
        (sent.status, lines(&sent).lines().next()),
        (302, Some("Location: /.auth/login?to=%2Fa%3Fb%3D1%26c%3D2"))
    );
    let mut asked = page("/.auth/login");
    asked.query = Some("to=//evil.test".into());
    let shown = reply(asked.send(&*several));
    let ReplyBody::Bytes(body) = &shown.body else { panic!("no page") };
    let body = String::from_utf8_lossy(body);
    assert!(body.contains("provider=corp&amp;to=%2F\">corp<") && body.contains(">&lt;O&gt;<"), "{body}");
}

#[test]
fn a_callback_that_answers_no_login_of_this_browser_ends_there() {
    let login = Login::begin(&mark(), "/a", NOW).unwrap();
    let cookie = |login: &Login| {
        format!("__Host-thalweg_session_login_{}=1.{}", &login.state[..8], login.seal(&sealer()).unwrap())
    };
    let old = Login { since: NOW - 601, ..login.clone() };
    let other = Login { state: format!("{}{}", &login.state[..8], "x".repeat(35)), ..login.clone() };
    let right = format!("state={}&code=c", login.state);
    for (query, cookie, status, reason) in [
        ("", String::new(), 400, "oidc: the callback has no code and state"),
        (&*right, String::new(), 400, "oidc: no such login is under way in this browser"),
        (&right, cookie(&old), 400, "oidc: the login took too long, or its cookie was changed"),
        (
            &right,
            cookie(&login).replace("=1.", "=1.B"),
            400,
            "oidc: the login took too long, or its cookie was changed",
        ),
        (&right, cookie(&other), 400, "oidc: the callback answers another login"),
        (
            &format!("{right}&iss=https://evil.test"),
            cookie(&login),
            400,
            "oidc: the callback is of another provider",
        ),
        (
            &format!("state={}&error=access_denied%0d%0a", login.state),
            cookie(&login),
            403,
            "oidc: the provider says access_denied",
        ),
    ] {
        let mut asked = page("/.auth/callback").with("Cookie", &cookie);
        asked.query = Some(query.to_owned());
        let Verdict::Fault(fault) = asked.send(&*one()) else { panic!("{reason}") };
        assert_eq!((fault.status, asked.outcome.reason.as_deref()), (status, Some(reason)));
    }
    let mut asked = page("/.auth/callback").with("Cookie", &cookie(&login));
    asked.query = Some(right.clone());
    assert!(matches!(asked.send(&*one()), Verdict::Wait(Job::Call(_))));
    // With a session already, it is the button "back".
    let mut asked = page("/.auth/callback").with("Cookie", &session(|_| {}));
    asked.query = Some(right);
    assert_eq!(lines(&reply(asked.send(&*one()))).lines().next(), Some("Location: /"));
}

#[test]
fn several_logins_without_a_session_are_a_loop() {
    let tries = |count: u64, at: u64| {
        let sealed = sealer().seal("tries", format!("[{count},{at}]").as_bytes()).unwrap();
        page("/").with("Cookie", &format!("__Host-thalweg_session_tries=1.{sealed}"))
    };
    let Verdict::Fault(fault) = tries(4, NOW - 5).send(&*one()) else { panic!("it goes on") };
    assert_eq!(fault.status, 403);
    for mut asked in [tries(3, NOW - 5), tries(9, NOW - 60)] {
        assert!(matches!(asked.send(&*one()), Verdict::Wait(_)));
    }
}

#[test]
fn a_logout_leads_to_listed_places_only() {
    for (query, to) in [
        ("", "/bye"),
        ("to=https://a.test/", "https://a.test/"),
        ("to=https://evil.test/", "/bye"),
        ("to=//evil.test", "/bye"),
    ] {
        let mut asked = page("/.auth/logout").with("Origin", "https://shop.test");
        (asked.query, asked.method) = (Some(query.to_owned()), "POST");
        let reply = reply(asked.send(&*one()));
        assert_eq!(reply.status, 303);
        let lines = lines(&reply);
        assert!(lines.starts_with(&format!("Location: {to}\r\n")), "{lines}");
        assert!(
            lines.contains("Set-Cookie: __Host-thalweg_session=; Max-Age=0; Path=/; Secure; HttpOnly"),
            "{lines}"
        );
    }
}

/// An image of another site could end a session (issue 43).
#[test]
fn a_logout_is_a_form_that_a_page_of_this_site_sends() {
    for method in ["GET", "HEAD"] {
        let mut asked = page("/.auth/logout").with("Cookie", &session(|_| {}));
        (asked.method, asked.query) = (method, Some("to=https://a.test/".into()));
        let reply = reply(asked.send(&*one()));
        assert_eq!((reply.status, lines(&reply).contains("Set-Cookie")), (200, false), "{method}");
        let ReplyBody::Bytes(body) = &reply.body else { panic!("{reply:?}") };
        let body = String::from_utf8_lossy(body);
        assert!(body.contains("<form method=\"post\" action=\"/.auth/logout?to=https"), "{body}");
    }
    let status = |method: &'static str, fields: &[(&str, &str)]| {
        let mut asked = page("/.auth/logout").with("Cookie", &session(|_| {}));
        asked.method = method;
        let asked = &mut fields.iter().fold(asked, |asked, (name, value)| asked.with(name, value));
        match asked.send(&*one()) {
            Verdict::Reply(reply) => reply.status,
            Verdict::Fault(fault) => fault.status,
            // The filter first asks the provider for its end-of-session endpoint.
            Verdict::Wait(_) => 303,
            other => panic!("{other:?}"),
        }
    };
    let (own, other) = (("Origin", "https://shop.test"), ("Origin", "https://evil.test"));
    let site = |text| ("Sec-Fetch-Site", text);
    for fields in [&[own][..], &[own, site("same-origin")], &[("Origin", "null"), site("same-origin")]] {
        assert_eq!(status("POST", fields), 303, "{fields:?}");
    }
    for fields in [
        &[][..],
        &[other],
        &[("Origin", "null")],
        &[("Origin", "https://shop.test.evil.test")],
        &[("Origin", "http://shop.test")],
        &[own, other],
        &[own, site("cross-site")],
        &[own, site("same-site")],
        &[own, site("same-origin"), site("cross-site")],
    ] {
        assert_eq!(status("POST", fields), 403, "{fields:?}");
    }
    assert_eq!(status("DELETE", &[own]), 405);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (json, why) in [
        ("{}", "from 1 to 16 providers"),
        (r#"{"providers": {CORP}}"#, "no `secret`"),
        (r#"{"providers": {CORP}, "secret": {"value": "short"}}"#, "32 bytes"),
        (r#"{"providers": {"a b": {"issuer": "https://i", "client_id": "x"}}, SECRET}"#, "no name"),
        (r#"{"providers": {"a": {"issuer": "http://i", "client_id": "x"}}, SECRET}"#, "without TLS"),
        (r#"{"providers": {"a": {"issuer": "https://i?x=1", "client_id": "x"}}, SECRET}"#, "no query"),
        (r#"{"providers": {"a": {"issuer": "https://i"}}, SECRET}"#, "must be written"),
        (
            r#"{"providers": {"a": {"issuer": "https://i", "client_id": "x", "scopes": ["email"]}}, SECRET}"#,
            "`openid`",
        ),
        (r#"{"providers": {CORP}, SECRET, "callback": "/x", "login": "/x"}"#, "three different"),
        (r#"{"providers": {CORP}, SECRET, "logout": "//x"}"#, "a path of this site"),
        (r#"{"providers": {CORP}, SECRET, "url": "https://a.test/b"}"#, "no path"),
        (r#"{"providers": {CORP}, SECRET, "after_logout": ["//evil"]}"#, "neither"),
        (r#"{"providers": {CORP}, SECRET, "max_age": "1s"}"#, "must be from 1m to 90d"),
        (r#"{"providers": {CORP}, SECRET, "cookie": "__Host-x"}"#, "no name of a cookie"),
    ] {
        let error = try_oidc(json).unwrap_err();
        assert!(error.contains(why), "{json}: {error}");
    }
    let shown = one();
    assert!(!format!("{} {shown:?}", shown.argument()).contains(SECRET));
}
