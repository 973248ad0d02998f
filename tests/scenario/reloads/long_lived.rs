//! What lasts long outlasts any number of reloads, and keeps no old plan alive.

use std::env;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_core::limits::PLANS;
use thalweg_tests::process::raise_descriptors;
use thalweg_tests::talk::chunk;
use thalweg_tests::vitals::resident;
use thalweg_tests::{Bare, Load, Noise, Proxy, STEP, Talk, Watchdog};

use super::super::tunnels::{self, carries};
use super::{metric, plan, reload, take_over, write};

/// In CI and with `THALWEG_LONG=1`: WebSockets, downloads and reloads.
const SIZES: [(usize, usize, usize); 2] = [(300, 20, 60), (5_000, 100, 1_000)];
/// Routes that are others after each reload.
const CHANGING: usize = 200;
/// The first reloads pay for what is kept from one to the next: memory counts from here on, and with `THALWEG_LONG=1`,
/// where that is little beside the rest, from the start.
const FIRST: usize = 10;
/// Reloads after which it is looked at what the proxy holds.
const LOOK: usize = 20;
/// Of a download.
const PIECE: usize = 4096;

/// An upstream of downloads that last until it is told to end them: what they bring is known.
fn downloads(end: &Arc<AtomicBool>) -> Bare {
    let end = end.clone();
    Bare::start(move |talk| {
        talk.head()?;
        talk.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let mut noise = Noise::new(7);
        while !end.load(Ordering::Acquire) {
            talk.send(chunk(&noise.take(PIECE)))?;
            thread::sleep(Duration::from_millis(100)); // The pace of the download.
        }
        talk.send("0\r\n\r\n")
    })
}

/// Takes a download to its end, and says how many bytes came. One that is `lazy` reads nothing until the end is near.
fn download(address: SocketAddr, lazy: bool, end: Arc<AtomicBool>) -> JoinHandle<io::Result<u64>> {
    thread::spawn(move || {
        let mut talk = Talk::open(address)?;
        talk.send("GET /download HTTP/1.1\r\nHost: a.test\r\n\r\n")?;
        let head = talk.head()?;
        assert_eq!(head.status(), 200);
        while lazy && !end.load(Ordering::Acquire) {
            thread::park_timeout(Duration::from_millis(50));
        }
        let mut noise = Noise::new(7);
        let body = talk.body(&head).each(|bytes| assert_eq!(noise.check(bytes), Ok(())));
        body?;
        Ok(noise.given())
    })
}

/// The configuration after so many reloads: routes and services that change, before and behind those that stay.
fn text(services: &[(&str, String)], turn: usize) -> String {
    let staying = services.iter().map(|(name, url)| format!("{name}: {{ endpoints: [ \"{url}\" ] }}"));
    let changing = |at: usize| format!("c{turn}x{at}: {{ endpoints: [ \"http://127.0.0.1:{}\" ] }}", 1 + at);
    let all = (0..3 + turn % 3).map(changing).chain(staying).collect::<Vec<_>>().join(", ");
    let route = |at: usize| {
        format!(
            "{{ name: \"r{turn}x{at}\", match: {{ host: h{at}x{turn}.test, path: /p{at}/* }}, to: c{turn}x{} }}",
            at % 3
        )
    };
    let half = (turn * 37) % CHANGING;
    let before = (0..half).map(route).collect::<Vec<_>>().join(", ");
    let behind = (half..CHANGING).map(route).collect::<Vec<_>>().join(", ");
    let comma = if half == 0 { "" } else { "," };
    let routes = format!(
        "{before}{comma} {{ name: sockets, match: {{ path: /tunnel }}, to: sockets }}, \
         {{ name: downloads, match: {{ path: /download }}, to: downloads }}, {{ name: load, to: load }}, {behind}"
    );
    let more = "defaults: { timeouts: { idle: 10m, head: 5m }, limits: { min_rate: 0B } }\n";
    plan("web: { address: \"127.0.0.1:0\" }", &routes, &all) + more
}

#[test]
fn sockets_and_downloads_outlast_reloads_of_other_routes_under_load() {
    let long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let (sockets, loads, times) = SIZES[usize::from(long)];
    let name = "sockets_and_downloads_outlast_reloads_of_other_routes_under_load";
    let _watchdog = Watchdog::new(name, Duration::from_secs(if long { 900 } else { 120 }));
    raise_descriptors();
    let end = Arc::new(AtomicBool::new(false));
    let (upstream, source) = (tunnels::Upstream::start(), downloads(&end));
    let answers = thalweg_tests::Upstream::saying("fine");
    let services = [("sockets", upstream.url()), ("downloads", source.url()), ("load", answers.url())];
    let proxy = Proxy::start(&text(&services, 0));
    let mut tunnels: Vec<_> = (0..sockets).map(|_| upstream.tunnel(&proxy)).collect();
    let running: Vec<_> = (0..loads).map(|at| download(proxy.web(), at % 10 == 0, end.clone())).collect();
    super::super::wait_counted(&proxy, "thalweg_service_requests_active", "\"downloads\"", loads as u32);
    let load = Load::start(proxy.web(), 4);
    // What is remembered of requests has its size from then on.
    load.wait_for(if long { 20_000 } else { 2_000 });
    both_ways(&mut tunnels);
    let (start, begin) = (resident(&proxy), Instant::now());
    let mut before = start;
    let (mut most, mut slowest) = (0.0_f64, Duration::ZERO);
    for turn in 1..=times {
        write(&proxy, &text(&services, turn));
        let asked = Instant::now();
        take_over(&proxy);
        slowest = slowest.max(asked.elapsed());
        load.wait_for(20);
        if turn == FIRST {
            before = resident(&proxy);
        }
        if turn % LOOK == 0 {
            let alive = metric(&proxy, "thalweg_plans_alive", "");
            most = most.max(alive);
            let tunnel = &mut tunnels[turn % sockets];
            carries(&mut tunnel.client, &mut tunnel.upstream, "on the way");
        }
    }
    let took = begin.elapsed();
    let alive = metric(&proxy, "thalweg_plans_alive", "");
    both_ways(&mut tunnels);
    end.store(true, Ordering::Release);
    let came: Vec<u64> = running.into_iter().map(|running| running.join().unwrap().unwrap()).collect();
    let (answered, failures) = load.stop();
    // What those held who did not read is theirs no more.
    let after = settled(&proxy, if long { start } else { before });
    eprintln!(
        "{times} reloads in {took:?}, the slowest in {slowest:?}: {sockets} WebSockets, {loads} downloads of {} to {} bytes, \
         {answered} requests; {start} bytes resident before, {before} after {FIRST} reloads, {after} in the end; at most {most} plans alive, {alive} in the end",
        came.iter().min().unwrap(),
        came.iter().max().unwrap(),
    );
    assert!(failures.is_empty(), "{} requests failed: {:?}", failures.len(), failures.first());
    assert!(came.iter().all(|bytes| *bytes > 0));
    assert!(most <= PLANS as f64 && alive < 2.5, "at most {most} plans alive, {alive} in the end");
    assert!(
        after as f64 <= before as f64 * 1.1,
        "resident: {before} after {FIRST} reloads, {after} in the end"
    );
    assert!(!long || after as f64 <= start as f64 * 1.1, "resident: {start} before, {after} in the end");
    drop(tunnels);
    assert_eq!(proxy.stop().status.code(), Some(0));
}

/// Every tunnel carries something in both directions.
fn both_ways(tunnels: &mut [tunnels::Tunnel]) {
    for tunnel in tunnels {
        carries(&mut tunnel.client, &mut tunnel.upstream, "up");
        carries(&mut tunnel.upstream, &mut tunnel.client, "down");
    }
}

/// Resident memory, when it is as it was (10 % more), or does not go down any more.
fn settled(proxy: &Proxy, before: u64) -> u64 {
    let end = Instant::now() + STEP;
    loop {
        let now = resident(proxy);
        if now as f64 <= before as f64 * 1.1 || Instant::now() >= end {
            return now;
        }
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// Whatever an exchange waits for, it keeps no plan alive: a response, or the rest of its own head.
#[test]
fn exchanges_that_wait_hold_no_plan() {
    let _watchdog = super::super::watchdog("exchanges_that_wait_hold_no_plan");
    let (slow, quick) = (tunnels::Upstream::start(), thalweg_tests::Upstream::saying("fine"));
    let services = [("sockets", slow.url()), ("downloads", slow.url()), ("load", quick.url())];
    let proxy = Proxy::start(&text(&services, 0));
    let mut waiting = Vec::new();
    for turn in 1..=PLANS * 2 {
        // One waits for its response, one has sent half a head.
        let mut client = Talk::open(proxy.web()).unwrap();
        client.send("GET /download HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        let mut half = Talk::open(proxy.web()).unwrap();
        half.send("GET / HTTP/1.1\r\nHo").unwrap();
        super::super::wait_counted(&proxy, "thalweg_service_requests_active", "\"downloads\"", turn as u32);
        waiting.push((client, half));
        reload(&proxy, &text(&services, turn));
    }
    let end = Instant::now() + STEP;
    while metric(&proxy, "thalweg_plans_alive", "") > 1.5 {
        assert!(Instant::now() < end, "an old plan stays alive");
    }
    for _ in &waiting {
        let mut upstream = slow.next();
        upstream.head().unwrap();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").unwrap();
    }
    for (client, half) in &mut waiting {
        half.send("st: a.test\r\n\r\n").unwrap();
        for talk in [half, client] {
            let head = talk.head().unwrap();
            assert_eq!((head.status(), talk.body(&head).each(|_| {}).unwrap()), (200, 4));
        }
    }
}
