//! The DNS as a registry: a real server (dnsmasq), whose records change under load, and which is frozen and killed.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::port::udp_and_tcp;
use thalweg_tests::process::Signal;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Directory, Load, Process, Proxy, STEP, Upstream};

use super::watchdog;

/// The name of the service.
const NAME: &str = "checkout.internal";
/// How long a change may take to be seen, on a machine that is busy.
const SEEN: Duration = Duration::from_secs(30);
/// Clients that ask as fast as they are answered.
const CLIENTS: usize = 4;
/// Instances of the service that is deployed anew.
const INSTANCES: u8 = 20;
/// Between two of them.
const PACE: Duration = Duration::from_millis(250);

/// A name server that knows one name, with a TTL of a second.
struct NameServer {
    program: PathBuf,
    directory: Directory,
    address: SocketAddr,
    /// `None`: it is down.
    process: Option<Process>,
}

impl NameServer {
    fn start(program: PathBuf, addresses: &[IpAddr]) -> Self {
        let mut this = Self { program, directory: Directory::new(), address: udp_and_tcp(), process: None };
        this.write(addresses);
        this.restart();
        this
    }

    fn restart(&mut self) {
        let mut command = Command::new(&self.program);
        command
            .args([
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--no-resolv",
                "--no-hosts",
                "--pid-file=",
            ])
            .args([
                "--bind-interfaces",
                "--log-facility=-",
                "--user=root",
                "--local-ttl=1",
                "--local=/internal/",
            ])
            .arg(format!("--listen-address={}", self.address.ip()))
            .arg(format!("--port={}", self.address.port()))
            .arg(format!("--addn-hosts={}", self.hosts().display()));
        let process = Process::start(&mut command);
        process.wait_line("dnsmasq has read the records", STEP, |line| line.contains("read /").then_some(()));
        self.process = Some(process);
    }

    fn hosts(&self) -> PathBuf {
        self.directory.path().join("hosts")
    }

    fn write(&self, addresses: &[IpAddr]) {
        let mut text = String::new();
        for address in addresses {
            writeln!(text, "{address} {NAME}").unwrap();
        }
        fs::write(self.hosts(), text).unwrap();
    }

    /// The name stands for these addresses from now on.
    fn publish(&self, addresses: &[IpAddr]) {
        self.write(addresses);
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        self.process.as_ref().unwrap().signal(signal);
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process = None;
    }
}

/// Instances of one service: each has an address of its own, and all have one port.
struct Instances {
    port: u16,
    network: [u8; 3],
}

impl Instances {
    fn new() -> Self {
        // A port that is free everywhere now, on addresses that no other test has.
        let [a, b, c, _] = match udp_and_tcp().ip() {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(_) => unreachable!("of IPv4"),
        };
        let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        Self { port, network: [a, b, c] }
    }

    fn ip(&self, number: u8) -> IpAddr {
        let [a, b, c] = self.network;
        IpAddr::from([a, b, c, number])
    }

    fn start(&self, number: u8) -> Upstream {
        Upstream::start_at(SocketAddr::new(self.ip(number), self.port), |_| {
            thread::sleep(Duration::from_millis(2));
            Some(ok("here"))
        })
    }

    fn config(&self, server: SocketAddr) -> String {
        format!(
            "workers: 2\n\
             listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
             routes: [ {{ to: s }} ]\n\
             services:\n  s:\n    \
                 discover: {{ dns: {{ name: {NAME}, port: {}, resolvers: \"{server}\" }} }}\n    \
                 retry: {{ attempts: 3 }}\n\
             shutdown: {{ delay: 0s, grace: 5s }}\n",
            self.port
        )
    }
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

/// Whether the only source fails.
fn fails(admin: &Admin) -> bool {
    admin.get("/api/v1/sources")["sources"][0]["state"] == "failing"
}

/// Records come and go, the server is frozen, killed and begins again, and the name is lost: no request fails.
#[test]
fn a_name_server_is_followed_and_traffic_outlives_it() {
    let _watchdog = watchdog("a_name_server_is_followed_and_traffic_outlives_it");
    let Some(program) = find_or_skip("dnsmasq") else { return };
    let instances = Instances::new();
    let (first, second, third) = (instances.start(101), instances.start(102), instances.start(103));
    let ip = |number| instances.ip(number);
    let mut server = NameServer::start(program, &[ip(101), ip(102)]);
    let proxy = Proxy::start(&instances.config(server.address));
    let admin = Admin::of(&proxy);
    let urls = |upstreams: &[&Upstream]| -> BTreeSet<_> { upstreams.iter().map(|one| one.url()).collect() };
    eventually("both are known", || known(&admin) == urls(&[&first, &second]));
    let load = Load::start(proxy.web(), CLIENTS);
    load.wait_for(100);

    server.publish(&[ip(101), ip(102), ip(103)]);
    eventually("the third gets traffic", || third.served() > 0);
    server.publish(&[ip(102), ip(103)]);
    eventually("the first has left", || known(&admin) == urls(&[&second, &third]));
    drop(first);
    load.wait_for(100);

    let events = admin.events();
    server.signal(Signal::STOP);
    eventually("the silence is told", || fails(&admin));
    events.wait("source_failed", None);
    load.wait_for(100);
    server.signal(Signal::CONT);
    eventually("it works again", || !fails(&admin));
    events.wait("source_recovered", None);
    server.kill();
    eventually("the end is told", || fails(&admin));
    load.wait_for(100);
    // The zone is lost when it begins again.
    server.write(&[]);
    server.restart();
    load.wait_for(100);
    assert!(fails(&admin), "that the name does not exist is a failure");
    assert_eq!(known(&admin), urls(&[&second, &third]));
    server.publish(&[ip(102)]);
    eventually("it works again", || !fails(&admin) && known(&admin) == urls(&[&second]));
    load.wait_for(100);
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
}

/// Each instance is replaced by a new one, one after the other, and is gone as soon as its record is: what was sent to
/// it is tried elsewhere, and no client sees anything.
#[test]
fn a_rolling_deployment_over_dns_is_seen_by_no_client() {
    let _watchdog = watchdog("a_rolling_deployment_over_dns_is_seen_by_no_client");
    let Some(program) = find_or_skip("dnsmasq") else { return };
    let instances = Instances::new();
    let mut running: VecDeque<_> =
        (0..INSTANCES).map(|number| (number + 100, instances.start(number + 100))).collect();
    let ips = |running: &VecDeque<(u8, Upstream)>| -> Vec<_> {
        running.iter().map(|(number, _)| instances.ip(*number)).collect()
    };
    let server = NameServer::start(program, &ips(&running));
    let proxy = Proxy::start(&instances.config(server.address));
    let admin = Admin::of(&proxy);
    let urls = |running: &VecDeque<(u8, Upstream)>| -> BTreeSet<_> {
        running.iter().map(|(_, upstream)| upstream.url()).collect()
    };
    eventually("all are known", || known(&admin) == urls(&running));
    let load = Load::start(proxy.web(), CLIENTS);
    load.wait_for(100);
    for number in INSTANCES..2 * INSTANCES {
        thread::sleep(PACE);
        running.push_back((number + 100, instances.start(number + 100)));
        let leaves = running.pop_front();
        server.publish(&ips(&running));
        drop(leaves);
    }
    eventually("the new ones are known, and no others", || known(&admin) == urls(&running));
    eventually("each new one is used", || running.iter().all(|(_, upstream)| upstream.served() > 0));
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
}
