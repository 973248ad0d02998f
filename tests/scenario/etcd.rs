//! Services that register in etcd: they come and go under load, and etcd itself has its bad days.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::find_or_skip;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Directory, Load, Process, Proxy, STEP, Upstream, Watchdog};

/// Most that a test may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a change may take to be seen, on a machine that is busy.
const SEEN: Duration = Duration::from_secs(30);
/// Instances of the service that is deployed anew.
const INSTANCES: usize = 20;
/// Clients that ask as fast as they are answered.
const CLIENTS: usize = 8;
/// Nobody connects to it: there is one member.
const PEERS: &str = "http://127.0.0.1:1";

/// A member of a cluster of one.
pub(super) struct Etcd {
    program: PathBuf,
    directory: Directory,
    pub(super) address: SocketAddr,
    process: Process,
}

impl Etcd {
    /// `None`: it is not installed.
    pub(super) fn start() -> Option<Self> {
        let program = find_or_skip("etcd")?;
        let directory = Directory::new();
        // Its gateway asks etcd at the address that is written, so that the kernel cannot choose while etcd begins.
        for _ in 0..5 {
            let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
            let process = run(&program, &directory, address);
            if serves(&process, address) {
                return Some(Self { program, directory, address, process });
            }
        }
        panic!("etcd does not begin");
    }

    pub(super) fn kill(&self) {
        self.process.signal(Signal::KILL);
        self.process.wait_exit(STEP);
    }

    /// Again, with what it knew.
    pub(super) fn restart(&mut self) {
        self.process = run(&self.program, &self.directory, self.address);
        assert!(serves(&self.process, self.address), "{}", self.process.stderr());
    }

    pub(super) fn call(&self, method: &str, body: &str) {
        let head = "Host: etcd\r\nConnection: close\r\nContent-Length";
        let request = format!("POST /v3/kv/{method} HTTP/1.1\r\n{head}: {}\r\n\r\n{body}", body.len());
        let answer = fetch(self.address, &request).unwrap();
        assert_eq!(answer.status(), 200, "{method}: {answer:?}");
    }

    fn register(&self, upstream: &Upstream) {
        let value = encoded(&format!(r#"{{"Op":0,"Addr":"{}"}}"#, upstream.address()));
        self.call("put", &format!(r#"{{"key":"{}","value":"{value}"}}"#, key(upstream)));
    }

    fn leave(&self, upstream: &Upstream) {
        self.call("deleterange", &format!(r#"{{"key":"{}"}}"#, key(upstream)));
    }
}

fn run(program: &PathBuf, directory: &Directory, address: SocketAddr) -> Process {
    let url = format!("http://{address}");
    let mut command = Command::new(program);
    command.arg("--data-dir").arg(directory.path().join("data")).args([
        "--unsafe-no-fsync",
        "--log-outputs",
        "stderr",
    ]);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    command.args(["--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", PEERS]);
    Process::start(command.args(["--initial-cluster", &format!("default={PEERS}")]))
}

/// Waits until it serves; `false`: it has ended, as when the port is taken.
fn serves(process: &Process, address: SocketAddr) -> bool {
    let (end, address) = (Instant::now() + SEEN, address.to_string());
    let is_serving = |line: &str| line.contains("serving") && line.contains(&address);
    while process.is_running() {
        if process.stderr().lines().any(is_serving) {
            return true;
        }
        assert!(Instant::now() < end, "{}", process.stderr());
        thread::sleep(Duration::from_millis(20));
    }
    false
}

fn key(upstream: &Upstream) -> String {
    encoded(&format!("/services/s/{}", upstream.address().port()))
}

/// In Base64.
pub(super) fn encoded(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(*three.get(at).unwrap_or(&0)));
        for at in 0..4 {
            out.push(if at <= three.len() { char::from(LETTERS[bits >> (18 - 6 * at) & 63]) } else { '=' });
        }
    }
    out
}

fn config(etcd: &Etcd) -> String {
    format!(
        "workers: 2\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         routes: [ {{ to: s }} ]\n\
         services:\n  s:\n    \
             discover: {{ etcd: {{ prefix: /services/s/, url: \"http://{}\", interval: 500ms }} }}\n    \
             retry: {{ attempts: 3 }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        etcd.address
    )
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The URLs of the endpoints that the proxy knows.
fn known(admin: &Admin) -> BTreeSet<String> {
    let service = admin.get("/api/v1/services/s");
    let all = service["endpoints"].as_array().unwrap();
    all.iter().map(|endpoint| endpoint["url"].as_str().unwrap().to_owned()).collect()
}

/// Whether the only source fails, as the API says and the metrics.
fn fails(admin: &Admin, proxy: &Proxy) -> bool {
    let fails = admin.get("/api/v1/sources")["sources"][0]["state"] == "failing";
    let text = get(proxy.metrics(), "/metrics").unwrap().text();
    let line = text.lines().find(|line| line.starts_with("thalweg_source_failing{")).unwrap();
    let says = line.ends_with(" 1");
    // They are read one after the other.
    fails && says
}

fn instance() -> Upstream {
    Upstream::start(|_| {
        thread::sleep(Duration::from_millis(2));
        Some(ok("here"))
    })
}

/// Each instance is replaced by a new one, one after the other, and is gone as soon as it has left: what was sent to it
/// is tried elsewhere, and no client sees anything.
#[test]
fn a_rolling_deployment_over_etcd_is_seen_by_no_client() {
    let _watchdog = Watchdog::new("a_rolling_deployment_over_etcd_is_seen_by_no_client", LIMIT);
    let Some(etcd) = Etcd::start() else { return };
    let mut running: VecDeque<_> = (0..INSTANCES).map(|_| instance()).collect();
    running.iter().for_each(|instance| etcd.register(instance));
    let proxy = Proxy::start(&config(&etcd));
    let admin = Admin::of(&proxy);
    let urls = |running: &VecDeque<Upstream>| -> BTreeSet<_> { running.iter().map(Upstream::url).collect() };
    eventually("all are known", || known(&admin) == urls(&running));
    let load = Load::start(proxy.web(), CLIENTS);
    load.wait_for(100);
    let is_long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let pace = Duration::from_millis(if is_long { 1000 } else { 200 });
    for _ in 0..INSTANCES {
        thread::sleep(pace);
        let new = instance();
        etcd.register(&new);
        running.push_back(new);
        let old = running.pop_front().unwrap();
        etcd.leave(&old);
    }
    eventually("the new ones are known, and no others", || known(&admin) == urls(&running));
    load.wait_for(100);
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
    eventually("each new one is used", || {
        (0..INSTANCES).for_each(|_| drop(get(proxy.web(), "/")));
        running.iter().all(|instance| instance.served() > 0)
    });
}

/// etcd is frozen, killed, replaced by somebody who talks nonsense, and comes back: traffic goes on all the while.
#[test]
fn traffic_goes_on_whatever_becomes_of_etcd() {
    let _watchdog = Watchdog::new("traffic_goes_on_whatever_becomes_of_etcd", LIMIT);
    let Some(mut etcd) = Etcd::start() else { return };
    let all: BTreeMap<_, _> = (0..2).map(|_| instance()).map(|instance| (instance.url(), instance)).collect();
    all.values().for_each(|instance| etcd.register(instance));
    let both: BTreeSet<_> = all.keys().cloned().collect();
    let proxy = Proxy::start(&config(&etcd));
    let admin = Admin::of(&proxy);
    eventually("both are known", || known(&admin) == both);
    let load = Load::start(proxy.web(), CLIENTS);
    load.wait_for(100);

    etcd.process.signal(Signal::STOP);
    eventually("the silence is told", || fails(&admin, &proxy));
    load.wait_for(100);
    etcd.process.signal(Signal::CONT);
    eventually("it works again", || !fails(&admin, &proxy));
    let events = admin.events();
    events.wait("source_failed", None);
    events.wait("source_recovered", None);

    etcd.kill();
    eventually("the end is told", || fails(&admin, &proxy));
    let asked = {
        let nonsense = Upstream::start_at(etcd.address, |_| Some(ok("{\"header\": [")));
        eventually("the nonsense is heard", || nonsense.served() > 1);
        nonsense.served()
    };
    assert!(fails(&admin, &proxy), "after {asked} answers");
    assert_eq!(known(&admin), both);
    load.wait_for(100);

    etcd.restart();
    eventually("it works again", || !fails(&admin, &proxy));
    let (gone, _) = all.first_key_value().unwrap();
    etcd.leave(&all[gone]);
    eventually("a change is seen again", || !known(&admin).contains(gone));
    load.wait_for(100);
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
}
