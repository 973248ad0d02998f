//! One filter, without a proxy.

use super::*;
use crate::Identity;
use crate::tests::{Asked, Beside, built};
use thalweg_core::Fault;

fn filter(json: &str) -> Arc<dyn Filter> {
    built::<RateLimitSpec>(json).build(&Beside("/nowhere".into())).unwrap()
}

fn refused(verdict: Verdict) -> Option<Fault> {
    match verdict {
        Verdict::Continue => None,
        Verdict::Fault(fault) => Some(fault),
        other => panic!("{other:?}"),
    }
}

/// How many of `times` requests pass.
fn passed(filter: &dyn Filter, times: usize, asked: impl Fn() -> Asked) -> usize {
    (0..times).filter(|_| refused(asked().send(filter)).is_none()).count()
}

#[test]
fn requests_beyond_the_burst_are_refused_with_the_time_to_come_back() {
    let three = filter(r#"{"requests": 3, "per": "1h"}"#);
    assert_eq!(passed(&*three, 3, || Asked::at("/")), 3);
    let mut asked = Asked::at("/");
    let fault = refused(asked.send(&*three)).unwrap();
    assert_eq!((fault.status, fault.detail), (429, "over the rate limit"));
    assert_eq!(asked.outcome.reason.as_deref(), Some("rate_limit: over 3 requests per 1h by client_ip"));
    let lines = String::from_utf8(asked.outcome.fault_fields).unwrap();
    assert_eq!(
        lines,
        "RateLimit: \"1h\";r=0;t=3600\r\nRateLimit-Policy: \"1h\";q=3;w=3600\r\nRetry-After: 1200\r\n"
    );
    let mut other = Asked::at("/");
    other.client_ip = "192.0.2.2".parse().unwrap();
    assert!(refused(other.send(&*three)).is_none());
}

#[test]
fn responses_tell_what_is_left() {
    let answered = |headers: &str| {
        let five = filter(&format!(r#"{{"requests": 5, "per": "1m", "headers": "{headers}"}}"#));
        let mut asked = Asked::at("/");
        assert!(refused(asked.send(&*five)).is_none());
        if five.hooks().contains(Hooks::RESPONSE) {
            asked.answer(&*five);
        }
        asked.response_lines()
    };
    let draft = "RateLimit: \"1m\";r=4;t=12\r\nRateLimit-Policy: \"1m\";q=5;w=60\r\n";
    let legacy = "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\nX-RateLimit-Reset: 12\r\n";
    assert_eq!(answered("draft"), draft);
    assert_eq!(answered("legacy"), legacy);
    assert_eq!(answered("both"), format!("{draft}{legacy}"));
    assert_eq!(answered("none"), "");
}

#[test]
fn none_of_several_limits_is_spent_when_one_refuses() {
    let two = filter(
        r#"{"limits": [{"requests": 5, "per": "1h"}, {"requests": 2, "per": "1d", "key": {"header": "X-T"}}]}"#,
    );
    let of = |tenant: &'static str| move || Asked::at("/").with("X-T", tenant);
    assert_eq!(passed(&*two, 10, of("a")), 2, "the second limit is that of a tenant");
    assert_eq!(passed(&*two, 10, of("b")), 2);
    // Of the first one, 4 of 5 are spent, and nothing by the 16 that were refused.
    assert_eq!(passed(&*two, 10, of("c")), 1);
    let mut asked = Asked::at("/").with("X-T", "d");
    assert!(refused(asked.send(&*two)).is_some());
    assert!(asked.outcome.reason.unwrap().contains("5 requests per 1h"));
}

#[test]
fn plans_have_their_own_values() {
    let plans = filter(
        r#"{"per": "1h", "key": "user",
            "plans": {"claim": "plan", "gold": {"requests": 6}, "house": {"unlimited": true}, "default": {"requests": 2}}}"#,
    );
    let of = |user: &'static str, plan: &'static str| {
        move || {
            let mut asked = Asked::at("/");
            let claims = serde_json::from_value(serde_json::json!({ "plan": plan })).unwrap();
            asked.outcome.identity = Some(Box::new(Identity { claims, ..Identity::new("api_key", user) }));
            asked
        }
    };
    assert_eq!(passed(&*plans, 20, of("ada", "gold")), 6);
    assert_eq!(passed(&*plans, 20, of("bob", "free")), 2);
    assert_eq!(passed(&*plans, 20, of("eve", "house")), 20);
    assert_eq!(passed(&*plans, 20, || Asked::at("/")), 2, "nobody in particular: together");
    let text = plans.argument();
    assert_eq!(text, "2 requests per 1h by user, gold: 6 requests per 1h, house: unlimited");
}

#[test]
fn requests_without_a_key_are_what_is_written() {
    let with = |missing: &str| {
        let one =
            format!(r#"{{"requests": 1, "per": "1h", "key": {{"header": "X-T"}}, "missing": "{missing}"}}"#);
        passed(&*filter(&one), 5, || Asked::at("/"))
    };
    assert_eq!((with("share"), with("allow"), with("deny")), (1, 5, 0));
    let mut asked = Asked::at("/");
    let deny = filter(r#"{"requests": 1, "key": {"header": "X-T"}, "missing": "deny"}"#);
    assert_eq!(refused(asked.send(&*deny)).unwrap().status, 429);
    assert_eq!(asked.outcome.reason.as_deref(), Some("rate_limit: no key (header X-T)"));
}

#[test]
fn costs_are_numbers_or_what_a_text_gives() {
    let ten = |cost: &str| filter(&format!(r#"{{"requests": 10, "per": "1h", "cost": {cost}}}"#));
    assert_eq!(passed(&*ten("5"), 10, || Asked::at("/")), 2);
    let by_field = r#""{header.X-Cost}""#;
    assert_eq!(passed(&*ten(by_field), 10, || Asked::at("/").with("X-Cost", "3")), 3);
    assert_eq!(
        passed(&*ten(by_field), 20, || Asked::at("/").with("X-Cost", "many")),
        10,
        "no number costs 1"
    );
    let huge = || Asked::at("/").with("X-Cost", "99999999999999999999");
    assert_eq!(passed(&*ten(by_field), 20, huge), 10, "nor does one that is too large");
}

#[test]
fn bytes_are_paid_when_they_are_known() {
    let kilobyte = filter(r#"{"bytes": "1KB", "per": "1h"}"#);
    let mut asked = Asked::at("/");
    asked.content_length = Some(400);
    assert!(refused(asked.send(&*kilobyte)).is_none());
    // 400 were declared and 100 more are the response: half is left.
    asked.end(&*kilobyte, (400, 100));
    asked.answer(&*kilobyte);
    let mut asked = Asked::at("/");
    assert!(refused(asked.send(&*kilobyte)).is_none());
    asked.answer(&*kilobyte);
    assert!(asked.response_lines().contains("r=500;"), "{}", asked.response_lines());
    asked.end(&*kilobyte, (0, 5_000));
    let fault = refused(Asked::at("/").send(&*kilobyte)).unwrap();
    assert_eq!(fault.status, 429);
}

#[test]
fn counts_go_on_when_a_configuration_takes_over() {
    let first = filter(r#"{"requests": 3, "per": "1h"}"#);
    assert_eq!(passed(&*first, 2, || Asked::at("/")), 2);
    for json in [
        r#"{"requests": 3, "per": "1h", "max_keys": 10}"#,
        r#"{"requests": 3, "per": "1h", "headers": "none"}"#,
    ] {
        let next = filter(json);
        next.adopt(&*first);
        next.adopt(&*first);
        assert_eq!(passed(&*next, 1, || Asked::at("/")), 1, "{json}");
    }
    let same = filter(r#"{"requests": 3, "per": "1h"}"#);
    same.adopt(&*first);
    assert_eq!(passed(&*same, 5, || Asked::at("/")), 0, "the second of these has spent the third");
}

#[test]
fn filters_of_one_name_count_together() {
    let [one, other] = [0, 1].map(|_| filter(r#"{"requests": 3, "per": "1h", "name": "of a test"}"#));
    assert_eq!(passed(&*one, 2, || Asked::at("/")) + passed(&*other, 5, || Asked::at("/")), 3);
}

#[test]
fn a_dry_run_lets_all_pass_and_says_what_it_would_do() {
    let dry = filter(r#"{"requests": 1, "per": "1h", "dry_run": true}"#);
    assert_eq!(dry.hooks(), Hooks::REQUEST);
    assert_eq!(passed(&*dry, 5, || Asked::at("/")), 5);
    let mut asked = Asked::at("/");
    asked.send(&*dry);
    assert_eq!(
        asked.outcome.reason.as_deref(),
        Some("rate_limit: over 1 requests per 1h by client_ip (dry run)")
    );
}

#[test]
fn a_question_spends_nothing() {
    let one = filter(r#"{"requests": 1, "per": "1h"}"#);
    let question = || {
        let mut asked = Asked::at("/");
        asked.is_dry_run = true;
        asked
    };
    assert_eq!(passed(&*one, 5, question), 5);
    assert_eq!(passed(&*one, 5, || Asked::at("/")), 1);
}

#[test]
fn wrong_limits_are_refused() {
    for (json, part) in [
        ("{}", "`requests` says how many"),
        (r#"{"requests": 0}"#, "must be from 1"),
        (r#"{"requests": 1, "bytes": "1KB"}"#, "write `limits`"),
        (r#"{"requests": 1, "burst": "1KB"}"#, "a number of requests"),
        (r#"{"bytes": "1KB", "burst": 5}"#, "is a size"),
        (r#"{"bytes": "1KB", "cost": 5}"#, "bytes are what a request costs"),
        (r#"{"requests": 1, "per": "0s"}"#, "1ms to 31d"),
        (r#"{"requests": 1, "limits": [{"requests": 1}]}"#, "each of them has its own"),
        (r#"{"limits": []}"#, "1 to 8"),
        (r#"{"requests": 1, "max_keys": 0}"#, "`max_keys`"),
        (r#"{"requests": 1, "cost": "many"}"#, "`cost` is a number"),
        (r#"{"requests": 1, "cost": "{status}"}"#, "not known"),
        (r#"{"plans": {"claim": "plan", "gold": {"requests": 1}}}"#, "without `default`"),
        (r#"{"requests": 1, "plans": {"claim": "plan", "gold": {}}}"#, "the plan `gold`"),
        (r#"{"requests": 1, "plans": {"claim": "p", "a": {"requests": 1, "unlimited": true}}}"#, "too many"),
        (r#"{"limits": [{"requests": 1, "name": "a\"b"}]}"#, "without quotes"),
        (r#"{"bytes": "1MB", "store": {"redis": {"url": "redis://a"}}}"#, "by each proxy for itself"),
        (r#"{"requests": 1, "store": {"redis": {"url": "http://a"}}}"#, "no place of a store"),
        (r#"{"requests": 1, "store": {"redis": {"url": "redis://a", "timeout": "10s"}}}"#, "1ms to 5s"),
        (r#"{"requests": 1, "store": {"redis": {"url": "redis://a", "ca": "a.pem"}}}"#, "rediss://"),
        (r#"{"requests": 1, "store": {"redis": {"url": "redis://a", "user": "u"}}}"#, "needs a `password`"),
    ] {
        let error = built::<RateLimitSpec>(json).build(&Beside("/nowhere".into())).unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
    }
}
