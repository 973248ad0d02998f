//! Documents beside guards with conditions and listeners that ask something of clients; and what their tests may
//! expect.

use super::tests::{beside_guarded, flaws, merged, told};

/// The guard runs under a condition, and the document's requests are some of those of the file.
#[test]
fn a_document_has_a_guard_with_the_condition_of_the_file_where_the_file_leads_its_requests() {
    let file = |when: &str| {
        format!(
            "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
             chains: {{ safe: [ {{ auth: {{ network: 10.0.0.0/8 }}, when: {{ {when} }} }} ] }}\n\
             services: {{ app: {{ endpoints: ['http://10.0.0.1:1'] }} }}\n\
             routes: [ {{ name: app, match: {{ host: a.test, path: /app/* }}, filters: [ {{ chain: safe }} ], to: app }} ]\n"
        )
    };
    let (path, host) = (file("path: /app/admin/*"), file("host: a.test"));
    let route = |rest: &str| format!("routes: [ {{ name: x, match: {{ {rest}, to: app }} ]");
    for (file, rest) in [
        (&path, "host: b.test, path: /app/* }, filters: [ { chain: safe } ]"),
        (&path, "path: /app/x }, filters: [ { chain: safe }, { hsts: {} } ]"),
        (&path, "host: a.test, path: /app/* }, filters: [ { chain: safe } ]"),
        (&host, "host: a.test, path: /app/x }, filters: [ { chain: safe } ]"),
    ] {
        assert_eq!(told(file, &route(rest)), "", "{rest}");
    }
    for (file, rest) in [
        (&path, "host: b.test, path: /* }, filters: [ { chain: safe } ]"),
        (&path, "host: b.test, path: /app/* }"),
        (&path, "host: b.test, path: /app/* }, filters: [ { chain: safe }, { strip_prefix: /app } ]"),
        (
            &path,
            "host: b.test, path: /app/* }, filters: [ { rewrite: { path: /app/admin/x } }, { chain: safe } ]",
        ),
        (
            &path,
            "path: /app/* }, filters: [ { auth: { network: 10.0.0.0/8 }, when: { path: /app/admin/x } } ]",
        ),
        (&host, "host: b.test, path: /app/x }, filters: [ { chain: safe } ]"),
        (&host, "host: '*.test', path: /app/x }, filters: [ { chain: safe } ]"),
        (&host, "path: /app/x }, filters: [ { chain: safe } ]"),
    ] {
        let told = told(file, &route(rest));
        assert!(told.contains("has no `auth when "), "{rest}: {told}");
    }
}

#[test]
fn a_document_may_change_responses_behind_a_guard() {
    for (filter, is_refused) in [
        ("{ headers: { response: { set: { X-A: b } } } }", false),
        ("{ headers: { request: { set: { X-A: b } }, response: { set: { X-A: b } } } }", true),
    ] {
        let text = format!(
            "routes: [ {{ name: x, match: {{ path: /x }}, filters: [ {{ chain: safe }}, {filter} ], to: inner }} ]"
        );
        let told = flaws(&beside_guarded(&text));
        assert_eq!(!told.is_empty(), is_refused, "{filter}: {told}");
    }
}

/// Paths, filters and health checks beside listeners with `access`.
#[test]
fn no_document_leads_around_the_access_of_the_files_listeners() {
    let file = "listeners:\n\
                \x20 web: { address: '127.0.0.1:0' }\n\
                \x20 inside: { address: '127.0.0.1:0', access: { allow: [ 10.0.0.0/8 ] } }\n\
                services: { app: { endpoints: ['http://127.0.0.1:1'] }, shop: { endpoints: ['http://127.0.0.1:2'] } }\n\
                routes:\n\
                - { name: admin, match: { path: /admin/* }, listeners: [ inside ], to: shop }\n\
                - { name: shop, match: { path: /shop/* }, listeners: [ web ], to: shop }\n\
                - { listeners: [ inside ], to: app }\n";
    for text in [
        "routes: [ { name: x, listeners: [ web ], match: { host: x.test, path: /shop/x }, to: shop } ]",
        "routes: [ { name: x, listeners: [ inside ], match: { path: /x }, to: shop } ]",
        "services: { y: { endpoints: ['http://127.0.0.1:2'], health: /shop/up } }",
        "services: { y: { endpoints: ['http://127.0.0.1:3'], health: /up } }",
    ] {
        assert_eq!(told(file, text), "", "{text}");
    }
    for text in [
        "routes: [ { name: x, listeners: [ web ], match: { host: x.test, path: /admin/x }, to: shop } ]",
        "routes: [ { name: x, match: { host: x.test }, to: shop } ]",
    ] {
        assert!(told(file, text).contains("at the listener `web`, which has no `access`"), "{text}");
    }
    for text in [
        "services: { y: { endpoints: ['http://127.0.0.1:1'], health: /up } }",
        "services: { y: { endpoints: ['http://127.0.0.1:3'], health: { path: /up, port: 1 } } }",
        "services: { y: { endpoints: ['http://127.0.0.1:2'], health: /admin/up } }",
    ] {
        assert!(
            told(file, text).contains("health checks of the service `y`"),
            "{text}: {}",
            told(file, text)
        );
    }
}

/// A test of another route would keep the changes of others out when it fails.
#[test]
fn a_document_tests_its_own_routes_alone() {
    let test = |expect: &str| {
        format!(
            "routes: [ {{ name: x, match: {{ path: /x }}, to: shop }}, {{ name: y, match: {{ path: /y }}, to: [ 'http://127.0.0.1:3' ] }} ]\n\
             tests: [ {{ request: GET http://a.test/x, expect: {{ {expect} }} }} ]"
        )
    };
    for expect in ["route: x", "route: x, service: shop", "route: x, upstream_path: /x"] {
        assert_eq!(flaws(&merged(&[("x", &test(expect))], &[])), "", "{expect}");
    }
    let by_service = test("service: y").replace("a.test/x", "a.test/y");
    assert_eq!(flaws(&merged(&[("x", &by_service)], &[])), "");
    for expect in ["service: shop", "upstream_path: /x", "route: shop", "route: none", "status: 404"] {
        let told = flaws(&merged(&[("x", &test(expect))], &[]));
        assert!(
            told.contains("must expect a `route` or a `service` of its own document"),
            "{expect}: {told}"
        );
    }
    // A route that is left out takes its tests with it.
    let text = "tests: [ { request: GET http://other.test/, expect: { route: shop } } ]\n\
                routes: [ { name: shop, match: { host: other.test }, to: shop } ]";
    let merged = merged(&[("x", text)], &[]);
    assert!(flaws(&merged).contains("the route `shop` is left out"), "{}", flaws(&merged));
    assert_eq!(flaws(&merged).lines().count(), 1);
}

/// `Authorization` of a chain, of `defaults` and of a service of the file.
#[test]
fn a_document_sends_no_secret_of_the_file_elsewhere_and_shows_none() {
    let set = |name: &str| format!("[ {{ headers: {{ request: {{ set: {{ {name}: t0p-secret }} }} }} }} ]");
    let file = |defaults: &str| {
        format!(
            "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n{defaults}\
             chains: {{ inject: {}, unused: {} }}\n\
             services: {{ app: {{ endpoints: ['http://127.0.0.1:1'] }}, more: {{ endpoints: ['http://127.0.0.1:2'] }} }}\n\
             routes: [ {{ match: {{ path: /app/* }}, filters: [ {{ chain: inject }} ], to: app }} ]\n",
            set("Authorization"),
            set("X-Api-Key")
        )
    };
    let plain = file("");
    let inherited = file(&format!("defaults: {{ filters: {} }}\n", set("X-Internal-Token")));
    let route = |filters: &str, to: &str| {
        format!(
            "services: {{ mine: {{ endpoints: ['http://127.0.0.1:9'] }} }}\n\
             routes: [ {{ name: x, match: {{ path: /x }}, filters: [ {filters} ] {to} }} ]"
        )
    };
    for (file, filters, to) in [
        (&plain, "{ chain: inject }", ", to: app"),
        (&plain, "{ respond: { body: 'a={header.authorization}' } }", ""),
        (&plain, "{ headers: { request: { set: { Authorization: own-secret } } } }", ", to: mine"),
        (&inherited, "", ", to: more"),
        (&inherited, "{ respond: { body: x } }", ""),
    ] {
        assert_eq!(told(file, &route(filters, to)), "", "{filters} {to}");
    }
    for (file, filters, to) in [
        (&plain, "{ chain: inject }", ", to: mine"),
        (&plain, "{ chain: inject }", ", to: more"),
        (&plain, "{ chain: inject }", ", to: [ 'http://127.0.0.1:9' ]"),
        (&plain, "{ chain: unused }", ", to: mine"),
        (&plain, "{ chain: unused }", ", to: more"),
        (&plain, "{ chain: inject }, { mirror: mine }", ", to: app"),
        (&plain, "{ chain: inject }, { respond: { body: 'a={header.authorization}' } }", ""),
        (&inherited, "", ", to: mine"),
        (&inherited, "{ redirect: 'https://127.0.0.1/?{header.x-internal-token}' }", ""),
    ] {
        let told = told(file, &route(filters, to));
        assert!(told.contains("this would send or show the secret"), "{filters} {to}: {told}");
        assert!(!told.contains("t0p-secret"), "{told}");
    }
    let of_service =
        "services: { mine: { endpoints: ['http://127.0.0.1:9'], filters: [ { chain: inject } ] } }";
    assert!(told(&plain, of_service).contains("this would send or show the secret"));
}

/// A file with an open way and a guarded one to a service.
const PARTLY: &str = "\
listeners: { web: { address: '127.0.0.1:0' } }
chains:
  safe: [ { auth: { network: 10.0.0.0/8, forward: { X-User: root } } } ]
  unless: [ { auth: { network: 10.0.0.0/8 }, when: { header: { x-kind: a } } } ]
  copied: [ { mirror: app } ]
  kept: [ { cache: { key: { space: both }, share_verified: true } } ]
services: { app: { endpoints: ['http://127.0.0.1:1'] }, shop: { endpoints: ['http://127.0.0.1:2'] } }
routes:
  - { name: users, match: { path: /u/* }, filters: [ { chain: safe } ], to: app }
  - { name: kind, match: { path: /k/* }, filters: [ { chain: unless } ], to: app }
  - { name: open, match: { path: /open/* }, filters: [ { chain: kept } ], to: app }
  - { name: shop, match: { path: /shop/* }, filters: [ { chain: copied }, { cache: {} } ], to: shop }
";

fn told_partly(path: &str, filters: &str, to: &str) -> String {
    let text = format!(
        "services: {{ mine: {{ endpoints: ['http://127.0.0.1:9'] }} }}\n\
         routes: [ {{ name: x, match: {{ host: x.test, path: {path} }}, filters: [ {filters} ], to: {to} }} ]"
    );
    told(PARTLY, &text)
}

#[test]
fn a_document_keeps_no_responses_for_verified_clients_and_none_in_a_space_of_the_file() {
    for (path, filters, to) in [
        ("/open/x", "{ cache: { default_ttl: 1h } }", "app"),
        ("/open/x", "{ chain: kept }", "app"),
        ("/x", "{ cache: { key: { space: own } } }", "mine"),
        ("/x", "{ chain: safe }, { cache: {} }", "mine"),
    ] {
        assert_eq!(told_partly(path, filters, to), "", "{path} {filters} {to}");
    }
    for (path, filters, to) in [
        ("/u/x", "{ chain: safe }, { cache: { share_verified: true, default_ttl: 1h } }", "app"),
        ("/u/x", "{ chain: safe }, { chain: kept }", "app"),
    ] {
        let told = told_partly(path, filters, to);
        assert!(told.contains("may give responses for a verified client to others"), "{filters}: {told}");
    }
    for (path, filters, to) in [
        ("/open/x", "{ cache: { key: { space: both }, default_ttl: 365d } }", "app"),
        ("/x", "{ cache: { key: { space: both } } }", "mine"),
        ("/x", "{ cache: { key: { space: shop } } }", "mine"),
        ("/x", "{ chain: kept }", "mine"),
        ("/open/x", "{ chain: kept }, { headers: { request: { set: { X-A: b } } } }", "app"),
    ] {
        let told = told_partly(path, filters, to);
        assert!(told.contains("of the file; write a `key.space` of its own"), "{filters} {to}: {told}");
    }
    // Another route of the document takes them without the guard.
    let text = "services: { mine: { endpoints: ['http://127.0.0.1:9'] } }\n\
                routes:\n\
                - { name: x, match: { path: /x }, filters: [ { chain: safe }, { cache: { key: { space: s } } } ], to: mine }\n\
                - { name: y, match: { path: /x, methods: GET }, filters: [ { cache: { key: { space: s } } } ], to: mine }\n";
    let told = told(PARTLY, text);
    assert!(told.contains("the route `y` has no `auth` of the file, and takes responses"), "{told}");
}

/// That another way to the service is open does not matter to requests that a guard of the file takes.
#[test]
fn a_document_changes_no_field_of_requests_that_a_guard_of_the_file_takes() {
    let set = "{ headers: { request: { set: { X-User: b } } } }";
    let unset = "{ headers: { request: { remove: [ X-Kind ] } } }";
    assert_eq!(told_partly("/open/x", set, "app"), "");
    assert_eq!(told_partly("/k/x", "{ chain: unless }", "app"), "");
    for (path, filters) in
        [("/u/x", format!("{{ chain: safe }}, {set}")), ("/k/x", format!("{unset}, {{ chain: unless }}"))]
    {
        let told = told_partly(path, &filters, "app");
        assert!(told.contains("`headers` of the route `x` may change"), "{filters}: {told}");
    }
}

/// An endpoint may read `/w/private%2Fx` as a path below `/w/private`.
#[test]
fn a_document_allows_no_escapes_in_paths_that_the_file_does_not_allow() {
    let file = |allowed: &str| {
        format!(
            "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
             chains: {{ safe: [ {{ auth: {{ network: 10.0.0.0/8 }}, when: {{ path: /w/private/* }} }} ] }}\n\
             services: {{ app: {{ endpoints: ['http://10.0.0.1:1'] }} }}\n\
             routes: [ {{ match: {{ path: /w/* }}, filters: [ {{ chain: safe }} ], {allowed} to: app }} ]\n"
        )
    };
    let route = |allowed: &str, to: &str| {
        let text = "host: x.test, path: /w/* }, filters: [ { chain: safe } ]";
        format!("routes: [ {{ name: x, match: {{ {text}, {allowed} to: {to} }} ]")
    };
    let slash = "allow_encoded: [ slash ],";
    let both = "allow_encoded: [ slash, semicolon ],";
    for (allowed, document, to) in
        [("", "", "app"), (both, slash, "app"), (both, both, "app"), ("", both, "[ 'http://10.0.0.2:1' ]")]
    {
        assert_eq!(told(&file(allowed), &route(document, to)), "", "{allowed} {document}");
    }
    for (allowed, document, to) in
        [("", slash, "app"), (slash, both, "app"), ("", slash, "[ 'http://10.0.0.1:1' ]")]
    {
        let told = told(&file(allowed), &route(document, to));
        assert!(told.contains("`allow_encoded` of the route `x` has more than"), "{document}: {told}");
    }
}

#[test]
fn a_document_copies_to_a_guarded_service_only_the_paths_that_the_file_copies() {
    for path in ["/shop/*", "/shop/a"] {
        assert_eq!(told_partly(path, "{ chain: copied }", "mine"), "", "{path}");
    }
    for (path, filters) in [
        ("/u/*", "{ chain: copied }"),
        ("/*", "{ chain: copied }"),
        ("/shop/*", "{ rewrite: { path: /u/x } }, { chain: copied }"),
    ] {
        let told = told_partly(path, filters, "mine");
        assert!(told.contains("leads to the service `app` by a request of a filter"), "{path}: {told}");
    }
}

#[test]
fn health_checks_of_a_document_have_one_reading_of_their_path() {
    let told = |path: &str| {
        let service = format!("{{ endpoints: ['http://127.0.0.1:1'], health: '{path}' }}");
        told(PARTLY, &format!("services: {{ y: {service} }}"))
    };
    for path in ["/open/up", "/open/up?a=b%2F..", "/open/.up"] {
        assert_eq!(told(path), "", "{path}");
    }
    for path in [
        "/open/../u/x",
        "/open/./../u/x",
        "/open/..",
        "/open/%2e%2e/u/x",
        "/open/..%2Fu/x",
        "/open/x;/../../u",
        "/open//u",
        "/open\\..\\u",
    ] {
        assert!(!told(path).is_empty(), "{path}");
    }
}
