//! Routes that come from a registry: documents in etcd, merged with the file while requests go on.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Directory, Load, Proxy, STEP, Upstream, Watchdog};

use super::etcd::{Etcd, encoded};

/// Most that a test may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a change may take to be seen, on a machine that is busy.
const SEEN: Duration = Duration::from_secs(30);
/// Documents that come and go under load.
const CHANGES: usize = 50;

fn config(etcd: &Etcd, service: &Upstream) -> String {
    format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         route_sources: [ {{ etcd: {{ prefix: /routes/, url: \"http://{}\", interval: 500ms }} }} ]\n\
         services: {{ shop: {{ endpoints: [ \"{}\" ] }} }}\n\
         routes: [ {{ name: shop, match: {{ host: shop.test }}, to: shop }} ]\n\
         tests: [ {{ request: GET http://shop.test/, expect: {{ route: shop }} }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        etcd.address,
        service.url()
    )
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(50));
    }
}

fn put(etcd: &Etcd, name: &str, document: &str) {
    let key = encoded(&format!("/routes/{name}"));
    etcd.call("put", &format!(r#"{{"key":"{key}","value":"{}"}}"#, encoded(document)));
}

fn delete(etcd: &Etcd, name: &str) {
    etcd.call("deleterange", &format!(r#"{{"key":"{}"}}"#, encoded(&format!("/routes/{name}"))));
}

/// The status and the text of the answer to a request to this host.
fn ask(proxy: &Proxy, host: &str) -> (u16, String) {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = fetch(proxy.web(), &request).unwrap();
    (answer.status(), answer.text())
}

fn source(admin: &Admin) -> Value {
    admin.get("/api/v1/sources")["sources"][0].clone()
}

/// A document with a route and its service.
fn document(name: &str, to: &Upstream) -> String {
    let url = to.url();
    format!(
        "services: {{ {name}: {{ endpoints: [ \"{url}\" ] }} }}\n\
         routes:\n  - {{ name: {name}, match: {{ host: {name}.test }}, to: {name} }}\n"
    )
}

#[test]
fn routes_come_and_go_with_documents_and_a_mistake_stays_alone() {
    let _watchdog = Watchdog::new("routes_come_and_go_with_documents_and_a_mistake_stays_alone", LIMIT);
    let Some(etcd) = Etcd::start() else { return };
    let (shop, blog, wiki) = ("shop", "blog", "wiki");
    let [shop, blog, wiki] = [shop, blog, wiki].map(|name| Upstream::start(move |_| Some(ok(name))));
    put(&etcd, "blog", &document("blog", &blog));
    let proxy = Proxy::start(&config(&etcd, &shop));
    let admin = Admin::of(&proxy);
    // What is there at the start runs from the first request on.
    assert_eq!(ask(&proxy, "blog.test"), (200, "blog".into()));
    assert_eq!(ask(&proxy, "shop.test"), (200, "shop".into()));
    assert_eq!(ask(&proxy, "wiki.test").0, 404);

    put(&etcd, "wiki", &document("wiki", &wiki));
    eventually("a new route is served", || ask(&proxy, "wiki.test") == (200, "wiki".into()));
    let explained = admin.get("/api/v1/explain?method=GET&url=http://wiki.test/");
    assert!(
        explained.to_string().contains(&format!("etcd: /routes/ at http://{}: wiki:3", etcd.address)),
        "{explained:#}"
    );

    // A mistake, and what only the file may say: the last good version stays, and others go on.
    put(&etcd, "wiki", "routes: [ { name: wiki, mtach: { host: wiki.test }, to: wiki } ]");
    put(&etcd, "thief", "routes: [ { name: thief, match: { host: shop.test, path: / }, to: blog } ]");
    put(&etcd, "key", "services: { key: { endpoints: [ 'https://a' ], tls: { ca: /etc/passwd } } }");
    put(&etcd, "copy", "routes: [ { name: shop, match: { host: copy.test }, to: blog } ]");
    eventually("all four are told", || {
        source(&admin)["left_out"].as_array().is_some_and(|told| told.len() == 4)
    });
    let told = source(&admin)["left_out"].to_string();
    for part in [
        "wiki: line 1, column 25: unknown key `mtach`",
        "thief: with it the configuration is refused",
        "`services.key.tls.ca` may not come from a source",
        "copy: line 1: the route `shop` is left out: there is one of this name in ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(ask(&proxy, "wiki.test"), (200, "wiki".into()));
    assert_eq!(ask(&proxy, "shop.test"), (200, "shop".into()));
    assert_eq!(ask(&proxy, "copy.test").0, 404);

    // A reload of the file keeps what sources have told.
    assert_eq!(admin.call("POST", "/api/v1/reload", "").status(), 200);
    assert_eq!(ask(&proxy, "wiki.test"), (200, "wiki".into()));

    for name in ["thief", "key", "copy", "blog"] {
        delete(&etcd, name);
    }
    eventually("a route is gone", || ask(&proxy, "blog.test").0 == 404);
    put(&etcd, "wiki", &document("wiki", &shop));
    eventually("another service answers", || ask(&proxy, "wiki.test") == (200, "shop".into()));
    assert!(source(&admin)["left_out"].is_null(), "{:#}", source(&admin));
    assert_eq!(source(&admin)["documents"], 1);
}

#[test]
fn routes_from_etcd_change_under_load_and_outlast_its_bad_days() {
    let _watchdog = Watchdog::new("routes_from_etcd_change_under_load_and_outlast_its_bad_days", LIMIT);
    let Some(mut etcd) = Etcd::start() else { return };
    let shop = Upstream::start(|_| Some(ok("shop")));
    put(&etcd, "all", "routes: [ { name: all, match: { path: / }, to: shop } ]");
    let proxy = Proxy::start(&config(&etcd, &shop));
    let admin = Admin::of(&proxy);
    let load = Load::start(proxy.web(), 4);
    load.wait_for(100);
    for change in 0..CHANGES {
        put(&etcd, &format!("a-{}", change % 10), &document(&format!("service-{change}"), &shop));
        if change % 7 == 6 {
            put(&etcd, "bad", "routes: [ {");
            delete(&etcd, "a-3");
        }
    }
    let last = format!("service-{}.test", CHANGES - 1);
    eventually("the last change is served", || ask(&proxy, &last).0 == 200);

    etcd.kill();
    eventually("the end is told", || source(&admin)["state"] == "failing");
    admin.events().wait("source_failed", None);
    load.wait_for(100);
    assert_eq!(ask(&proxy, &last).0, 200);
    etcd.restart();
    eventually("it works again", || source(&admin)["state"] == "current");
    put(&etcd, "later", &document("later", &shop));
    eventually("a later change is served", || ask(&proxy, "later.test").0 == 200);
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
    // Sources are counted once a second: a bad day may be shorter than that.
    let failures = "thalweg_source_failures_total{service=\"\",source=\"etcd\"} ";
    eventually("failures are counted", || {
        let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
        metrics.lines().any(|line| line.starts_with(failures) && !line.ends_with(" 0"))
    });
}

/// The proxy is killed, and etcd does not answer the next one: the routes are there as before.
#[test]
fn routes_outlast_a_restart_without_etcd() {
    let _watchdog = Watchdog::new("routes_outlast_a_restart_without_etcd", LIMIT);
    let Some(mut etcd) = Etcd::start() else { return };
    let (shop, blog) = (Upstream::saying("shop"), Upstream::saying("blog"));
    let state = Directory::new();
    let config = format!("{}state: {{ path: {} }}\n", config(&etcd, &shop), state.path().display());
    put(&etcd, "blog", &document("blog", &blog));
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy, "blog.test"), (200, "blog".into()));
    let file = state.path().join("sources.json");
    eventually("documents are kept", || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains("blog.test"))
    });
    proxy.process().signal(Signal::KILL);
    proxy.process().wait_exit(STEP);
    etcd.kill();

    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy, "blog.test"), (200, "blog".into()));
    let admin = Admin::of(&proxy);
    assert_eq!(source(&admin)["state"], "failing", "{:#}", source(&admin));
    let stderr = proxy.process().stderr();
    assert!(stderr.contains("1 document is used from 20"), "{stderr}");
    etcd.restart();
    delete(&etcd, "blog");
    eventually("what is gone meanwhile goes", || ask(&proxy, "blog.test").0 == 404);
}
