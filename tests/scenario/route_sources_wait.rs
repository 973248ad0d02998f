//! Documents of route sources that do not take over, or not yet: while a file waits for its reload, past a protection,
//! after a configuration was taken back; and signals while the start waits for them.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Process, Proxy, STEP, Upstream, Watchdog};

/// Most that a test may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a change may take to be seen, on a machine that is busy.
const SEEN: Duration = Duration::from_secs(30);

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A configuration whose documents stand in the directory `routes` beside it.
fn config(shop: &str) -> String {
    format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         route_sources: [ {{ file: {{ path: routes, interval: 100ms }} }} ]\n\
         services: {{ shop: {{ {shop} }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    )
}

fn endpoint(upstream: &Upstream) -> String {
    format!("endpoints: [ \"{}\" ]", upstream.url())
}

/// A directory with one document, `first.test`.
fn directory() -> Directory {
    let directory = Directory::new();
    fs::create_dir(directory.path().join("routes")).unwrap();
    put(directory.path(), "first", &route("first"));
    directory
}

fn put(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(format!("routes/{name}.yaml")), text).unwrap();
}

fn route(name: &str) -> String {
    format!("routes: [ {{ name: {name}, match: {{ host: {name}.test }}, to: shop }} ]\n")
}

/// The status of the answer to a request to this host.
fn ask(proxy: &Proxy, host: &str) -> u16 {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    fetch(proxy.web(), &request).unwrap().status()
}

fn left_out(admin: &Admin) -> String {
    let sources = admin.get("/api/v1/sources")["sources"].clone();
    let routes = |source: &&Value| !source["documents"].is_null() || !source["left_out"].is_null();
    sources
        .as_array()
        .into_iter()
        .flatten()
        .filter(routes)
        .map(|source| source["left_out"].to_string())
        .collect()
}

fn reloads(proxy: &Proxy) -> String {
    let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
    let counter = "thalweg_config_reloads_total{result=\"success\"}";
    metrics.lines().find(|line| line.starts_with(counter)).unwrap_or_default().to_owned()
}

#[test]
fn signals_while_the_start_waits_for_documents_do_not_end_it() {
    let _watchdog = Watchdog::new("signals_while_the_start_waits_for_documents_do_not_end_it", LIMIT);
    // It takes connections and does not answer.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let directory = Directory::new();
    let file = directory.write(
        "thalweg.yaml",
        &format!(
            "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
             route_sources: [ {{ etcd: {{ prefix: /routes/, url: \"http://{}\" }} }} ]\n\
             services: {{ s: {{ endpoints: [ \"http://127.0.0.1:1\" ] }} }}\n\
             routes: [ {{ to: s }} ]\n\
             shutdown: {{ delay: 0s, grace: 5s }}\n",
            silent.local_addr().unwrap()
        ),
    );
    let process = Process::start(command(directory.path()).arg("run").arg("--config").arg(file));
    let status = format!("/proc/{}/status", process.pid());
    let hangup = 1u64;
    eventually("it minds signals", || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & hangup != 0))
    });
    assert!(!process.stderr().contains("listening on"), "it waits: {}", process.stderr());
    process.signal(Signal::HUP);
    process.wait_line("it is ready", SEEN, |line| (line == "thalweg: ready").then_some(()));
    process.wait_line("it reloads", SEEN, |line| line.starts_with("thalweg: reloaded ").then_some(()));
    process.signal(Signal::TERM);
    assert!(process.wait_exit(STEP).success(), "{}", process.stderr());
}

#[test]
fn documents_wait_for_the_reload_of_a_file_that_has_changed() {
    let _watchdog = Watchdog::new("documents_wait_for_the_reload_of_a_file_that_has_changed", LIMIT);
    let shop = Upstream::saying("shop");
    let directory = directory();
    let part = directory.write("part.yaml", &route("part"));
    let text = format!("include: [ part.yaml ]\n{}", config(&endpoint(&shop)));
    let proxy = Proxy::start_in(directory, &text);
    let admin = Admin::of(&proxy);
    assert_eq!((ask(&proxy, "first.test"), ask(&proxy, "part.test")), (200, 200));

    // An edit that nobody has reloaded.
    fs::write(&part, route("other")).unwrap();
    put(proxy.directory(), "second", &route("second"));
    eventually("it is told", || {
        left_out(&admin).contains("part.yaml has changed since it was read; reload it first")
    });
    assert_eq!((ask(&proxy, "second.test"), ask(&proxy, "other.test")), (404, 404));
    assert_eq!((ask(&proxy, "first.test"), ask(&proxy, "part.test")), (200, 200));
    // Put back.
    fs::write(&part, route("part")).unwrap();
    eventually("documents go on", || ask(&proxy, "second.test") == 200);
    eventually("nothing waits", || !left_out(&admin).contains("part.yaml"));

    fs::write(&part, route("other")).unwrap();
    put(proxy.directory(), "third", &route("third"));
    eventually("it is told again", || left_out(&admin).contains("part.yaml has changed"));
    assert_eq!(admin.call("POST", "/api/v1/reload", "").status(), 200);
    assert_eq!((ask(&proxy, "third.test"), ask(&proxy, "other.test")), (200, 200));
    assert!(!left_out(&admin).contains("part.yaml"), "{}", left_out(&admin));
    let stderr = proxy.process().stderr();
    assert_eq!(stderr.matches("documents of sources wait: ").count(), 2, "each once: {stderr}");
}

#[test]
fn a_document_leads_to_no_endpoint_that_a_source_has_found_past_a_protection() {
    let name = "a_document_leads_to_no_endpoint_that_a_source_has_found_past_a_protection";
    let _watchdog = Watchdog::new(name, LIMIT);
    let shop = Upstream::saying("shop");
    let directory = directory();
    put(directory.path(), "first", "routes: []\n");
    directory.write("found.yaml", &format!("[ \"{}\" ]\n", shop.url()));
    let guarded = "routes: [ { name: shop, match: { host: shop.test }, to: shop, \
                   filters: [ { access: { allow: [ 192.0.2.1 ] } } ] } ]\n";
    let discover = "discover: { file: { path: found.yaml, interval: 100ms } }";
    let proxy = Proxy::start_in(directory, &format!("{}{guarded}", config(discover)));
    let admin = Admin::of(&proxy);
    assert_eq!(ask(&proxy, "shop.test"), 403);
    let sneak = format!(
        "services: {{ sneak: {{ endpoints: [ \"{}\" ] }} }}\n\
         routes: [ {{ name: sneak, match: {{ host: sneak.test }}, to: sneak }} ]\n",
        shop.url()
    );
    put(proxy.directory(), "sneak", &sneak);
    eventually("it is told", || left_out(&admin).contains("only the file may take protections away"));
    assert_eq!(ask(&proxy, "sneak.test"), 404);
    assert_eq!(shop.served(), 0);
    fs::remove_file(proxy.directory().join("routes/sneak.yaml")).unwrap();
    eventually("nothing waits", || left_out(&admin) == "null");
}

#[test]
fn a_mistake_in_a_document_alone_is_no_reload() {
    let _watchdog = Watchdog::new("a_mistake_in_a_document_alone_is_no_reload", LIMIT);
    let shop = Upstream::saying("shop");
    let proxy = Proxy::start_in(directory(), &config(&endpoint(&shop)));
    let admin = Admin::of(&proxy);
    let before = reloads(&proxy);
    put(proxy.directory(), "bad", "routes: [ { name: bad, mtach: {}, to: shop } ]\n");
    eventually("it is told", || left_out(&admin).contains("unknown key `mtach`"));
    put(proxy.directory(), "bad", "routes: [ { name: bad, mtahc: {}, to: shop } ]\n");
    eventually("the other is told", || left_out(&admin).contains("unknown key `mtahc`"));
    assert_eq!(reloads(&proxy), before);
    let stderr = proxy.process().stderr();
    assert!(stderr.contains("unknown key `mtach`") && stderr.contains("unknown key `mtahc`"), "{stderr}");
    let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
    assert!(!metrics.contains("thalweg_source_endpoints{"), "routes are no endpoints: {metrics}");
}

#[test]
fn the_newest_documents_run_soon_after_a_configuration_was_taken_back() {
    let _watchdog =
        Watchdog::new("the_newest_documents_run_soon_after_a_configuration_was_taken_back", LIMIT);
    let (shop, down) = (Upstream::saying("shop"), Upstream::saying("down"));
    let broken = format!(
        "{}routes: [ {{ name: bad, match: {{ host: bad.test }}, to: shop, filters: [ {{ respond: 200 }} ] }} ]\n",
        config(&endpoint(&shop))
    );
    let harmful = broken.replace("respond: 200", "respond: 500").replace(&shop.url(), &down.url());
    let proxy = Proxy::start_in(directory(), &broken);
    let admin = Admin::of(&proxy);
    assert_eq!(ask(&proxy, "first.test"), 200);
    fs::write(proxy.directory().join("thalweg.yaml"), &harmful).unwrap();
    let answer = admin.call("POST", "/api/v1/reload?watch=60s&min_requests=10", "");
    assert_eq!(answer.status(), 200, "{}", answer.text());
    // While it is watched, one comes that is good and one that is not.
    put(proxy.directory(), "second", &route("second"));
    put(proxy.directory(), "wrong", "routes: [ { name: wrong, mtach: {}, to: shop } ]\n");
    eventually("they have come", || {
        ask(&proxy, "second.test") == 200 && left_out(&admin).contains("unknown key `mtach`")
    });
    eventually("it is taken back", || ask(&proxy, "bad.test") == 200);
    eventually("the newest run", || ask(&proxy, "second.test") == 200);
    eventually("the mistake is told", || left_out(&admin).contains("unknown key `mtach`"));
}
