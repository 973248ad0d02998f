//! Every value and where it comes from.

use super::*;
use crate::load::{Loaded, check_text};
use thalweg_proxy::explain::{Question, explain};

const TEXT: &str = "\
listeners: { web: { address: \":${PORT}\" } }
defaults:
  timeouts: { connect: 1s, idle: 9s }
  retry: { attempts: 4, hedge: { after: 50ms } }
  limits:
    max_in_flight: 5
    queue: { size: 7 }
chains:
  inner: [ { strip_prefix: /c } ]
  api:
    - strip_prefix: /a
    - chain: inner
    - strip_prefix: \"${PREFIX:-/b}\"
services:
  api:
    endpoints:
      - \"http://127.0.0.1:1\"
      - { url: \"http://127.0.0.1:2\", weight: 3 }
    timeouts: { connect: 4s, first_byte: 5s }
    retry: { attempts: 2, hedge: { after: 10ms } }
  other: { endpoints: [ \"http://127.0.0.1:3\" ] }
routes:
  - name: products
    match: { path: /p/* }
    filters: [ { strip_prefix: /p }, { chain: api } ]
    to: api
    timeouts:
      first_byte: 7s
    limits: { queue: { timeout: 2s } }
  - name: split
    match: { path: /s/* }
    to: [ { service: api }, { service: other } ]
  - to: [ \"http://127.0.0.1:4\" ]
";

fn loaded() -> Loaded {
    let environment = |name: &str| (name == "PORT").then(|| "8080".to_owned());
    check_text("t.yaml", TEXT, &environment).unwrap()
}

fn origins(object: Object<'_>, expected: &[(&str, &str)]) {
    let provenance = loaded().provenance;
    for (field, origin) in expected {
        assert_eq!(provenance.of(object, field).to_string(), *origin, "{object:?} {field}");
    }
}

#[test]
fn an_explanation_says_where_its_values_are_written() {
    let loaded = loaded();
    let question = Question { method: "GET".into(), url: "/p/a/c/b/x".into(), ..Question::default() };
    let mut told = explain(&loaded.plan, &question, false, None).unwrap();
    loaded.provenance.add_origins(&loaded.plan, &mut told);
    let find = |object: &str, field: &str| {
        let found = told.origins.iter().find(|origin| origin.object == object && origin.field == field);
        found.map(|origin| (origin.value.as_deref().unwrap_or_default(), origin.origin.as_str()))
    };
    assert_eq!(find("route `products`", "match"), Some(("", "t.yaml:24")));
    assert!(find("route `products`", "filters[2]").unwrap().0.starts_with("strip_prefix"));
    assert_eq!(find("route `products`", "timeouts.first_byte"), Some(("7s", "t.yaml:28")));
    assert_eq!(find("route `products`", "timeouts.idle"), Some(("9s", "t.yaml:3 (defaults)")));
    assert_eq!(find("service `api`", "retry.attempts"), Some(("2", "t.yaml:20")));
    assert_eq!(
        find("route `products`", "limits.queue.timeout"),
        Some(("2s", "t.yaml:29")),
        "no code of its own"
    );
    assert_eq!(find("service `api`", "host"), None, "nobody wrote one");
    assert!(told.to_string().contains("\nwhere service `api` is written\n"), "{told}");
}

#[test]
fn an_explanation_of_a_split_shows_the_timeouts_of_each_service() {
    let loaded = loaded();
    let question = Question { method: "GET".into(), url: "/s/x".into(), ..Question::default() };
    let mut told = explain(&loaded.plan, &question, false, None).unwrap();
    loaded.provenance.add_origins(&loaded.plan, &mut told);
    let route = told.route.as_ref().unwrap();
    assert_eq!((route.timeouts.connect_ms, route.timeouts.first_byte_ms), (1_000, 60_000));
    let own: Vec<_> = route
        .services
        .iter()
        .map(|part| part.timeouts.as_ref().map(|own| (own.connect_ms, own.first_byte_ms, own.idle_ms)))
        .collect();
    assert_eq!(own, [Some((4_000, 5_000, 9_000)), None]);
    let found = told.origins.iter().find(|origin| origin.object == "route `split` to service `api`");
    assert_eq!(found.map(|origin| origin.origin.as_str()), Some("t.yaml:19 (service `api`)"));
    assert!(told.to_string().contains("timeouts: connect 4s, first byte 5s, idle 9s"), "{told}");
}

#[test]
fn of_a_route() {
    origins(
        Object::Route("products"),
        &[
            ("name", "t.yaml:23"),
            ("match.path", "t.yaml:24"),
            ("match.host", "built in"),
            ("to", "t.yaml:26"),
            ("timeouts.first_byte", "t.yaml:28"),
            ("timeouts.connect", "t.yaml:19 (service `api`)"),
            ("timeouts.idle", "t.yaml:3 (defaults)"),
            ("timeouts.request", "built in"),
            ("limits.max_in_flight", "t.yaml:6 (defaults)"),
            ("limits.queue.timeout", "t.yaml:29"),
            ("limits.queue.size", "t.yaml:7 (defaults)"),
            ("limits.priority", "built in"),
            ("filters[0]", "t.yaml:25"),
            ("filters[1]", "t.yaml:11 (chain `api`)"),
            ("filters[2]", "t.yaml:9 (chain `inner`)"),
            ("filters[3]", "t.yaml:13 (chain `api`; variable PREFIX, which is not set)"),
            ("filters[4]", "built in"),
            ("no.such[3].field", "built in"),
            ("", "built in"),
        ],
    );
    // The last one is `map_back`, which nobody has written.
    assert_eq!(loaded().plan.routes[0].filters.steps().len(), 5);
}

#[test]
fn of_a_route_without_a_service_of_its_own_name() {
    origins(
        Object::Route("split"),
        &[("timeouts.connect", "t.yaml:3 (defaults)"), ("timeouts.first_byte", "built in")],
    );
    // Each service of a split keeps its own.
    origins(
        Object::RouteTo("split", "api"),
        &[
            ("timeouts.connect", "t.yaml:19 (service `api`)"),
            ("timeouts.first_byte", "t.yaml:19 (service `api`)"),
            ("timeouts.idle", "t.yaml:3 (defaults)"),
        ],
    );
    origins(Object::RouteTo("split", "other"), &[("timeouts.connect", "t.yaml:3 (defaults)")]);
    origins(
        Object::Route("route 3"),
        &[("to", "t.yaml:33"), ("name", "built in"), ("timeouts.idle", "t.yaml:3 (defaults)")],
    );
    origins(Object::Route("none"), &[("to", "built in")]);
}

#[test]
fn of_a_service() {
    origins(
        Object::Service("api"),
        &[
            ("endpoints[0]", "t.yaml:17"),
            ("endpoints[1].weight", "t.yaml:18"),
            ("endpoints[0].weight", "built in"),
            ("retry.attempts", "t.yaml:20"),
            ("retry.budget", "built in"),
            // Inherited as a whole, or not at all.
            ("retry.hedge.after", "t.yaml:20"),
            ("retry.hedge.budget", "built in"),
            ("timeouts.idle", "t.yaml:3 (defaults)"),
            ("limits.max_in_flight", "built in"),
        ],
    );
    origins(
        Object::Service("other"),
        &[("retry.hedge.after", "t.yaml:4 (defaults)"), ("balance", "built in")],
    );
    origins(
        Object::Service("route 3"),
        &[
            ("endpoints[0]", "t.yaml:33"),
            ("retry.attempts", "t.yaml:4 (defaults)"),
            ("timeouts.connect", "t.yaml:3 (defaults)"),
        ],
    );
}

#[test]
fn of_what_is_no_route_and_no_service() {
    origins(
        Object::Listener("web"),
        &[("address", "t.yaml:1 (variable PORT)"), ("defer_accept", "built in")],
    );
    origins(Object::Top, &[("defaults.timeouts.idle", "t.yaml:3"), ("workers", "built in")]);
}

#[test]
fn it_says_what_the_plan_does() {
    let loaded = loaded();
    let route = &loaded.plan.routes[0];
    assert_eq!(route.timeouts.connect.as_secs(), 4);
    assert_eq!(route.timeouts.idle.as_secs(), 9);
    assert_eq!(route.limits.queue.size, 7);
    assert_eq!(loaded.plan.routes[1].timeouts.connect.as_secs(), 1);
    let service = |at: usize| &loaded.plan.services[at].retry;
    assert_eq!((service(0).attempts, service(1).attempts, service(2).attempts), (2, 4, 4));
    let after = |at: usize| service(at).hedge.map(|hedge| hedge.after.as_millis());
    assert_eq!((after(0), after(1), after(2)), (Some(10), Some(50), Some(50)));
}

#[test]
fn it_holds_no_value_of_a_variable() {
    let shown = format!("{:?}", loaded().provenance);
    assert!(!shown.contains("8080"), "{shown}");
}

#[test]
fn an_explanation_says_where_route_and_endpoints_are_written() {
    let loaded = loaded();
    let question = Question { method: "GET".into(), url: "/s/x".into(), ..Question::default() };
    let mut told = explain(&loaded.plan, &question, false, None).unwrap();
    loaded.provenance.add_origins(&loaded.plan, &mut told);
    loaded.provenance.add_endpoint_origins(&loaded.plan, &mut told);
    let route = told.route.as_ref().unwrap();
    assert_eq!(route.origin.as_deref(), Some("t.yaml:30"));
    let endpoints = route.services.iter().flat_map(|service| &service.endpoints);
    let endpoints: Vec<_> = endpoints.map(|endpoint| endpoint.origin.as_deref().unwrap()).collect();
    assert_eq!(endpoints, ["written in t.yaml:17", "written in t.yaml:18", "written in t.yaml:21"]);
    assert!(told.to_string().contains("http://127.0.0.1:2  weight 3; written in t.yaml:18\n"), "{told}");
    assert!(told.to_string().contains("\nroute `split` (t.yaml:30): "), "{told}");
}

#[test]
fn an_endpoint_that_is_no_list_and_one_of_a_route_have_places_too() {
    let text = "listeners: { web: { address: \":0\" } }\nservices:\n  a:\n    endpoints: \"http://127.0.0.1:1\"\n  b:\n    endpoints:\n      \
                url: \"http://127.0.0.1:2\"\nroutes:\n  - { match: { path: /a }, to: a }\n  \
                - { match: { path: /b }, to: b }\n  - name: own\n    to: [ \"http://127.0.0.1:3\" ]\n";
    let loaded = check_text("t.yaml", text, &|_| None).unwrap();
    let places = loaded.plan.services.iter().map(|service| {
        let origins = loaded.provenance.endpoints(&service.name);
        origins.iter().map(ToString::to_string).collect::<Vec<_>>()
    });
    let places: Vec<_> = places.flatten().collect();
    assert_eq!(places, ["t.yaml:4", "t.yaml:6", "t.yaml:12"]);
    assert!(loaded.provenance.endpoints("nobody").is_empty());
}

#[test]
fn what_changes_says_where_the_new_side_is_written() {
    let before = loaded();
    let text =
        TEXT.replace("/p/*", "/q/*").replace("weight: 3", "weight: 4").replace("name: split", "name: two");
    let after = check_text("new.yaml", &text, &|name| (name == "PORT").then(|| "8080".to_owned())).unwrap();
    let mut changes = crate::diff((&before.plan, &before.settings), (&after.plan, &after.settings));
    after.provenance.add_places(&after.plan, &mut changes);
    let lines: Vec<_> = changes.iter().map(ToString::to_string).collect();
    let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(has("~ route `products` (new.yaml:23)\n"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("+ route `two`: ") && line.ends_with(" (new.yaml:30)")));
    assert!(has("- route `split`: "), "{lines:#?}");
    let of = |name: &str| {
        changes.iter().find(|change| change.name == name).and_then(|change| change.place.clone())
    };
    assert_eq!(of("http://127.0.0.1:2").map(|place| place.to_string()).as_deref(), Some("new.yaml:18"));
    assert_eq!(of("split"), None);
}
