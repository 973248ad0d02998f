//! Starts whose registry does not answer: what it said before the restart is used.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use thalweg_tests::message::get;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Directory, Proxy, STEP, Upstream, Watchdog};

/// Most that a test may take.
const LIMIT: Duration = Duration::from_secs(90);
/// How long a change may take to be seen, on a machine that is busy.
const SEEN: Duration = Duration::from_secs(30);

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(50));
    }
}

/// What the registry says.
fn document(instance: &Upstream) -> Vec<u8> {
    ok(&format!("[\"{}\"]", instance.url()))
}

fn start(registry: &str, state: &Path) -> Proxy {
    Proxy::start(&format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         state: {{ path: {} }}\n\
         routes: [ {{ to: s }} ]\n\
         services: {{ s: {{ discover: {{ http: {{ url: \"{registry}/s\", interval: 200ms }} }} }} }}\n",
        state.display()
    ))
}

#[test]
fn a_restart_without_its_registry_goes_on_with_what_was_known() {
    let _watchdog = Watchdog::new("a_restart_without_its_registry_goes_on_with_what_was_known", LIMIT);
    let (instance, new) = (Upstream::saying("here"), Upstream::saying("there"));
    let state = Directory::new();
    let file = state.path().join("sources.json");
    let said = document(&instance);
    let registry = Upstream::start(move |_| Some(said.clone()));
    let (address, url) = (registry.address(), registry.url());

    let proxy = start(&url, state.path());
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "here");
    let port = instance.address().port().to_string();
    eventually("the set is kept", || fs::read_to_string(&file).is_ok_and(|text| text.contains(&port)));
    // Not a word of farewell.
    proxy.process().signal(Signal::KILL);
    proxy.process().wait_exit(STEP);
    drop(registry);

    let proxy = start(&url, state.path());
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "here");
    let admin = Admin::of(&proxy);
    let source = || admin.get("/api/v1/sources")["sources"][0].clone();
    let status = source();
    assert_eq!((&status["state"], &status["endpoints"]), (&"failing".into(), &1.into()), "{status}");
    assert!(status["kept_from"].is_string() && status["age_s"].as_f64() >= Some(0.0), "{status}");
    let stderr = proxy.process().stderr();
    let told: Vec<_> = stderr.lines().filter(|line| line.contains("until the source answers")).collect();
    assert_eq!(told.len(), 1, "{stderr}");
    assert!(told[0].contains("1 endpoint is used from 20") && told[0].contains(&url), "{}", told[0]);
    // Metrics have the standing of sources from time to time.
    eventually("the endpoint is counted", || {
        let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
        metrics.lines().any(|line| line.starts_with("thalweg_source_endpoints{") && line.ends_with(" 1"))
    });

    let said = document(&new);
    let registry = Upstream::start_at(address, move |_| Some(said.clone()));
    eventually("the registry is believed again", || get(proxy.web(), "/").unwrap().text() == "there");
    eventually("the source works", || source()["state"] == "current");
    assert!(source()["kept_from"].is_null());
    // What is known when it ends is kept, however short a time ago it came.
    assert!(proxy.stop().status.success());
    assert!(fs::read_to_string(&file).unwrap().contains(&new.address().port().to_string()));
    drop(registry);
}

#[test]
fn a_file_that_is_damaged_is_told_of_and_not_used() {
    let _watchdog = Watchdog::new("a_file_that_is_damaged_is_told_of_and_not_used", LIMIT);
    let state = Directory::new();
    state.write("sources.json", "{\"endpoints\": {\"http: ");
    let registry = Upstream::saying("");
    let url = registry.url();
    drop(registry);
    let proxy = start(&url, state.path());
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 503);
    let stderr = proxy.process().stderr();
    assert!(
        stderr.contains("sources.json: EOF while parsing") && stderr.contains("it is not used"),
        "{stderr}"
    );
}
