//! Tests of caches in a whole configuration: where each stores, and what `explain` says of them.

use crate::check_text;
use thalweg_proxy::Plan;
use thalweg_proxy::explain::{CacheSeen, Question, explain};
use thalweg_proxy::plan::Route;

const AROUND: &str = "listeners: { web: ':8080' }\nservices: { a: { endpoints: 'http://10.0.0.1:1' }, b: { endpoints: \
                      'http://10.0.0.2:1' } }\n";
const AUTH: &str = "auth: { network: 10.0.0.0/8 }";

fn read(text: &str) -> Result<Plan, String> {
    let text = format!("{AROUND}{}", text.replace("AUTH", AUTH));
    check_text("t.yaml", &text, &|_| None)
        .map(|loaded| loaded.plan)
        .map_err(|report| report.lines().to_string())
}

fn plan(text: &str) -> Plan {
    read(text).unwrap_or_else(|report| panic!("{report}\n{text}"))
}

/// The spaces in which a route stores, by the name of the service; empty: of what goes to none.
fn spaces(plan: &Plan, route: &Route) -> Vec<(String, String)> {
    let services = route.all_services().map(Some).chain([None]);
    let of = |service: Option<_>| {
        let chain = route.chain(0, service);
        let name = service.and_then(|id: thalweg_proxy::plan::ServiceId| plan.services.get(id.0 as usize));
        let name = name.map(|service| service.name.to_string()).unwrap_or_default();
        chain.caches().map(|rule| (name.clone(), rule.key.space.to_string())).collect::<Vec<_>>()
    };
    services.flat_map(of).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

fn told(plan: &Plan, method: &str, url: &str, fields: &[(&str, &str)]) -> Option<CacheSeen> {
    let headers = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let question = Question { headers, ..Question::from_line(&format!("{method} {url}")).unwrap() };
    explain(plan, &question, false, None).unwrap().route.unwrap().cache
}

#[test]
fn a_route_stores_under_its_name_and_each_of_its_services_apart() {
    let plan = plan(
        "routes:\n\
         - { name: one, match: { path: /one }, filters: [ { cache: {} } ], to: a }\n\
         - { name: own, match: { path: /own }, filters: [ { cache: { key: { space: x } } } ], to: a }\n\
         - { name: parts, match: { path: /parts }, filters: [ { cache: {} } ], to: [ { service: a }, { service: b } ] }\n\
         - { name: split, match: { path: /split }, filters: [ { split: { cookie: v, to: { b: b } } }, { cache: {} } ], \
         to: a }\n\
         - { name: none, to: a }\n",
    );
    let of = |name: &str| spaces(&plan, plan.routes.iter().find(|route| &*route.name == name).unwrap());
    assert_eq!(of("one"), pairs(&[("a", "one"), ("", "one")]));
    assert_eq!(of("own"), pairs(&[("a", "x"), ("", "x")]));
    assert_eq!(of("parts"), pairs(&[("a", "parts\ta"), ("b", "parts\tb")]));
    assert_eq!(of("split"), pairs(&[("a", "split\ta"), ("b", "split\tb")]));
    assert_eq!(of("none"), []);
    assert!(plan.has_cache());
    assert_eq!(plan.cache.memory, None);
}

#[test]
fn the_closest_cache_counts() {
    let text = "defaults: { filters: [ { cache: 1s } ] }\nroutes:\n\
                - { name: given, match: { path: /a }, to: a }\n\
                - { name: own, match: { path: /b }, filters: [ { cache: 2s } ], to: a }\n\
                - { name: alone, match: { path: /c }, inherit: false, to: a }\n";
    let plan = plan(text);
    let seconds = |name: &str| {
        let route = plan.routes.iter().find(|route| &*route.name == name).unwrap();
        let rules = route.chain(0, None).caches();
        rules.map(|rule| rule.policy.default_lifetimes[0].seconds).collect::<Vec<_>>()
    };
    assert_eq!(seconds("given"), [1]);
    assert_eq!(seconds("own"), [2]);
    assert_eq!(seconds("alone"), [0; 0]);
}

#[test]
fn the_cache_of_a_service_stands_in_place_of_all_others() {
    let text = "listeners: { web: { address: ':8080', filters: [ { cache: 1s } ] } }\n\
                services: { a: { endpoints: 'http://10.0.0.1:1', filters: [ { cache: 3s } ] }, b: { endpoints: \
                'http://10.0.0.2:1' } }\n\
                routes: [ { name: r, filters: [ { cache: 2s } ], to: [ { service: a }, { service: b } ] } ]\n";
    let plan = check_text("t.yaml", text, &|_| None).unwrap().plan;
    let route = &plan.routes[0];
    let services: Vec<_> = route.all_services().collect();
    let seconds = |at: usize| {
        let rules = route.chain(0, Some(services[at])).caches();
        rules.map(|rule| rule.policy.default_lifetimes[0].seconds).collect::<Vec<_>>()
    };
    assert_eq!((seconds(0), seconds(1)), (vec![3], vec![2]));
}

#[test]
fn explain_says_whether_a_request_is_looked_up_and_as_what() {
    let plan = plan(
        "routes:\n\
         - match: { path: /a/* }\n  to: a\n  filters:\n\
         \x20 - strip_prefix: /a\n\
         \x20 - cache: { key: { query: { exclude: \"utm_*\" }, sort_query: true, headers: X-Tenant, cookies: lang } }\n\
         \x20   when: { header: { X-Skip: \"\" } }\n\
         \x20 - cache: { key: { query: { exclude: \"utm_*\" }, headers: X-Tenant, cookies: lang } }\n\
         - match: { path: /b }\n  to: a\n  filters: [ { AUTH }, { cache: {} } ]\n\
         - match: { path: /c }\n  to: a\n  filters: [ { cache: {}, when: { method: POST } } ]\n\
         - match: { path: /d }\n  to: a\n  filters: [ { cache: { per_client: 5s } } ]\n\
         - to: a\n",
    );
    let secret = [("X-Tenant", "secret-1"), ("Cookie", "lang=secret-2")];
    let seen = told(&plan, "GET", "http://shop.test:8080/a/x?utm_a=1&q=2", &secret).unwrap();
    assert!(seen.looked_up && seen.remarks.is_empty(), "{seen:?}");
    assert_eq!(seen.key.as_deref(), Some("http://shop.test:8080/a/x?q=2"));
    assert_eq!(seen.key_parts, ["header X-Tenant", "cookie lang"]);
    assert!(!format!("{seen:?}").contains("secret"), "{seen:?}");

    let because = |method, path: &str, fields: &[_]| {
        told(&plan, method, &format!("http://shop.test{path}"), fields).unwrap().because.unwrap()
    };
    assert!(because("POST", "/a/x", &[]).contains("POST is not answered"));
    assert!(because("GET", "/a/x", &[("If-Match", "*")]).contains("If-Match"));
    assert!(because("GET", "/c", &[]).contains("no `when`"));

    let remarks = |path: &str, fields: &[_]| {
        told(&plan, "GET", &format!("http://shop.test{path}"), fields).unwrap().remarks.join("; ")
    };
    assert!(remarks("/a/x", &[("Authorization", "Basic x")]).contains("it has `Authorization`"));
    assert!(remarks("/a/x", &[("Range", "bytes=0-1")]).contains("range"));
    assert!(remarks("/a/x", &[("Cache-Control", "no-cache")]).contains("no-cache"));
    assert_eq!(told(&plan, "GET", "http://shop.test/else", &[]), None);

    let own = told(&plan, "GET", "http://shop.test/d", &[("Authorization", "Basic x")]).unwrap();
    assert!(own.looked_up && own.key_parts.contains(&"client_ip".to_owned()) && own.remarks.is_empty());
}

#[test]
fn explain_says_that_verified_clients_count_as_ones_with_credentials() {
    let plan = plan("routes: [ { to: a, filters: [ { cache: {} }, { AUTH } ] } ]\n");
    let question = Question::from_line("GET http://shop.test/").unwrap();
    let question = Question { from: Some("10.0.0.1".parse().unwrap()), ..question };
    let told = explain(&plan, &question, false, None).unwrap();
    assert!(told.to_string().contains("cache: the client is verified: only what says `public`"), "{told}");
    assert!(told.to_string().contains("cache: looked up as http://shop.test:80/\n"), "{told}");
}

#[test]
fn what_would_mix_clients_or_never_be_used_is_refused() {
    for (filters, part) in [
        ("{ AUTH }, { cache: { per_client: 5s } }", "tells clients apart by more"),
        ("{ cache: {} }, { cache: 5s, when: { path: /a } }", "for no request"),
        ("{ cache: {}, when: { status: 404 } }", "before there is a response"),
    ] {
        let error = read(&format!("routes: [ {{ to: a, filters: [ {filters} ] }} ]\n")).unwrap_err();
        assert!(error.contains(part), "{filters}: {error}");
    }
    plan(
        "routes: [ { to: a, filters: [ { AUTH }, { cache: { per_client: 5s, share_verified: true } } ] } ]\n",
    );
}
