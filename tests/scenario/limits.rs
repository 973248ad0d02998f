//! Bounds of routes, services and endpoints: what is under way never passes them, and who waits gets its turn.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use thalweg_tests::message::{Kind, get};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Connection, Message, Proxy, STEP, Upstream};

use super::scripted::{GET, House, OK, response};
use super::{frozen, reload, wait_counted, watchdog};

const ACTIVE: &str = "thalweg_service_requests_active";
const QUEUED: &str = "thalweg_service_requests_queued";
const SERVICE: &str = "service=\"s\"";

/// An upstream that tells what it is asked and answers one request for each word that it is given.
struct Desk {
    upstream: Upstream,
    asked: Receiver<String>,
    go: Sender<()>,
}

impl Desk {
    fn open() -> Self {
        let ((tell, asked), (go, word)) = (mpsc::channel(), mpsc::channel::<()>());
        let (tell, word) = (Mutex::new(tell), Mutex::new(word));
        let upstream = Upstream::start(move |request| {
            let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(request.target().to_owned());
            word.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?;
            Some(ok("done"))
        });
        Self { upstream, asked, go }
    }

    /// What it is asked next.
    fn next(&self) -> String {
        self.asked.recv_timeout(STEP).unwrap()
    }

    /// Answers one of those that it was asked.
    fn answer(&self) {
        self.go.send(()).unwrap();
    }

    /// Whether it has been asked nothing more.
    fn is_quiet(&self) -> bool {
        self.asked.try_recv().is_err()
    }
}

/// Two workers before one service; `service` and `routes` are what the configuration says of them.
fn text(service: &str, routes: &str) -> String {
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n\
         services: {{ s: {{ {service} }} }}\n\
         routes: [ {routes} ]\n"
    )
}

/// A proxy before the desk with these limits of the service.
fn limited(desk: &Desk, limits: &str) -> Proxy {
    let service = format!("endpoints: [ \"{}\" ], limits: {{ {limits} }}", desk.upstream.url());
    Proxy::start(&text(&service, "{ to: s }"))
}

/// A connection with a request on its way.
fn asking(web: SocketAddr, path: &str) -> Connection {
    let client = Connection::open(web).unwrap();
    ask(&client, path);
    client
}

fn ask(client: &Connection, path: &str) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
}

fn answer_of(client: &mut Connection) -> Message {
    Message::read(client, Kind::Response, Instant::now() + STEP).unwrap()
}

/// Asks so many things one after the other, each only when those before it wait in line.
fn queue(proxy: &Proxy, paths: &[&str]) -> Vec<Connection> {
    let mut clients = Vec::new();
    for (before, path) in (1..).zip(paths) {
        clients.push(asking(proxy.web(), path));
        wait_counted(proxy, QUEUED, SERVICE, before);
    }
    clients
}

/// Refused because of this bound, with all that the client needs to know.
fn assert_refused(answer: &Message, detail: &str) {
    assert_eq!((answer.status(), answer.value("retry-after")), (503, Some("1")), "{answer:?}");
    let cause = answer.value("proxy-status").unwrap();
    assert!(cause.contains("error=connection_limit_reached") && cause.contains(detail), "{cause}");
}

#[test]
fn a_service_never_has_more_in_flight_than_its_limit_whichever_worker_they_are_on() {
    let _watchdog =
        watchdog("a_service_never_has_more_in_flight_than_its_limit_whichever_worker_they_are_on");
    let desk = Desk::open();
    let proxy = limited(&desk, "max_in_flight: 5, queue: { size: 100, timeout: 5m }");
    let mut clients: Vec<_> = (0..40).map(|_| asking(proxy.web(), "/")).collect();
    wait_counted(&proxy, QUEUED, SERVICE, 35);
    wait_counted(&proxy, ACTIVE, SERVICE, 5);
    (0..5).for_each(|_| assert_eq!(desk.next(), "/"));
    for _ in 0..35 {
        assert!(desk.is_quiet(), "more than five are in flight");
        desk.answer();
        desk.next();
    }
    (0..5).for_each(|_| desk.answer());
    for client in &mut clients {
        assert_eq!(answer_of(client).status(), 200);
    }
    wait_counted(&proxy, ACTIVE, SERVICE, 0);
    wait_counted(&proxy, "thalweg_queue_wait_seconds_count", SERVICE, 35);
    let log = proxy.stop().log;
    let waited = log.iter().filter(|record| record["wait_us"].as_u64() > Some(0)).count();
    assert_eq!((log.len(), waited), (40, 35), "the log tells who has waited");
}

#[test]
fn those_who_wait_are_served_in_the_order_in_which_they_came() {
    let _watchdog = watchdog("those_who_wait_are_served_in_the_order_in_which_they_came");
    let desk = Desk::open();
    let proxy = limited(&desk, "max_in_flight: 1, queue: { timeout: 5m }");
    let _first = asking(proxy.web(), "/first");
    assert_eq!(desk.next(), "/first");
    let paths = ["/a", "/b", "/c", "/d", "/e", "/f"];
    let _clients = queue(&proxy, &paths);
    for path in paths {
        desk.answer();
        assert_eq!(desk.next(), path);
    }
    desk.answer();
}

#[test]
fn a_higher_priority_is_served_first() {
    let _watchdog = watchdog("a_higher_priority_is_served_first");
    let desk = Desk::open();
    let service = format!(
        "endpoints: [ \"{}\" ], limits: {{ max_in_flight: 1, queue: {{ timeout: 5m }} }}",
        desk.upstream.url()
    );
    let route =
        |class| format!("{{ match: {{ path: /{class}/* }}, to: s, limits: {{ priority: {class} }} }}");
    let routes = ["high", "normal", "low"].map(route).join(", ");
    let proxy = Proxy::start(&text(&service, &routes));
    let _first = asking(proxy.web(), "/normal/first");
    assert_eq!(desk.next(), "/normal/first");
    let _clients = queue(&proxy, &["/low/1", "/normal/1", "/high/1", "/low/2", "/high/2", "/normal/2"]);
    for path in ["/high/1", "/high/2", "/normal/1", "/normal/2", "/low/1", "/low/2"] {
        desk.answer();
        assert_eq!(desk.next(), path);
    }
    desk.answer();
}

#[test]
fn who_waits_too_long_gets_503_and_keeps_its_connection() {
    let _watchdog = watchdog("who_waits_too_long_gets_503_and_keeps_its_connection");
    let desk = Desk::open();
    let proxy = limited(&desk, "max_in_flight: 1, queue: { size: 5, timeout: 100ms }");
    let mut first = asking(proxy.web(), "/first");
    assert_eq!(desk.next(), "/first");
    let mut late = asking(proxy.web(), "/late");
    assert_refused(
        &answer_of(&mut late),
        "max_in_flight of the service is reached and no place came in time",
    );
    desk.answer();
    assert_eq!(answer_of(&mut first).status(), 200);
    ask(&late, "/again");
    assert_eq!(desk.next(), "/again", "the one that was refused was never sent");
    desk.answer();
    assert_eq!(answer_of(&mut late).status(), 200);
    wait_counted(&proxy, "thalweg_limit_hits_total", "\"service_in_flight\"", 1);
    wait_counted(&proxy, "thalweg_faults_total", "\"connection_limit_reached\"", 1);
    let log = proxy.stop().log;
    let refused: Vec<_> = log.iter().filter(|record| record["fault"] == "connection_limit_reached").collect();
    assert_eq!(refused.len(), 1, "{log:?}");
    assert!(refused[0]["wait_us"].as_u64() >= Some(50_000), "{refused:?}");
}

#[test]
fn the_time_for_the_whole_exchange_runs_while_it_waits() {
    let _watchdog = watchdog("the_time_for_the_whole_exchange_runs_while_it_waits");
    let desk = Desk::open();
    let limits = "limits: { max_in_flight: 1, queue: { timeout: 5m } }";
    let service = format!("endpoints: [ \"{}\" ], {limits}", desk.upstream.url());
    let hasty = "{ match: { path: /hasty }, to: s, timeouts: { request: 200ms } }";
    let proxy = Proxy::start(&text(&service, &format!("{hasty}, {{ to: s }}")));
    let mut first = asking(proxy.web(), "/first");
    assert_eq!(desk.next(), "/first");
    let late = get(proxy.web(), "/hasty").unwrap();
    assert_eq!(late.status(), 504, "{late:?}");
    desk.answer();
    assert_eq!(answer_of(&mut first).status(), 200);
    wait_counted(&proxy, QUEUED, SERVICE, 0);
    assert!(desk.is_quiet());
}

#[test]
fn who_finds_the_queue_full_is_refused_at_once() {
    let _watchdog = watchdog("who_finds_the_queue_full_is_refused_at_once");
    let desk = Desk::open();
    let service = format!("endpoints: [ \"{}\" ]", desk.upstream.url());
    let limits = "max_in_flight: 1, queue: { size: 1, timeout: 5m }";
    let proxy = Proxy::start(&text(&service, &format!("{{ to: s, limits: {{ {limits} }} }}")));
    let mut first = asking(proxy.web(), "/first");
    assert_eq!(desk.next(), "/first");
    let mut second = queue(&proxy, &["/second"]).remove(0);
    let refused = get(proxy.web(), "/third").unwrap();
    assert_refused(&refused, "max_in_flight of the route is reached and its queue is full");
    desk.answer();
    assert_eq!(answer_of(&mut first).status(), 200);
    assert_eq!(desk.next(), "/second");
    desk.answer();
    assert_eq!(answer_of(&mut second).status(), 200);
    wait_counted(&proxy, "thalweg_limit_hits_total", "\"route_in_flight\"", 1);
    wait_counted(&proxy, "thalweg_limit_hits_total", "\"queue\"", 1);
}

#[test]
fn a_client_that_leaves_the_queue_makes_room_in_it_and_is_never_sent() {
    let _watchdog = watchdog("a_client_that_leaves_the_queue_makes_room_in_it_and_is_never_sent");
    let desk = Desk::open();
    let proxy = limited(&desk, "max_in_flight: 1, queue: { size: 2, timeout: 5m }");
    let _first = asking(proxy.web(), "/first");
    assert_eq!(desk.next(), "/first");
    let mut clients = queue(&proxy, &["/leaves", "/stays"]);
    clients.remove(0).close();
    wait_counted(&proxy, QUEUED, SERVICE, 1);
    clients.push(asking(proxy.web(), "/comes"));
    wait_counted(&proxy, QUEUED, SERVICE, 2);
    for path in ["/stays", "/comes"] {
        desk.answer();
        assert_eq!(desk.next(), path);
    }
    desk.answer();
    assert!(clients.iter_mut().all(|client| answer_of(client).status() == 200));
    wait_counted(&proxy, "thalweg_faults_total", "\"http_request_aborted\"", 1);
}

#[test]
fn a_full_endpoint_is_passed_over_and_who_waits_takes_the_first_that_has_a_place() {
    let _watchdog = watchdog("a_full_endpoint_is_passed_over_and_who_waits_takes_the_first_that_has_a_place");
    let desks = [Desk::open(), Desk::open()];
    let endpoint = |desk: &Desk| format!("{{ url: \"{}\", max_in_flight: 1 }}", desk.upstream.url());
    let endpoints = desks.each_ref().map(endpoint).join(", ");
    let limits = "limits: { queue: { timeout: 5m } }";
    let proxy = Proxy::start(&text(&format!("endpoints: [ {endpoints} ], {limits}"), "{ to: s }"));
    // Whichever the balancers of the two workers would choose, each endpoint gets one.
    let _two = [asking(proxy.web(), "/1"), asking(proxy.web(), "/2")];
    desks.iter().for_each(|desk| drop(desk.next()));
    let mut waiting = queue(&proxy, &["/3", "/4"]);
    for (desk, path) in [(&desks[1], "/3"), (&desks[1], "/4")] {
        desk.answer();
        assert_eq!(desk.next(), path);
    }
    assert!(desks[0].is_quiet(), "the first endpoint is still busy with its one");
    desks[1].answer();
    assert_eq!(answer_of(&mut waiting[1]).status(), 200);
    desks[0].answer();
}

#[test]
fn a_dead_endpoint_turns_nobody_away_who_can_wait_for_a_living_one() {
    let _watchdog = watchdog("a_dead_endpoint_turns_nobody_away_who_can_wait_for_a_living_one");
    let desk = Desk::open();
    let dead = Upstream::saying("x").url();
    let endpoint = |url: &str| format!("{{ url: \"{url}\", max_in_flight: 1 }}");
    let endpoints = format!("{}, {}", endpoint(&dead), endpoint(&desk.upstream.url()));
    let limits = "limits: { queue: { timeout: 5m } }";
    let proxy = Proxy::start(&text(&format!("endpoints: [ {endpoints} ], {limits}"), "{ to: s }"));
    let mut clients: Vec<_> = (0..10).map(|_| asking(proxy.web(), "/")).collect();
    assert_eq!(desk.next(), "/");
    wait_counted(&proxy, QUEUED, SERVICE, 9);
    for _ in 0..9 {
        desk.answer();
        desk.next();
    }
    desk.answer();
    for client in &mut clients {
        assert_eq!(answer_of(client).status(), 200);
    }
}

#[test]
fn a_tunnel_takes_its_place_as_long_as_it_lasts() {
    let _watchdog = watchdog("a_tunnel_takes_its_place_as_long_as_it_lasts");
    let upstream = Upstream::start(|request| match request.value("upgrade") {
        Some(_) => {
            Some(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n".to_vec())
        }
        None => Some(ok("done")),
    });
    let service = format!(
        "endpoints: [ \"{}\" ], limits: {{ max_in_flight: 1, queue: {{ timeout: 5m }} }}",
        upstream.url()
    );
    let proxy = Proxy::start(&text(&service, "{ to: s }"));
    let mut tunnel = Connection::open(proxy.web()).unwrap();
    tunnel.send("GET /t HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(answer_of(&mut tunnel).status(), 101);
    let mut next = queue(&proxy, &["/next"]).remove(0);
    wait_counted(&proxy, ACTIVE, SERVICE, 1);
    tunnel.reset();
    assert_eq!(answer_of(&mut next).status(), 200);
}

/// Connections that the proxy has open to the upstream, as the kernel sees them (proc(5): state 1 is established).
fn open_connections(proxy: &Proxy, upstream: &Upstream) -> usize {
    let table = fs::read_to_string(format!("/proc/{}/net/tcp", proxy.process().pid())).unwrap();
    let port = format!(":{:04X}", upstream.address().port());
    // The kernel writes the table piece by piece and may show a connection twice.
    let mut open = HashSet::new();
    for line in table.lines() {
        let columns: Vec<_> = line.split_whitespace().collect();
        if columns.get(2).is_some_and(|remote| remote.ends_with(&port)) && columns[3] == "01" {
            open.insert(columns[1].to_owned());
        }
    }
    open.len()
}

#[test]
fn an_idle_connection_on_another_worker_gives_way_to_one_that_is_needed() {
    let _watchdog = watchdog("an_idle_connection_on_another_worker_gives_way_to_one_that_is_needed");
    let upstream = Upstream::saying("hello");
    for bound in
        ["limits: { max_connections: 1, queue: { timeout: 10s } }", "limits: { queue: { timeout: 10s } }"]
    {
        let own = if bound.contains("max_connections") { "" } else { ", max_connections: 1" };
        let endpoints = format!("endpoints: [ {{ url: \"{}\"{own} }} ]", upstream.url());
        let proxy = Proxy::start(&text(&format!("{endpoints}, {bound}"), "{ to: s }"));
        // Every client has a connection of its own: about half of them come to each worker.
        for _ in 0..4 {
            (0..8).for_each(|_| assert_eq!(get(proxy.web(), "/").unwrap().status(), 200));
            // The kernel's table is long, and slow to read, on a machine where other tests run.
            assert!(open_connections(&proxy, &upstream) <= 1, "{bound}");
        }
        let page = get(proxy.metrics(), "/metrics").unwrap().text();
        assert!(page.contains("thalweg_limit_hits_total{limit=\"queue\"} 0\n"), "{page}");
    }
}

#[test]
fn connections_never_pass_their_limit_under_load() {
    let _watchdog = watchdog("connections_never_pass_their_limit_under_load");
    let desk = Desk::open();
    let proxy = limited(&desk, "max_connections: 3, queue: { timeout: 5m }");
    let mut clients: Vec<_> = (0..20).map(|_| asking(proxy.web(), "/")).collect();
    wait_counted(&proxy, QUEUED, SERVICE, 17);
    (0..3).for_each(|_| assert_eq!(desk.next(), "/"));
    assert!(open_connections(&proxy, &desk.upstream) <= 3);
    for _ in 0..17 {
        assert!(desk.is_quiet(), "more than three connections");
        desk.answer();
        desk.next();
    }
    assert!(open_connections(&proxy, &desk.upstream) <= 3);
    (0..3).for_each(|_| desk.answer());
    assert!(clients.iter_mut().all(|client| answer_of(client).status() == 200));
}

#[test]
fn two_workers_that_choose_at_the_same_moment_do_not_count_on_the_same_connection() {
    let _watchdog =
        watchdog("two_workers_that_choose_at_the_same_moment_do_not_count_on_the_same_connection");
    let desks = [Desk::open(), Desk::open()];
    let [one, other] = desks.each_ref().map(|desk| desk.upstream.url());
    // Nobody who waits in line is let go: who chooses wrongly is not asked for.
    let service = format!(
        "endpoints: [ {{ url: \"{one}\", max_connections: 1 }}, {{ url: \"{other}\", max_connections: 1 }} ], \
         pool: {{ max_idle: 0 }}, balance: random, limits: {{ queue: {{ timeout: 5m }} }}"
    );
    let proxy = Proxy::start(&text(&service, "{ to: s }"));
    for _ in 0..50 {
        let mut clients = frozen(&proxy, || [asking(proxy.web(), "/"), asking(proxy.web(), "/")]);
        desks.iter().for_each(|desk| assert_eq!(desk.next(), "/"));
        desks.iter().for_each(Desk::answer);
        assert!(clients.iter_mut().all(|client| answer_of(client).status() == 200));
        wait_counted(&proxy, ACTIVE, SERVICE, 0);
    }
}

#[test]
fn a_connection_goes_on_to_who_waits_on_the_same_worker() {
    let _watchdog = watchdog("a_connection_goes_on_to_who_waits_on_the_same_worker");
    let desk = Desk::open();
    let service = format!(
        "endpoints: [ \"{}\" ], limits: {{ max_connections: 2, queue: {{ timeout: 5m }} }}",
        desk.upstream.url()
    );
    let proxy = Proxy::start(&text(&service, "{ to: s }").replace("workers: 2", "workers: 1"));
    let _two = [asking(proxy.web(), "/1"), asking(proxy.web(), "/2")];
    let _asked = [desk.next(), desk.next()];
    let paths = ["/3", "/4", "/5", "/6", "/7", "/8"];
    let mut waiting = queue(&proxy, &paths);
    for path in paths {
        desk.answer();
        assert_eq!(desk.next(), path);
    }
    (0..2).for_each(|_| desk.answer());
    assert!(waiting.iter_mut().all(|client| answer_of(client).status() == 200));
    assert_eq!(desk.upstream.connections(), 2);
}

#[test]
fn a_reload_keeps_who_is_in_flight_and_who_waits_and_changes_the_number() {
    let _watchdog = watchdog("a_reload_keeps_who_is_in_flight_and_who_waits_and_changes_the_number");
    let desk = Desk::open();
    let with = |limit: u32| {
        let url = desk.upstream.url();
        let limits = format!("limits: {{ max_in_flight: {limit}, queue: {{ timeout: 5m }} }}");
        text(&format!("endpoints: [ \"{url}\" ], {limits}"), "{ to: s }")
    };
    let proxy = Proxy::start(&with(2));
    let _two = [asking(proxy.web(), "/1"), asking(proxy.web(), "/2")];
    let mut asked = [desk.next(), desk.next()];
    asked.sort();
    assert_eq!(asked, ["/1", "/2"]);
    let mut waiting = queue(&proxy, &["/3", "/4", "/5"]);

    reload(&proxy, &with(3), 1);
    assert_eq!(desk.next(), "/3", "the new place is taken at once, by the first in line");
    wait_counted(&proxy, QUEUED, SERVICE, 2);

    reload(&proxy, &with(1), 2);
    for left in [2, 1] {
        desk.answer();
        wait_counted(&proxy, ACTIVE, SERVICE, left);
        assert!(desk.is_quiet(), "{left} are in flight, one may be");
    }
    desk.answer();
    assert_eq!(desk.next(), "/4");
    waiting.push(asking(proxy.web(), "/6"));
    wait_counted(&proxy, QUEUED, SERVICE, 2);
    for path in ["/5", "/6"] {
        desk.answer();
        assert_eq!(desk.next(), path);
    }
    desk.answer();
    assert!(waiting.iter_mut().all(|client| answer_of(client).status() == 200));
}

/// Its listener allows half-close.
#[test]
fn a_client_that_has_said_all_it_wants_to_say_keeps_its_place_in_the_queue() {
    let _watchdog = watchdog("a_client_that_has_said_all_it_wants_to_say_keeps_its_place_in_the_queue");
    // One worker: the connection to the endpoint is used again.
    let allow = |text: &str| {
        let half_close = "127.0.0.1:0\", allow_half_close: true } }";
        text.replace("127.0.0.1:0\" } }", half_close).replace("workers: 2", "workers: 1")
    };
    let limits = "limits: { max_in_flight: 1, queue: { timeout: 5m } }";
    let house = House::start_changed(1, (limits, ""), allow);
    let mut first = house.client(GET);
    let mut asked = house.asked();
    let mut second = house.client(GET);
    second.half_close();
    wait_counted(&house.proxy, QUEUED, "\"s\"", 1);
    asked.talk.send(OK).unwrap();
    assert_eq!(response(&mut first).0.status(), 200);
    asked.talk.head().unwrap();
    asked.talk.send(OK).unwrap();
    assert_eq!(response(&mut second).0.status(), 200);
}
