//! Every buffer of a worker that a peer can fill. A test makes each as large as a peer can, and checks that it stays
//! within its bound, is counted by the budget, and is freed when the peer has gone.
//!
//! HTTP/2 frames that never end at the end of a receive are tested in `h2_attacks.rs`, and TLS records in
//! `crates/net/src/layered/tests.rs`. A worker also holds: pieces of bodies that filters change, which come from the
//! rings tested here; stored responses, which have their own part of the budget; one datagram of each new UDP
//! session; and the fixed cost of an exchange (`crates/proxy/src/budget.rs`).

use std::any::Any;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thalweg_filter::{Filter, Hooks, Job, RequestCx, Verdict};
use thalweg_tests::h2_frames::{DATA, END_HEADERS, HEADERS, frame, request, section};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Bare, Connection, Frames, STEP, Watchdog};

use super::client::{Client, get};
use super::house::House;

const KIB: i64 = 1024;
/// Peers at once.
const PEERS: usize = 10;
/// Least number of bytes held per stream: nearly all of its window.
const STREAM: i64 = 100 * KIB;
/// Bytes that a peer puts into a buffer.
const FILLED: usize = 60 << 10;

/// A filter that buffers the body of `/whole` before the request is forwarded.
#[derive(Debug)]
struct Whole;

impl Filter for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        match cx.facts.path {
            b"/whole" => Verdict::Wait(Job::Body(1 << 20)),
            _ => Verdict::Continue,
        }
    }
}

/// The endpoint: `/stuck` reads nothing after the head until the sender is dropped, `/endless` never ends, `/head`
/// answers with a partial head, all other paths answer hello.
fn endpoint() -> (Bare, Sender<()>) {
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let bare = Bare::start(move |talk| {
        loop {
            let head = talk.head()?;
            match head.target() {
                "/stuck" => {
                    let _ = waits.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    return Ok(());
                }
                "/endless" => {
                    talk.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")?;
                    loop {
                        talk.send([b'x'; 64 << 10])?;
                    }
                }
                "/head" => {
                    talk.send(format!("HTTP/1.1 200 OK\r\nX-Part: {}", "x".repeat(FILLED)))?;
                    return talk.rest().map(drop);
                }
                _ => talk.send(ok("hello"))?,
            }
        }
    });
    (bare, go_on)
}

/// The connections that peers hold open.
type Held = Vec<Box<dyn Any>>;

/// A buffer, and the peers that fill it.
struct Case {
    name: &'static str,
    /// Fewest bytes that the budget must count as held, and most bytes that may be allocated in total.
    held: (i64, i64),
    fill: fn(&House) -> Held,
}

/// [`PEERS`] clients that send this, and nothing more.
fn clients(house: &House, said: &str) -> Held {
    let open = |_| {
        let mut client = Client::open(house.address());
        client.send(said);
        Box::new(client) as Box<dyn Any>
    };
    (0..PEERS).map(open).collect()
}

fn upload(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n")
}

/// HTTP/2 clients that send as long as they have a window; the proxy grants none while the endpoint does not read.
fn streams(house: &House) -> Held {
    const PIECE: usize = 8 << 10;
    let piece = frame(DATA, 0, 1, &[b'x'; PIECE]);
    let open = |at: i64| {
        let mut client = Frames::over(Connection::open(house.address()).unwrap(), &[]);
        client.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/stuck", &[])));
        // The initial windows: of the stream from the proxy's settings, of the connection from RFC 9113.
        let (mut stream, mut connection) = (128_usize << 10, 65_535_usize);
        let end = Instant::now() + STEP;
        // The kernel buffers some megabytes before the proxy has to hold any.
        while counted(house).0 < (at + 1) * STREAM {
            assert!(Instant::now() < end, "what is sent on a stream is not counted");
            let count = stream.min(connection) / PIECE;
            client.send(piece.repeat(count));
            (stream, connection) = (stream - count * PIECE, connection - count * PIECE);
            if let Ok(frame) = client.next(Instant::now() + Duration::from_millis(50)) {
                let more = frame.increment().unwrap_or(0);
                *(if frame.stream == 0 { &mut connection } else { &mut stream }) += more;
            }
        }
        Box::new(client) as Box<dyn Any>
    };
    (0..2).map(open).collect()
}

/// An HTTP/2 client that reads no frame of many answers.
fn unread(house: &House) -> Held {
    let client = Frames::over(Connection::open(house.address()).unwrap(), &[]);
    client.send((0..20).flat_map(|at| request(at * 2 + 1, "/endless")).collect::<Vec<_>>());
    vec![Box::new(client)]
}

fn cases() -> Vec<Case> {
    let peers = i64::try_from(PEERS).unwrap();
    vec![
        Case {
            name: "heads of requests that are not whole",
            held: (peers * 40 * KIB, peers * 192 * KIB),
            fill: |house| {
                let part = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Part: {}", "x".repeat(FILLED));
                clients(house, &part)
            },
        },
        Case {
            name: "heads of responses that are not whole",
            held: (peers * 40 * KIB, peers * 192 * KIB),
            fill: |house| clients(house, &get("/head")),
        },
        Case {
            name: "bodies that are kept for another attempt",
            held: (peers * 40 * KIB, peers * 256 * KIB),
            fill: |house| clients(house, &[upload("/stuck", FILLED), "x".repeat(FILLED)].concat()),
        },
        Case {
            name: "bodies that a filter wants whole",
            held: (peers * 480 * KIB, peers * 1400 * KIB),
            fill: |house| clients(house, &[upload("/whole", 1 << 20), "x".repeat(500 << 10)].concat()),
        },
        Case {
            name: "responses that clients do not read",
            held: (peers * 100 * KIB, peers * 400 * KIB),
            fill: |house| clients(house, &get("/endless")),
        },
        Case {
            name: "frames of HTTP/2 for an endpoint that takes nothing",
            held: (2 * STREAM, 2 * 400 * KIB),
            fill: streams,
        },
        Case {
            name: "answers over HTTP/2 that nobody reads",
            held: (300 * KIB, 20 * 400 * KIB),
            fill: unread,
        },
    ]
}

/// Most bytes of tables that are not counted: the HTTP/2 library has an entry for each frame that waits, in a table
/// that grows by doubling. The flood guard bounds their number: it ends connections with many small frames.
const TABLES: i64 = 16 << 10;

/// The budget's counts: held bytes, and used bytes in total.
fn counted(house: &House) -> (i64, i64) {
    house.fleet.measure();
    let budget = house.registry.budget();
    (budget.held_bytes.value(), budget.memory_used.value())
}

fn is_quiet(house: &House) -> bool {
    let meters = house.meters();
    meters.active_exchanges.value() == 0 && meters.idle_connections.value() == 0 && counted(house).0 == 0
}

fn is_counted(case: &Case) {
    let name = case.name;
    let (endpoint, go_on) = endpoint();
    let house = House::with_filters(&endpoint.url(), vec![Arc::new(Whole)]);
    Client::open(house.address()).ask(&get("/"));
    house.settles("nobody is there", is_quiet);
    let (before, used) = (house.tally.forget_most(), counted(&house).1);
    let held = (case.fill)(&house);
    let (least, most) = case.held;
    house.settles(name, |house| counted(house).0 >= least);
    // The budget measures some of them four times a second.
    let of = |house: &House| (counted(house).1 - used, house.tally.live() - before);
    let is_counted = house.becomes(|house| {
        let (counted, live) = of(house);
        counted + TABLES >= live
    });
    assert!(is_counted, "{name}: counted and allocated bytes are {:?}", of(&house));
    let (live, now) = (house.tally.most_live() - before, counted(&house));
    eprintln!("{name}: {live} bytes more at most, {} counted as held, {} as used", now.0, now.1 - used);
    assert!(live <= most, "{name}: {live} bytes more");
    drop(held);
    drop(go_on);
    house.settles(&format!("{name}: given back"), is_quiet);
}

#[test]
fn every_buffer_that_a_peer_fills_is_bounded_and_counted_in_the_budget() {
    let name = "every_buffer_that_a_peer_fills_is_bounded_and_counted_in_the_budget";
    let _watchdog = Watchdog::new(name, Duration::from_secs(180));
    cases().iter().for_each(is_counted);
}
