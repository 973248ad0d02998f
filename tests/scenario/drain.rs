//! How the process ends: running exchanges finish, new ones are told, nobody waits for ever.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use thalweg_tests::connection::Event;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::process::Signal;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Connection, Message, Proxy, STEP, Talk, Upstream};

use super::{config, frozen, spoken, wait_counted, watchdog};

/// Connections that wait to be accepted: more than a worker takes in one turn.
const WAITING: usize = 240;

/// An upstream that answers when the test says so; the receiver tells when it was asked.
fn patient() -> (Upstream, Receiver<()>, Sender<()>) {
    let ((asked, was_asked), (go, wait)) = (mpsc::channel(), mpsc::channel());
    let (asked, wait) = (Mutex::new(asked), Mutex::new(wait));
    let upstream = Upstream::start(move |request| {
        if request.target() == "/slow" {
            let _ = asked.lock().unwrap_or_else(PoisonError::into_inner).send(());
            wait.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?;
        }
        Some(ok("done"))
    });
    (upstream, was_asked, go)
}

/// A request that the upstream has and has not answered yet.
fn in_flight(proxy: &Proxy, asked: &Receiver<()>) -> Connection {
    let client = Connection::open(proxy.web()).unwrap();
    client.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
    asked.recv_timeout(STEP).unwrap();
    client
}

/// Asks until `/readyz` says that the proxy is not ready.
pub(super) fn wait_unready(metrics: SocketAddr) {
    let end = Instant::now() + STEP;
    while get(metrics, "/readyz").is_ok_and(|answer| answer.status() != 503) {
        assert!(Instant::now() < end, "/readyz stays 200 while the proxy drains");
    }
}

/// Connects until every worker has closed its door; from then on every worker drains.
fn wait_closed(proxy: &Proxy) {
    let (web, end) = (proxy.web(), Instant::now() + STEP);
    while TcpStream::connect(web).is_ok() {
        assert!(Instant::now() < end, "the proxy accepts while it drains");
    }
}

/// A proxy that finds `WAITING` connections with a request in the queues of its doors, and a TERM.
fn surprised(workers: usize, upstream: &Upstream) -> (Proxy, Vec<Connection>) {
    let workers = format!("workers: {workers}\n");
    let proxy = Proxy::start(&config(&[&upstream.url()], "").replace("workers: 2\n", &workers));
    let request = "GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let clients = frozen(&proxy, || {
        let clients = (0..WAITING).map(|_| spoken(proxy.web(), request)).collect();
        proxy.process().signal(Signal::TERM);
        clients
    });
    (proxy, clients)
}

/// Every client has its answer, the log has every exchange, and the proxy ends with 0.
fn nothing_is_cut(proxy: Proxy, clients: &mut [Connection]) {
    let deadline = Instant::now() + STEP;
    let answers = clients.iter_mut().map(|client| Message::read(client, Kind::Response, deadline));
    let cut: Vec<_> = answers.filter(|answer| answer.as_ref().map_or(0, Message::status) != 200).collect();
    assert!(cut.is_empty(), "{} of {WAITING} are cut: {:?}", cut.len(), cut.first());
    let ended = proxy.ended(STEP);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // Connections by which a test has looked whether the doors are closed may have lines of their own.
    let (asked, others): (Vec<_>, Vec<_>) = ended.log.iter().partition(|line| line["path"] == "/slow");
    assert_eq!(asked.len(), WAITING, "every exchange is in the log, and once; beside them {others:?}");
}

#[test]
fn requests_that_wait_to_be_accepted_when_term_comes_are_answered() {
    let _watchdog = watchdog("requests_that_wait_to_be_accepted_when_term_comes_are_answered");
    let upstream = Upstream::saying("done");
    let (proxy, mut clients) = surprised(1, &upstream);
    nothing_is_cut(proxy, &mut clients);
}

#[test]
fn nothing_is_cut_when_term_comes_while_two_workers_share_out_connections() {
    let _watchdog = watchdog("nothing_is_cut_when_term_comes_while_two_workers_share_out_connections");
    let (upstream, _asked, go) = patient();
    let (proxy, mut clients) = surprised(2, &upstream);
    // No exchange ends before both workers drain: one that counts too little would end here.
    wait_closed(&proxy);
    (0..WAITING).for_each(|_| go.send(()).unwrap());
    nothing_is_cut(proxy, &mut clients);
}

#[test]
fn a_connection_that_was_silent_when_term_came_is_answered_when_it_speaks() {
    let _watchdog = watchdog("a_connection_that_was_silent_when_term_came_is_answered_when_it_speaks");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let mut client = Connection::open(proxy.web()).unwrap();
    wait_counted(&proxy, "thalweg_connections_total", "listener=\"web\"", 1);
    proxy.process().signal(Signal::TERM);
    wait_closed(&proxy);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!((answer.status(), answer.value("connection")), (200, Some("close")));
    let ended = proxy.ended(STEP);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.log.len(), 1, "the exchange is in the log: {:?}\n{}", ended.log, ended.stderr);
}

#[test]
fn a_connection_that_stays_silent_does_not_hold_the_end() {
    let _watchdog = watchdog("a_connection_that_stays_silent_does_not_hold_the_end");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], "shutdown: { delay: 0s, grace: 30s }"));
    let mut client = Connection::open(proxy.web()).unwrap();
    wait_counted(&proxy, "thalweg_connections_total", "listener=\"web\"", 1);
    proxy.process().signal(Signal::TERM);
    assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End);
    let ended = proxy.ended(STEP);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn term_lets_running_exchanges_finish_and_ends_with_0() {
    let _watchdog = watchdog("term_lets_running_exchanges_finish_and_ends_with_0");
    let (upstream, asked, go) = patient();
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    assert_eq!(get(proxy.metrics(), "/readyz").unwrap().status(), 200);
    assert_eq!(get(proxy.metrics(), "/livez").unwrap().status(), 200);
    let mut idle = Connection::open(proxy.web()).unwrap();
    idle.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let deadline = Instant::now() + STEP;
    assert_eq!(Message::read(&mut idle, Kind::Response, deadline).unwrap().status(), 200);
    let mut client = in_flight(&proxy, &asked);

    proxy.process().signal(Signal::TERM);
    wait_unready(proxy.metrics());
    assert_eq!(idle.read_to_end(Instant::now() + STEP), Event::End, "an idle connection is closed");
    go.send(()).unwrap();
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "done"));
    assert_eq!(answer.value("connection"), Some("close"));
    assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End);
    let ended = proxy.ended(STEP);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.log.len(), 2, "every exchange is in the log");
}

#[test]
fn new_connections_are_served_during_the_shutdown_delay() {
    let _watchdog = watchdog("new_connections_are_served_during_the_shutdown_delay");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], "shutdown: { delay: 1500ms, grace: 5s }"));
    proxy.process().signal(Signal::TERM);
    wait_unready(proxy.metrics());
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200, "load balancers still send traffic for a while");
    assert_eq!(proxy.ended(STEP).status.code(), Some(0));
}

#[test]
fn a_second_term_ends_at_once_with_3() {
    let _watchdog = watchdog("a_second_term_ends_at_once_with_3");
    let (upstream, asked, _go) = patient();
    let proxy = Proxy::start(&config(&[&upstream.url()], "shutdown: { delay: 0s, grace: 30s }"));
    let _client = in_flight(&proxy, &asked);
    proxy.process().signal(Signal::TERM);
    wait_unready(proxy.metrics());
    proxy.process().signal(Signal::TERM);
    assert_eq!(proxy.ended(STEP).status.code(), Some(3));
}

#[test]
fn the_grace_has_an_end() {
    let _watchdog = watchdog("the_grace_has_an_end");
    let (upstream, asked, _go) = patient();
    let proxy = Proxy::start(&config(&[&upstream.url()], "shutdown: { delay: 0s, grace: 300ms }"));
    let mut client = in_flight(&proxy, &asked);
    proxy.process().signal(Signal::TERM);
    let ended = proxy.ended(STEP);
    assert_eq!(ended.status.code(), Some(3));
    assert_ne!(client.read_to_end(Instant::now() + STEP), Event::Late);
    let [record] = &ended.log[..] else { panic!("one exchange was cut: {:?}", ended.log) };
    assert_eq!((&record["fault"], &record["fault_side"]), (&"proxy_stopped".into(), &"proxy".into()));
    assert!(record["endpoint"].is_string() && record.get("status").is_none(), "{record}");
}

/// Not even time to look whether anything is: as where the machine stood still during the grace.
#[test]
fn where_nothing_is_under_way_no_grace_is_enough() {
    let _watchdog = watchdog("where_nothing_is_under_way_no_grace_is_enough");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], "shutdown: { delay: 0s, grace: 0s }"));
    let mut kept = Talk::open(proxy.web()).unwrap();
    kept.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!(kept.head().unwrap().status(), 200);
    proxy.process().signal(Signal::TERM);
    let ended = proxy.ended(STEP);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.log.len(), 1, "{:?}", ended.log);
}

#[test]
fn interrupt_drains_like_term() {
    let _watchdog = watchdog("interrupt_drains_like_term");
    let (upstream, asked, go) = patient();
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let mut client = in_flight(&proxy, &asked);
    proxy.process().signal(Signal::INT);
    wait_unready(proxy.metrics());
    go.send(()).unwrap();
    assert_eq!(Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap().status(), 200);
    assert_eq!(proxy.ended(STEP).status.code(), Some(0));
}
