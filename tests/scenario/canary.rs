//! Canaries: a newcomer that does harm is rolled back by itself, and one that does none passes every step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::message::{Message, get};
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Directory, EventStream, Proxy, Upstream};

use super::watchdog;

const LIMIT: Duration = Duration::from_secs(50);
const PLACE: &str = "/api/v1/routes/shop/canary";

fn text(old: &str, new: &str, gates: &str) -> String {
    format!(
        "metrics: {{ address: \"127.0.0.1:0\" }}\n\
         state: {{ path: state }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ old: {{ endpoints: \"{old}\" }}, new: {{ endpoints: \"{new}\" }} }}\n\
         routes:\n\
         \x20 - name: shop\n    \
             to: [ {{ service: old, weight: 100 }}, {{ service: new, weight: 0 }} ]\n    \
             canary: {{ service: new, steps: [ 50%, 100% ], hold: 1s, gates: {{ min_requests: 40, {gates} }} }}\n"
    )
}

/// Clients that go on asking until they are dropped.
struct Traffic(Arc<AtomicBool>, Vec<thread::JoinHandle<()>>);

impl Traffic {
    fn of(proxy: &Proxy) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let address = proxy.web();
        let client = |stop: Arc<AtomicBool>| {
            thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    let _ = get(address, "/");
                }
            })
        };
        Self(stop.clone(), (0..4).map(|_| client(stop.clone())).collect())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.drain(..).for_each(|client| drop(client.join()));
    }
}

/// Waits until the canary is in this phase.
fn wait_phase(proxy: &Proxy, phase: &str) -> Value {
    let (admin, end) = (Admin::of(proxy), Instant::now() + LIMIT);
    loop {
        // The control thread begins it a moment after the start.
        let answer = admin.call("GET", PLACE, "");
        let status: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        if status["phase"] == phase {
            return status;
        }
        assert!(Instant::now() < end, "not {phase}: {status}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn saying(status: &'static str) -> Upstream {
    Upstream::start(move |_: &Message| {
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nnew").into_bytes())
    })
}

#[test]
fn a_newcomer_that_fails_is_rolled_back_by_itself() {
    let _watchdog = watchdog("a_newcomer_that_fails_is_rolled_back_by_itself");
    let (old, new) = (Upstream::saying("old"), saying("500 Internal Server Error"));
    let proxy = Proxy::start(&text(&old.url(), &new.url(), ""));
    let events = EventStream::of(&proxy);
    let traffic = Traffic::of(&proxy);
    let status = wait_phase(&proxy, "rolled_back");
    drop(traffic);
    assert_eq!(status["share"], 0, "{status}");
    assert!(status["reason"].as_str().unwrap().contains("requests failed"), "{status}");
    assert!(status["baseline"]["errors"] == 0, "{status}");
    let served = new.served();
    for _ in 0..20 {
        assert_eq!(get(proxy.web(), "/").unwrap().text(), "old");
    }
    assert_eq!(new.served(), served, "the newcomer gets nothing any more");
    let told = events.wait(0, "canary_failed", "", LIMIT).unwrap();
    assert!(told.cause().contains("was rolled back"), "{told:?}");
    let line = "route `shop`: the canary `new` was rolled back and gets nothing";
    let ended = proxy.stop();
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
}

#[test]
fn a_newcomer_that_is_slow_is_rolled_back_by_itself() {
    let _watchdog = watchdog("a_newcomer_that_is_slow_is_rolled_back_by_itself");
    let old = Upstream::saying("old");
    let new = Upstream::start(|_: &Message| {
        thread::sleep(Duration::from_millis(150));
        Some(ok("new"))
    });
    let proxy = Proxy::start(&text(&old.url(), &new.url(), "p99: 60ms"));
    let traffic = Traffic::of(&proxy);
    let status = wait_phase(&proxy, "rolled_back");
    drop(traffic);
    assert!(status["reason"].as_str().unwrap().contains("took longer"), "{status}");
}

#[test]
fn a_good_one_passes_every_step_also_over_a_restart() {
    let _watchdog = watchdog("a_good_one_passes_every_step_also_over_a_restart");
    let (old, new) = (Upstream::saying("old"), saying("200 OK"));
    // What a busy machine does to latencies is not what is looked at.
    let text = text(&old.url(), &new.url(), "p99_over_baseline: 10000%");
    let proxy = Proxy::start_in(Directory::new(), &text);
    wait_phase(&proxy, "running");
    let admin = Admin::of(&proxy);
    let order = |word: &str| admin.call("POST", &format!("{PLACE}/{word}"), "").status();
    assert_eq!(order("pause"), 200);
    let ended = proxy.stop();
    let proxy = Proxy::start_in(ended.directory, &text);
    let status = wait_phase(&proxy, "paused");
    assert_eq!((&status["share"], &status["step"]), (&50.into(), &1.into()), "{status}");
    let verb = |arguments: &[&str]| run(command(proxy.directory()).args(arguments), LIMIT);
    let resumed = verb(&["canary", "shop", "resume"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(resumed.stdout.starts_with("shop: running 50% to new"), "{}", resumed.stdout);
    let admin = Admin::of(&proxy);
    let by_hand = admin.call("PATCH", "/api/v1/routes/shop/weights", r#"{"new": 1}"#);
    assert_eq!(by_hand.status(), 409, "{}", by_hand.text());
    let traffic = Traffic::of(&proxy);
    let status = wait_phase(&proxy, "finished");
    drop(traffic);
    assert_eq!(
        (&status["share"], &status["reason"]),
        (&100.into(), &"every step was passed".into()),
        "{status}"
    );
    for _ in 0..10 {
        assert_eq!(get(proxy.web(), "/").unwrap().text(), "new");
    }
    assert_eq!(verb(&["canary", "shop", "rollback"]).code, 0);
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "old");
    assert_eq!(admin.call("POST", &format!("{PLACE}/rollback"), "").status(), 409);
    assert_eq!(admin.call("POST", &format!("{PLACE}/dance"), "").status(), 404);
    assert_eq!(admin.call("GET", "/api/v1/routes/none/canary", "").status(), 404);
}
