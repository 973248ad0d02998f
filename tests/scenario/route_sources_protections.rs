//! Documents that try to bypass a filter of the file (decision 0088): none of their requests reaches the service.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::message::fetch;
use thalweg_tests::{Admin, Directory, Proxy, Upstream, Watchdog};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for a change to show, on a busy machine.
const SEEN: Duration = Duration::from_secs(30);

fn put(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(format!("routes/{name}.yaml")), text).unwrap();
}

/// The status of the answer to a request for this host, with a forged `X-User`.
fn ask(proxy: &Proxy, host: &str) -> u16 {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-User: root\r\nConnection: close\r\n\r\n");
    fetch(proxy.web(), &request).unwrap().status()
}

/// The reasons why documents are left out.
fn left_out(admin: &Admin) -> Vec<String> {
    let sources = admin.get("/api/v1/sources")["sources"].clone();
    let all = sources.as_array().into_iter().flatten();
    let told = all.filter_map(|source| source["left_out"].as_array().cloned()).flatten();
    told.filter_map(|line| line.as_str().map(str::to_owned)).collect()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The file: a service for one network only, and one for all clients.
fn config(inner: &Upstream, shop: &Upstream) -> String {
    format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         route_sources: [ {{ file: {{ path: routes, interval: 100ms }} }} ]\n\
         chains: {{ safe: [ {{ auth: {{ network: 192.0.2.0/24, forward: {{ X-User: guest }} }} }} ] }}\n\
         services: {{ inner: {{ endpoints: [ \"{}\" ] }}, shop: {{ endpoints: [ \"{}\" ] }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n\
         routes:\n\
         - {{ name: inner, match: {{ host: inner.test }}, filters: [ {{ chain: safe }} ], to: inner }}\n\
         - {{ name: shop, match: {{ host: shop.test }}, to: shop }}\n",
        inner.url(),
        shop.url()
    )
}

#[test]
fn no_document_walks_around_a_filter_of_the_file() {
    let _watchdog = Watchdog::new("no_document_walks_around_a_filter_of_the_file", LIMIT);
    let (inner, shop) = (Upstream::saying("inner"), Upstream::saying("shop"));
    let directory = Directory::new();
    fs::create_dir(directory.path().join("routes")).unwrap();
    let proxy = Proxy::start_in(directory, &config(&inner, &shop));
    let admin = Admin::of(&proxy);
    assert_eq!((ask(&proxy, "inner.test"), ask(&proxy, "shop.test")), (401, 200));

    let port = inner.address().port();
    let key = "0123456789abcdef".repeat(8);
    let attacks = [
        ("guard", "filters: [ { auth: { network: [ 0.0.0.0/0, '::/0' ] } } ], to: inner".to_owned()),
        ("mirror", "filters: [ { mirror: inner } ], to: shop".into()),
        ("judge", "filters: [ { auth: { forward_auth: { service: inner, path: / } } } ], to: shop".into()),
        ("asked", "filters: [ { ext: { service: inner } } ], to: shop".into()),
        ("localhost", format!("to: [ 'http://localhost:{port}' ]")),
        ("mapped", format!("to: [ 'http://[::ffff:127.0.0.1]:{port}' ]")),
        (
            "user",
            "filters: [ { chain: safe }, { headers: { request: { set: { X-User: root } } } } ], to: inner"
                .into(),
        ),
        (
            "sealed",
            format!(
                "to: {{ sealed: {{ domain: '*.sealed.test', keys: [ {{ id: 1, secret: {{ value: {key} }} }} ], \
                 allow: [ '127.0.0.0/8:1-65535' ] }} }}"
            ),
        ),
    ];
    for (name, rest) in &attacks {
        let host = if *name == "sealed" { "'*.sealed.test'".into() } else { format!("{name}.test") };
        let text = format!("routes: [ {{ name: {name}, match: {{ host: {host} }}, {rest} }} ]\n");
        put(proxy.directory(), name, &text);
    }
    put(proxy.directory(), "well", "routes: [ { name: well, match: { host: well.test }, to: shop } ]\n");
    put(
        proxy.directory(),
        "through",
        "routes: [ { name: through, match: { host: through.test }, filters: [ { chain: safe } ], to: inner } ]\n",
    );
    eventually("all are told", || left_out(&admin).len() == attacks.len());
    for told in left_out(&admin) {
        let is_known = ["only the file may take protections away", "`sealed` stands in the file only"];
        assert!(is_known.iter().any(|part| told.contains(part)), "{told}");
    }
    for (name, _) in attacks.iter().filter(|(name, _)| *name != "sealed") {
        assert_eq!(ask(&proxy, &format!("{name}.test")), 404, "{name}");
    }
    // Other routes run; a route through the file's chain obeys it.
    assert_eq!((ask(&proxy, "well.test"), ask(&proxy, "through.test")), (200, 401));
    assert_eq!(inner.served(), 0);
}

#[test]
fn no_configuration_that_arrives_walks_around_a_filter_of_the_file() {
    let _watchdog = Watchdog::new("no_configuration_that_arrives_walks_around_a_filter_of_the_file", LIMIT);
    let (inner, shop) = (Upstream::saying("inner"), Upstream::saying("shop"));
    let directory = Directory::new();
    fs::create_dir(directory.path().join("routes")).unwrap();
    let proxy = Proxy::start_in(directory, &config(&inner, &shop));
    let admin = Admin::of(&proxy);
    let before = fs::read_to_string(proxy.directory().join("thalweg.yaml")).unwrap();
    let port = inner.address().port();
    let asked = |more: &str| {
        let text = before.replace("routes:\n-", &format!("routes:\n{more}\n-"));
        assert_ne!(text, before);
        let fields = "Content-Type: application/yaml\r\nIf-Match: *\r\n";
        admin.ask("PUT", "/api/v1/config", fields, &text).unwrap()
    };
    let route = |rest: &str| format!("- {{ name: added, match: {{ host: added.test }}, {rest} }}");
    for rest in [
        "filters: [ { auth: { network: [ 0.0.0.0/0, '::/0' ] } } ], to: inner",
        "filters: [ { mirror: inner } ], to: shop",
        "filters: [ { auth: { forward_auth: { service: inner, path: / } } } ], to: shop",
        &format!("to: [ 'http://localhost:{port}' ]"),
        &format!("to: [ 'http://[::ffff:127.0.0.1]:{port}' ]"),
    ] {
        let answer = asked(&route(rest));
        assert_eq!(answer.status(), 403, "{rest}: {}", answer.text());
        let said: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(said["keys"][0], "routes.added", "{said}");
        assert_eq!(ask(&proxy, "added.test"), 404, "{rest}");
    }
    assert_eq!(inner.served(), 0);
    let answer = asked(&route("filters: [ { chain: safe } ], to: inner"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(ask(&proxy, "added.test"), 401);
}

/// The file's sources change: the document's route becomes an unguarded way to an endpoint that the file guards.
#[test]
fn a_document_stops_when_its_endpoint_is_found_behind_a_filter_and_comes_back() {
    let _watchdog =
        Watchdog::new("a_document_stops_when_its_endpoint_is_found_behind_a_filter_and_comes_back", LIMIT);
    let (inner, other) = (Upstream::saying("inner"), Upstream::saying("other"));
    let directory = Directory::new();
    fs::create_dir(directory.path().join("routes")).unwrap();
    let find = |at: &Path, upstream: &Upstream| {
        let new = at.join("found.new");
        fs::write(&new, format!("[ \"{}\" ]\n", upstream.url())).unwrap();
        fs::rename(new, at.join("found.yaml")).unwrap();
    };
    find(directory.path(), &other);
    let text = "listeners: { web: { address: \"127.0.0.1:0\" } }\n\
                route_sources: [ { file: { path: routes, interval: 100ms } } ]\n\
                chains: { safe: [ { auth: { network: 192.0.2.0/24 } } ] }\n\
                services: { inner: { discover: { file: { path: found.yaml, interval: 100ms } } } }\n\
                shutdown: { delay: 0s, grace: 5s }\n\
                routes: [ { name: inner, match: { host: inner.test }, filters: [ { chain: safe } ], to: inner } ]\n";
    let document = format!(
        "services: {{ side: {{ endpoints: [ '{}' ] }} }}\n\
         routes: [ {{ name: side, match: {{ host: side.test }}, to: side }} ]\n",
        inner.url()
    );
    put(directory.path(), "side", &document);
    let proxy = Proxy::start_in(directory, text);
    let admin = Admin::of(&proxy);
    eventually("the document runs", || ask(&proxy, "side.test") == 200);
    find(proxy.directory(), &inner);
    eventually("the document is left out", || ask(&proxy, "side.test") == 404);
    assert!(
        left_out(&admin)[0].contains("only the file may take protections away"),
        "{:?}",
        left_out(&admin)
    );
    let served = inner.served();
    assert_eq!((ask(&proxy, "side.test"), ask(&proxy, "inner.test"), inner.served()), (404, 401, served));
    find(proxy.directory(), &other);
    eventually("the document comes back", || ask(&proxy, "side.test") == 200);
}
