//! Proves that a warm worker allocates nothing for an exchange on kept connections, whether its bodies are framed by
//! length or in chunks, and that a silent client connection holds at most [`IDLE_BYTES`] of a worker's heap.

use std::sync::Arc;
use thalweg_filter::{Filter, Hooks, RequestCx, Verdict};
use thalweg_tests::{Upstream, Watchdog};

use super::client::{Client, get};
use super::house::House;

/// Exchanges before anything is counted.
const WARM_UP: usize = 100;
/// Exchanges that are counted at a time.
const EXCHANGES: usize = 1000;
/// Times that are counted. Deadlines move through the timer wheel with the time and not with exchanges: one that
/// comes to a bucket which was never used allocates it. What an exchange allocates shows every time.
const TIMES: usize = 3;
/// Silent connections. Tables double, so the bytes for each are looked at from half of them on: that takes in the
/// moment after a doubling, when there are the most.
const IDLE: usize = 2000;
/// Most bytes of heap for each.
const IDLE_BYTES: i64 = 256;
/// Descriptors for both ends of the silent connections, and for everything else in this process.
const DESCRIPTORS: usize = 2 * IDLE + 1000;

fn watchdog(name: &str) -> Watchdog {
    Watchdog::new(name, std::time::Duration::from_secs(60))
}

/// The fewest allocations among [`TIMES`] × [`EXCHANGES`] exchanges on a warm connection.
fn allocations(house: &House, client: &mut Client, request: &str) -> u64 {
    (0..WARM_UP).for_each(|_| client.ask(request));
    let mut fewest = u64::MAX;
    for _ in 0..TIMES {
        // Each reading falls between an answer and the end of its exchange, so as many ends as exchanges lie
        // between two of them.
        let before = house.tally.allocations();
        (0..EXCHANGES).for_each(|_| client.ask(request));
        fewest = fewest.min(house.tally.allocations() - before);
        if fewest == 0 {
            break;
        }
    }
    fewest
}

fn allocates_nothing(name: &str, request: &str, upstream: Upstream) {
    let _watchdog = watchdog(name);
    let house = House::start(upstream, Vec::new());
    let mut client = Client::open(house.address());
    let counted = allocations(&house, &mut client, request);
    if counted > 0 {
        house.tally.trace(2);
        (0..EXCHANGES).for_each(|_| client.ask(request));
        let traces = house.tally.traces().join("\n");
        panic!("{counted} allocations in {EXCHANGES} exchanges; the next ones:\n{traces}");
    }
    house.settles("every exchange is counted", |house| {
        house.registry.route(0, "rest").codes.value(200) >= (WARM_UP + EXCHANGES) as u64
    });
}

/// Allocates once for each request.
#[derive(Debug)]
struct Wasteful;

impl Filter for Wasteful {
    fn name(&self) -> &'static str {
        "wasteful"
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        drop(std::hint::black_box(cx.target.path().to_vec()));
        Verdict::Continue
    }
}

#[test]
fn one_allocation_in_every_exchange_is_seen() {
    let _watchdog = watchdog("one_allocation_in_every_exchange_is_seen");
    let house = House::start(Upstream::saying("hello"), vec![Arc::new(Wasteful)]);
    let counted = allocations(&house, &mut Client::open(house.address()), &get("/"));
    eprintln!("a route with a filter that allocates once: {counted} allocations in {EXCHANGES} exchanges");
    assert!(counted >= EXCHANGES as u64, "only {counted} allocations are counted");
}

#[test]
fn a_get_on_a_kept_connection_allocates_nothing() {
    allocates_nothing(
        "a_get_on_a_kept_connection_allocates_nothing",
        &get("/products/42?page=7"),
        Upstream::saying("hello"),
    );
}

#[test]
fn a_small_post_with_a_length_allocates_nothing() {
    let request = "POST /products HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\n\
                   Content-Length: 13\r\n\r\n{\"number\": 7}";
    allocates_nothing("a_small_post_with_a_length_allocates_nothing", request, Upstream::saying("hello"));
}

#[test]
fn a_small_post_in_chunks_allocates_nothing() {
    let request = "POST /products HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\n6\r\n{\"numb\r\n7;x=y\r\ner\": 7}\r\n0\r\n\r\n";
    allocates_nothing("a_small_post_in_chunks_allocates_nothing", request, Upstream::saying("hello"));
}

#[test]
fn an_answer_in_chunks_allocates_nothing() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n";
    let upstream = Upstream::start(move |_| Some(answer.into()));
    allocates_nothing("an_answer_in_chunks_allocates_nothing", &get("/"), upstream);
}

#[test]
fn a_silent_connection_holds_at_most_256_bytes() {
    let _watchdog = watchdog("a_silent_connection_holds_at_most_256_bytes");
    let house = House::start(Upstream::saying("hello"), Vec::new());
    if house.descriptors < DESCRIPTORS {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "too few descriptors, and CI runs every test");
        eprintln!("skipped: {} descriptors are not enough, {DESCRIPTORS} are", house.descriptors);
        return;
    }
    let mut client = Client::open(house.address());
    (0..WARM_UP).for_each(|_| client.ask(&get("/")));
    let (before, mut silent, mut most) = (house.tally.live(), Vec::new(), 0);
    for count in 1..=IDLE as i64 {
        let mut client = Client::open(house.address());
        client.ask(&get("/"));
        silent.push(client);
        if count >= IDLE as i64 / 2 {
            most = most.max((house.tally.live() - before) / count);
        }
    }
    house.settles("every connection is silent", |house| {
        house.meters().idle_connections.value() > silent.len() as i64
    });
    let last = (house.tally.live() - before) / silent.len() as i64;
    eprintln!("{IDLE} silent connections hold {last} bytes of heap each; most on the way there {most}");
    assert!(most.max(last) <= IDLE_BYTES, "{last} bytes per silent connection, {most} on the way");
}
