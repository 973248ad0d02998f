//! Proves what an exchange on kept connections asks of the kernel: a receive and a send on either side, and no change
//! of what epoll watches. Counted by strace over the whole life of the real binary.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use thalweg_tests::message::Kind;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Connection, Message, Proxy, STEP, Upstream};

use super::watchdog;

/// Exchanges on one connection.
const EXCHANGES: u32 = 500;
/// Most receives and sends for each: four, and a tenth for the first exchange, the start and the end.
const TRANSFERS: f64 = 4.1;
/// Most waits for each: one for the request, one for the answer, and what the process does beside it.
const WAITS: f64 = 2.5;
/// Most changes of what epoll watches, in the whole life of the process.
const WATCHED: u32 = 100;
/// Where strace writes, in the directory of the proxy.
const SUMMARY: &str = "syscalls.txt";

/// Calls by the name of the system call, from what `strace -c` writes.
pub(super) fn counts(summary: &str) -> HashMap<&str, u32> {
    // % time, seconds, usecs/call, calls, errors (or nothing), syscall
    let lines = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter_map(|words| Some((*words.last()?, words.get(3)?.parse().ok()?))).collect()
}

#[test]
fn an_exchange_on_kept_connections_costs_two_receives_and_two_sends() {
    let _watchdog = watchdog("an_exchange_on_kept_connections_costs_two_receives_and_two_sends");
    let Some(strace) = find_or_skip("strace") else { return };
    let upstream = Upstream::saying("hello");
    let config = format!(
        "workers: 1\nlisteners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\nroutes: [ {{ to: [ \"{}\" ] }} ]\n",
        upstream.url()
    );
    // -D: the tracer is the grandchild, so the process that the harness knows is the proxy.
    let proxy = Proxy::start_under(&strace, &["-D", "-f", "-c", "-o", SUMMARY], &config);
    let mut client = Connection::open(proxy.web()).unwrap();
    for number in 0..EXCHANGES {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\n\r\n"));
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!(answer.status(), 200, "{answer:?}");
    }
    // The tracer writes its summary when the proxy has ended, and then closes the outputs that they share.
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!((upstream.served(), upstream.connections()), (u64::from(EXCHANGES), 1));

    let summary = fs::read_to_string(ended.directory.path().join(SUMMARY)).unwrap();
    let counts = counts(&summary);
    let sum = |names: &[&str]| names.iter().filter_map(|name| counts.get(name)).sum::<u32>();
    let transfers = sum(&["recvfrom", "recvmsg", "sendto", "sendmsg", "writev", "readv"]);
    assert!(transfers >= 4 * EXCHANGES, "{transfers} receives and sends cannot be all:\n{summary}");
    let waits = sum(&["epoll_wait", "epoll_pwait", "epoll_pwait2"]);
    let (each, waits) =
        (f64::from(transfers) / f64::from(EXCHANGES), f64::from(waits) / f64::from(EXCHANGES));
    eprintln!("for each exchange: {each:.2} receives and sends, {waits:.2} waits");
    assert!(each <= TRANSFERS, "{each} receives and sends for each exchange:\n{summary}");
    assert!(waits <= WAITS, "{waits} waits for each exchange:\n{summary}");
    assert!(sum(&["epoll_ctl"]) <= WATCHED, "epoll_ctl is called for exchanges:\n{summary}");
}

#[test]
fn the_summary_of_strace_is_understood() {
    let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                   ------ ----------- ----------- --------- --------- ----------------\n\
                   \x20 9.03    0.001000           2       500         3 recvfrom\n\
                   \x20 0.00    0.000000           0        23           close\n\
                   ------ ----------- ----------- --------- --------- ----------------\n\
                   100.00    0.001000           0       523         3 total\n";
    let counts = counts(summary);
    assert_eq!((counts["recvfrom"], counts["close"], counts["total"]), (500, 23, 523));
}
