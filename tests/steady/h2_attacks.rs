//! What a worker has allocated while clients of HTTP/2 attack it (rows D7 to D10 and E1 of the hostile inputs), or
//! endpoints do: at no moment much more than before. What the process takes from the system is looked at from outside
//! (`scenario/h2_attacks.rs`).

use std::time::Duration;

use thalweg_tests::h2_attacks::{self, Attack, Attacked};
use thalweg_tests::h2_endpoint_attacks::{self, EndpointAttack, HostileEndpoint};
use thalweg_tests::h2_frames::request;
use thalweg_tests::message::fetch;
use thalweg_tests::{Connection, Frames, Watchdog};

use super::client::{Client, get};
use super::house::House;

fn is_quiet(house: &House) -> bool {
    let meters = house.meters();
    meters.active_exchanges.value() == 0 && meters.idle_connections.value() == 0
}

fn holds_little(attack: &Attack) {
    let upstream = Attacked::start();
    let house = House::of_http2(&upstream.url(), attack.more);
    let open = || Connection::open(house.address()).unwrap();
    // One of each kind, so that the worker is warm.
    let mut client = Frames::over(open(), &[]);
    client.send(request(1, "/"));
    assert_eq!(client.answer(1), Ok(200));
    drop(client);
    Client::open(house.address()).ask(&get("/"));
    house.settles("nobody is there", is_quiet);
    let before = house.tally.forget_most();
    let held = attack.run(&open);
    let (most, now) = (house.tally.most_live() - before, house.tally.live() - before);
    drop(held);
    house.settles("the attackers are gone", is_quiet);
    let left = house.tally.live() - before;
    eprintln!("{}: {most} bytes more at most, {now} when it has been met, {left} afterwards", attack.name);
    assert!(most > 0, "{}: the worker is not counted", attack.name);
    assert!(most < attack.live.cast_signed(), "{}: {most} bytes more", attack.name);
}

/// Bytes that a worker may hold for an endpoint: the window of a stream, or a head of four times the bound.
const HELD: i64 = 512 << 10;

fn holds_little_of(attack: EndpointAttack) {
    let name = attack.name;
    let endpoint = HostileEndpoint::start(attack);
    let house = House::before_http2(&endpoint.url());
    let ask = || fetch(house.address(), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    assert_eq!(ask().unwrap().status(), 200, "{name}");
    house.settles("nobody is there", is_quiet);
    let before = house.tally.forget_most();
    endpoint.set_hostile(true);
    // What becomes of it is looked at from outside.
    let _ = ask();
    let most = house.tally.most_live() - before;
    house.settles("the client is gone", is_quiet);
    eprintln!("{name}: {most} bytes more at most");
    assert!(most < HELD, "{name}: {most} bytes more");
}

#[test]
fn endpoints_of_http2_make_a_worker_hold_little() {
    let _watchdog = Watchdog::new("endpoints_of_http2_make_a_worker_hold_little", Duration::from_secs(120));
    h2_endpoint_attacks::all().into_iter().for_each(holds_little_of);
}

#[test]
fn attacks_of_http2_make_a_worker_hold_little() {
    let _watchdog = Watchdog::new("attacks_of_http2_make_a_worker_hold_little", Duration::from_secs(120));
    h2_attacks::all().iter().for_each(holds_little);
}
