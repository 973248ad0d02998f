//! Resets, closes and half-closes of either side at every phase of an exchange: afterwards the proxy holds what it
//! held before, and as many exchanges can run as ever.

use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver};

use thalweg_tests::talk::chunk;
use thalweg_tests::upstream::Listener;
use thalweg_tests::vitals::resident;
use thalweg_tests::{Noise, Proxy, STEP, Talk, Vitals};

use super::{config, watchdog};

/// Places of the proxy: a place that leaks is missed at the end.
const PLACES: usize = 12;
/// Times that each case is repeated.
const REPEATS: usize = 4;
/// Growth of memory that is no leak: what a round of a few hundred exchanges leaves in an allocator.
const GROWTH: u64 = 1 << 20;

const UPLOAD: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
const DOWNLOAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// How far an exchange has come when a side leaves it.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The client is connected and has said nothing.
    BeforeHead,
    /// Half of the request's head has come.
    InRequestHead,
    /// The request's head has gone up, and a part of its body.
    InRequestBody,
    /// The whole request has gone up.
    BeforeResponse,
    /// Half of the response's head has come.
    InResponseHead,
    /// The response's head and a part of its body have come down.
    InResponseBody,
    /// As before, with the request's body under way too.
    InBothBodies,
    /// As before, and more came both ways than anybody reads.
    Stuffed,
    /// The response is whole.
    After,
}

const PHASES: [Phase; 9] = [
    Phase::BeforeHead,
    Phase::InRequestHead,
    Phase::InRequestBody,
    Phase::BeforeResponse,
    Phase::InResponseHead,
    Phase::InResponseBody,
    Phase::InBothBodies,
    Phase::Stuffed,
    Phase::After,
];

/// How a side leaves.
#[derive(Clone, Copy, Debug)]
enum Leave {
    /// Breaks the connection off.
    Reset,
    /// Closes it.
    Close,
    /// Ends its side, and closes when the proxy has ended the other.
    HalfClose,
}

/// The proxy, and the connections that it makes.
struct House {
    proxy: Proxy,
    accepted: Receiver<TcpStream>,
    _listener: Listener,
}

impl House {
    fn start() -> Self {
        let (accepted, connections) = mpsc::channel();
        let listener = Listener::start(accepted);
        // Without a pool every exchange has a connection of its own, which the test then has in hand.
        let config = config(&[&format!("http://{}", listener.address())], "").replace(
            "services: { s: {",
            "limits: { max_connections: 12 }\nservices: { s: { pool: { max_idle: 0 }, ",
        );
        Self { proxy: Proxy::start(&config), accepted: connections, _listener: listener }
    }

    /// A client that has said this.
    fn client(&self, said: &str) -> Talk {
        let mut client = Talk::open(self.proxy.web()).unwrap();
        client.send(said).unwrap();
        client
    }

    /// The upstream's end of the exchange, once the head has come.
    fn upstream(&self) -> Talk {
        let mut upstream = Talk::new(self.accepted.recv_timeout(STEP).unwrap());
        upstream.head().unwrap();
        upstream
    }

    /// An exchange that has come this far; its upstream has an end only when it has got that far.
    fn exchange(&self, phase: Phase) -> (Talk, Option<Talk>) {
        // What is not replayable has one attempt, which the test can follow.
        let post = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n";
        match phase {
            Phase::BeforeHead => return (self.client(""), None),
            Phase::InRequestHead => return (self.client("GET / HTTP/1.1\r\nHo"), None),
            Phase::InRequestBody => {
                let mut client = self.client(UPLOAD);
                let upstream = self.upstream();
                client.send(chunk(b"hello")).unwrap();
                return (client, Some(upstream));
            }
            _ => {}
        }
        let both = matches!(phase, Phase::InBothBodies | Phase::Stuffed);
        let mut client = self.client(if both { UPLOAD } else { post });
        let mut upstream = self.upstream();
        match phase {
            Phase::InResponseHead => upstream.send("HTTP/1.1 200 OK\r\nCont").unwrap(),
            Phase::InResponseBody | Phase::InBothBodies | Phase::Stuffed => {
                upstream.send(DOWNLOAD).unwrap();
                upstream.send(chunk(b"hello")).unwrap();
                assert_eq!(client.head().unwrap().status(), 200);
            }
            Phase::After => {
                upstream.send(WHOLE).unwrap();
                let head = client.head().unwrap();
                assert_eq!(client.body(&head).each(|_| {}).unwrap(), 2);
            }
            _ => {}
        }
        if both {
            client.send(chunk(b"hello")).unwrap();
        }
        if matches!(phase, Phase::Stuffed) {
            client.stuff(&chunk(&Noise::new(1).take(512 * 1024)));
            upstream.stuff(&chunk(&Noise::new(2).take(512 * 1024)));
        }
        (client, Some(upstream))
    }

    /// Has one side leave, then waits for the end of the other side, which the proxy must bring about.
    fn torture(&self, phase: Phase, client_leaves: bool, how: Leave) {
        let case = format!("{phase:?}, the client leaves: {client_leaves}, {how:?}");
        let (client, upstream) = self.exchange(phase);
        let (leaver, stayer) = match (client_leaves, upstream) {
            (true, upstream) => (Some(client), upstream),
            (false, Some(upstream)) => (Some(upstream), Some(client)),
            (false, None) => (None, Some(client)),
        };
        let half = match (leaver, how) {
            (Some(leaver), Leave::Reset) => {
                leaver.reset();
                None
            }
            (Some(leaver), Leave::HalfClose) => {
                leaver.half_close();
                Some(leaver)
            }
            (_, _) => None,
        };
        match stayer {
            Some(mut upstream) if client_leaves => upstream.assert_ends(&case),
            Some(mut client) => is_answered_or_cut_off(&mut client, phase, &case),
            None => {}
        }
        if let Some(mut half) = half.filter(|_| client_leaves) {
            half.assert_ends(&case);
        }
    }

    /// As many exchanges as there are places, all at the same time.
    fn all_places_are_free(&self) {
        let get = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
        let clients: Vec<Talk> = (0..PLACES).map(|_| self.client(get)).collect();
        let upstreams: Vec<Talk> = (0..PLACES).map(|_| self.upstream()).collect();
        for mut upstream in upstreams {
            upstream.send(WHOLE).unwrap();
        }
        for mut client in clients {
            assert_eq!(client.head().unwrap().status(), 200);
        }
    }
}

/// The upstream has left: the client has an answer, gets one that says so, or sees its answer break off.
fn is_answered_or_cut_off(client: &mut Talk, phase: Phase, case: &str) {
    match phase {
        // No upstream has been asked, or all is well.
        Phase::BeforeHead | Phase::InRequestHead | Phase::After => {}
        Phase::InRequestBody | Phase::BeforeResponse | Phase::InResponseHead => {
            let head = client.head().unwrap_or_else(|error| panic!("{case}: no answer: {error}"));
            assert_eq!(head.status(), 502, "{case}: {head:?}");
        }
        Phase::InResponseBody | Phase::InBothBodies | Phase::Stuffed => client.assert_ends(case),
    }
}

#[test]
fn leaving_at_any_phase_in_any_way_leaves_nothing_behind() {
    let _watchdog = watchdog("leaving_at_any_phase_in_any_way_leaves_nothing_behind");
    let house = House::start();
    house.all_places_are_free();
    let before = Vitals::of(&house.proxy);
    let mut memory = Vec::new();
    for _ in 0..REPEATS {
        for phase in PHASES {
            for client_leaves in [true, false] {
                for how in [Leave::Reset, Leave::Close, Leave::HalfClose] {
                    house.torture(phase, client_leaves, how);
                }
            }
            before.wait_for(&house.proxy, &format!("{phase:?}"));
        }
        memory.push(resident(&house.proxy));
    }
    house.all_places_are_free();
    before.wait_for(&house.proxy, "everything");
    let grown = memory[REPEATS - 1].saturating_sub(memory[0]);
    eprintln!("memory after each round: {memory:?}");
    assert!(grown < GROWTH, "memory grows by {grown} bytes: {memory:?}");
    let ended = house.proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}
