//! Each check warns where it should, and is silent about what is written on purpose.

use super::WARNINGS;
use crate::load::check_text;

/// The words and lines of the warnings about this.
fn warnings(text: &str) -> Vec<(&'static str, usize)> {
    let loaded = check_text("a.yaml", text, &|_| None).unwrap_or_else(|report| panic!("{report}"));
    let report = loaded.warnings;
    report.errors.iter().map(|error| (error.word(), report.sources.position(error.span).line)).collect()
}

fn with(rest: &str) -> String {
    format!("listeners: {{ web: {{ address: \":8080\" }} }}\n{rest}")
}

const TO: &str = "to: [ \"http://127.0.0.1:9001\" ]";

#[test]
fn every_warning_is_in_the_guide() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/check.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for (code, summary) in WARNINGS {
        let row = format!("| `{code}` | {summary} |");
        assert!(guide.contains(&row), "docs/guide/check.md lacks the row\n{row}");
    }
}

#[test]
fn a_route_that_another_hides() {
    let text = with(&format!("routes:\n  - {TO}\n  - name: late\n    {TO}\n"));
    assert_eq!(warnings(&text), [("route_never_matches", 4)]);
    let text = with(&format!("routes:\n  - {TO}\n  - match: {{ path: /a/* }}\n    {TO}\n"));
    assert_eq!(warnings(&text), []);
}

#[test]
fn an_expression_that_matches_no_path() {
    let regex = |text: &str| with(&format!("routes:\n  - match: {{ path_regex: \"{text}\" }}\n    {TO}\n"));
    assert_eq!(warnings(&regex("img/[a-z]+")), [("route_never_matches", 3)]);
    for fine in ["/img/[a-z]+", "(?i)/img", "a?/b", "a|/b", ".*img"] {
        assert_eq!(warnings(&regex(fine)), [], "{fine}");
    }
}

#[test]
fn deadlines_that_never_run_out() {
    let route = |timeouts: &str| with(&format!("routes:\n  - {TO}\n    timeouts: {timeouts}\n"));
    assert_eq!(warnings(&route("{ first_byte: 10s, request: 5s }")), [("timeouts_contradict", 4)]);
    assert_eq!(warnings(&route("{ first_byte: 5s, request: 5s, idle: 1s }")), []);
    let text = format!("defaults: {{ timeouts: {{ first_byte: 60s }} }}\n{}", route("{ request: 5s }"));
    assert_eq!(warnings(&text), [], "a default for all, and one route with less time");
}

#[test]
fn bounds_that_are_never_reached() {
    let text = format!(
        "limits: {{ max_connections: 10, max_in_flight: 5 }}\nlisteners:\n  web: {{ address: \":80\", limits: {{ max_connections: 11 }} }}\nroutes:\n  - {TO}\n    limits: {{ max_in_flight: 6 }}\n"
    );
    assert_eq!(warnings(&text), [("limits_contradict", 3), ("limits_contradict", 6)]);
}

#[test]
fn weights_that_keep_traffic_away() {
    let text = with(
        "routes:\n  - to:\n      - { service: a }\n      - { service: b, weight: 0 }\nservices:\n  a: { endpoints: [ { url: \"http://a\", weight: 0 } ] }\n  b: { endpoints: [ { url: \"http://b\", weight: 0 }, \"http://c\" ] }\n",
    );
    assert_eq!(warnings(&text), [("weight_zero", 5), ("weight_zero", 7)]);
}

#[test]
fn the_proxy_as_its_own_endpoint() {
    for (address, url, hit) in [
        (":8080", "http://127.0.0.1:8080", true),
        (":8080", "http://[::1]:8080", true),
        (":8080", "http://127.0.0.1:8081", false),
        (":8080", "http://10.0.0.1:8080", false),
        ("10.0.0.1:80", "http://10.0.0.1", true),
        ("0.0.0.0:80", "http://[::1]", false),
        ("unix:/a", "unix:/a", true),
        ("unix:/a", "unix:/b", false),
    ] {
        let text =
            format!("listeners: {{ web: {{ address: \"{address}\" }} }}\nroutes:\n  - to: [ \"{url}\" ]\n");
        let expected: &[(&str, usize)] = if hit { &[("endpoint_is_listener", 3)] } else { &[] };
        assert_eq!(warnings(&text), expected, "{address} {url}");
    }
}

#[test]
fn what_only_requests_can_be_served_by() {
    let text = |url: &str, to: &str, more: &str| {
        format!(
            "listeners: {{ it: {{ address: \":8080\", {to} }} }}\nservices:\n  s: {{ endpoints: [ \"{url}\" ] {more} }}\n"
        )
    };
    for (url, to) in
        [("tcp://10.0.0.9:1", "protocol: tcp, to: s"), ("udp://10.0.0.9:1", "protocol: udp, to: s")]
    {
        for ignored in [
            ", retry: { per_try_timeout: 1s }",
            ", host: endpoint",
            ", retry: { statuses: [ 503 ] }",
            ", retry: { hedge: { after: 50ms } }",
            ", timeouts: { first_byte: 1s }",
        ] {
            assert_eq!(warnings(&text(url, to, ignored)), [("setting_ignored", 3)], "{ignored}");
        }
        for fine in [
            "",
            ", sticky: off",
            ", retry: { attempts: 3, hedge: off }",
            ", timeouts: { idle: 1m, connect: 1s }",
        ] {
            assert_eq!(warnings(&text(url, to, fine)), [], "{fine}");
        }
    }
    let cookie = warnings(&text("tcp://10.0.0.9:1", "protocol: tcp, to: s", ", sticky: true"));
    assert!(cookie.contains(&("setting_ignored", 3)), "{cookie:?}");
    let both = text("unix:/run/app.sock", "protocol: tcp, to: s", ", host: endpoint");
    assert_eq!(warnings(&both), [], "it may take requests too");
}

#[test]
fn trust_in_everyone() {
    let text = |nets: &str| format!("trusted_proxies: {nets}\n{}", with(&format!("routes:\n  - {TO}\n")));
    assert_eq!(warnings(&text("[ 0.0.0.0/0, \"::/0\" ]")), [("trusts_everyone", 1); 2]);
    assert_eq!(warnings(&text("[ 10.0.0.0/8 ]")), []);
}

#[test]
fn the_same_webhook_again() {
    let text = |first: &str, second: &str| {
        let hook = |events: &str| format!("  - {{ url: \"http://127.0.0.1:9\"{events} }}\n");
        with(&format!("routes:\n  - {TO}\nwebhooks:\n{}{}", hook(first), hook(second)))
    };
    let (down, up) = (", events: [ endpoint_down ]", ", events: [ endpoint_up ]");
    assert_eq!(warnings(&text("", down)), [("webhook_twice", 6)]);
    assert_eq!(warnings(&text(down, down)), [("webhook_twice", 6)]);
    assert_eq!(warnings(&text(down, up)), []);
}

#[test]
fn a_quote_that_does_not_begin() {
    let text = with(&format!("routes:\n  - name: the users'\n    {TO}\n"));
    assert_eq!(warnings(&text), [("stray_quote", 3)]);
    assert_eq!(warnings(&text.replace("the users'", "the 'users'")), []);
    assert!(check_text("a.yaml", &text.replace('\'', "\""), &|_| None).is_err());
}

#[test]
fn words_that_are_nearly_another() {
    let text = |host: &str, method: &str| {
        with(&format!(
            "routes:\n  - match: {{ methods: [ {method} ] }}\n    to: a\nservices:\n  a:\n    endpoints: [ \"http://a\" ]\n    host: {host}\n"
        ))
    };
    assert_eq!(warnings(&text("kep", "GTE")), [("word_misspelt", 3), ("word_misspelt", 8)]);
    for (host, method) in [("keep", "GET"), ("app", "PURGE"), ("keep.example", "LOCK"), ("endpoint", "MKCOL")]
    {
        assert_eq!(warnings(&text(host, method)), [], "{host} {method}");
    }
    let log =
        |path: &str| format!("access_log: {{ path: {path} }}\n{}", with(&format!("routes:\n  - {TO}\n")));
    assert_eq!(warnings(&log("stdot")), [("word_misspelt", 1)]);
    assert_eq!(warnings(&log("access.log")), []);
}

#[test]
fn keys_without_a_value() {
    let text = with(&format!("routes:\n  - {TO}\n    timeouts:\n      request:\n"));
    let report = check_text("a.yaml", &text, &|_| None).unwrap_err();
    assert_eq!(
        (report.errors[0].word(), report.sources.position(report.errors[0].span).line),
        ("no_value", 5)
    );
    assert_eq!(warnings(&text.replace("request:", "request: null")), []);
    assert_eq!(warnings(&with(&format!("limits:\nroutes:\n  - {TO}\n    timeouts:\n"))), []);
}

#[test]
fn a_file_that_may_be_cut_off() {
    let text = with(&format!("routes:\n  - {TO}\n    limits: {{ }}\nworkers: 1"));
    assert_eq!(warnings(&text), [("unfinished", 5)]);
    assert_eq!(warnings(text.trim_end_matches("\nworkers: 1")), []);
}

#[test]
fn redirects_that_lead_back_to_themselves() {
    let route = |filter: &str, r#match: &str| {
        with(
            &format!("routes:\n  - {TO}\n    match: {match}\n    filters: [ {{ redirect: \"{filter}\" }} ]\n", match = r#match),
        )
    };
    for (filter, r#match) in [
        ("/maintenance", "{ path: /* }"),
        ("http://{host}{path}", "{ path: /a/* }"),
        ("http://shop.test/a", "{ host: shop.test, path: /a }"),
        ("/a/{path.id}", "{ path: \"/a/{id}\" }"),
    ] {
        assert_eq!(warnings(&route(filter, r#match)), [("redirect_to_itself", 3)], "{filter}");
    }
    for (filter, r#match) in [
        ("https://{host}{path}", "{ path: /* }"),
        ("http://www.example.com{path}", "{ path: /* }"),
        ("http://shop.test:8080{path}", "{ host: shop.test }"),
        ("http://www.shop.test{path}", "{ host: shop.test }"),
        ("/b{path}", "{ path: /a/* }"),
        ("{path}/", "{ path: /a }"),
    ] {
        assert_eq!(warnings(&route(filter, r#match)), [], "{filter}");
    }
    let both = format!(
        "routes:\n  - {{ name: a, match: {{ path: /a }}, {TO}, filters: [ {{ redirect: /b }} ] }}\n  - {{ name: b, match: {{ path: /b }}, {TO}, filters: [ {{ redirect: /a }} ] }}\n"
    );
    assert_eq!(warnings(&with(&both)), [("redirect_to_itself", 3), ("redirect_to_itself", 4)]);
}

#[test]
fn clients_that_are_sent_to_tls_which_nobody_speaks() {
    let listener = |key: &str| format!("listeners:\n  web: {{ address: \":80\"{key} }}\nroutes:\n  - {TO}\n");
    assert_eq!(warnings(&listener(", redirect_https: true")), [("redirect_without_tls", 2)]);
    assert_eq!(warnings(&listener(", redirect_https: false")), []);
}
