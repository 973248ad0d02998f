//! Endpoints that come and go through the admin API while clients are served: none of them notices.

use std::env;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::admin::{json as document, segment};
use thalweg_tests::message::Kind;
use thalweg_tests::process::Signal;
use thalweg_tests::upstream::ok;
use thalweg_tests::{
    Admin, Connection, Directory, Load, Message, Proxy, STEP, Upstream, Watchdog, machine_time,
};

use super::endpoints_api::state_in;
use super::{config, quantile};

/// How often endpoints are added and removed.
const TIMES: usize = 1_000;
/// Clients that ask as fast as they are answered.
const CLIENTS: usize = 16;
/// Writers at the same time.
const WRITERS: usize = 2;
/// How long everything changes at once, and with `THALWEG_LONG=1`.
const STRESS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(120));
/// Most that an answer of the admin API may take while everything changes.
const ANSWER: Duration = Duration::from_secs(1);

/// An upstream that has requests under way most of the time.
fn busy() -> Upstream {
    Upstream::start(|_| {
        thread::sleep(Duration::from_millis(2));
        Some(ok("here"))
    })
}

/// One more client, which notes how long each answer took, until `stop`.
fn probe(web: SocketAddr, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<Duration>> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let (mut client, mut times) = (Connection::open(web).unwrap(), Vec::new());
        while !stop.load(Ordering::Acquire) {
            let begin = Instant::now();
            client.send("GET / HTTP/1.1\r\nHost: probe.test\r\n\r\n");
            let answer = Message::read(&mut client, Kind::Response, begin + STEP).unwrap();
            assert_eq!(answer.status(), 200, "{answer:?}");
            times.push(begin.elapsed());
        }
        times
    })
}

/// Adds and removes the endpoints in turn, so many times, with these drains in turn.
fn churn(admin: &Admin, upstreams: &[Upstream], times: usize, drains: &[&str]) {
    for turn in 0..times {
        let url = upstreams[turn % upstreams.len()].url();
        let body = json!({ "url": url, "weight": 1 + turn % 3 }).to_string();
        let answer = admin.call("POST", "/api/v1/services/s/endpoints", &body);
        assert_eq!(answer.status(), 201, "turn {turn}: {}", answer.text());
        let id = document(&answer)["id"].as_str().unwrap().to_owned();
        let drain = drains[turn % drains.len()];
        let answer = admin.call("DELETE", &format!("/api/v1/services/s/endpoints/{id}?drain={drain}"), "");
        assert!(matches!(answer.status(), 200 | 202), "turn {turn}: {}", answer.text());
    }
}

/// Two permanent endpoints, so many changes by two writers, and clients that ask all the while.
fn nobody_notices(drains: &'static [&'static str], times: usize) {
    let permanent = [busy(), busy()];
    let [first, second] = permanent.each_ref().map(Upstream::url);
    let directory = Directory::new();
    let state = state_in(&directory);
    let proxy = Proxy::start_in(directory, &config(&[&first, &second], &state));
    let (admin, stop) = (Admin::of(&proxy), Arc::new(AtomicBool::new(false)));
    let load = Load::start(proxy.web(), CLIENTS);
    load.wait_for(100);
    let probe = probe(proxy.web(), &stop);
    let begin = Instant::now();
    let writers = (0..WRITERS).map(|_| {
        let admin = admin.clone();
        thread::spawn(move || {
            // Several each, so that one that still drains is revived only now and then.
            let upstreams: Vec<_> = (0..4).map(|_| busy()).collect();
            churn(&admin, &upstreams, times / WRITERS, drains);
            upstreams.iter().map(Upstream::served).sum::<u64>()
        })
    });
    let writers: Vec<_> = writers.collect();
    let served: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    let took = begin.elapsed();
    stop.store(true, Ordering::Release);
    let mut times_taken = probe.join().unwrap();
    let (answered, failures) = load.stop();
    assert!(
        failures.is_empty(),
        "{} of {answered} failed: {:?}",
        failures.len(),
        &failures[..failures.len().min(5)]
    );
    assert!(served > 0, "those that came and went got nothing at all");
    times_taken.sort();
    eprintln!(
        "{times} times in {took:?}: {answered} requests, {served} to those that came and went; median {:?}, p99 {:?}, most {:?}",
        quantile(&times_taken, 0.5),
        quantile(&times_taken, 0.99),
        quantile(&times_taken, 1.0)
    );
    let service = admin.get("/api/v1/services/s");
    let end = Instant::now() + STEP;
    while admin.get("/api/v1/services/s")["endpoints"].as_array().unwrap().len() != permanent.len() {
        assert!(Instant::now() < end, "drains do not end: {service}");
    }
    assert_eq!(proxy.stop().status.code(), Some(0));
}

#[test]
fn adding_and_removing_endpoints_a_thousand_times_under_load_costs_no_request() {
    let name = "adding_and_removing_endpoints_a_thousand_times_under_load_costs_no_request";
    let _watchdog = Watchdog::new(name, Duration::from_secs(120));
    nobody_notices(&["1s", "0s"], TIMES);
}

#[test]
fn removing_endpoints_without_a_drain_under_load_costs_no_request_that_may_be_repeated() {
    let name = "removing_endpoints_without_a_drain_under_load_costs_no_request_that_may_be_repeated";
    let _watchdog = Watchdog::new(name, Duration::from_secs(120));
    nobody_notices(&["0s"], TIMES / 5);
}

/// What all who change things agree on.
struct Stress {
    admin: Admin,
    end: Instant,
    /// Tags of the writes that were made.
    tags: Mutex<Vec<String>>,
    calls: AtomicU64,
    slowest: Mutex<Duration>,
}

impl Stress {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn call(&self, method: &str, path: &str, body: &str) -> Message {
        let begin = machine_time();
        let answer = self.admin.call(method, path, body);
        let took = machine_time() - begin;
        assert!(took < ANSWER, "{method} {path} took {took:?}");
        assert!(matches!(answer.status(), 200..=202 | 404 | 409), "{method} {path}: {}", answer.text());
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        *slowest = took.max(*slowest);
        if method != "GET" && answer.status() < 300 {
            let tag = answer.value("etag").unwrap().to_owned();
            self.tags.lock().unwrap_or_else(PoisonError::into_inner).push(tag);
        }
        answer
    }

    /// Adds, changes and removes one endpoint after the other; `writer` makes its own sequence.
    fn write(&self, upstreams: &[Upstream], writer: usize) {
        let mut turn = writer;
        while !self.is_over() {
            let url = upstreams[turn % upstreams.len()].url();
            let path = format!("/api/v1/services/s/endpoints/{}", segment(&url));
            match turn * 7 % 11 {
                0..3 => {
                    let body = json!({ "url": url, "weight": turn % 5 }).to_string();
                    self.call("POST", "/api/v1/services/s/endpoints", &body)
                }
                3..5 => self.call("PATCH", &path, &json!({ "weight": turn % 9 }).to_string()),
                5 => self.call("PATCH", &path, r#"{"state": "draining"}"#),
                6 => self.call("PATCH", &path, r#"{"state": "maintenance"}"#),
                7 | 8 => self.call("PATCH", &path, r#"{"state": "ready"}"#),
                9 => self.call("DELETE", &format!("{path}?drain=0s"), ""),
                _ => self.call("DELETE", &format!("{path}?drain=1s"), ""),
            };
            turn += 1;
        }
    }

    /// Looks at the version: it never goes back.
    fn watch(&self) -> u64 {
        let mut last = 0;
        while !self.is_over() {
            let version = document(&self.call("GET", "/api/v1/services", ""))["version"].as_u64().unwrap();
            assert!(version >= last, "from version {last} back to {version}");
            last = version;
        }
        last
    }
}

/// Reloads all the while: another limit, another endpoint, host names that come and go.
fn reload_in_turn(proxy: &Proxy, texts: &[String], end: Instant) -> u64 {
    let (file, mut done) = (proxy.directory().join("thalweg.yaml"), 0);
    let log = proxy.log_path();
    while Instant::now() < end {
        let text = texts[done % texts.len()].replace("{log}", &log.to_string_lossy());
        // Whole or not at all: a reload may be under way.
        let new = proxy.directory().join("new.yaml");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &file).unwrap();
        proxy.process().signal(Signal::HUP);
        done += 1;
        let limit = Instant::now() + STEP;
        while proxy.process().stderr().matches("reloaded ").count() < done {
            assert!(Instant::now() < limit, "reload {done} hangs:\n{}", proxy.process().stderr());
            thread::yield_now();
        }
    }
    done as u64
}

#[test]
fn writers_reloads_and_host_names_at_once_under_load_do_not_get_in_each_others_way() {
    let name = "writers_reloads_and_host_names_at_once_under_load_do_not_get_in_each_others_way";
    let long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let time = if long { STRESS.1 } else { STRESS.0 };
    let _watchdog = Watchdog::new(name, time + Duration::from_secs(60));
    let permanent = [busy(), busy()];
    let [first, second] = permanent.each_ref().map(Upstream::url);
    let named = second.replace("127.0.0.1", "localhost");
    let mapped = second.replace("127.0.0.1", "ip4.localhost");
    let directory = Directory::new();
    let state = state_in(&directory);
    let texts = [
        config(&[&first, &second], ""),
        config(&[&first, &named], "limits: { max_head: 32KiB }\n"),
        config(&[&first, &second, &mapped], ""),
        config(&[&second, &first], "defaults: { timeouts: { connect: 1s } }\n"),
    ]
    .map(|text| text + &state);
    let proxy = Proxy::start_in(directory, &texts[0]);
    let load = Load::start(proxy.web(), CLIENTS);
    load.wait_for(100);
    let upstreams: Vec<_> = (0..6).map(|_| busy()).collect();
    let stress = Stress {
        admin: Admin::of(&proxy),
        end: Instant::now() + time,
        tags: Mutex::default(),
        calls: AtomicU64::new(0),
        slowest: Mutex::default(),
    };
    let (reloads, last) = thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (stress, upstreams) = (&stress, &upstreams);
            scope.spawn(move || stress.write(upstreams, writer * 3));
        }
        let watch = scope.spawn(|| stress.watch());
        let reloads = reload_in_turn(&proxy, &texts, stress.end);
        (reloads, watch.join().unwrap())
    });
    let (answered, failures) = load.stop();
    assert!(
        failures.is_empty(),
        "{} of {answered} failed: {:?}",
        failures.len(),
        &failures[..failures.len().min(5)]
    );
    let mut tags = stress.tags.into_inner().unwrap_or_else(PoisonError::into_inner);
    let writes = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), writes, "two writes had the same version");
    let calls = stress.calls.into_inner();
    let slowest = stress.slowest.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(writes > 50 && reloads > 5, "{writes} writes, {reloads} reloads");
    eprintln!(
        "{answered} requests, {calls} calls ({writes} writes, slowest {slowest:?}), {reloads} reloads; version {last}"
    );
    assert_eq!(proxy.stop().status.code(), Some(0));
}
