//! Attacks on caches: paths that look like files, paths that are read in two ways, and fields that change a response
//! and are no part of the key.

use thalweg_tests::message::fetch;
use thalweg_tests::{Message, Proxy};

use super::{Origin, ask, caching, config, good, reply, watchdog};

/// Paths of an account that somebody might take for a stylesheet.
const TRICKS: &[&str] = &[
    "/account/x.css",
    "/account/..%2fx.css",
    "/account/%2e%2e%2fx.css",
    "/account;x.css",
    "/account;/x.css",
    "/account%3bx.css",
    "/account%2fx.css",
    "/account%00x.css",
    "/account%0ax.css",
    "/account%3fx.css",
    "/account%23x.css",
    "/account/.css",
    "/account//x.css",
    "/account/./x.css",
    "/static/..%2faccount",
    "/static/%2e%2e/account",
    "/static/..;/account",
    "/static/..%5caccount",
    "/account?x.css",
    "/account?a=1&b=/x.css",
];

/// Fields in which a client may claim what only a proxy knows.
const FORWARDED: &[&str] = &[
    "X-Forwarded-Host: evil.test",
    "X-Forwarded-Proto: evil",
    "X-Forwarded-For: 6.6.6.6",
    "X-Real-IP: 6.6.6.6",
    "Forwarded: host=evil.test;proto=evil",
];

/// Fields by which some services choose what they answer.
const OVERRIDES: &[(&str, &str)] = &[
    ("X-Original-URL", "/evil"),
    ("X-Rewrite-URL", "/evil"),
    ("X-Host", "evil.test"),
    ("X-Forwarded-Scheme", "evil"),
    ("X-HTTP-Method-Override", "evil"),
    ("X_HTTP_Method_Override", "evil"),
    ("X-Middleware-Prefetch", "evil"),
    ("X-Scheme", "evil"),
];

/// The answer, whatever it is; nothing when the proxy refuses the target.
fn answer(proxy: &Proxy, target: &str, fields: &str) -> Option<Message> {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
    fetch(proxy.web(), &request).ok().filter(|answer| answer.status() == 200)
}

/// The page of who has the cookie, as a service gives it that routes by prefix and says nothing of caches.
#[test]
fn a_page_of_an_account_is_not_kept_for_its_path() {
    let _watchdog = watchdog("a_page_of_an_account_is_not_kept_for_its_path");
    let origin = Origin::start(|request, _| {
        let owner = request.value("cookie").unwrap_or("nobody").to_owned();
        Some(reply("200 OK", "Content-Type: text/html\r\n", &format!("account of {owner}")))
    });
    let proxy = caching(&origin.url(), "{}", "");
    for target in TRICKS {
        for owner in ["alice", "bob"] {
            let Some(page) = answer(&proxy, target, &format!("Cookie: {owner}\r\n")) else { continue };
            assert_eq!(page.text(), format!("account of {owner}"), "{target}");
        }
    }
}

#[test]
fn targets_that_the_service_tells_apart_are_told_apart() {
    let _watchdog = watchdog("targets_that_the_service_tells_apart_are_told_apart");
    let origin = Origin::start(|request, _| Some(good("", request.target())));
    let stored = caching(&origin.url(), "{}", "");
    let passed = Proxy::start(&config(&origin.url(), ""));
    let plain = [
        "/account",
        "/x.css",
        "/static/account",
        "/account/",
        "/ACCOUNT",
        "/account?",
        "/account?x.css=",
        "/",
    ];
    let targets: Vec<&str> = TRICKS.iter().chain(&plain).copied().collect();
    for round in 0..2 {
        for target in &targets {
            let (with, without) = (answer(&stored, target, ""), answer(&passed, target, ""));
            let [with, without] = [with, without].map(|page| page.map(|page| page.text()));
            assert_eq!(with, without, "{target}, round {round}");
        }
    }
}

#[test]
fn ports_hosts_and_queries_are_part_of_the_key() {
    let _watchdog = watchdog("ports_hosts_and_queries_are_part_of_the_key");
    let origin = Origin::start(|request, _| {
        Some(good("", &format!("{} {}", request.value("host").unwrap_or_default(), request.target())))
    });
    let proxy = caching(&origin.url(), "{}", "");
    for _ in 0..2 {
        for host in ["a.test", "b.test", "a.test:81", "a.test.b.test"] {
            for target in ["/", "/?a", "/?a=1", "/?a=1&b=2", "/?b=2&a=1", "/%3Fa=1"] {
                let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                assert_eq!(fetch(proxy.web(), &request).unwrap().text(), format!("{host} {target}"));
            }
        }
    }
}

/// A service that writes these fields into its page, as links or scripts often are made.
fn echoing() -> Origin {
    Origin::start(|request, _| {
        let said: String = request
            .fields
            .iter()
            .filter(|(name, _)| {
                name.to_ascii_lowercase().starts_with('x') || name.eq_ignore_ascii_case("forwarded")
            })
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect();
        Some(good("", &said))
    })
}

#[test]
fn claims_of_a_client_do_not_reach_the_page_of_another() {
    let _watchdog = watchdog("claims_of_a_client_do_not_reach_the_page_of_another");
    let origin = echoing();
    let proxy = caching(&origin.url(), "{}", "");
    for (number, field) in FORWARDED.iter().enumerate() {
        let path = format!("/page{number}");
        ask(&proxy, &path, &format!("{field}\r\n"));
        let page = ask(&proxy, &path, "").text();
        assert!(!page.contains("evil") && !page.contains("6.6.6.6"), "{field}: {page}");
    }
}

#[test]
fn fields_by_which_services_choose_pages_do_not_reach_the_page_of_another() {
    let _watchdog = watchdog("fields_by_which_services_choose_pages_do_not_reach_the_page_of_another");
    let origin = echoing();
    let proxy = caching(&origin.url(), "{}", "");
    for (number, (name, value)) in OVERRIDES.iter().enumerate() {
        let path = format!("/page{number}");
        ask(&proxy, &path, &format!("{name}: {value}\r\n"));
        let page = ask(&proxy, &path, "").text();
        assert!(!page.contains("evil"), "{name}: {page}");
        assert_eq!(origin.asked(&path), 1, "{name}: it is stored");
    }
}

#[test]
fn fields_of_the_key_do_not_reach_the_page_of_another() {
    let _watchdog = watchdog("fields_of_the_key_do_not_reach_the_page_of_another");
    let origin = echoing();
    // That one is refused in keys.
    let overrides = OVERRIDES.iter().filter(|(name, _)| *name != "X-Forwarded-Scheme");
    let names: Vec<&str> = overrides.clone().map(|(name, _)| *name).collect();
    let rule = format!("{{ key: {{ headers: [ {}, X-Device ] }} }}", names.join(", "));
    let proxy = caching(&origin.url(), &rule, "");
    for (number, (name, value)) in overrides.chain(&[("X-Device", "evil")]).enumerate() {
        let path = format!("/page{number}");
        let own = ask(&proxy, &path, &format!("{name}: {value}\r\n")).text();
        let other = ask(&proxy, &path, "").text();
        assert!(
            own.to_ascii_lowercase().contains(&name.to_ascii_lowercase()) && own.contains(value),
            "{name}: {own}"
        );
        assert!(!other.contains("evil"), "{name}: {other}");
        assert_eq!(ask(&proxy, &path, &format!("{name}: {value}\r\n")).text(), own, "its own is stored");
        assert_eq!(origin.asked(&path), 2, "{name}");
    }
}

/// Gateways write both names as `HTTP_X_DEVICE`.
#[test]
fn a_field_that_looks_like_one_of_the_key_does_not_reach_the_page_of_another() {
    let _watchdog = watchdog("a_field_that_looks_like_one_of_the_key_does_not_reach_the_page_of_another");
    let origin = echoing();
    let proxy = caching(&origin.url(), "{ key: { headers: [ X-Device ] } }", "");
    for (number, name) in ["X_Device", "x.device", "X_DEVICE"].into_iter().enumerate() {
        let path = format!("/page{number}");
        ask(&proxy, &path, &format!("{name}: evil\r\n"));
        let page = ask(&proxy, &path, "").text();
        assert!(!page.contains("evil"), "{name}: {page}");
        assert_eq!(origin.asked(&path), 1, "{name}: it is stored");
    }
}

#[test]
fn a_parameter_that_does_not_count_does_not_reach_the_service() {
    let _watchdog = watchdog("a_parameter_that_does_not_count_does_not_reach_the_service");
    let origin = Origin::start(|request, _| Some(good("", request.target())));
    let proxy = caching(&origin.url(), "{ key: { query: { exclude: [ \"utm_*\" ] } } }", "");
    let own = ask(&proxy, "/page?id=1&utm_source=%22evil", "").text();
    let other = ask(&proxy, "/page?id=1", "").text();
    assert!(!own.contains("evil") && own == other, "{own} and {other}");
    assert_eq!(origin.requests().len(), 1);
}

/// "Fat GET": the body is no part of the key.
#[test]
fn a_get_with_a_body_changes_nothing_for_others() {
    let _watchdog = watchdog("a_get_with_a_body_changes_nothing_for_others");
    let origin = Origin::start(|request, _| Some(good("", &format!("page{}", request.text()))));
    let proxy = caching(&origin.url(), "{}", "");
    let fat = "GET /page HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n evil";
    assert_eq!(fetch(proxy.web(), fat).unwrap().status(), 200);
    assert_eq!(ask(&proxy, "/page", "").text(), "page");
}

#[test]
fn an_error_that_a_client_provokes_is_not_kept() {
    let _watchdog = watchdog("an_error_that_a_client_provokes_is_not_kept");
    // Its limit of fields is below the proxy's, as with "CPDoS".
    let origin = Origin::start(|request, _| {
        let oversize = request.fields.iter().any(|(_, value)| value.len() > 2000);
        let meta = request.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-meta"));
        Some(if oversize || meta { reply("400 Bad Request", "", "no") } else { good("", "page") })
    });
    let proxy = caching(&origin.url(), "{}", "");
    for (path, field) in [("/a", format!("X-Long: {}", "x".repeat(3000))), ("/b", "X-Meta: 1".to_owned())] {
        assert_eq!(ask(&proxy, path, &format!("{field}\r\n")).status(), 400);
        assert_eq!(ask(&proxy, path, "").text(), "page", "{path}");
    }
}
