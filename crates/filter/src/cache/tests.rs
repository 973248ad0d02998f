//! Tests of what is written of a cache, and of which one a request has.

use super::*;
use crate::tests::{Asked, built, facts};
use crate::{Chain, FieldView, Step, When, WhenSpec};
use thalweg_cache::{DefaultLifetime, Selected};

fn build(json: &str) -> Result<Arc<dyn Filter>, String> {
    built::<CacheSpec>(json).build()
}

fn rule(json: &str) -> Arc<CacheRule> {
    build(json).unwrap().cache().unwrap()
}

fn lifetime(first: u16, last: u16, seconds: u32) -> DefaultLifetime {
    DefaultLifetime { statuses: (first, last), seconds }
}

#[test]
fn nothing_written_is_the_policy_of_rfc_9111() {
    let rule = rule("{}");
    assert_eq!(format!("{:?}", rule.policy), format!("{:?}", Policy::default()));
    assert_eq!(format!("{:?}", rule.key), format!("{:?}", KeyRule::default()));
    assert_eq!((rule.max_object, rule.wait, rule.tells_status), (u64::MAX, Duration::from_secs(5), true));
    assert_eq!(rule.to_string(), "shared, waits 5s");
}

#[test]
fn a_duration_is_the_lifetime_of_successes_that_state_none() {
    let expected: Vec<_> = [200, 203, 204, 206, 301, 308].map(|status| lifetime(status, status, 60)).into();
    assert_eq!(rule("\"60s\"").policy.default_lifetimes, expected);
    assert_eq!(rule(r#"{"default_ttl": "1m"}"#).policy.default_lifetimes, expected);
}

#[test]
fn lifetimes_by_status_go_from_the_narrowest_to_the_widest() {
    let rule = rule(r#"{"default_ttl": {"5xx": "1s", "200": "0s", "404": "10s", "default": "1m"}}"#);
    let found = &rule.policy.default_lifetimes;
    assert_eq!(found[..2], [lifetime(200, 200, 0), lifetime(404, 404, 10)]);
    assert_eq!(found[2..8].iter().map(|it| it.seconds).collect::<Vec<_>>(), [60; 6]);
    assert_eq!(found[8..], [lifetime(500, 599, 1)]);
}

#[test]
fn everything_that_is_written_arrives() {
    let rule = rule(
        r#"{"heuristic": "20%", "max_heuristic": "1h", "stale_while_revalidate": "30s",
            "stale_if_unreachable": "1d", "request_directives": false, "set_cookie": "strip",
            "targeted_fields": ["Edge-Control"], "ignore_language_order": true,
            "key": {"query": {"exclude": ["utm_*"]}, "sort_query": true, "headers": "X-Tenant",
                    "cookies": ["ab"], "space": "shop"},
            "share_verified": true, "max_object": "1MiB", "wait": "0s", "cache_status": false}"#,
    );
    let policy = &rule.policy;
    assert_eq!((policy.heuristic_percent, policy.heuristic_most), (20, 3600));
    assert_eq!((policy.stale_while_revalidate, policy.stale_when_unreachable), (30, 86_400));
    assert!(!policy.honours_clients && policy.ignores_language_order);
    assert_eq!(policy.set_cookie, SetCookie::Strip);
    assert_eq!(policy.targets, [Box::<str>::from("Edge-Control")]);
    assert_eq!(rule.key.query.selected, Selected::But(vec!["utm_*".into()]));
    assert!(rule.key.query.sorted && rule.shares_verified && !rule.tells_status);
    assert_eq!((&*rule.key.fields[0], &*rule.key.cookies[0], &*rule.key.space), ("X-Tenant", "ab", "shop"));
    assert_eq!((rule.max_object, rule.wait), (1024 * 1024, Duration::ZERO));
    let text = rule.to_string();
    for part in ["heuristic 20% up to 1h", "parameters but [utm_*], sorted", "space shop", "waits 0s"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_is_for_one_client_says_for_how_long() {
    let policy = rule(r#"{"per_client": "10s"}"#).policy.clone();
    assert_eq!(policy.sharing, Sharing::PerClient { lifetime: 10 });
    assert!(!policy.answers_post() && !policy.skips_get);
    let policy = rule(r#"{"per_client": {"ttl": "10s", "methods": ["GET", "POST"]}}"#).policy.clone();
    assert_eq!((policy.post_body, policy.skips_get), (Some(64 * 1024), false));
    let own = rule(r#"{"per_client": {"ttl": "10s", "methods": "POST", "max_body": "1KiB"}}"#);
    assert_eq!((own.policy.post_body, own.policy.skips_get), (Some(1024), true));
    assert!(own.to_string().starts_with("per client for 10s, POST with bodies up to 1KiB"), "{own}");
}

#[test]
fn wrong_values_are_refused() {
    for (json, part) in [
        ("\"0s\"", "from 1s to 365d"),
        ("\"1500ms\"", "whole seconds"),
        ("\"366d\"", "365d"),
        (r#"{"default_ttl": {}}"#, "1 to 64"),
        (r#"{"default_ttl": {"404": "x"}}"#, "`x`"),
        (r#"{"default_ttl": {"ok": "1s"}}"#, "no status"),
        (r#"{"default_ttl": {"1xx": "1s"}}"#, "200 to 599"),
        (r#"{"heuristic": "101%"}"#, "0% to 100%"),
        (r#"{"heuristic": "0%", "max_heuristic": "1h"}"#, "bounds nothing"),
        (r#"{"per_client": "0s"}"#, "1s"),
        (r#"{"per_client": "2h"}"#, "1s to 1h"),
        (r#"{"per_client": "1s", "default_ttl": "1s"}"#, "remove"),
        (r#"{"per_client": {"ttl": "2h"}}"#, "1s to 1h"),
        (r#"{"per_client": {"ttl": "1s", "methods": []}}"#, "answers nothing"),
        (r#"{"per_client": {"ttl": "1s", "max_body": "1KiB"}}"#, "remove it"),
        (r#"{"per_client": {"ttl": "1s", "methods": ["POST"], "max_body": "2MiB"}}"#, "1B to 1MiB"),
        (r#"{"per_client": {"ttl": "1s", "methods": ["POST"], "max_body": "0B"}}"#, "1B to 1MiB"),
        (r#"{"targeted_fields": ["a b"]}"#, "not the name of a field"),
        (r#"{"key": {"query": {}}}"#, "write one of them"),
        (r#"{"key": {"query": {"include": "a", "exclude": "b"}}}"#, "write one of them"),
        (r#"{"key": {"query": {"include": "a*"}}}"#, "whole names"),
        (r#"{"key": {"query": {"exclude": [""]}}}"#, "without a name"),
        (r#"{"key": {"query": "none", "sort_query": true}}"#, "sorts nothing"),
        (r#"{"key": {"headers": ["X-Forwarded-For"]}}"#, "cannot be part"),
        (r#"{"key": {"cookies": ["a=b"]}}"#, "cookie"),
        (r#"{"key": {"space": ""}}"#, "`space`"),
        (r#"{"key": {"space": "a\tb"}}"#, "`space`"),
        (r#"{"max_object": "0B"}"#, "stores nothing"),
        (r#"{"wait": "61s"}"#, "0s to 1m"),
    ] {
        let error = build(json).unwrap_err();
        assert!(error.contains(part) && !error.contains("help:"), "{json}: {error}");
    }
}

fn when(json: &str) -> Vec<Arc<When>> {
    vec![Arc::new(built::<WhenSpec>(json).build().unwrap())]
}

fn auth() -> Step {
    let spec =
        r#"{"basic": {"users": {"ada": "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"}}}"#;
    let beside = crate::tests::Beside(std::env::temp_dir());
    Step::always(built::<crate::auth::AuthSpec>(spec).build(&beside).unwrap())
}

fn found(chain: &Chain, path: &str) -> Option<Arc<CacheRule>> {
    chain.cache_for(&facts(path), FieldView::new(&[], &[], b""), None).cloned()
}

#[test]
fn the_first_cache_that_fits_is_that_of_a_request() {
    let chain = Chain::new(vec![
        Step {
            filter: build(r#"{"wait": "1s"}"#).unwrap(),
            when: when(r#"{"path": "/a/*"}"#),
            written: None,
        },
        Step {
            filter: build(r#"{"wait": "2s"}"#).unwrap(),
            when: when(r#"{"path": ["/a/*", "/b"]}"#),
            written: None,
        },
    ]);
    assert!(chain.has_cache() && !chain.has(Hooks::REQUEST) && !chain.has(Hooks::RESPONSE));
    assert_eq!(found(&chain, "/a/1").unwrap().wait, Duration::from_secs(1));
    assert_eq!(found(&chain, "/b").unwrap().wait, Duration::from_secs(2));
    assert!(found(&chain, "/c").is_none());
    assert!(found(&Chain::default(), "/a/1").is_none() && !Chain::default().has_cache());
    assert!(!chain.uncached().has_cache());
}

#[test]
fn what_is_stored_is_in_the_space_of_its_route_and_service() {
    let chain = |json| Chain::new(vec![Step::always(build(json).unwrap())]);
    let space = |chain: &Chain| found(chain, "/").unwrap().key.space.clone();
    assert_eq!(&*space(&chain("{}").cached_in("r", None)), "r");
    assert_eq!(&*space(&chain("{}").cached_in("r", Some("s"))), "r\ts");
    assert_eq!(&*space(&chain(r#"{"key": {"space": "x"}}"#).cached_in("r", None)), "x");
    let switched = chain("{}").cached_in("r", None).switched(true);
    assert_eq!(&*space(&switched), "r", "it stays there when another filter is turned on");
}

#[test]
fn behind_auth_a_request_counts_as_one_with_credentials() {
    let plain = Chain::new(vec![Step::always(build("{}").unwrap())]);
    assert!(!found(&plain, "/").unwrap().has_credentials(&facts("/")));
    for steps in
        [vec![auth(), Step::always(build("{}").unwrap())], vec![Step::always(build("{}").unwrap()), auth()]]
    {
        assert!(found(&Chain::new(steps), "/").unwrap().has_credentials(&facts("/")), "wherever it stands");
    }
    let shares = Chain::new(vec![auth(), Step::always(build(r#"{"share_verified": true}"#).unwrap())]);
    assert!(!found(&shares, "/").unwrap().has_credentials(&facts("/")));
}

#[test]
fn what_is_for_one_client_is_not_cached_behind_auth_unless_the_key_tells_clients_apart() {
    let with = |json| Chain::new(vec![auth(), Step::always(build(json).unwrap())]);
    let mixes = with(r#"{"per_client": "1s"}"#);
    assert!(found(&mixes, "/").is_none() && mixes.caches().all(|rule| rule.mixes_clients()));
    assert!(found(&with(r#"{"per_client": "1s", "share_verified": true}"#), "/").is_some());
}

#[test]
fn a_certificate_is_a_credential() {
    assert!(rule("{}").is_unkeyed(true) && !rule("{}").is_unkeyed(false));
    assert!(!rule(r#"{"share_verified": true}"#).is_unkeyed(true));
}

#[test]
fn it_is_never_called() {
    let filter = build("{}").unwrap();
    assert_eq!(filter.hooks(), Hooks::NONE);
    let mut asked = Asked::at("/");
    asked.send(&*filter);
    assert_eq!(asked.request_lines(), "");
}
