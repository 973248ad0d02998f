//! Tunnels after a 101, at the level of bytes: idle ones are cheap and end in time, a half-closed one carries the other
//! direction, and however both sides leave, nothing stays behind.

use std::env;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::process::{Signal, raise_descriptors};
use thalweg_tests::upstream::Listener;
use thalweg_tests::vitals::resident;
use thalweg_tests::{Noise, Proxy, STEP, Talk, Vitals};

use super::drain::wait_unready;
use super::{config, proxy, reload, wait_counted, watchdog};

/// Idle pairs, in CI and with `THALWEG_LONG=1`.
const PAIRS: (usize, usize) = (1_000, 5_000);
/// Most memory that an idle pair may cost.
const PAIR: u64 = 2 * 1024;
/// Bytes that go one way while the other is closed.
const PAYLOAD: usize = 1 << 20;
/// Bytes sent each way by those who do not read, or fewer when no more are taken.
const STUFFING: usize = 512 * 1024;

const REQUEST: &str = "GET /tunnel HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// An upstream whose connections the test takes one by one.
pub(super) struct Upstream {
    listener: Listener,
    accepted: Receiver<TcpStream>,
}

/// Both ends of a tunnel.
pub(super) struct Tunnel {
    pub(super) client: Talk,
    pub(super) upstream: Talk,
}

impl Upstream {
    pub(super) fn start() -> Self {
        let (accepted, connections) = mpsc::channel();
        Self { listener: Listener::start(accepted), accepted: connections }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listener.address())
    }

    /// The next connection.
    pub(super) fn next(&self) -> Talk {
        Talk::new(self.accepted.recv_timeout(STEP).unwrap())
    }

    /// Asks for an upgrade and grants it.
    pub(super) fn tunnel(&self, proxy: &Proxy) -> Tunnel {
        let mut client = Talk::open(proxy.web()).unwrap();
        client.send(REQUEST).unwrap();
        let mut upstream = self.next();
        upstream.head().unwrap();
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        upstream.send(answer).unwrap();
        assert_eq!(client.head().unwrap().status(), 101);
        Tunnel { client, upstream }
    }
}

/// Sends a little from one end and waits for it at the other.
pub(super) fn carries(from: &mut Talk, to: &mut Talk, text: &str) {
    from.send(text).unwrap();
    let mut got = vec![0; text.len()];
    to.stream().read_exact(&mut got).unwrap();
    assert_eq!(got, text.as_bytes());
}

#[test]
fn idle_pairs_cost_little_memory_and_are_all_alive() {
    let _watchdog = watchdog("idle_pairs_cost_little_memory_and_are_all_alive");
    raise_descriptors();
    let long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let pairs = if long { PAIRS.1 } else { PAIRS.0 };
    let upstream = Upstream::start();
    let proxy = proxy(&[&upstream.url()]);
    // The first ones pay for what all of them share.
    let first: Vec<Tunnel> = (0..4).map(|_| upstream.tunnel(&proxy)).collect();
    let (before, memory) = (Vitals::of(&proxy), resident(&proxy));
    let mut tunnels: Vec<Tunnel> = (0..pairs).map(|_| upstream.tunnel(&proxy)).collect();
    let each = resident(&proxy).saturating_sub(memory) / pairs as u64;
    for tunnel in &mut tunnels {
        carries(&mut tunnel.client, &mut tunnel.upstream, "up");
        carries(&mut tunnel.upstream, &mut tunnel.client, "down");
    }
    let used = resident(&proxy).saturating_sub(memory) / pairs as u64;
    eprintln!("{pairs} idle pairs: {each} bytes of memory each, {used} after each has carried something");
    assert!(each < PAIR && used < PAIR, "an idle pair costs {each} bytes, {used} after it was used");
    drop(tunnels);
    before.wait_for(&proxy, "idle pairs");
    drop(first);
}

#[test]
fn an_idle_tunnel_ends_in_time_and_one_that_moves_does_not() {
    let _watchdog = watchdog("an_idle_tunnel_ends_in_time_and_one_that_moves_does_not");
    const IDLE: Duration = Duration::from_millis(1500);
    let upstream = Upstream::start();
    let proxy = Proxy::start(&config(&[&upstream.url()], "defaults: { timeouts: { idle: 1500ms } }"));
    let before = Vitals::of(&proxy);
    let mut busy = upstream.tunnel(&proxy);
    let mut idle = upstream.tunnel(&proxy);
    let start = Instant::now();
    let ended = thread::spawn(move || {
        let ends = (idle.client.rest(), idle.upstream.rest());
        (ends, start.elapsed())
    });
    // One direction is enough, in turns, for three times as long as silence is allowed.
    while start.elapsed() < IDLE * 3 {
        carries(&mut busy.client, &mut busy.upstream, "tick");
        thread::sleep(IDLE / 6); // The pace of the ticks.
        carries(&mut busy.upstream, &mut busy.client, "tock");
        thread::sleep(IDLE / 6);
    }
    let (ends, waited) = ended.join().unwrap();
    let timed_out = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
    for end in [ends.0, ends.1] {
        assert!(!end.is_err_and(|error| timed_out(error.kind())), "an idle tunnel stays open");
    }
    assert!(waited >= IDLE, "it ended after {waited:?}");
    drop(busy);
    before.wait_for(&proxy, "an idle tunnel");
    let log = proxy.stop().log;
    let cut: Vec<_> = log.iter().filter(|record| record["ended"] == "idle").collect();
    assert_eq!(cut.len(), 1, "{log:?}");
    assert!(cut[0].get("fault").is_none() && cut[0]["status"] == 101, "it is nobody's fault: {log:?}");
}

/// Closes one direction, then sends a lot in the other and closes that.
fn the_other_direction_goes_on(mut closes: Talk, mut goes_on: Talk) {
    closes.send("last words").unwrap();
    closes.half_close();
    assert_eq!(goes_on.rest().unwrap(), b"last words");
    let mut writer = goes_on.writer().unwrap();
    let sender = thread::spawn(move || writer.write_all(&Noise::new(9).take(PAYLOAD)));
    let mut got = vec![0; PAYLOAD];
    closes.stream().read_exact(&mut got).unwrap();
    assert_eq!(Noise::new(9).check(&got), Ok(()));
    sender.join().unwrap().unwrap();
    goes_on.half_close();
    assert_eq!(closes.rest().unwrap(), b"");
}

#[test]
fn a_half_closed_tunnel_delivers_the_other_direction() {
    let _watchdog = watchdog("a_half_closed_tunnel_delivers_the_other_direction");
    let upstream = Upstream::start();
    let proxy = proxy(&[&upstream.url()]);
    let before = Vitals::of(&proxy);
    let tunnel = upstream.tunnel(&proxy);
    the_other_direction_goes_on(tunnel.client, tunnel.upstream);
    let tunnel = upstream.tunnel(&proxy);
    the_other_direction_goes_on(tunnel.upstream, tunnel.client);
    before.wait_for(&proxy, "half-closed tunnels");
    let log = proxy.stop().log;
    assert!(log.iter().all(|record| record["fault"].is_null()), "an orderly end is no fault: {log:?}");
}

#[test]
fn a_tunnel_goes_on_through_a_reload_and_a_drain_and_its_bytes_are_in_the_log() {
    let _watchdog = watchdog("a_tunnel_goes_on_through_a_reload_and_a_drain_and_its_bytes_are_in_the_log");
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let proxy = proxy(&[&upstream.url()]);
    let mut tunnel = upstream.tunnel(&proxy);
    reload(&proxy, &config(&[&other.url()], ""), 1);
    carries(&mut tunnel.client, &mut tunnel.upstream, "after the reload");
    // A tunnel may last for days: its bytes are counted as they pass.
    wait_counted(&proxy, "thalweg_request_bytes_total", "route", REQUEST.len() as u32 + 16);
    let mut newer = other.tunnel(&proxy);
    proxy.process().signal(Signal::TERM);
    wait_unready(proxy.metrics());
    carries(&mut tunnel.upstream, &mut tunnel.client, "within the drain");
    carries(&mut newer.client, &mut newer.upstream, "this one too");
    for mut tunnel in [tunnel, newer] {
        tunnel.client.half_close();
        assert_eq!(tunnel.upstream.rest().unwrap(), b"");
        tunnel.upstream.half_close();
        assert_eq!(tunnel.client.rest().unwrap(), b"");
    }
    let ended = proxy.ended(STEP);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let numbers =
        |record: &Value| ["status", "bytes_in", "bytes_out"].map(|key| record[key].as_u64().unwrap());
    // Two workers may have written them, in any order.
    let mut logged: Vec<_> = ended.log.iter().map(numbers).collect();
    logged.sort_unstable();
    assert_eq!(logged, [[101, 12, 0], [101, 16, 16]], "{:?}", ended.log);
}

/// How a side leaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leave {
    /// Ends its sending side.
    Half,
    /// Closes; with something unread the kernel makes it a reset.
    Close,
    /// Breaks the connection off.
    Reset,
}

const WAYS: [Leave; 3] = [Leave::Half, Leave::Close, Leave::Reset];

/// Leaves; gives the end back when it is not gone yet.
fn leave(end: Talk, how: Leave) -> Option<Talk> {
    match how {
        Leave::Half => {
            end.half_close();
            return Some(end);
        }
        Leave::Close => drop(end),
        Leave::Reset => end.reset(),
    }
    None
}

/// One sequence: one side leaves, then the other, then whoever is still there.
fn sequence(upstream: &Upstream, proxy: &Proxy, client_first: bool, ways: (Leave, Leave), stuffed: bool) {
    let case = format!("client first: {client_first}, {ways:?}, stuffed: {stuffed}");
    let tunnel = upstream.tunnel(proxy);
    if stuffed {
        tunnel.client.stuff(&[0; STUFFING]);
        tunnel.upstream.stuff(&[0; STUFFING]);
    }
    let (first, mut second) =
        if client_first { (tunnel.client, tunnel.upstream) } else { (tunnel.upstream, tunnel.client) };
    let first = leave(first, ways.0);
    if first.is_none() {
        second.assert_ends(&case);
    }
    if let (Some(mut first), None) = (first, leave(second, ways.1)) {
        first.assert_ends(&case);
    }
}

#[test]
fn whichever_side_leaves_first_and_however_nothing_stays_behind() {
    let _watchdog = watchdog("whichever_side_leaves_first_and_however_nothing_stays_behind");
    let upstream = Upstream::start();
    let proxy = proxy(&[&upstream.url()]);
    let before = Vitals::of(&proxy);
    for stuffed in [false, true] {
        for client_first in [true, false] {
            for first in WAYS {
                for second in WAYS {
                    sequence(&upstream, &proxy, client_first, (first, second), stuffed);
                }
                before.wait_for(&proxy, &format!("{first:?} by client: {client_first}, stuffed: {stuffed}"));
            }
        }
    }
    assert_eq!(proxy.stop().status.code(), Some(0));
}
