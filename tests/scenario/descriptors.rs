//! More connections than places or descriptors.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::message::{Kind, get};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Connection, Message, Proxy, STEP, Upstream};

use super::{config, watchdog};

/// More connections than 256 descriptors can hold.
const CONNECTIONS: usize = 400;

/// What became of the requests.
#[derive(Debug, Default)]
struct Outcomes {
    answered: usize,
    refused: usize,
    closed: usize,
}

/// Holds back the answers of an upstream until it is opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(super) fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_while(open, |open| !*open));
    }
}

/// An upstream that tells of each request and answers when the gate is open.
pub(super) fn gated() -> (Upstream, Gate, Receiver<()>) {
    let (gate, (asked, was_asked)) = (Gate::default(), mpsc::channel());
    let (held, asked) = (gate.clone(), Mutex::new(asked));
    let upstream = Upstream::start(move |_| {
        let _ = asked.lock().unwrap_or_else(PoisonError::into_inner).send(());
        held.pass();
        Some(ok("hello"))
    });
    (upstream, gate, was_asked)
}

fn ask(proxy: &Proxy) -> Connection {
    let client = Connection::open(proxy.web()).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client
}

/// Reads every client's answer: 200, the refusal of a full house, or a close.
fn outcomes(clients: &mut [Connection]) -> Outcomes {
    let (deadline, mut outcomes) = (Instant::now() + STEP, Outcomes::default());
    for client in clients {
        match Message::read(client, Kind::Response, deadline) {
            Ok(answer) if answer.status() == 200 => outcomes.answered += 1,
            Ok(answer) => {
                assert_eq!(answer.status(), 503, "{answer:?}");
                assert!(answer.value("proxy-status").unwrap().contains("connection_limit_reached"));
                outcomes.refused += 1;
            }
            // Past the bound on simultaneous refusals a connection is closed without words.
            Err(_) if matches!(client.end(), Some(Event::End | Event::Reset)) => outcomes.closed += 1,
            Err(reason) => panic!("a connection hangs: {reason}; until then {outcomes:?}"),
        }
    }
    outcomes
}

fn recovers(proxy: &Proxy) {
    let end = Instant::now() + STEP;
    while !get(proxy.web(), "/").is_ok_and(|answer| answer.status() == 200) {
        assert!(Instant::now() < end, "it does not recover");
    }
}

fn never_ran_out(proxy: Proxy) {
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let said = ended.stderr.to_lowercase();
    assert!(!said.contains("emfile") && !said.contains("too many open files"), "{said}");
}

#[test]
fn more_exchanges_than_descriptors_are_answered_or_refused_and_it_recovers() {
    let _watchdog = watchdog("more_exchanges_than_descriptors_are_answered_or_refused_and_it_recovers");
    let (upstream, gate, asked) = gated();
    let proxy = Proxy::start_with_descriptors(256, &config(&[&upstream.url()], ""));
    let mut clients: Vec<Connection> = (0..CONNECTIONS).map(|_| ask(&proxy)).collect();
    // As many as can be are under way; the others are refused, or wait to be accepted.
    let mut under_way = 0;
    while asked.recv_timeout(Duration::from_millis(500)).is_ok() {
        under_way += 1;
    }
    assert!((50..250).contains(&under_way), "{under_way} exchanges under way with 256 descriptors");
    gate.open();
    let outcomes = outcomes(&mut clients);
    assert!(outcomes.answered >= under_way, "of {under_way} under way: {outcomes:?}");
    drop(clients);
    recovers(&proxy);
    never_ran_out(proxy);
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let _watchdog = watchdog("idle_connections_make_room_for_new_ones");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start_with_descriptors(256, &config(&[&upstream.url()], ""));
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS {
        let mut client = ask(&proxy);
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP);
        assert_eq!(answer.map(|answer| answer.status()), Ok(200), "connection {number}");
        clients.push(client);
    }
    assert_eq!(clients[0].read(Instant::now() + STEP), Event::End, "the oldest idle connection is closed");
    never_ran_out(proxy);
}

#[test]
fn connections_over_the_configured_limit_are_refused_and_it_recovers() {
    let _watchdog = watchdog("connections_over_the_configured_limit_are_refused_and_it_recovers");
    let (upstream, gate, asked) = gated();
    let proxy = Proxy::start(&config(&[&upstream.url()], "limits: { max_connections: 8 }"));
    let mut clients: Vec<Connection> = (0..8).map(|_| ask(&proxy)).collect();
    for _ in 0..8 {
        asked.recv_timeout(STEP).unwrap();
    }
    let refused = get(proxy.web(), "/").unwrap();
    assert_eq!(refused.status(), 503);
    assert!(refused.value("proxy-status").unwrap().contains("connection_limit_reached"), "{refused:?}");
    assert!(refused.value("retry-after").is_some(), "{refused:?}");
    gate.open();
    assert_eq!(outcomes(&mut clients).answered, 8);
    drop(clients);
    recovers(&proxy);
}
