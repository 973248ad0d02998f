//! Documents beside a file, from text to plan.

use super::*;
use crate::check_text;

const FILE: &str = "\
listeners: { web: { address: '127.0.0.1:0' } }
services: { shop: { endpoints: ['http://127.0.0.1:1'] }, inner: { endpoints: ['http://127.0.0.1:2'] } }
routes:
  - { name: shop, match: { host: shop.example.com }, to: shop }
  - { name: inner, match: { host: inner.example.com }, filters: [ { auth: { basic: { users: { a: '$$2b$$05$$C6UzMDM.H6dfI/f/IKcEeO7ZBX8vP3L5G5rXw8kUSGtYzwmSx2dGW' } } } } ], to: inner }
tests: [ { request: GET http://shop.example.com/, expect: { route: shop } } ]
";

fn documents(all: &[(&str, &str)]) -> Arc<[Document]> {
    all.iter().map(|(name, text)| Document { name: (*name).into(), text: (*text).into() }).collect()
}

pub(super) fn merged(newest: &[(&str, &str)], good: &[(&str, &str)]) -> Merged {
    merged_without(newest, good, &[])
}

fn merged_without(newest: &[(&str, &str)], good: &[(&str, &str)], refused: &[RefusedDocument]) -> Merged {
    let alone = check_text("a.yaml", FILE, &|_| None).map_err(|report| report.to_string()).unwrap();
    let offer = Offer {
        source: "etcd: /r/ at b".into(),
        documents: documents(newest),
        good: documents(good),
        refused: refused.into(),
    };
    with_documents(alone, ("a.yaml", FILE.as_bytes()), &|_| Some("secret".into()), (&[offer], &|_| None))
}

fn routes(merged: &Merged) -> Vec<&str> {
    merged.loaded.plan.routes.iter().map(|route| &*route.name).collect()
}

pub(super) fn flaws(merged: &Merged) -> String {
    let all = merged.flaws.iter().map(|flaw| format!("{}: {}\n", flaw.document, flaw.message));
    all.collect()
}

#[test]
fn routes_and_services_of_documents_follow_those_of_the_file() {
    let blog = "services: { blog: { endpoints: ['http://127.0.0.1:3'] } }\n\
                routes: [ { name: blog, match: { host: blog.example.com }, to: blog } ]\n\
                tests: [ { request: GET http://blog.example.com/, expect: { service: blog } } ]";
    let json = r#"{"routes":[{"name":"shop images","match":{"host":"shop.example.com","path":"/images/*"},"to":"shop"}]}"#;
    let merged = merged(&[("blog", blog), ("images.json", json)], &[]);
    assert_eq!(flaws(&merged), "");
    assert_eq!(routes(&merged), ["shop", "inner", "blog", "shop images"]);
    let origin = merged.loaded.provenance.of(crate::Object::Route("blog"), "match.host");
    assert_eq!(origin.to_string(), "etcd: /r/ at b: blog:2");
    assert_eq!(merged.good[0].len(), 2);
}

#[test]
fn the_file_wins_and_the_conflict_is_told() {
    let text = "routes: [ { name: shop, match: { host: evil.example.com }, to: inner } ]\n\
                services: { shop: { endpoints: ['http://127.0.0.1:9'] }, more: { endpoints: ['http://127.0.0.1:9'] } }";
    let again = "services: { more: { endpoints: ['http://127.0.0.1:8'] } }";
    let merged = merged(&[("a", text), ("b", again)], &[]);
    assert_eq!(routes(&merged), ["shop", "inner"]);
    assert_eq!(
        flaws(&merged),
        "a: line 1: the route `shop` is left out: there is one of this name in a.yaml:4\n\
         a: line 2: the service `shop` is left out: there is one of this name in a.yaml:2\n\
         b: line 1: the service `more` is left out: there is one of this name in etcd: /r/ at b: a:2\n"
    );
}

#[test]
fn a_document_with_a_mistake_is_left_out_alone() {
    let good = "routes: [ { name: good, match: { path: /good }, to: shop } ]";
    let bad = [
        ("syntax", "routes: [ {"),
        ("section", "listeners: { more: { address: ':1' } }"),
        ("unknown", "routes: [ { name: x, matsch: {}, to: shop } ]"),
        ("service", "routes: [ { name: x, to: nowhere } ]"),
        ("nameless", "routes: [ { to: shop } ]"),
        ("list", "routes: { a: b }"),
        ("text", "hello"),
        ("control", "routes: [ { name: \"a\u{1}\", to: shop } ]"),
        ("by position", "routes: [ { name: route 2, to: shop } ]"),
        ("inherit", "routes: [ { name: x, inherit: false, to: shop } ]"),
        ("test", "tests: [ { request: GET http://shop.example.com/, expect: { route: inner } } ]"),
    ];
    for (name, text) in bad {
        let merged = merged(
            &[("good", good), (name, text)],
            &[(name, "routes: [ { name: old, match: { path: /old }, to: shop } ]")],
        );
        let told = flaws(&merged);
        assert!(told.starts_with(&format!("{name}: line ")) && told.lines().count() == 1, "{name}: {told}");
        let mut routes = routes(&merged);
        routes.sort_unstable();
        assert_eq!(routes, ["good", "inner", "old", "shop"], "{name}");
    }
}

#[test]
fn a_mistake_is_told_with_its_help_and_whether_the_version_before_runs() {
    let bad = "routes: [ { name: x, mtach: { path: /x }, to: shop } ]";
    let old = "routes: [ { name: x, match: { path: /x }, to: shop } ]";
    let first = "x: line 1, column 22: unknown key `mtach` (did you mean `match`?)";
    assert_eq!(flaws(&merged(&[("x", bad)], &[])), format!("{first}\n"));
    let kept = merged(&[("x", bad)], &[("x", old)]);
    assert_eq!(routes(&kept), ["shop", "inner", "x"]);
    assert_eq!(flaws(&kept), format!("{first}; the version before it stays in use\n"));
    // A mistake that shows beside others, and a version that cannot run any more.
    let lost = "routes: [ { name: x, match: { path: /x }, to: gone } ]";
    assert!(
        flaws(&merged(&[("x", lost)], &[("x", old)])).ends_with("; the version before it stays in use\n")
    );
    assert!(!flaws(&merged(&[("x", bad)], &[("x", lost)])).contains("stays in use"));
}

#[test]
fn what_only_the_file_may_say_is_refused() {
    let service =
        |entry: &str| format!("services: {{ x: {{ endpoints: ['https://127.0.0.1:1'], {entry} }} }}");
    let endpoint = |url: &str| format!("services: {{ x: {{ endpoints: ['{url}'] }} }}");
    for text in [
        service("tls: { ca: /etc/passwd }"),
        service("tls: { insecure_skip_verify: true }"),
        endpoint("http://${HOME}:1"),
        endpoint("unix:/run/app.sock"),
        "routes: [ { name: x, filters: [ { files: /etc } ], to: shop } ]".into(),
        "services: { x: { discover: { docker: { service: a, socket: 'unix:///s' } } } }".into(),
        "services: { x: { discover: { etcd: { prefix: /a, password: { env: A }, username: a } } } }".into(),
    ] {
        let merged = merged(&[("x", &text)], &[]);
        assert!(flaws(&merged).contains("may not come from a source"), "{text}: {}", flaws(&merged));
        assert_eq!(routes(&merged), ["shop", "inner"]);
    }
}

#[test]
fn no_document_leads_past_a_protection_of_the_file() {
    for text in [
        "routes: [ { name: side door, match: { path: /x }, to: inner } ]",
        "routes: [ { name: side door, match: { path: /x }, to: [ 'http://127.0.0.1:2' ] } ]",
    ] {
        let merged = merged(&[("x", text)], &[]);
        assert!(
            flaws(&merged).starts_with("x: only the file may take protections away"),
            "{}",
            flaws(&merged)
        );
        assert_eq!(routes(&merged), ["shop", "inner"]);
    }
}

#[test]
fn no_document_publishes_the_admin_api() {
    let file = format!("admin: {{ address: '127.0.0.1:9900' }}\n{FILE}");
    let alone = check_text("a.yaml", &file, &|_| None).unwrap();
    let all = documents(&[
        ("a", "services: { side: { endpoints: ['http://localhost:9900'] } }"),
        ("b", "routes: [ { name: door, match: { path: /x }, to: [ 'http://127.0.0.1:9900' ] } ]"),
    ]);
    let offer = Offer {
        source: "etcd: /r/ at b".into(),
        documents: all,
        good: Arc::default(),
        refused: Arc::default(),
    };
    let merged = with_documents(alone, ("a.yaml", file.as_bytes()), &|_| None, (&[offer], &|_| None));
    assert_eq!(routes(&merged), ["shop", "inner"]);
    let told = flaws(&merged);
    assert_eq!(told.matches("is the admin API or the metrics").count(), 2, "{told}");
}

#[test]
fn what_makes_a_test_of_the_file_fail_stays_out_and_the_rest_runs() {
    let thief = "routes: [ { name: thief, match: { host: shop.example.com, path: / }, to: shop } ]";
    let good = "routes: [ { name: good, match: { path: /good }, to: shop } ]";
    let merged = merged(
        &[("a", good), ("b", thief), ("c", "routes: [ { name: too, match: { path: /too }, to: shop } ]")],
        &[],
    );
    assert_eq!(routes(&merged), ["shop", "inner", "good", "too"]);
    let told = flaws(&merged);
    assert!(told.starts_with("b: with it the configuration is refused: a.yaml:6:"), "{told}");
}

/// What was refused is not tried again for a while: that changes nothing of the result.
#[test]
fn what_was_refused_before_is_left_out_as_if_it_were_tried() {
    let thief = "routes: [ { name: thief, match: { host: shop.example.com, path: / }, to: shop } ]";
    let good = "routes: [ { name: good, match: { path: /good }, to: shop } ]";
    let old = "routes: [ { name: old, match: { path: /old }, to: shop } ]";
    for before in [Vec::new(), vec![("b", old)]] {
        let tried = merged(&[("a", good), ("b", thief)], &before);
        let refused = &tried.refused[0];
        assert_eq!(refused.iter().map(|it| &*it.document.name).collect::<Vec<_>>(), ["b"]);
        let known = merged_without(&[("a", good), ("b", thief)], &before, refused);
        assert_eq!(routes(&known), routes(&tried));
        assert_eq!((&known.flaws, &known.good), (&tried.flaws, &tried.good));
        assert!(known.refused[0].is_empty(), "it was not tried");
        // Another text is.
        let mended = merged_without(&[("a", good), ("b", old)], &before, refused);
        assert_eq!((flaws(&mended), routes(&mended).len()), (String::new(), 4));
    }
}

#[test]
fn a_file_may_have_chains_and_services_for_documents_alone() {
    let file = "listeners: { web: { address: '127.0.0.1:0' } }\n\
                chains: { standard: [ { strip_prefix: /a } ] }\n\
                services: { shop: { endpoints: ['http://127.0.0.1:1'] } }\n";
    let told = |text: &str| match check_text("a.yaml", text, &|_| None) {
        Ok(loaded) => loaded.warnings.to_string(),
        Err(report) => report.to_string(),
    };
    let alone = told(&format!("{file}routes: [ {{ to: ['http://127.0.0.1:2'] }} ]\n"));
    assert!(alone.contains("the chain `standard`") && alone.contains("the service `shop`"), "{alone}");
    assert!(told(file).contains("there are no routes"));
    assert_eq!(told(&format!("{file}route_sources: [ {{ file: {{ path: routes.d }} }} ]\n")), "");
}

/// Whatever others write, and however much: who runs goes on.
#[test]
fn a_flood_of_mistakes_costs_no_document_that_runs() {
    let good = "routes: [ { name: good, match: { path: /good }, to: shop } ]";
    let mut many: String = (0..60).map(|at| format!("k{at}: 1\n")).collect();
    many.push_str("routes: [ { name: x, to: nowhere } ]\n");
    let names: Vec<String> = (0..200).map(|at| format!("a{at}")).collect();
    let mut newest: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*many)).collect();
    let wrong = "routes: [ { name: x, to: nowhere } ]";
    newest.extend(names.iter().map(|name| (name.strip_prefix('a').unwrap(), wrong)));
    newest.push(("good", good));
    let merged = merged(&newest, &[("good", good)]);
    assert_eq!(routes(&merged), ["shop", "inner", "good"]);
}

#[test]
fn a_test_of_a_document_stops_the_intruder_and_not_the_document() {
    let victim = "routes: [ { name: victim, match: { host: victim.test }, to: shop } ]\n\
                  tests: [ { request: GET http://victim.test/login, expect: { route: victim } } ]";
    let thief = "routes: [ { name: thief, match: { host: victim.test, path: /login }, to: shop } ]";
    let merged = merged(&[("a thief", thief), ("victim", victim)], &[("victim", victim)]);
    assert_eq!(routes(&merged), ["shop", "inner", "victim"]);
    assert!(
        flaws(&merged).starts_with("a thief: with it the configuration is refused"),
        "{}",
        flaws(&merged)
    );
}

#[test]
fn who_has_a_name_keeps_it() {
    let victim = "chains: { gate: [ { strip_prefix: /a } ] }\n\
                  routes: [ { name: victim, match: { host: victim.test }, filters: [ { chain: gate } ], to: shop } ]";
    let taker = "chains: { gate: [ { strip_prefix: /b } ] }";
    let merged = merged(&[("a taker", taker), ("victim", victim)], &[("victim", victim)]);
    assert_eq!(
        flaws(&merged),
        "a taker: line 1: the chain `gate` is left out: there is one of this name in the document victim, which had it \
         before\n"
    );
    let chain = &merged.loaded.plan.routes[2].filters;
    let of_victim = format!("{:?}", b"/a");
    assert!(format!("{chain:?}").contains(&of_victim), "{chain:?}");
}

#[test]
fn a_document_that_another_one_needs_stays_until_nobody_does() {
    let service = "services: { blog: { endpoints: ['http://127.0.0.1:3'] } }";
    let route = "routes: [ { name: blog, match: { path: /blog }, to: blog } ]";
    let both = [("a", service), ("b", route)];
    let held = merged(&[("b", route)], &both);
    assert_eq!(routes(&held), ["shop", "inner", "blog"]);
    assert!(flaws(&held).starts_with("a: it is gone, and stays in use: "), "{}", flaws(&held));
    assert_eq!(routes(&merged(&[], &both)), ["shop", "inner"]);
}

#[test]
fn a_last_good_version_is_not_forgotten_while_it_cannot_run() {
    let route = "routes: [ { name: blog, match: { path: /blog }, to: blog } ]";
    let apart = merged(&[("b", "routes: [ {")], &[("b", route)]);
    assert_eq!(routes(&apart), ["shop", "inner"]);
    let kept: Vec<_> = apart.good[0].iter().map(|document| (&*document.name, &*document.text)).collect();
    let service = "services: { blog: { endpoints: ['http://127.0.0.1:3'] } }";
    let again = merged(&[("a", service), ("b", "routes: [ {")], &kept);
    assert_eq!(routes(&again), ["shop", "inner", "blog"]);
}

#[test]
fn what_documents_write_is_known_from_what_the_file_writes() {
    let text = "services: { more: { endpoints: ['http://more.test:9'] } }\n\
                routes: [ { name: more, match: { host: more.example.com }, to: more } ]";
    let merged = merged(&[("a", text)], &[]);
    let added = |name: &str| {
        let service = merged.loaded.plan.services.iter().find(|service| &*service.name == name).unwrap();
        service.endpoints[0].is_added
    };
    assert_eq!((added("shop"), added("more")), (false, true));
}

/// A file with a service behind a chain, and one that is open.
const GUARDED: &str = "\
listeners: { web: { address: '127.0.0.1:0' } }
chains:
  safe: [ { auth: { network: 10.0.0.0/8, forward: { X-User: root } } } ]
  at_times: [ { auth: { network: 10.0.0.0/8, forward: { X-User: root } }, when: { method: POST } } ]
services: { inner: { endpoints: ['http://127.0.0.1:2'] }, shop: { endpoints: ['http://10.0.0.1:1'] } }
routes:
  - { name: inner, match: { host: inner.test }, filters: [ { chain: safe }, { cache: {} } ], to: inner }
  - { name: shop, match: { host: shop.test }, to: shop }
";

pub(super) fn beside_guarded(text: &str) -> Merged {
    let alone = check_text("a.yaml", GUARDED, &|_| None).map_err(|report| report.to_string()).unwrap();
    let (documents, good, refused) = (documents(&[("x", text)]), Arc::default(), Arc::default());
    let offer = Offer { source: "etcd: /r/ at b".into(), documents, good, refused };
    with_documents(alone, ("a.yaml", GUARDED.as_bytes()), &|_| None, (&[offer], &|_| None))
}

#[test]
fn no_document_walks_around_a_protection() {
    let route = |rest: &str| format!("routes: [ {{ name: x, match: {{ path: /x }}, {rest} }} ]");
    let service = |url: &str, route: &str| {
        format!(
            "services: {{ y: {{ endpoints: ['{url}'] }} }}\nroutes: [ {{ name: x, match: {{ path: /x }}, {route} }} ]"
        )
    };
    let own = "auth: { network: [ 0.0.0.0/0, '::/0' ] }";
    for text in [
        // A guard of the document's own that admits all clients, or a conditional one.
        route(&format!("filters: [ {{ {own} }} ], to: inner")),
        route("filters: [ { chain: at_times } ], to: inner"),
        route("filters: [ { chain: safe, when: { method: POST } } ], to: inner"),
        format!("chains: {{ own: [ {{ {own} }} ] }}\n{}", route("filters: [ { chain: own } ], to: inner")),
        format!(
            "chains: {{ safe: [ {{ {own} }} ] }}\n{}",
            route(&format!("filters: [ {{ {own} }} ], to: inner"))
        ),
        // A filter that overwrites a field that the guard has verified.
        route("filters: [ { chain: safe }, { headers: { request: { set: { X-User: ada } } } } ], to: inner"),
        route(&format!("filters: [ {{ chain: safe }}, {{ {own} }} ], to: inner")),
        // Requests of filters.
        route("filters: [ { mirror: inner } ], to: shop"),
        route("filters: [ { auth: { forward_auth: { service: inner, path: / } } } ], to: shop"),
        route("filters: [ { ext: { service: inner } } ], to: shop"),
        route("filters: [ { mirror: inner }, { chain: safe } ], to: shop"),
        route("filters: [ { split: { cookie: a, to: { b: inner } } } ], to: shop"),
        service("http://localhost:2", "filters: [ { mirror: y } ], to: shop"),
        // Another spelling of the address.
        service("http://localhost:2", "to: y"),
        service("http://[::ffff:127.0.0.1]:2", "to: y"),
        service("http://0.0.0.0:2", "to: [ { service: shop, weight: 1 }, { service: y, weight: 1 } ]"),
        route("to: [ 'http://[::1]:2' ]"),
        // Stored responses of other clients.
        route("filters: [ { cache: { key: { space: inner } } } ], to: shop"),
        // No route at all.
        "services: { y: { endpoints: ['http://localhost:2'], health: /delete } }".into(),
        // The match of the file's route.
        "routes: [ { name: x, match: { host: inner.test }, to: shop } ]".into(),
    ] {
        let merged = beside_guarded(&text);
        let told = flaws(&merged);
        assert!(told.contains("x: only the file may take protections away: "), "{text}: {told}");
        assert_eq!(routes(&merged), ["inner", "shop"], "{text}");
        assert!(merged.loaded.plan.services.iter().all(|service| &*service.name != "y"), "{text}");
    }
}

#[test]
fn a_document_leads_to_a_protected_service_through_a_chain_of_the_file() {
    for text in [
        "routes: [ { name: x, match: { path: /x }, filters: [ { chain: safe } ], to: inner } ]",
        "routes: [ { name: x, match: { path: /x }, filters: [ { chain: safe }, { strip_prefix: /x } ], to: inner } ]",
        "routes: [ { name: x, match: { path: /x }, filters: [ { chain: safe }, { mirror: inner } ], to: shop } ]",
        "routes: [ { name: x, match: { host: inner.test }, filters: [ { chain: safe } ], to: shop } ]",
        "services: { y: { endpoints: ['http://localhost:2'] } }\n\
         routes: [ { name: x, match: { path: /x }, filters: [ { chain: safe } ], to: y } ]",
        // Ways of the document's own, with filters of its own.
        "services: { y: { endpoints: ['http://localhost:3'], health: /up } }\n\
         routes: [ { name: x, match: { path: /x }, filters: [ { headers: { request: { set: { X-User: b } } } } ], to: y } ]",
    ] {
        let merged = beside_guarded(text);
        assert_eq!((flaws(&merged), routes(&merged)), (String::new(), vec!["inner", "shop", "x"]), "{text}");
    }
}

#[test]
fn no_document_has_labels_of_its_own() {
    let text = "routes: [ { name: x, match: { host: '*.s.test' }, to: { sealed: { domain: '*.s.test', \
                keys: [ { id: 1, secret: { value: KEY } } ], allow: [ '10.9.0.0/16:80' ] } } } ]";
    let merged = beside_guarded(&text.replace("KEY", &"0123456789abcdef".repeat(8)));
    assert!(flaws(&merged).contains("`sealed` stands in the file only"), "{}", flaws(&merged));
    assert_eq!(routes(&merged), ["inner", "shop"]);
}

/// The service of a route that lists URLs is named after the route, that of a listener for connections after the
/// listener; a service of a document would take the name away, and with it the guards that are known by it.
#[test]
fn a_document_takes_no_name_that_the_file_gives_to_a_service() {
    let file = "listeners:\n\
                \x20 web: { address: '127.0.0.1:0' }\n\
                \x20 db: { address: '127.0.0.1:0', protocol: tcp, access: { allow: [ 10.0.0.0/8 ] }, to: [ 'tcp://10.0.0.2:1' ] }\n\
                services: { twice: { endpoints: ['http://10.0.0.3:1'] } }\n\
                routes:\n\
                - { name: shop, match: { host: shop.test }, to: [ 'http://10.0.0.1:1' ] }\n\
                - { name: twice, match: { host: twice.test }, to: [ 'http://10.0.0.1:1' ] }\n";
    for (name, kind) in
        [("shop", "services"), ("db", "services"), ("route twice", "services"), ("db", "routes")]
    {
        let text = match kind {
            "routes" => format!("routes: [ {{ name: {name}, match: {{ path: /x }}, to: twice }} ]"),
            _ => format!("services: {{ '{name}': {{ endpoints: ['http://127.0.0.1:9'], health: /up }} }}"),
        };
        let told = told(file, &text);
        assert!(told.contains("has the name of a route or listener of the file"), "{text}: {told}");
    }
    let own = "routes: [ { name: more, match: { path: /more }, to: [ 'http://127.0.0.1:9' ] } ]";
    assert_eq!(told(file, own), "");
}

/// The file has a guard for some paths of a service.
#[test]
fn a_document_sends_to_a_service_what_the_file_sends_there_without_a_guard() {
    let file = "listeners: { web: { address: '127.0.0.1:0' } }\n\
                chains: { safe: [ { auth: { network: 10.0.0.0/8 } } ] }\n\
                services: { app: { endpoints: ['http://10.0.0.1:1'] } }\n\
                routes:\n\
                - { name: admin, match: { path: /admin/* }, filters: [ { chain: safe } ], to: app }\n\
                - { name: shop, match: { path: /shop/* }, to: app }\n";
    let told = |rest: &str| {
        let text = format!(
            "services: {{ y: {{ endpoints: ['http://10.0.0.1:1'] }} }}\nroutes: [ {{ name: x, match: {{ {rest} }} ]"
        );
        let alone = check_text("a.yaml", file, &|_| None).map_err(|report| report.to_string()).unwrap();
        let (documents, good, refused) = (documents(&[("x", &text)]), Arc::default(), Arc::default());
        let offer = Offer { source: "etcd".into(), documents, good, refused };
        let merged = with_documents(alone, ("a.yaml", file.as_bytes()), &|_| None, (&[offer], &|_| None));
        flaws(&merged)
    };
    for rest in [
        "path: /shop/* }, to: y",
        "host: b.test, path: /shop/a }, to: app",
        "host: b.test, path: '/shop/{id}' }, to: app",
        "path: /admin/x }, filters: [ { chain: safe } ], to: app",
        "host: b.test }, filters: [ { chain: safe }, { strip_prefix: /a } ], to: app",
    ] {
        assert_eq!(told(rest), "", "{rest}");
    }
    for rest in [
        "path: /admin/x }, to: app",
        "path: /admin/x }, to: y",
        "path: /other }, to: app",
        "host: b.test }, to: app",
        "host: b.test, path: '/{a}/x' }, to: app",
        "path: /shop/* }, filters: [ { strip_prefix: /shop } ], to: app",
        "path: /shop/* }, filters: [ { rewrite: { prefix: { from: /shop, to: /admin } } } ], to: y",
        "path: /shop/* }, filters: [ { mirror: app } ], to: y",
        "path: /shop/* }, filters: [ { rewrite: { path: /admin/x } } ], to: y",
        "path: /shop/* }, filters: [ { rewrite: { regex: { match: '/shop/(.*)', to: '/admin/$1' } } } ], to: y",
        "host: b.test, path: '/shop;x/*' }, to: app",
        "host: b.test, path: '/shop%2Fx' }, to: app",
    ] {
        assert!(told(rest).contains("has no `auth` of the file"), "{rest}: {}", told(rest));
    }
}

/// Why `text` does not run beside `file`.
pub(super) fn told(file: &str, text: &str) -> String {
    let alone = check_text("a.yaml", file, &|_| None).map_err(|report| report.to_string()).unwrap();
    let (documents, good, refused) = (documents(&[("x", text)]), Arc::default(), Arc::default());
    let offer = Offer { source: "etcd".into(), documents, good, refused };
    flaws(&with_documents(alone, ("a.yaml", file.as_bytes()), &|_| None, (&[offer], &|_| None)))
}

/// A weaker guard of the file opens only the paths that it opens in the file.
#[test]
fn a_document_needs_the_guards_of_every_path_that_it_may_request() {
    let file = "listeners: { web: { address: '127.0.0.1:0' } }\n\
                chains: { users: [ { auth: { network: 127.0.0.0/8 } } ], admins: [ { auth: { network: 10.0.0.0/8 } } ] }\n\
                services: { app: { endpoints: ['http://10.0.0.1:1'] } }\n\
                routes:\n\
                - { name: admin, match: { host: a.test, path: /admin/* }, filters: [ { chain: admins } ], to: app }\n\
                - { name: rest, match: { host: a.test, path: /shop/* }, filters: [ { chain: users } ], to: app }\n";
    let route = |rest: &str| told(file, &format!("routes: [ {{ name: x, match: {{ {rest}, to: app }} ]"));
    for rest in [
        "host: b.test, path: /shop/* }, filters: [ { chain: users } ]",
        "host: b.test, path: /admin/* }, filters: [ { chain: admins } ]",
        "host: b.test }, filters: [ { chain: users }, { chain: admins }, { strip_prefix: /x } ]",
    ] {
        assert_eq!(route(rest), "", "{rest}");
    }
    for rest in [
        "host: a.test, path: /admin/x }, filters: [ { chain: users } ]",
        "host: b.test, path: /admin/* }, filters: [ { chain: users } ]",
        "host: b.test, path: /shop/* }, filters: [ { chain: users }, { rewrite: { path: /admin/x } } ]",
    ] {
        assert!(route(rest).contains("has no `auth` of the file"), "{rest}: {}", route(rest));
    }
}

/// The guard would see another path than the service.
#[test]
fn a_document_changes_no_path_behind_a_guard_that_decides_by_it() {
    let file = "listeners: { web: { address: '127.0.0.1:0' } }\n\
                chains: { pathy: [ { access: { deny: [ { path: /internal/* } ] } } ], \
                staff: [ { auth: { network: 10.0.0.0/8 } } ] }\n\
                services: { app: { endpoints: ['http://10.0.0.1:1'] }, b: { endpoints: ['http://10.0.0.2:1'] } }\n\
                routes:\n\
                - { name: app, match: { host: a.test }, filters: [ { chain: pathy } ], to: app }\n\
                - { name: b, match: { host: b.test }, filters: [ { chain: staff } ], to: b }\n";
    let route =
        |rest: &str| told(file, &format!("routes: [ {{ name: x, match: {{ path: /x/* }}, {rest} }} ]"));
    assert_eq!(route("filters: [ { chain: pathy } ], to: app"), "");
    assert_eq!(route("filters: [ { chain: staff }, { strip_prefix: /x } ], to: b"), "");
    for rest in ["{ strip_prefix: /x }", "{ rewrite: { path: /internal/x } }"] {
        let why = route(&format!("filters: [ {{ chain: pathy }}, {rest} ], to: app"));
        assert!(why.contains("may change what filters of the file have verified"), "{rest}: {why}");
    }
}

/// Checks ask their own port, and a path that the file may guard.
#[test]
fn health_checks_of_a_document_ask_only_paths_that_the_file_leaves_open() {
    let file = "listeners: { web: { address: '127.0.0.1:0' } }\n\
                services: { app: { endpoints: ['http://10.0.0.1:1'] } }\n\
                routes:\n\
                - { name: admin, match: { path: /admin/* }, filters: [ { auth: { network: 10.0.0.0/8 } } ], to: app }\n\
                - { name: shop, match: { path: /shop/* }, to: app }\n";
    let service = |port: u16, health: &str| {
        let text = format!(
            "services: {{ y: {{ endpoints: ['http://10.0.0.1:{port}'], health: {{ {health} }} }} }}\n\
             routes: [ {{ name: y, match: {{ host: y.test, path: /shop/y }}, to: y }} ]"
        );
        told(file, &text)
    };
    assert_eq!(service(1, "path: /shop/ok"), "");
    assert_eq!(service(2, "path: /admin/x"), "");
    for (port, health) in [(1, "path: /admin/x"), (2, "path: /admin/x, port: 1"), (1, "path: '/other?x=1'")] {
        let why = service(port, health);
        assert!(why.contains("health checks of the service `y`"), "{port} {health}: {why}");
    }
}

/// A service behind listeners with `access` is not published at a listener without.
#[test]
fn a_document_stays_at_the_listeners_that_the_file_has_for_a_service() {
    let file = "listeners:\n\
                \x20 web: { address: '127.0.0.1:0' }\n\
                \x20 inside: { address: '127.0.0.1:0', access: { allow: [ 10.0.0.0/8 ] } }\n\
                services: { app: { endpoints: ['http://127.0.0.1:1'] } }\n\
                routes: [ { name: app, listeners: [ inside ], to: app } ]\n";
    let told = |text: &str| {
        let alone = check_text("a.yaml", file, &|_| None).map_err(|report| report.to_string()).unwrap();
        let (documents, good, refused) = (documents(&[("x", text)]), Arc::default(), Arc::default());
        let offer = Offer { source: "etcd".into(), documents, good, refused };
        flaws(&with_documents(alone, ("a.yaml", file.as_bytes()), &|_| None, (&[offer], &|_| None)))
    };
    for text in [
        "routes: [ { name: x, listeners: [ inside ], match: { path: /x }, to: app } ]",
        "routes: [ { name: x, match: { path: /x }, to: [ 'http://127.0.0.1:2' ] } ]",
    ] {
        assert_eq!(told(text), "", "{text}");
    }
    for text in [
        "routes: [ { name: x, match: { path: /x }, to: app } ]",
        "routes: [ { name: x, listeners: [ web ], match: { path: /x }, to: [ 'http://localhost:1' ] } ]",
        "routes: [ { name: x, match: { path: /x }, filters: [ { mirror: app } ], to: [ 'http://127.0.0.1:2' ] } ]",
    ] {
        assert!(
            told(text).contains("at the listener `web`, which has no `access`"),
            "{text}: {}",
            told(text)
        );
    }
}

/// A subrequest of the file has a fixed target.
#[test]
fn a_document_asks_a_protected_service_what_the_file_asks_it() {
    let file = "listeners: { web: { address: '127.0.0.1:0' } }\n\
                chains: { safe: [ { access: { allow: 10.0.0.0/8 } } ], \
                judged: [ { auth: { forward_auth: { service: app, path: /verify } } } ] }\n\
                services: { app: { endpoints: ['http://10.0.0.1:1'] }, shop: { endpoints: ['http://10.0.0.2:1'] } }\n\
                routes:\n\
                - { name: app, match: { host: a.test }, filters: [ { chain: safe } ], to: app }\n\
                - { name: shop, match: { host: b.test }, filters: [ { chain: judged } ], to: shop }\n";
    let told = |filter: &str| {
        let text = format!(
            "routes: [ {{ name: x, match: {{ path: /x }}, filters: [ {filter} ], to: [ 'http://10.0.0.3:1' ] }} ]"
        );
        let alone = check_text("a.yaml", file, &|_| None).map_err(|report| report.to_string()).unwrap();
        let (documents, good, refused) = (documents(&[("x", &text)]), Arc::default(), Arc::default());
        let offer = Offer { source: "etcd".into(), documents, good, refused };
        flaws(&with_documents(alone, ("a.yaml", file.as_bytes()), &|_| None, (&[offer], &|_| None)))
    };
    assert_eq!(told("{ chain: judged }"), "");
    for filter in [
        "{ auth: { forward_auth: { service: app, path: /users } } }",
        "{ mirror: app }",
        "{ ext: { service: app } }",
    ] {
        assert!(told(filter).contains(
            "has no `access` of the file, and leads to the service `app` by a request of a filter"
        ));
    }
}

/// No filter runs before the requests that the process itself sends for a document.
#[test]
fn a_document_has_the_process_ask_nothing_that_the_file_guards() {
    let file = "listeners: { web: { address: '127.0.0.1:0' } }\n\
                chains: { safe: [ { auth: { network: 10.0.0.0/8 } } ] }\n\
                services:\n\
                \x20 app: { endpoints: ['http://127.0.0.1:8500'] }\n\
                \x20 mixed: { endpoints: ['http://10.0.0.2:1'] }\n\
                \x20 keys: { endpoints: ['http://10.0.0.3:1'] }\n\
                \x20 known: { discover: { consul: { service: known, url: 'http://10.0.0.3:1' } } }\n\
                routes:\n\
                - { name: app, match: { host: a.test }, filters: [ { chain: safe } ], to: app }\n\
                - { name: admin, match: { path: /admin/* }, filters: [ { chain: safe } ], to: mixed }\n\
                - { name: open, match: { path: /shop/* }, to: mixed }\n\
                - { name: keys, match: { host: k.test }, filters: [ { chain: safe } ], to: keys }\n";
    let discover = |text: &str| told(file, &format!("services: {{ y: {{ discover: {{ {text} }} }} }}"));
    let filter = |text: &str| told(file, &format!("chains: {{ c: [ {{ {text} }} ] }}"));
    let list = |url: &str| filter(&format!("access: {{ deny: [ {{ url: '{url}' }} ] }}"));
    for told in [
        discover("http: { url: 'http://localhost:8500/list' }"),
        discover("consul: { service: y, url: 'http://[::ffff:127.0.0.1]:8500' }"),
        discover("consul: { service: y }"),
        discover("etcd: { prefix: /y, url: [ 'http://10.9.9.9:1', 'http://10.0.0.2:1' ] }"),
        discover("dns: { name: y, port: 1, resolvers: '127.0.0.1:8500' }"),
        filter("auth: { jwt: { jwks_url: 'https://localhost4:8500/keys' } }"),
        list("http://10.0.0.2:1/admin/list"),
        list("http://10.0.0.2:1/"),
        list("http://10.0.0.2:1/other"),
        list("http://10.0.0.3:1/list"),
    ] {
        assert!(told.contains("which the file reaches through filters"), "{told}");
    }
    for told in [
        discover("http: { url: 'http://127.0.0.1:8501/list' }"),
        // The file has the same source.
        discover("consul: { service: y, url: 'http://10.0.0.3:1' }"),
        discover("dns: { name: y, port: 1, resolvers: 10.0.0.2 }"),
        list("http://10.0.0.2:1/shop/list"),
    ] {
        assert_eq!(told, "");
    }
}
