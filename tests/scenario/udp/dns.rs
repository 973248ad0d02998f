//! DNS: `dig` before a balanced pair of servers (dnsmasq), one of which is killed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use thalweg_tests::port::udp_and_tcp;
use thalweg_tests::process::Signal;
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Process, Proxy, STEP};

use super::super::{wait_counted, watchdog};
use super::config;

/// Most time for one question.
const RUN: Duration = Duration::from_secs(20);

/// A server that knows one name and says its own.
struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Path, dig: &Path, name: &str) -> Self {
        let address = udp_and_tcp();
        let mut command = Command::new(program);
        command
            .args([
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--no-resolv",
                "--no-hosts",
                "--pid-file=",
            ])
            .args(["--bind-interfaces", "--log-facility=-", "--cache-size=0", "--edns-packet-max=4096"])
            .arg(format!("--listen-address={}", address.ip()))
            .arg(format!("--port={}", address.port()))
            .arg(format!("--txt-record=who.test,{name}"))
            .arg(format!("--txt-record=long.test,{}", [&*"x".repeat(250); 6].join(",")));
        let server = Self { process: Process::start(&mut command), address };
        let end = Instant::now() + STEP;
        while ask(dig, address, &["+tries=1", "+time=1", "who.test", "TXT"]).is_none() {
            assert!(Instant::now() < end, "dnsmasq does not answer: {}", server.process.stderr());
        }
        server
    }

    fn url(&self) -> String {
        format!("udp://{}", self.address)
    }
}

/// What is answered; `None`: nobody did.
fn ask(dig: &Path, server: SocketAddr, question: &[&str]) -> Option<String> {
    let mut command = Command::new(dig);
    command
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string(), "+short"])
        .args(question);
    let done = run(&mut command, RUN);
    (done.code == 0 && !done.stdout.trim().is_empty()).then(|| done.stdout.trim().to_owned())
}

#[test]
fn a_pair_of_servers_is_asked_in_turn_and_one_that_is_killed_is_not_missed() {
    let _watchdog = watchdog("a_pair_of_servers_is_asked_in_turn_and_one_that_is_killed_is_not_missed");
    let (Some(dnsmasq), Some(dig)) = (find_or_skip("dnsmasq"), find_or_skip("dig")) else { return };
    let (one, two) = (Server::start(&dnsmasq, &dig, "one"), Server::start(&dnsmasq, &dig, "two"));
    let check = format!(", health: {{ tcp: true, port: {}, interval: 1s }}", one.address.port());
    assert!(
        Proxy::start(&config(&[one.url()], (", expected_responses: 1", &check), "")).process().is_running()
    );
    let proxy = Proxy::start(&config(&[one.url(), two.url()], (", expected_responses: 1", ""), ""));
    let server = proxy.address("dns");
    let once = ["+tries=1", "+time=15", "who.test", "TXT"];
    let answers: Vec<_> = (0..10).map(|_| ask(&dig, server, &once).unwrap()).collect();
    for name in ["\"one\"", "\"two\""] {
        assert!(answers.iter().filter(|answer| *answer == name).count() >= 3, "{answers:?}");
    }
    // An answer beyond the length of a packet on most ways.
    let long = ask(&dig, server, &["+tries=1", "+time=15", "+bufsize=4096", "+ignore", "long.test", "TXT"]);
    assert_eq!(long.unwrap().matches('x').count(), 1500);
    // Many questions of one client, through one socket.
    let batch: Vec<_> = std::iter::repeat_n(["who.test", "TXT"], 20).flatten().collect();
    let all = ask(&dig, server, &batch).unwrap();
    assert_eq!(all.lines().count(), 20, "{all}");
    one.process.signal(Signal::KILL);
    one.process.wait_exit(STEP);
    for _ in 0..6 {
        assert_eq!(ask(&dig, server, &once).unwrap(), "\"two\"", "asked once, and answered");
    }
    wait_counted(&proxy, "thalweg_connections_active", "dns", 0);
}
