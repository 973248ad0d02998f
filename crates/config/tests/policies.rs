//! What is written of a service, a route and a webhook is what the plan says.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

use std::time::Duration;
use thalweg_config::{Loaded, check_text};
use thalweg_core::{EventKind, SigningKey};
use thalweg_http::HttpUrl;
use thalweg_observe::WebhookPolicy;
use thalweg_proxy::plan::{ServiceId, Split, To};
use thalweg_upstream::{
    AdaptivePolicy, BreakerPolicy, Check, EjectionPolicy, HashKey, HealthPolicy, HedgePolicy, RetryPolicy,
    SameSite, Service, StaticAnswer, Statuses, WhenDown,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn load(text: &str) -> Loaded {
    let text = format!("listeners: {{ web: {{ address: \":0\" }} }}\n{text}\n");
    check_text("policies.yaml", &text, &|_| None).map_err(|report| report.lines()).unwrap()
}

/// A service with these keys.
fn service(keys: &str) -> Service {
    let text =
        format!("routes: [ {{ to: a }} ]\nservices: {{ a: {{ endpoints: [ \"http://a\" ], {keys} }} }}");
    Service::clone(&load(&text).plan.services[0])
}

#[test]
fn a_service_without_policies_has_the_built_in_ones() {
    let plain = service("");
    assert!(plain.sticky.is_none() && plain.health.is_none() && plain.breaker.is_none());
    assert!(plain.limits.adaptive.is_none() && plain.balance == Service::default().balance);
    assert_eq!(plain.ejection, EjectionPolicy::default());
    assert_eq!(plain.when_down, WhenDown::Error);
    assert_eq!(plain.retry, RetryPolicy::default());
}

#[test]
fn a_check_is_http_with_a_path_and_tcp_on_request() {
    let check = service(
        "health: { path: /p, method: HEAD, headers: { Host: h }, expect: [ 204, 3xx ], port: 81, interval: 10s, \
         interval_down: 2s, timeout: 1500ms, unhealthy_after: 4, healthy_after: 5, initial: unhealthy }",
    );
    let expected = HealthPolicy {
        check: Check::Http {
            path: "/p".into(),
            method: "HEAD".into(),
            headers: vec![("Host".into(), "h".into())],
            expect: Statuses::new(vec![204..=204, 300..=399]),
            body: None,
        },
        port: Some(81),
        interval: 10 * SECOND,
        interval_down: Some(2 * SECOND),
        timeout: 1500 * MS,
        unhealthy_after: 4,
        healthy_after: 5,
        starts_unhealthy: true,
    };
    assert_eq!(*check.health.unwrap(), expected);
    let tcp = service("health: { tcp: true, interval: 200ms }").health.unwrap();
    assert_eq!(tcp.check, Check::Tcp);
    assert_eq!(tcp.timeout, 200 * MS, "a timeout that is not written is no longer than the interval");
    let body = service("health: { body: 'ok$' }").health.unwrap();
    let Check::Http { path, expect, body, .. } = &body.check else { panic!("not HTTP") };
    assert!(&**path == "/" && expect.contains(399) && !expect.contains(400));
    assert!(body.as_ref().unwrap().is_match(b"all ok"));
}

#[test]
fn rules_of_ejection_and_breaker_take_effect_as_written() {
    let written = service(
        "ejection: { consecutive: 0, statuses: [ 5xx ], failures: 40%, success_rate: 1.9, latency: 300%, min_requests: 7, \
         window: 30s, time: 10m, max_share: 10% }, breaker: { failures: 60%, open: 1s }, limits: { adaptive: { min: 2000 } }",
    );
    let expected = EjectionPolicy {
        consecutive: 0,
        statuses: Statuses::new(vec![500..=599]),
        failures: Some(40),
        success_rate: Some(19),
        latency: Some(300),
        min_requests: 7,
        window: 30 * SECOND,
        time: 600 * SECOND,
        max_time: 600 * SECOND,
        max_share: 10,
    };
    assert_eq!(written.ejection, expected);
    assert_eq!(
        written.breaker,
        Some(BreakerPolicy { failures: 60, open: SECOND, ..BreakerPolicy::default() })
    );
    assert_eq!(written.limits.adaptive, Some(AdaptivePolicy { min: 2000, max: 2000, tolerance: 150 }));
    let switched = service("ejection: off, breaker: true, limits: { adaptive: {} }");
    assert_eq!(switched.ejection, EjectionPolicy { consecutive: 0, ..EjectionPolicy::default() });
    assert_eq!(switched.breaker, Some(BreakerPolicy::default()));
    assert_eq!(switched.limits.adaptive, Some(AdaptivePolicy::default()));
    assert!(service("breaker: off").breaker.is_none() && service("breaker: false").breaker.is_none());
}

#[test]
fn retries_are_inherited_by_named_services_and_those_of_urls() {
    let loaded = load(
        "defaults: { retry: { attempts: 4, statuses: [ 429, 503 ], hedge: { after: 50ms } } }\n\
         routes: [ { to: a }, { to: [ \"http://b\" ] } ]\n\
         services: { a: { endpoints: [ \"http://a\" ], retry: { statuses: [], per_try_timeout: 2s, budget: 0%, hedge: off } } }",
    );
    let inherited = RetryPolicy {
        attempts: 4,
        statuses: Statuses::new(vec![429..=429, 503..=503]),
        hedge: Some(HedgePolicy { after: 50 * MS, budget: 5 }),
        ..RetryPolicy::default()
    };
    let own =
        RetryPolicy { attempts: 4, per_try_timeout: Some(2 * SECOND), budget: 0, ..RetryPolicy::default() };
    assert_eq!(loaded.plan.services[0].retry, own);
    assert_eq!(loaded.plan.services[1].retry, inherited);
}

#[test]
fn balancing_cookies_answers_and_tiers_are_as_written() {
    let written = service(
        "sticky: { cookie: c, secret: { value: 0123456789abcdef }, max_age: 1h, secure: true, same_site: none }, \
         when_down: { body: sorry }, slow_start: 30s, panic_threshold: 30%",
    );
    let sticky = written.sticky.unwrap();
    assert_eq!((&*sticky.cookie, sticky.max_age), ("c", Some(3600 * SECOND)));
    assert!(sticky.secure && sticky.same_site == SameSite::None);
    let (content_type, body) = ("text/plain; charset=utf-8".into(), "sorry".into());
    assert_eq!(written.when_down, WhenDown::Answer(StaticAnswer { status: 503, content_type, body }));
    assert_eq!((written.balance.slow_start, written.balance.panic_threshold), (Some(30 * SECOND), 30));
    let loaded = load(
        "routes: [ { to: a } ]\nservices: { a: { endpoints: [ \"http://a\", { url: \"http://b\", tier: 3 }, \
         { url: \"http://c\", backup: true }, { url: \"http://d\", backup: false } ] } }",
    );
    let keyed =
        service("balance: { hash: { on: { query: user }, algorithm: maglev, bounded_load: 150% } }").balance;
    assert_eq!((keyed.algorithm.name, keyed.bounded_load), ("maglev", Some(150)));
    assert_eq!(keyed.key, Some(HashKey::Query("user".into())));
    assert_eq!(service("balance: { hash: { on: client_ip } }").balance.algorithm.name, "ring");
    let tiers: Vec<u8> = loaded.plan.services[0].endpoints.iter().map(|endpoint| endpoint.tier).collect();
    assert_eq!(tiers, [0, 3, 1, 0]);
}

#[test]
fn a_split_names_its_services_and_its_key() {
    let loaded = load(
        "defaults: { timeouts: { idle: 9s } }\n\
         routes:\n  - to: [ { service: b, weight: 95 }, { service: a } ]\n    timeouts: { first_byte: 3s }\n  \
         - to: { split: [ { service: a, weight: 0 }, { service: b } ], sticky_by: { header: X-User } }\n\
         services: { a: { endpoints: [ \"http://a\" ], timeouts: { first_byte: 1s, idle: 1s } }, b: { endpoints: [ \"http://b\" ] } }",
    );
    let part = |service, weight| (ServiceId(service), weight);
    let routes = &loaded.plan.routes;
    assert_eq!(routes[0].to, To::Split(Split { parts: vec![part(1, 95), part(0, 1)], key: None }));
    let key = Some(HashKey::Header("x-user".into()));
    assert_eq!(routes[1].to, To::Split(Split { parts: vec![part(0, 0), part(1, 1)], key }));
    assert_eq!((routes[0].timeouts.first_byte, routes[0].timeouts.idle), (3 * SECOND, 9 * SECOND));
    // Each service keeps its own, where the route says nothing.
    let to = |route: usize, service| {
        let timeouts = routes[route].timeouts_to(Some(ServiceId(service)));
        (timeouts.first_byte, timeouts.idle)
    };
    assert_eq!([to(0, 0), to(0, 1)], [(3 * SECOND, SECOND), (3 * SECOND, 9 * SECOND)]);
    assert_eq!([to(1, 0), to(1, 1)], [(SECOND, SECOND), (60 * SECOND, 9 * SECOND)]);
}

#[test]
fn webhooks_and_tokens_are_settings() {
    let loaded = load(
        "admin: { address: \"127.0.0.1:9900\", read_token: { value: abcdefghijklmnop } }\n\
         webhooks: [ { url: \"https://a/x\" }, { url: \"http://b\", events: [ endpoint_up, endpoint_up ], \
         secret: { value: 0123456789abcdef }, timeout: 1s, attempts: 1 } ]\n\
         routes: [ { to: [ \"http://127.0.0.1:1\" ] } ]",
    );
    let [all, one] = &loaded.settings.webhooks[..] else { panic!("two are written") };
    assert_eq!(*all, WebhookPolicy::new(HttpUrl::parse("https://a/x").unwrap()));
    let expected = WebhookPolicy {
        events: vec![EventKind::EndpointUp],
        secret: SigningKey::new(b"0123456789abcdef").ok(),
        timeout: SECOND,
        attempts: 1,
        ..WebhookPolicy::new(HttpUrl::parse("http://b").unwrap())
    };
    assert_eq!(*one, expected);
    assert!(!format!("{:?}", loaded.settings).contains("0123456789abcdef"));
    let admin = loaded.settings.admin.unwrap();
    assert!(admin.token.is_none() && admin.read_token.is_some());
}
