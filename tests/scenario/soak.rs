//! A soak: all kinds of traffic at once, while endpoints die and come back, the configuration is read again and the
//! binary is upgraded. Every byte is compared. Afterwards the process that serves holds what it held after a short
//! warm-up: descriptors, threads, exchanges, and its memory but for what an allocator keeps.
//!
//! [`traffic`] is the clients, [`service`] what they ask. `THALWEG_SOAK_SECONDS` says how long it goes on; the command
//! is `cargo xtask soak --minutes N`.

mod service;
mod traffic;

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use thalweg_tests::message::get;
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::vitals::{held_by, sum};
use thalweg_tests::{Admin, Directory, Endpoint, Identity, Proxy, Watchdog};

use super::grpc::interop;
use service::Service;
use traffic::{Kind, Places, Traffic};

/// How long the traffic goes on where nothing else is said.
const SHORT: Duration = Duration::from_secs(6);
/// The share of it after which what the process holds is the measure.
const WARM_UP: f64 = 0.2;
/// Between two things that happen to the proxy or its endpoints.
const PACE: Duration = Duration::from_millis(700);
/// Most that start, verbs and end may take beside the traffic.
const BESIDE: Duration = Duration::from_secs(120);
/// Growth of memory that is no leak: a share of what it was, and so many bytes. Pools and caches fill within it.
const GROWTH: (f64, u64) = (1.25, 16 << 20);
/// Time for connections to be closed and memory to be given back.
const SETTLE: Duration = Duration::from_secs(20);

/// What happens, one after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Trouble {
    Kill,
    Reload,
    Restart,
    Upgrade,
}

/// What a process holds while nobody asks it anything.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: u64,
    threads: u64,
    exchanges: u64,
    clients: u64,
    resident: u64,
}

fn config((service, grpc): (&Service, &str), frail: &[Endpoint; 2], identity: &str) -> String {
    let [one, other] = [&frail[0], &frail[1]].map(Endpoint::url);
    let (steady, backup) = (service.url(), service.url());
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         cache: {{ memory: 8MiB }}\n\
         listeners:\n  web: {{ address: \"127.0.0.1:0\", h2c: true }}\n  \
         secure: {{ address: \"127.0.0.1:0\", tls: {{ certificates: [ {identity} ] }} }}\n\
         services:\n  steady: {{ endpoints: [ \"{steady}\" ], timeouts: {{ idle: 20s }} }}\n  \
         grpc: {{ protocol: http2, endpoints: [ \"{grpc}\" ] }}\n  \
         frail:\n    endpoints: [ \"{one}\", \"{other}\", {{ url: \"{backup}\", tier: 1 }} ]\n    \
         health: {{ path: /healthz, interval: 200ms, timeout: 200ms, unhealthy_after: 2, healthy_after: 1 }}\n    \
         retry: {{ attempts: 4, budget: 100%, min_retries_per_second: 1000 }}\n\
         routes:\n  - {{ name: frail, match: {{ host: frail.test }}, to: frail }}\n  \
         - {{ name: cached, match: {{ path: \"/cached/*\" }}, to: steady, filters: [ {{ cache: {{}} }} ] }}\n  \
         - {{ name: grpc, match: {{ path: \"/grpc.testing.TestService/*\" }}, to: grpc }}\n  \
         - {{ name: rest, to: steady }}\n\
         shutdown: {{ delay: 0s, grace: 3s }}\n"
    )
}

/// The proxy, whichever process it is now.
struct Site {
    proxy: Proxy,
    metrics: SocketAddr,
    frail: [Endpoint; 2],
    reloads: usize,
}

impl Site {
    fn start(service: &Service, grpc: &str) -> Self {
        let directory = Directory::new();
        let identity = Identity::shared().write(&directory, "web");
        let frail = ["a", "b"].map(|name| Endpoint::start(env!("CARGO_BIN_EXE_test-endpoint"), name));
        let proxy = Proxy::start_in(directory, &config((service, grpc), &frail, &identity));
        let metrics = proxy.metrics();
        Self { proxy, metrics, frail, reloads: 0 }
    }

    fn pid(&self) -> i32 {
        i32::try_from(Admin::of(&self.proxy).get("/api/v1/status")["pid"].as_i64().unwrap()).unwrap()
    }

    fn verb(&self, arguments: &[&str]) {
        let done = run(command(self.proxy.directory()).args(arguments), BESIDE);
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}\n{}", self.proxy.process().stderr());
    }

    fn happen(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Kill => self.frail[0].kill(),
            Trouble::Restart => self.frail[0].restart(),
            Trouble::Upgrade => self.verb(&["upgrade"]),
            Trouble::Reload => {
                self.reloads += 1;
                let file = self.proxy.directory().join("thalweg.yaml");
                let text = fs::read_to_string(&file).unwrap();
                let text = text.lines().filter(|line| !line.contains("name: extra"));
                let mut text: String = text.map(|line| format!("{line}\n")).collect();
                let extra = format!(
                    "routes:\n  - {{ name: extra, match: {{ host: extra{}.test }}, to: steady }}\n",
                    self.reloads
                );
                text = text.replace("routes:\n", &extra);
                fs::write(file, text).unwrap();
                self.verb(&["reload"]);
            }
        }
    }

    /// What the process holds once nothing more of the traffic is there.
    fn held(&self) -> Held {
        let pid = self.pid();
        let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count() as u64;
        let text = get(self.metrics, "/metrics").unwrap().text();
        Held {
            descriptors: count("fd").saturating_sub(sum(&text, "thalweg_upstream_connections_idle")),
            threads: count("task"),
            exchanges: sum(&text, "thalweg_requests_active"),
            clients: sum(&text, "thalweg_connections_active"),
            resident: held_by(pid),
        }
    }

    /// Waits until it holds no more than `before`, or says what it holds. The first look is that of the warm-up.
    fn settles(&self, before: Option<&Held>) -> Held {
        let end = Instant::now() + SETTLE;
        loop {
            let now = self.held();
            let quiet = now.exchanges == 0 && now.clients == 0;
            let back = before.is_none_or(|before| {
                now.descriptors <= before.descriptors
                    && now.threads <= before.threads
                    && now.resident <= (before.resident as f64 * GROWTH.0) as u64 + GROWTH.1
            });
            if quiet && back {
                return now;
            }
            assert!(Instant::now() < end, "it holds {now:?}, after the warm-up it was {before:?}");
            std::thread::yield_now();
        }
    }
}

/// Traffic for some time, with these troubles in turn.
fn phase(site: &mut Site, places: &Places, time: Duration, troubles: &[Trouble]) -> traffic::Tally {
    let traffic = Traffic::start(places);
    let end = Instant::now() + time;
    let mut next = troubles.iter().cycle();
    while Instant::now() < end {
        traffic.go_on(PACE);
        if let Some(trouble) = next.next() {
            site.happen(*trouble);
        }
    }
    site.frail[0].restart();
    traffic.stop()
}

#[test]
fn nothing_is_lost_and_nothing_stays_behind() {
    let time = env::var("THALWEG_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = time.map_or(SHORT, Duration::from_secs);
    let has_grpc = interop::is_built();
    let _watchdog = Watchdog::new("nothing_is_lost_and_nothing_stays_behind", time + BESIDE);
    let service = Service::start();
    let grpc = has_grpc.then(|| interop::server(&[])).flatten();
    let client = interop::client();
    let mut site =
        Site::start(&service, &grpc.as_ref().map_or_else(|| service.url(), |(_, at)| format!("http://{at}")));
    let secure = site.proxy.address("secure");
    let places = Places { web: site.proxy.web(), secure, grpc: grpc.as_ref().and(client) };
    let (warm, half) = (time.mul_f64(WARM_UP), time.mul_f64((1.0 - WARM_UP) / 2.0));
    let quiet = [Trouble::Kill, Trouble::Reload, Trouble::Restart];
    phase(&mut site, &places, warm, &quiet);
    let before = site.settles(None);
    // One process for long: what it would lose adds up.
    let first = phase(&mut site, &places, half, &quiet);
    let after = site.settles(Some(&before));
    let all = [Trouble::Upgrade, Trouble::Kill, Trouble::Reload, Trouble::Restart];
    let second = phase(&mut site, &places, half, &all);
    let last = site.settles(Some(&before));
    eprintln!(
        "soak: after the warm-up {before:?}\nsoak: after {half:?} {after:?}\nsoak: after upgrades {last:?}"
    );
    eprintln!("soak: {first}\nsoak: beside upgrades {second}");
    for tally in [first, second] {
        assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
        let idle = Kind::ALL.iter().filter(|kind| places.has(**kind) && tally.done(**kind) == 0);
        assert_eq!(idle.count(), 0, "{tally}");
    }
}
