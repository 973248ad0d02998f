//! Property: no document and no new route reaches a protected endpoint without the guard of the file, by any way.
//!
//! The oracle reads the plan independently of the module: it identifies the guard by its argument, and the endpoint
//! by a list of its spellings.

use super::lost;
use crate::{Offer, check_text, with_documents};
use proptest::prelude::*;
use std::sync::Arc;
use thalweg_discovery::Document;
use thalweg_filter::{Chain, Step};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{ServiceId, To};

/// Spellings of the endpoint of `inner`, and other addresses of the same machine and port.
const INNER: &[&str] = &[
    "http://127.0.0.1:2",
    "http://localhost:2",
    "http://LOCALHOST.:2",
    "http://a.localhost:2",
    "http://[::1]:2",
    "http://[::ffff:127.0.0.1]:2",
    "http://[::ffff:7f00:1]:2",
    "http://127.0.0.7:2",
    "http://0.0.0.0:2",
    "http://[::]:2",
    "http://0x7f000001:2",
];
const OTHER: &[&str] = &["http://10.0.0.1:2", "http://127.0.0.1:3", "http://elsewhere.test:2"];
const GUARD: &str = "auth: { network: 10.0.0.0/8 }";
/// How the file protects `inner`.
const FILES: &[(&str, &str)] = &[
    ("{ chain: safe }", ""),
    ("{ auth: { network: 10.0.0.0/8 } }", ""),
    ("{ chain: plain }", ", filters: [ { chain: safe } ]"),
];
const FILTERS: &[&str] = &[
    "chain: safe",
    "chain: plain",
    "chain: own",
    "auth: { network: 10.0.0.0/8 }",
    "auth: { network: [ 0.0.0.0/0, '::/0' ] }",
    "auth: { network: 10.0.0.0/8 }, when: { method: POST }",
    "chain: safe, when: { header: { X-A: b } }",
    "auth: { network: 10.0.0.0/8, dry_run: true }",
    "access: { allow: [ 0.0.0.0/0 ] }",
    "headers: { request: { set: { X-User: root } } }",
    "strip_prefix: /a",
    "mirror: inner",
    "mirror: x",
    "mirror: shop",
    "auth: { forward_auth: { service: inner, path: /a } }",
    "auth: { forward_auth: { service: y, path: /a } }",
    "ext: { service: inner }",
    "ext: { service: x }",
    "split: { cookie: v, to: { a: inner, b: y } }",
    "cache: {}",
    "respond: 404",
];
const TARGETS: &[&str] = &[
    "inner",
    "shop",
    "x",
    "y",
    "[ { service: shop, weight: 99 }, { service: inner, weight: 1 } ]",
    "[ { service: x, weight: 1 }, { service: y, weight: 0 } ]",
    "[ URL ]",
    "{ sealed: { domain: '*.s.test', keys: [ { id: 1, secret: { value: KEY } } ], allow: [ '127.0.0.0/8:1-65535' ] } }",
    "{ sealed: { domain: '*.s.test', keys: [ { id: 1, secret: { value: KEY } } ], services: [ inner, shop ], allow: [] } }",
];

fn file((filters, of_service): (&str, &str), more: &Parts) -> String {
    format!(
        "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
         chains: {{ safe: [ {{ {GUARD} }} ], plain: [ {{ hsts: {{}} }} ]{} }}\n\
         services: {{ inner: {{ endpoints: ['http://127.0.0.1:2']{of_service} }}, shop: {{ endpoints: ['http://10.0.0.9:1'] }}{} }}\n\
         routes: [ {{ name: inner, match: {{ host: inner.test }}, filters: [ {filters} ], to: inner }}, \
         {{ name: shop, match: {{ host: shop.test }}, to: shop }}{} ]\n",
        more.chains, more.services, more.routes
    )
}

/// Additions to the sections of a file, each with a comma before it.
#[derive(Clone, Debug, Default)]
struct Parts {
    chains: String,
    services: String,
    routes: String,
}

impl Parts {
    fn document(&self) -> String {
        let [chains, services, routes] =
            [&self.chains, &self.services, &self.routes].map(|it| it.trim_start_matches(','));
        format!("chains: {{ {chains} }}\nservices: {{ {services} }}\nroutes: [ {routes} ]\n")
    }
}

fn url() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => prop::sample::select(INNER), 1 => prop::sample::select(OTHER)]
}

fn filters() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(FILTERS), 0..4)
}

fn route() -> impl Strategy<Value = (Vec<&'static str>, &'static str, &'static str, &'static str)> {
    let matches = prop::sample::select(
        &["host: inner.test", "host: inner.test, path: /a/*", "path: /b", "host: '*.s.test'"][..],
    );
    (filters(), prop::sample::select(TARGETS), url(), matches)
}

fn parts() -> impl Strategy<Value = Parts> {
    let chain = prop::collection::vec(prop::sample::select(&FILTERS[3..]), 1..3);
    let health = prop::sample::select(&["", ", health: /up"][..]);
    (chain, url(), url(), health, prop::collection::vec(route(), 1..3)).prop_map(
        |(chain, x, y, health, routes)| {
            let list = |filters: &[&str]| {
                filters.iter().map(|it| format!("{{ {it} }}")).collect::<Vec<_>>().join(", ")
            };
            let own = chain.into_iter().filter(|filter| *filter != "chain: own").collect::<Vec<_>>();
            let key = "0123456789abcdef".repeat(8);
            let routes = routes.into_iter().enumerate().map(|(at, (filters, to, url, matches))| {
                let to = to.replace("URL", url).replace("KEY", &key);
                format!(
                    ", {{ name: added {at}, match: {{ {matches} }}, filters: [ {} ], to: {to} }}",
                    list(&filters)
                )
            });
            Parts {
                chains: format!(", own: [ {} ]", list(&own)),
                services: format!(", x: {{ endpoints: ['{x}']{health} }}, y: {{ endpoints: ['{y}'] }}"),
                routes: routes.collect(),
            }
        },
    )
}

/// The first way of an added route to the endpoint of `inner` without its guard.
fn way_past(plan: &Plan) -> Option<String> {
    let is_inner = |id: ServiceId| {
        let service = &plan.services[id.0 as usize];
        service.endpoints.iter().any(|endpoint| INNER.contains(&&*endpoint.url))
    };
    let is_guard = |step: &Step| {
        step.name() == "auth" && step.when.is_empty() && step.filter.argument() == "network (10.0.0.0/8)"
    };
    let called = |name: &str| {
        let at = plan.services.iter().position(|service| *service.name == *name).unwrap();
        ServiceId(at as u32)
    };
    let flaw = |chain: &Chain, service: Option<ServiceId>| -> Option<String> {
        let mut is_guarded = false;
        for step in chain.steps() {
            is_guarded |= is_guard(step);
            let reaches = step.filter.calls().iter().any(|name| is_inner(called(name)));
            if reaches && !is_guarded {
                return Some(format!("{} calls it", step.name()));
            }
            if step.answers() {
                return None;
            }
        }
        (!is_guarded && service.is_some_and(is_inner)).then(|| "it leads there".to_owned())
    };
    for route in plan.routes.iter().filter(|route| route.name.starts_with("added ")) {
        for service in route.all_services().map(Some).chain([None]) {
            if let Some(why) = flaw(route.chain(0, service), service) {
                return Some(format!("{}: {why}", route.name));
            }
        }
        if let To::Sealed(sealed) = &route.to
            && sealed.allow.permits("127.0.0.1:2".parse().unwrap(), |_| false).is_ok()
            && flaw(route.chain(0, None), Some(called("inner"))).is_some()
        {
            return Some(format!("{}: labels may name it", route.name));
        }
    }
    None
}

fn merged(file: &str, documents: &[Parts]) -> crate::Merged {
    let alone =
        check_text("a.yaml", file, &|_| None).unwrap_or_else(|report| panic!("{}\n{file}", report.lines()));
    let documents: Arc<[Document]> = documents
        .iter()
        .enumerate()
        .map(|(at, parts)| Document { name: format!("{at}").into(), text: parts.document().into() })
        .collect();
    let offer =
        Offer { source: "etcd: /r/ at b".into(), documents, good: Arc::default(), refused: Arc::default() };
    with_documents(alone, ("a.yaml", file.as_bytes()), &|_| None, (&[offer], &|_| None))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_document_leads_to_a_protected_endpoint_past_the_guard_of_the_file(
        of_file in prop::sample::select(FILES),
        documents in prop::collection::vec(parts(), 1..3),
    ) {
        let merged = merged(&file(of_file, &Parts::default()), &documents);
        let plan = &merged.loaded.plan;
        prop_assert_eq!(way_past(plan), None);
        let added = plan.routes.iter().filter(|route| route.name.starts_with("added "));
        prop_assert!(added.clone().all(|route| !matches!(route.to, To::Sealed(_))));
        for service in plan.services.iter().filter(|service| ["x", "y"].contains(&&*service.name)) {
            let is_inner = service.endpoints.iter().any(|endpoint| INNER.contains(&&*endpoint.url));
            prop_assert!(!is_inner || service.health.is_none());
        }
    }

    #[test]
    fn no_route_that_arrives_leads_to_a_protected_endpoint_past_the_guard_of_the_file(
        of_file in prop::sample::select(FILES),
        more in parts(),
    ) {
        let before = check_text("a.yaml", &file(of_file, &Parts::default()), &|_| None).unwrap();
        if let Ok(after) = check_text("a.yaml", &file(of_file, &more), &|_| None) {
            let lost = lost(&before.plan, &after.plan);
            if let Some(why) = way_past(&after.plan) {
                prop_assert!(!lost.is_empty(), "{}", why);
            }
        }
    }
}

/// Guards the property above against being vacuous.
#[test]
fn a_document_leads_there_through_the_chain_of_the_file() {
    for (at, of_file) in FILES.iter().enumerate() {
        let route = "{ name: added 0, match: { path: /b }, filters: [ { strip_prefix: /b }, { chain: safe } ], to: inner }";
        let own = Parts { routes: format!(", {route}"), ..Parts::default() };
        let merged = merged(&file(*of_file, &Parts::default()), &[own]);
        let runs = merged.loaded.plan.routes.iter().any(|route| &*route.name == "added 0");
        assert!(runs, "{at}: {:?}", merged.flaws);
    }
}
