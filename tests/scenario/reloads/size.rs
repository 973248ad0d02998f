//! Large configurations: how long they take to load and to reload, and what requests notice of it.
//!
//! `THALWEG_MEASURE=1` with a release binary, a quiet machine and root: 10,000 routes, and the figures of the target.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::{Proxy, Talk, Upstream, Watchdog};

use super::super::{Priority, measuring, quantile};
use super::{plan, take_over, write};

/// Routes, and with `THALWEG_MEASURE=1`; ten go to one service.
const ROUTES: (usize, usize) = (500, 10_000);
/// Reloads that are looked at, and with `THALWEG_MEASURE=1`.
const TIMES: (usize, usize) = (4, 24);
/// Clients that ask all the while, each as fast as it is answered, but for a pause.
const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_micros(500);
/// How long it is quiet before each reload, and how long its end is waited for: workers take over in the same moment,
/// and what was in force is freed a little later.
const QUIET: Duration = Duration::from_millis(500);
const END: Duration = Duration::from_millis(100);

fn text(routes: usize, upstream: &str, turn: usize) -> String {
    let service = |at: usize| format!("s{at}: {{ endpoints: [ \"{upstream}\" ] }}");
    let services = (0..routes / 10).map(service).collect::<Vec<_>>().join(", ");
    let route = |at: usize| {
        let changes = if at % 100 == turn % 100 { format!("/v{turn}") } else { String::new() };
        format!(
            "{{ name: r{at}, match: {{ host: h{}.test, path: /p{at}{changes}/* }}, to: s{} }}",
            at % 500,
            at / 10
        )
    };
    let all = (0..routes).map(route).collect::<Vec<_>>().join(", ");
    plan("web: { address: \"127.0.0.1:0\" }", &format!("{all}, {{ name: rest, to: s0 }}"), &services)
}

/// Asks until it is told to stop; gives when each request began, and how long it took.
fn measure(address: SocketAddr, stop: &AtomicBool, into: &Mutex<Vec<(Instant, Duration)>>) {
    Priority::Above.take();
    let mut talk = Talk::open(address).unwrap();
    let mut taken = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let begin = Instant::now();
        talk.send("GET /p7/x HTTP/1.1\r\nHost: h7.test\r\n\r\n").unwrap();
        let head = talk.head().unwrap();
        assert_eq!(head.status(), 200);
        talk.body(&head).each(|_| {}).unwrap();
        taken.push((begin, begin.elapsed()));
        thread::sleep(PAUSE); // The pace of the load.
    }
    into.lock().unwrap().append(&mut taken);
}

/// As the proxy's own thread is while it makes a plan.
fn be_busy(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_large_configuration_is_reloaded_in_time_and_requests_do_not_notice() {
    let _watchdog = Watchdog::new("a_large_configuration_is_reloaded_in_time", Duration::from_secs(120));
    let (routes, times) = if measuring() { (ROUTES.1, TIMES.1) } else { (ROUTES.0, TIMES.0) };
    Priority::Above.take();
    let upstream = Upstream::saying("fine");
    Priority::Ordinary.take();
    let begin = Instant::now();
    let proxy = Proxy::start(&text(routes, &upstream.url(), 0));
    let loaded = begin.elapsed();
    let (web, stop, all) = (proxy.web(), AtomicBool::new(false), Mutex::default());
    // Quiet, with a reload, and beside a stranger that is as busy for as long: spans of all three in turn.
    let (mut still, mut swaps, mut beside, mut slowest) =
        (Vec::new(), Vec::new(), Vec::new(), Duration::ZERO);
    thread::scope(|scope| {
        (0..CLIENTS).for_each(|_| drop(scope.spawn(|| measure(web, &stop, &all))));
        for turn in 1..=times {
            write(&proxy, &text(routes, &upstream.url(), turn));
            let begin = Instant::now();
            thread::sleep(QUIET); // How long the quiet value is looked at.
            still.push((begin, Instant::now()));
            let begin = Instant::now();
            take_over(&proxy);
            let took = begin.elapsed();
            thread::sleep(END);
            swaps.push((begin, Instant::now()));
            slowest = slowest.max(took);
            if measuring() {
                let begin = Instant::now();
                let _ = scope.spawn(move || be_busy(took)).join();
                thread::sleep(END);
                beside.push((begin, Instant::now()));
            }
        }
        stop.store(true, Ordering::Release);
    });
    let all = all.into_inner().unwrap();
    let figures = |spans: &[(Instant, Instant)]| {
        let is_in = |at: Instant| spans.iter().any(|(from, to)| at >= *from && at < *to);
        let mut taken: Vec<_> = all.iter().filter(|(at, _)| is_in(*at)).map(|(_, took)| *took).collect();
        taken.sort();
        (taken.len(), [0.5, 0.99, 0.999, 1.0].map(|share| quantile(&taken, share)))
    };
    let (quiet, swap) = (figures(&still), figures(&swaps));
    eprintln!(
        "{routes} routes: ready after {loaded:?}, the slowest of {times} reloads took {slowest:?}; requests, and their median,          p99, p99.9 and most: {quiet:?} in quiet, {swap:?} during reloads, {:?} beside a stranger that is as busy",
        measuring().then(|| figures(&beside))
    );
    assert!(swap.0 > 0);
    if measuring() {
        assert!(loaded < Duration::from_secs(1), "loading takes {loaded:?}");
        assert!(slowest < Duration::from_secs(1), "a reload takes {slowest:?}");
        assert!(swap.1[2] <= quiet.1[2] * 2, "p99.9 is {:?}, {:?} in quiet", swap.1[2], quiet.1[2]);
    }
}
