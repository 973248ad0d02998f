//! Listeners that come, go and change places while clients connect.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::process::Signal;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Connection, Held, Message, Proxy, STEP, Upstream, Vitals};

use super::super::{frozen, spoken, watchdog};
use super::{ask, metric, opened, plan, reload, wait_said, write};

/// Times that a listener comes and goes.
const TIMES: usize = 8;
/// Clients that connect anew for each request, per listener.
const CLIENTS: usize = 3;

/// Workers of the proxy: each has a socket of its own.
const WORKERS: usize = 2;

const WEB: &str = "web: { address: \"127.0.0.1:0\" }";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

/// What clients saw that connect for each request.
#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    answered: AtomicU64,
    refused: AtomicU64,
    reset: AtomicU64,
}

impl Seen {
    fn of(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Acquire)
    }
}

/// Clients that ask one after the other until they are told to stop.
struct Callers {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

impl Callers {
    fn start(address: SocketAddr) -> Self {
        let seen = Arc::new(Seen::default());
        let call = |seen: Arc<Seen>| {
            move || {
                while !seen.stop.load(Ordering::Acquire) {
                    let counter = match call(address) {
                        Ok(answer) if answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"served") => {
                            &seen.answered
                        }
                        Ok(answer) if answer.is_empty() => &seen.reset,
                        Ok(answer) => panic!("a strange answer: {}", answer.escape_ascii()),
                        Err(ErrorKind::ConnectionRefused) => &seen.refused,
                        Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => &seen.reset,
                        Err(error) => panic!("a call failed: {error:?}"),
                    };
                    counter.fetch_add(1, Ordering::Release);
                }
            }
        };
        let threads = (0..CLIENTS).map(|_| thread::spawn(call(seen.clone()))).collect();
        Self { seen, threads }
    }

    /// Waits until a counter has grown by some.
    fn wait(&self, counter: impl Fn(&Seen) -> &AtomicU64) {
        let (before, end) = (Seen::of(counter(&self.seen)), Instant::now() + STEP);
        while Seen::of(counter(&self.seen)) < before + 20 {
            assert!(Instant::now() < end, "the callers stand still");
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a caller has ended");
            thread::yield_now();
        }
    }

    fn stop(mut self) -> Arc<Seen> {
        self.seen.stop.store(true, Ordering::Release);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.seen.clone()
    }
}

/// Of a test that has failed too: they would call whoever has the port next.
impl Drop for Callers {
    fn drop(&mut self) {
        self.seen.stop.store(true, Ordering::Release);
    }
}

fn call(address: SocketAddr) -> Result<Vec<u8>, ErrorKind> {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, STEP)?;
        stream.set_read_timeout(Some(STEP))?;
        stream.write_all(REQUEST)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    ask().map_err(|error: std::io::Error| error.kind())
}

/// How many sockets listen on an address (proc(5), `/proc/net/tcp`).
fn sockets(address: SocketAddr) -> usize {
    let wanted = format!("0100007F:{:04X} 00000000:0000 0A ", address.port());
    fs::read_to_string("/proc/net/tcp").unwrap().matches(&wanted).count()
}

/// Connects again and again until the kernel refuses. The pause keeps these connections from displacing idle ones,
/// which a test may be watching.
fn wait_refused(address: SocketAddr) {
    const PACE: Duration = Duration::from_millis(10);
    let end = Instant::now() + STEP;
    while !matches!(TcpStream::connect(address), Err(error) if error.kind() == ErrorKind::ConnectionRefused) {
        assert!(Instant::now() < end, "{address} still accepts");
        thread::sleep(PACE);
    }
}

#[test]
fn listeners_come_and_go_while_clients_connect_and_the_others_do_not_notice() {
    let _watchdog = watchdog("listeners_come_and_go_while_clients_connect_and_the_others_do_not_notice");
    let upstream = Upstream::saying("served");
    let services = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
    let proxy = Proxy::start(&plan(WEB, "{ to: s }", &services));
    let untouched = Callers::start(proxy.web());
    let before = Vitals::of(&proxy);
    for round in 0..TIMES {
        let name = format!("guest{round}");
        // Every other one does not wait for first bytes.
        let defer = round % 2 == 0;
        let guest = format!("{name}: {{ address: \"127.0.0.1:0\", defer_accept: {defer} }}");
        let said = reload(&proxy, &plan(&format!("{guest}, {WEB}"), "{ to: s }", &services));
        let address = opened(&proxy, said, &name);
        let callers = Callers::start(address);
        callers.wait(|seen| &seen.answered);
        untouched.wait(|seen| &seen.answered);
        reload(&proxy, &plan(WEB, "{ to: s }", &services));
        callers.wait(|seen| &seen.refused);
        let seen = callers.stop();
        let end = Instant::now() + STEP;
        loop {
            // Retired metrics are shown as long as somebody holds them.
            let label = format!("listener=\"{name}\"");
            let accepted = metric(&proxy, "thalweg_connections_total", &label);
            let answered = Seen::of(&seen.answered) as f64;
            if (accepted - answered).abs() < 0.5 {
                break;
            }
            assert!(
                accepted < answered + 0.5 && Instant::now() < end,
                "{accepted} accepted, {answered} answered"
            );
        }
        eprintln!(
            "{name}: {} answered, {} reset in the queue",
            Seen::of(&seen.answered),
            Seen::of(&seen.reset)
        );
        untouched.wait(|seen| &seen.answered);
    }
    let seen = untouched.stop();
    assert_eq!((Seen::of(&seen.refused), Seen::of(&seen.reset)), (0, 0), "of the listener that stayed");
    before.wait_for(&proxy, "listeners that came and went");
    assert_eq!(proxy.stop().status.code(), Some(0));
}

#[test]
fn a_port_that_is_taken_changes_nothing_and_the_message_names_the_listener() {
    let _watchdog = watchdog("a_port_that_is_taken_changes_nothing_and_the_message_names_the_listener");
    let (old, new) = (Upstream::saying("old"), Upstream::saying("new"));
    let services =
        format!("old: {{ endpoints: [ \"{}\" ] }}, new: {{ endpoints: [ \"{}\" ] }}", old.url(), new.url());
    let proxy = Proxy::start(&plan(WEB, "{ to: old }", &services));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let before = Vitals::of(&proxy);
    let socket = proxy.directory().join("second.sock");
    let listeners = format!(
        "first: {{ address: \"127.0.0.1:0\" }}, second: {{ address: \"unix:{}\" }}, third: {{ address: \"{address}\" }}",
        socket.display()
    );
    write(&proxy, &plan(&listeners, "{ to: new }", &services));
    let said = ask(&proxy);
    let why = wait_said(&proxy, said, "reload refused: ");
    assert_eq!(
        why,
        format!(
            "listener `third`: cannot listen on {address}: Address already in use (os error 98); help: another \
             program listens there; stop it, or choose another address"
        )
    );
    wait_said(&proxy, said, "the old configuration keeps running");
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "old");
    assert!(!socket.exists(), "what was bound before the failure is gone");
    before.wait_for(&proxy, "a refused reload");
    assert!((metric(&proxy, "thalweg_config_reloads_total", "failed") - 1.0).abs() < 0.5);
    drop(taken);
    let said = reload(&proxy, &plan(&listeners, "{ to: new }", &services));
    assert_eq!(get(opened(&proxy, said, "third"), "/").unwrap().text(), "new");
    wait_said(&proxy, said, "no longer listening on ");
}

/// A name that takes over the address of another takes its sockets along: nobody who connects is lost.
#[test]
fn two_listeners_exchange_their_addresses_and_no_connection_is_lost() {
    let _watchdog = watchdog("two_listeners_exchange_their_addresses_and_no_connection_is_lost");
    let upstream =
        Upstream::start(|request| Some(ok(&format!("{} served", request.value("x-way").unwrap_or("?")))));
    let services = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
    let routes = "{ name: of a, listeners: [a], to: s }, { name: of b, listeners: [b], to: s }";
    let proxy = Proxy::start(&plan(
        "a: { address: \"127.0.0.1:0\" }, b: { address: \"127.0.0.1:0\" }",
        routes,
        &services,
    ));
    let (one, other) = (proxy.address("a"), proxy.address("b"));
    let listeners = |a, b| format!("a: {{ address: \"{a}\" }}, b: {{ address: \"{b}\" }}");
    // Other addresses, though the same ports: bound beside the ones that close.
    reload(&proxy, &plan(&listeners(one, other), routes, &services));
    let end = Instant::now() + STEP;
    while [one, other].map(sockets) != [WORKERS; 2] {
        assert!(Instant::now() < end, "the first sockets do not close: {:?}", [one, other].map(sockets));
        thread::yield_now();
    }
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = [one, other].map(|address| {
            scope.spawn(move || {
                let mut calls = 0_u32;
                while !stop.load(Ordering::Acquire) {
                    let answer =
                        call(address).unwrap_or_else(|error| panic!("after {calls} calls: {error:?}"));
                    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", answer.escape_ascii());
                    calls += 1;
                }
                calls
            })
        });
        for round in 0..TIMES {
            let swapped = round % 2 == 0;
            let (a, b) = if swapped { (other, one) } else { (one, other) };
            reload(&proxy, &plan(&listeners(a, b), routes, &services));
            let of = |route: &str| metric(&proxy, "thalweg_requests_total", &format!("\"{route}\""));
            let (before, end) = ((of("of a"), of("of b")), Instant::now() + STEP);
            while of("of a") < before.0 + 10.0 || of("of b") < before.1 + 10.0 {
                assert!(Instant::now() < end, "a listener stands still");
            }
        }
        stop.store(true, Ordering::Release);
        assert!(ends.into_iter().all(|end| end.join().unwrap() > 0));
    });
    assert_eq!(proxy.stop().status.code(), Some(0));
}

#[test]
fn a_listener_that_goes_closes_who_is_silent_and_finishes_what_is_under_way() {
    let _watchdog = watchdog("a_listener_that_goes_closes_who_is_silent_and_finishes_what_is_under_way");
    let upstream = Held::start("held");
    let services = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
    let both = format!("guest: {{ address: \"127.0.0.1:0\" }}, {WEB}");
    let proxy = Proxy::start(&plan(&both, "{ to: s }", &services));
    let guest = proxy.address("guest");
    let ask = |client: &mut Connection, path: &str, kind| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        Message::read(client, kind, Instant::now() + STEP).unwrap().status()
    };
    let [mut silent, mut other, mut busy] = [guest, proxy.web(), guest].map(|address| {
        let mut client = Connection::open(address).unwrap();
        assert_eq!(ask(&mut client, "/", Kind::Response), 200);
        client
    });
    assert_eq!(ask(&mut busy, "/long", Kind::ResponseToHead), 200);
    reload(&proxy, &plan(WEB, "{ to: s }", &services));
    assert_eq!(silent.read_to_end(Instant::now() + STEP), Event::End, "who is silent is closed");
    wait_refused(guest);
    upstream.release();
    assert_eq!(busy.read_to_end(Instant::now() + STEP), Event::End);
    assert!(busy.seen().ends_with(b"0\r\n\r\n"), "whole, then closed: {}", busy.seen().escape_ascii());
    assert_eq!(ask(&mut other, "/", Kind::Response), 200, "the other listener's connection lives");
}

/// The listener and its route are gone; whoever had connected before is still served as it was promised.
#[test]
fn who_waits_at_a_listener_that_goes_is_served_by_the_routes_it_had() {
    let _watchdog = watchdog("who_waits_at_a_listener_that_goes_is_served_by_the_routes_it_had");
    let (upstream, other) = (Upstream::saying("of the guest"), Upstream::saying("of the web"));
    let services = format!(
        "s: {{ endpoints: [ \"{}\" ] }}, o: {{ endpoints: [ \"{}\" ] }}",
        upstream.url(),
        other.url()
    );
    let both = format!("guest: {{ address: \"127.0.0.1:0\" }}, {WEB}");
    let proxy =
        Proxy::start(&plan(&both, "{ listeners: [guest], to: s }, { listeners: [web], to: o }", &services));
    let guest = proxy.address("guest");
    let after = plan(WEB, "{ to: o }", &services);
    let clients = frozen(&proxy, || {
        let clients: Vec<_> =
            (0..100).map(|_| spoken(guest, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")).collect();
        fs::write(proxy.directory().join("thalweg.yaml"), after).unwrap();
        proxy.process().signal(Signal::HUP);
        clients
    });
    for mut client in clients {
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "of the guest"));
    }
    wait_refused(guest);
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "of the web");
}

#[test]
fn a_unix_listener_comes_and_goes_and_takes_away_its_own_file_only() {
    let _watchdog = watchdog("a_unix_listener_comes_and_goes_and_takes_away_its_own_file_only");
    let upstream = Upstream::saying("served");
    let services = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
    let proxy = Proxy::start(&plan(WEB, "{ to: s }", &services));
    let socket = proxy.directory().join("app.sock");
    let with =
        plan(&format!("app: {{ address: \"unix:{}\" }}, {WEB}", socket.display()), "{ to: s }", &services);
    let without = plan(WEB, "{ to: s }", &services);
    let asks = || {
        let mut stream = UnixStream::connect(&socket)?;
        stream.set_read_timeout(Some(STEP))?;
        stream.write_all(REQUEST)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    for _ in 0..3 {
        reload(&proxy, &with);
        assert!(asks().unwrap().ends_with("served"));
        reload(&proxy, &without);
        assert!(!socket.exists());
    }
    reload(&proxy, &with);
    // Somebody else has the path now.
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    reload(&proxy, &without);
    assert!(socket.exists(), "the file of another program");
    write(&proxy, &with);
    let said = ask(&proxy);
    wait_said(&proxy, said, "reload refused: listener `app`: cannot listen on unix:");
}

/// The bound of a listener and its connections outlast reloads that move it in the file.
#[test]
fn a_listener_keeps_its_connections_and_their_bound_when_its_position_shifts() {
    let _watchdog = watchdog("a_listener_keeps_its_connections_and_their_bound_when_its_position_shifts");
    let upstream = Upstream::saying("served");
    let services = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
    let bounded =
        |most: u32| format!("last: {{ address: \"127.0.0.1:0\", limits: {{ max_connections: {most} }} }}");
    let proxy = Proxy::start(&plan(&format!("{WEB}, {}", bounded(2)), "{ to: s }", &services));
    let last = proxy.address("last");
    let connect = || {
        let mut client = Connection::open(last).unwrap();
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        (client, answer.status())
    };
    let busy = || {
        let client = Connection::open(last).unwrap();
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\n");
        client
    };
    // Two that are in the middle of something: they cannot make room.
    let _held = [busy(), busy()];
    super::super::wait_counted(&proxy, "thalweg_connections_active", "listener=\"last\"", 2);
    reload(&proxy, &plan(&bounded(2), "{ to: s }", &services));
    assert_eq!(connect().1, 503, "the two are still counted");
    reload(&proxy, &plan(&format!("{WEB}, {}", bounded(3)), "{ to: s }", &services));
    assert_eq!(connect().1, 200, "there is one more place");
    assert!((metric(&proxy, "thalweg_connections_refused_total", "\"last\"") - 1.0).abs() < 0.5);
}
