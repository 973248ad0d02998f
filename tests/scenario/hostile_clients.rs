//! `slowhttptest` in its four modes: a well-behaved client that asks all the while is answered, every time and soon,
//! whether the attackers leave places free or there are several times more of them than places.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use thalweg_tests::message::get;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Bare, Process, Proxy, STEP, Vitals, machine_time};

use super::{config, measuring, watchdog};

/// Places of the proxy.
const PLACES: usize = 100;
/// Connections of an attacker that leaves some of them, and of one that does not.
const FEW: &str = "80";
const MANY: &str = "400";
/// How long an attack takes, in seconds.
const ATTACK: &str = "8";

const SLOW_HEADS: &[&str] = &["-H", "-x", "24"];
const SLOW_BODIES: &[&str] = &["-B", "-s", "8192", "-x", "10"];
const RANGES: &[&str] = &["-R", "-a", "5", "-b", "3000"];
const SLOW_READS: &[&str] = &["-X", "-w", "1", "-y", "64", "-n", "1", "-z", "1", "-k", "3"];

/// Time between two requests of the well-behaved client.
const EVERY: Duration = Duration::from_millis(100);
/// Most that one of them may take, beside every other test, and when measuring.
const SOON: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(1));
/// What the attackers ask for: more than the kernel takes for a client that does not read.
static BODY: [u8; 2 << 20] = [b'x'; 2 << 20];

/// Asks until the attacker has ended; tells of every request that was not answered well and soon.
fn ask_meanwhile(attacker: &Process, web: SocketAddr) -> (usize, Vec<String>) {
    let (mut asked, mut failed) = (0, Vec::new());
    let soon = if measuring() { SOON.1 } else { SOON.0 };
    while attacker.is_running() {
        let start = machine_time();
        let answer = get(web, "/good");
        let waited = machine_time() - start;
        asked += 1;
        match answer {
            Ok(answer) if answer.status() == 200 && waited <= soon => {}
            Ok(answer) => failed.push(format!("{asked}: {} after {waited:?}", answer.start)),
            Err(reason) => failed.push(format!("{asked}: {reason} after {waited:?}")),
        }
        thread::sleep(EVERY.saturating_sub(waited)); // The pace of the client.
    }
    (asked, failed)
}

/// Attacks a proxy in one mode, and says what was wrong with its service.
fn attack(program: &Path, mode: &[&str], attackers: &str) {
    let upstream = Bare::start(|talk| {
        loop {
            let head = talk.head()?;
            talk.body(&head).each(|_| {})?;
            let body = if head.target() == "/good" { b"good" } else { &BODY[..] };
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()))?;
            if !head.start.starts_with("HEAD ") {
                talk.send(body)?;
            }
        }
    });
    let limits = format!("limits: {{ max_connections: {PLACES} }}");
    let proxy = Proxy::start(&config(&[&upstream.url()], &limits));
    let before = Vitals::of(&proxy);
    let url = format!("http://{}/", proxy.web());
    let mut command = Command::new(program);
    command.args(mode).args(["-c", attackers, "-r", "200", "-l", ATTACK, "-i", "1", "-p", "1", "-u", &url]);
    let attacker = Process::start(command.current_dir(proxy.directory()));
    let (asked, failed) = ask_meanwhile(&attacker, proxy.web());
    attacker.wait_exit(STEP);
    let said = attacker.stdout();
    let last =
        |what: &str| said.lines().rev().find(|line| line.contains(what)).unwrap_or_default().to_owned();
    eprintln!("{mode:?}: {asked} asked, {} failed; {}", failed.len(), last("service available"));
    assert!(asked > 0, "the attack ended at once:\n{said}");
    assert!(
        failed.is_empty(),
        "{mode:?}: {} of {asked} failed: {:?}",
        failed.len(),
        &failed[..failed.len().min(5)]
    );
    before.wait_for(&proxy, "the attack");
}

#[test]
fn attackers_that_leave_places_free_do_not_keep_a_client_from_being_served() {
    let _watchdog = watchdog("attackers_that_leave_places_free_do_not_keep_a_client_from_being_served");
    let Some(program) = find_or_skip("slowhttptest") else { return };
    thread::scope(|scope| {
        for mode in [SLOW_HEADS, SLOW_BODIES, RANGES, SLOW_READS] {
            scope.spawn(|| attack(&program, mode, FEW));
        }
    });
}

fn attack_by_many(name: &str, mode: &[&str]) {
    /// Attackers of one test at a time: several of them leave the machine no time for the client that is to be served.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog(name);
    if let Some(program) = find_or_skip("slowhttptest") {
        attack(&program, mode, MANY);
    }
}

#[test]
fn slow_heads_do_not_keep_a_client_from_being_served() {
    attack_by_many("slow_heads_do_not_keep_a_client_from_being_served", SLOW_HEADS);
}

#[test]
fn slow_bodies_do_not_keep_a_client_from_being_served() {
    attack_by_many("slow_bodies_do_not_keep_a_client_from_being_served", SLOW_BODIES);
}

#[test]
fn many_ranges_do_not_keep_a_client_from_being_served() {
    attack_by_many("many_ranges_do_not_keep_a_client_from_being_served", RANGES);
}

#[test]
fn slow_reads_do_not_keep_a_client_from_being_served() {
    attack_by_many("slow_reads_do_not_keep_a_client_from_being_served", SLOW_READS);
}
