//! Scenarios: real clients, real servers, bad days and the life of the process.

mod access;
mod access_log;
mod acme;
mod addresses;
mod answers;
mod authentication;
mod autobahn;
mod backpressure;
mod balancing;
mod budget;
mod buffer;
mod cache;
mod cache_disk;
mod cache_suite;
mod canary;
mod chaos;
mod clients;
mod codings;
mod command_line;
mod compress;
mod connections;
mod control;
mod dashboard;
mod decisions;
mod decoders;
mod descriptors;
mod dns;
mod docker_labels;
mod drain;
mod early_response;
mod ejection;
mod endpoint;
mod endpoint_churn;
mod endpoints_api;
mod etcd;
mod eureka;
mod explain;
mod ext;
mod failure;
mod fairness;
mod files;
mod filter_outcomes;
mod flood;
mod go_load_balance;
mod grpc;
mod h2_attacks;
mod health;
mod hedging;
mod hostile_clients;
mod house;
mod http2;
mod http2_upstream;
mod httplint;
mod import;
mod kept_sources;
mod kubernetes;
mod leaks;
mod limits;
mod mirror;
mod oidc;
mod one_liners;
mod openapi;
mod pages;
mod privileges;
mod prometheus;
mod purge;
mod rate_limits;
mod recipes;
mod regressions;
mod reloads;
mod replay;
mod retries;
mod route_sources;
mod route_sources_protections;
mod route_sources_wait;
mod runtimes;
mod scripted;
mod sealed;
mod series;
mod servers;
mod soak;
mod splice;
mod static_files;
mod streaming;
mod syscalls;
mod tap;
mod terminal;
mod throttle;
mod tls;
mod traces;
mod tunnels;
mod udp;
mod undo;
mod upgrade;
mod verbs;
mod wasm;
mod websocket;

use std::env;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::{Connection, Process, Proxy, STEP, Watchdog};

/// Most that a scenario may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether the figures of the project's targets are asserted too (`THALWEG_MEASURE=1`): on a quiet machine, with a
/// release binary. Otherwise the bounds are those that a busy machine and a debug build keep.
fn measuring() -> bool {
    env::var("THALWEG_MEASURE").as_deref() == Ok("1")
}

/// Who gets a CPU first where figures are taken: clients, endpoints and attackers share two cores with the proxy, and
/// what they take or wait for themselves is not to count.
#[derive(Clone, Copy, Debug)]
enum Priority {
    /// Before all others.
    Above,
    Ordinary,
    /// What nobody else wants.
    Below,
}

impl Priority {
    /// From now on the calling thread, and those that it starts, have it; without `THALWEG_MEASURE=1` nothing happens.
    fn take(self) {
        if measuring() {
            let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
            let (policy, priority) = match self {
                Self::Above => ("--rr", "1"),
                Self::Ordinary => ("--other", "0"),
                Self::Below => ("--idle", "0"),
            };
            let set = Command::new("chrt").args([policy, "--pid", priority, &thread]).status();
            assert!(set.is_ok_and(|status| status.success()), "`chrt` of util-linux, and root, are needed");
        }
    }
}

/// The smallest of `sorted` that is not below this share of them.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn watchdog(name: &str) -> Watchdog {
    Watchdog::new(name, LIMIT)
}

/// A configuration with one service of these endpoints; `more` are further top-level keys.
fn config(endpoints: &[&str], more: &str) -> String {
    let endpoints = endpoints.iter().map(|url| format!("\"{url}\"")).collect::<Vec<_>>().join(", ");
    let shutdown = if more.contains("shutdown:") { "" } else { "shutdown: { delay: 0s, grace: 5s }\n" };
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ s: {{ endpoints: [ {endpoints} ] }} }}\n\
         routes: [ {{ to: s }} ]\n\
         {shutdown}{more}\n"
    )
}

/// A proxy before these endpoints.
fn proxy(endpoints: &[&str]) -> Proxy {
    Proxy::start(&config(endpoints, ""))
}

/// Writes another configuration, with the addresses that the running one has, and waits until it is in force.
fn reload(proxy: &Proxy, text: &str, times: usize) {
    let log = proxy.log_path();
    let text = text.replace("{log}", &log.to_string_lossy());
    fs::write(proxy.directory().join("thalweg.yaml"), text).unwrap();
    proxy.process().signal(Signal::HUP);
    let end = Instant::now() + STEP;
    while proxy.process().stderr().matches("reloaded ").count() < times {
        assert!(Instant::now() < end, "no reload in\n{}", proxy.process().stderr());
        thread::yield_now();
    }
}

/// Waits until the samples of a metric that have this label add up to `expected`: an exchange is counted when
/// it is over, which may be a moment after the client has its answer.
fn wait_counted(proxy: &Proxy, metric: &str, label: &str, expected: u32) {
    let (start, end) = (format!("{metric}{{"), Instant::now() + STEP);
    loop {
        let text = get(proxy.metrics(), "/metrics").unwrap().text();
        let samples = text.lines().filter(|line| line.starts_with(&start) && line.contains(label));
        let values = samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        let counted = values.sum::<f64>();
        if (counted - f64::from(expected)).abs() < 0.5 {
            return;
        }
        assert!(Instant::now() < end, "{metric} with {label} is {counted}, not {expected}, in\n{text}");
    }
}

/// Stops every thread of the proxy, does `work`, and lets the proxy go on: what `work` sends is all there, in this
/// order, when the proxy looks for the first time.
fn frozen<T>(proxy: &Proxy, work: impl FnOnce() -> T) -> T {
    freeze(proxy.process());
    let done = work();
    proxy.process().signal(Signal::CONT);
    done
}

/// Stops every thread of a process, until it gets [`Signal::CONT`].
fn freeze(process: &Process) {
    process.signal(Signal::STOP);
    let end = Instant::now() + STEP;
    while !all_stopped(process.pid()) {
        assert!(Instant::now() < end, "the process does not stop");
        thread::yield_now();
    }
}

/// A connection on which the request is with the kernel already: it is there when a frozen proxy goes on.
fn spoken(address: SocketAddr, request: &str) -> Connection {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    Connection::new(stream)
}

/// Whether the kernel calls every thread of the process stopped (proc(5): the state behind the name is `T`).
fn all_stopped(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|behind| behind.starts_with('T'))
    })
}
