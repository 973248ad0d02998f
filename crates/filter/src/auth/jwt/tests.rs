use crate::auth::AuthSpec;
use crate::tests::{Asked, Beside, built};
use crate::{Filter, Job, QueryEdit, Verdict};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::sync::Arc;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// The time of tests.
const NOW: u64 = 1_795_521_600;

fn try_jwt(json: &str) -> Result<Arc<dyn Filter>, String> {
    let json = json.replace("KEY", &format!(r#""key": {{"secret": {{"value": "{SECRET}"}}}}"#));
    built::<AuthSpec>(&json).build(&Beside(std::env::temp_dir()))
}

fn token(ends: u64) -> String {
    token_of(&json!({ "sub": "ada", "exp": ends, "scope": "read write", "plan": "gold" }))
}

fn token_of(claims: &Value) -> String {
    let (head, claims) = (r#"{"alg":"HS256"}"#, claims.to_string());
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

fn status(verdict: &Verdict) -> u16 {
    match verdict {
        Verdict::Continue => 0,
        Verdict::Fault(fault) => fault.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_says_who_it_is_and_goes_no_further() {
    let filter = try_jwt(
        r#"{"jwt": {KEY}, "require": {"scopes": ["read"]}, "forward": {"X-User": "{user}", "X-Plan": "{claim.plan}"}}"#,
    )
    .unwrap();
    // The second time it is remembered.
    for _ in 0..2 {
        let mut asked = Asked::at("/").with("Authorization", &format!("Bearer {}", token(NOW + 60)));
        assert_eq!(status(&asked.send(&*filter)), 0);
        assert_eq!(asked.request_lines(), "X-Plan: gold\r\nX-User: ada\r\n");
        let identity = asked.outcome.identity.unwrap();
        assert_eq!((identity.method, identity.scopes.len()), ("jwt", 2));
    }
    for (authorization, status_, reason) in [
        (format!("Bearer {}", token(NOW - 31)), 401, "jwt: the token expired 31 s ago"),
        (format!("Bearer {}x", token(NOW + 60)), 401, "jwt: the token's signature is wrong"),
        ("Bearer abc".to_owned(), 401, "jwt: the token is not three parts"),
        ("Basic YTpi".to_owned(), 401, "no credential (jwt)"),
    ] {
        let mut asked = Asked::at("/").with("Authorization", &authorization);
        assert_eq!(status(&asked.send(&*filter)), status_, "{reason}");
        assert_eq!(asked.outcome.reason.as_deref(), Some(reason));
        let challenge = String::from_utf8(asked.outcome.fault_fields.clone()).unwrap();
        assert_eq!(challenge, "WWW-Authenticate: Bearer realm=\"restricted\"\r\n");
    }
}

/// `forward` dropped characters that a field cannot hold, and joined lists: the service was told the name of another.
#[test]
fn the_service_is_told_who_it_is_exactly_or_nothing() {
    let filter =
        try_jwt(r#"{"jwt": {KEY}, "forward": {"X-User": "{user}", "X-Groups": "{claim.groups}"}}"#).unwrap();
    let ask = |claims: Value| {
        let mut claims = claims;
        claims["exp"] = (NOW + 60).into();
        let mut asked = Asked::at("/").with("Authorization", &format!("Bearer {}", token_of(&claims)));
        let verdict = asked.send(&*filter);
        (status(&verdict), asked)
    };
    for claims in [
        json!({ "sub": "ad\nmin" }),
        json!({ "sub": "ad\0min" }),
        json!({ "sub": "admin\u{7f}" }),
        json!({ "sub": "admin\t" }),
        json!({ "sub": " admin" }),
        json!({ "sub": "ada", "groups": "admin " }),
    ] {
        let (status, asked) = ask(claims.clone());
        assert_eq!((status, asked.request_lines().contains("X-User: ")), (401, false), "{claims}");
        let reason = asked.outcome.reason.as_deref().unwrap();
        assert!(reason.starts_with("no field can hold the "), "{reason}");
    }
    let groups = ["x", "Domain Users", "ad\nmin", "admin"];
    let (status, asked) = ask(json!({ "sub": "Ada Lovelace", "groups": groups, "other": ["x y", "\n"] }));
    assert_eq!((status, &*asked.request_lines()), (0, "X-Groups: x admin\r\nX-User: Ada Lovelace\r\n"));
}

#[test]
fn a_token_may_stand_elsewhere_and_is_taken_out_there() {
    let token = token(NOW + 60);
    let filter = try_jwt(r#"{"jwt": {KEY, "from": {"cookie": "t"}}}"#).unwrap();
    let mut asked = Asked::at("/").with("Cookie", &format!("a=1; t={token}; b=2"));
    assert_eq!(status(&asked.send(&*filter)), 0);
    assert_eq!(asked.request_lines(), "Cookie: a=1; b=2\r\n");
    let filter = try_jwt(r#"{"jwt": {KEY, "from": {"header": "X-Token"}}}"#).unwrap();
    for value in [token.clone(), format!("Bearer {token}")] {
        let mut asked = Asked::at("/").with("x-token", &value);
        assert_eq!((status(&asked.send(&*filter)), asked.request_lines()), (0, String::new()));
    }
    let mut twice = Asked::at("/").with("x-token", &token).with("X-Token", "x");
    assert_eq!(status(&twice.send(&*filter)), 400);
    let filter = try_jwt(r#"{"jwt": {KEY, "from": {"query": "access_token"}}}"#).unwrap();
    for (query, left) in [
        (format!("a=1&access_token={token}&b=2"), QueryEdit::Replaced(b"a=1&b=2".to_vec())),
        (format!("access_token={token}"), QueryEdit::Removed),
    ] {
        let mut asked = Asked::at("/");
        asked.query = Some(query);
        assert_eq!((status(&asked.send(&*filter)), asked.target.query().clone()), (0, left));
    }
    let mut twice = Asked::at("/");
    twice.query = Some(format!("access_token={token}&access_token=x"));
    assert_eq!(status(&twice.send(&*filter)), 400);
}

#[test]
fn keys_that_are_not_there_yet_are_waited_for_and_a_dry_run_asks_nobody() {
    let filter =
        try_jwt(r#"{"jwt": {"jwks_url": "https://id.test/keys", "algorithms": ["RS256"]}}"#).unwrap();
    let mut asked = Asked::at("/").with("Authorization", &format!("Bearer {}", token(NOW + 60)));
    assert!(matches!(asked.send(&*filter), Verdict::Wait(Job::Call(_))));
    asked.is_dry_run = true;
    assert_eq!(status(&asked.send_through(&*filter)), 401, "its algorithm would never do");
    let filter = try_jwt(r#"{"jwt": {"jwks_url": "https://id.test/keys"}}"#).unwrap();
    assert!(filter.upkeep().is_some());
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (json, why) in [
        ("{}", "no keys"),
        (r#"{KEY, "jwks_url": "https://id.test/"}"#, "one of"),
        (r#"{"jwks_url": "http://id.test/"}"#, "without TLS"),
        (r#"{"jwks_url": "id.test"}"#, "`jwks_url`"),
        (r#"{"jwks_url": "https://id.test/", "refresh": "1s"}"#, "must be from 10s to 30d"),
        (r#"{"jwks_url": "https://id.test/", "refresh": "2h", "stale": "1h"}"#, "at least `refresh`"),
        (r#"{KEY, "refresh": "1h"}"#, "for `jwks_url`"),
        (r#"{KEY, "algorithms": ["none"]}"#, "proves nothing"),
        (r#"{KEY, "algorithms": ["RS256"]}"#, "needs a public key"),
        (r#"{KEY, "algorithms": ["hs256"]}"#, "no algorithm"),
        (r#"{"jwks_url": "https://id.test/", "algorithms": ["HS256"]}"#, "needs a shared secret"),
        (r#"{"key": {"secret": {"value": "short"}}}"#, "32 bytes"),
        (r#"{KEY, "leeway": "11m"}"#, "must be from 0s to 10m"),
        (r#"{KEY, "issuer": []}"#, "from 1 to 64"),
        (r#"{KEY, "from": {"query": "q"}}"#, "stand in logs"),
        (r#"{KEY, "from": {"header": "Cookie"}}"#, "no field for a token"),
        (r#"{KEY, "from": {"cookie": "a b"}}"#, "no name"),
        (r#"{"jwks_file": "/nonexistent"}"#, "No such file"),
    ] {
        let error = try_jwt(&format!(r#"{{"jwt": {json}}}"#)).unwrap_err();
        assert!(error.contains(why), "{json}: {error}");
    }
}

#[test]
fn no_secret_is_shown() {
    let shown = try_jwt(r#"{"jwt": {KEY, "issuer": "me", "audience": ["a", "b"]}}"#).unwrap();
    let text = format!("{} {shown:?}", shown.argument());
    assert!(!text.contains(SECRET) && text.contains("issuer me, audience a, audience b"), "{text}");
}

/// Wrong signatures were answered at any rate (issue 43); then the wrong tokens of one client refused the fresh ones of
/// all clients behind its address.
#[test]
fn wrong_signatures_of_a_network_are_bounded_and_right_tokens_pass() {
    let filter = try_jwt(r#"{"jwt": {KEY}}"#).unwrap();
    let sent = |token: &str| {
        let mut asked = Asked::at("/").with("Authorization", &format!("Bearer {token}"));
        status(&asked.send(&*filter))
    };
    let known = token(NOW + 60);
    assert_eq!(sent(&known), 0);
    // Neither an expired token nor a repeated wrong token counts as a further guess.
    (0..2 * thalweg_access::WRONG).for_each(|_| assert_eq!(sent(&format!("{known}x")), 401));
    (0..2 * u64::from(thalweg_access::WRONG)).for_each(|age| assert_eq!(sent(&token(NOW - 100 - age)), 401));
    let (message, _) = known.rsplit_once('.').unwrap();
    for number in 1..thalweg_access::WRONG {
        assert_eq!(sent(&format!("{message}.{}", URL_SAFE_NO_PAD.encode(number.to_be_bytes()))), 401);
    }
    assert_eq!(sent(&format!("{message}.AAAA")), 429);
    assert_eq!((sent(&token(NOW + 120)), sent(&known)), (0, 0), "a fresh token and a remembered one");
    assert_eq!(sent(&token(NOW - 100)), 401, "an expired one has a right signature");
}
