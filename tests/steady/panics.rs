//! Proves that a panic costs only its own exchange: its connection closes, the exchanges beside it on the same
//! worker go on, it is counted, told to the operator, and its seat and place are used again.

use std::sync::{Mutex, Once, PoisonError, mpsc};

use std::sync::Arc;
use thalweg_filter::{Filter, Hooks, RequestCx, Verdict};
use thalweg_tests::upstream::ok;
use thalweg_tests::{STEP, Upstream, Watchdog};

use super::client::{Client, get};
use super::house::House;

/// What the filter says when it panics.
const WORDS: &str = "boom, as the test wants it";
/// Panics in a row.
const ROW: u64 = 200;
/// Most bytes that a panic may leave behind, to say that its seat's memory is used again or given back.
const LEFT_BEHIND: i64 = 64;

/// Panics on `/boom`.
#[derive(Debug)]
struct Boom;

impl Filter for Boom {
    fn name(&self) -> &'static str {
        "boom"
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        assert!(cx.target.path() != b"/boom", "{WORDS}");
        Verdict::Continue
    }
}

/// Keeps wanted panics out of the tests' output; others are told as ever.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str() != Some(WORDS) {
                told(panic);
            }
        }));
    });
}

fn watchdog(name: &str) -> Watchdog {
    Watchdog::new(name, std::time::Duration::from_secs(60))
}

/// Asks for `/boom` on a connection of its own, which must end without a byte.
fn boom(house: &House) {
    let mut client = Client::open(house.address());
    client.send(&get("/boom"));
    assert!(client.read().is_none(), "an exchange that panicked was answered");
}

#[test]
fn a_panic_costs_only_its_own_exchange() {
    let _watchdog = watchdog("a_panic_costs_only_its_own_exchange");
    hush();
    let ((asked, was_asked), (go, wait)) = (mpsc::channel(), mpsc::channel());
    let (asked, wait) = (Mutex::new(asked), Mutex::new(wait));
    let upstream = Upstream::start(move |request| {
        if request.target() == "/slow" {
            asked.lock().unwrap_or_else(PoisonError::into_inner).send(()).ok()?;
            wait.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()?;
        }
        Some(ok("hello"))
    });
    let mut house = House::start(upstream, vec![Arc::new(Boom)]);
    // One connection is silent, one is within an exchange, while a third panics on the same worker.
    let mut silent = Client::open(house.address());
    silent.ask(&get("/"));
    let mut within = Client::open(house.address());
    within.send(&get("/slow"));
    was_asked.recv_timeout(STEP).unwrap();
    house.settles("two clients", |house| house.fleet.clients() == 2);

    boom(&house);
    house.settles("the panic is counted", |house| house.meters().panics.value() == 1);
    house.settles("only the slow exchange runs", |house| house.fleet.active() == 1);
    assert_eq!(house.fleet.clients(), 2, "the place of the connection is free again");
    let told = house.notices.try_recv().unwrap();
    assert!(told.text.contains("bug"), "{told:?}");

    silent.ask(&get("/"));
    go.send(()).unwrap();
    assert_eq!(within.read().map(|answer| answer.status()), Some(200), "the exchange beside it goes on");
    within.ask(&get("/"));
    Client::open(house.address()).ask(&get("/"));
    assert_eq!(house.meters().panics.value(), 1);
}

#[test]
fn a_panic_takes_the_requests_behind_it_on_its_connection_along_and_no_others() {
    let _watchdog = watchdog("a_panic_takes_the_requests_behind_it_on_its_connection_along_and_no_others");
    hush();
    let house = House::start(Upstream::saying("hello"), vec![Arc::new(Boom)]);
    let mut client = Client::open(house.address());
    client.send(&(get("/before") + &get("/boom") + &get("/behind")));
    assert_eq!(client.read().map(|answer| answer.status()), Some(200));
    assert!(client.read().is_none(), "what stands behind a panic is not answered");
    house.settles("no exchange runs", |house| house.fleet.active() == 0 && house.fleet.clients() == 0);
    assert_eq!(house.registry.route(0, "rest").codes.value(200), 1);
}

#[test]
fn seats_that_panicked_are_used_again() {
    let _watchdog = watchdog("seats_that_panicked_are_used_again");
    hush();
    let house = House::start(Upstream::saying("hello"), vec![Arc::new(Boom)]);
    (0..ROW).for_each(|_| boom(&house));
    house.settles("all panics are counted", |house| house.meters().panics.value() == ROW);
    let before = house.tally.live();
    (0..ROW).for_each(|_| boom(&house));
    house.settles("all panics are counted", |house| house.meters().panics.value() == 2 * ROW);
    let left = (house.tally.live() - before) / ROW.cast_signed();
    assert!(left <= LEFT_BEHIND, "a panic leaves {left} bytes behind");
    assert_eq!((house.fleet.active(), house.fleet.clients()), (0, 0));
    let mut client = Client::open(house.address());
    (0..10).for_each(|_| client.ask(&get("/")));
}
