//! Proves that a warm worker allocates nothing for datagrams of sessions that have begun.

use std::net::UdpSocket;

use thalweg_tests::{STEP, Upstream, Watchdog};

use super::house::House;

/// Questions and answers before anything is counted, and of those that are counted at a time.
const WARM_UP: usize = 100;
const ROUNDS: usize = 1000;
/// Times that are counted: a deadline that comes to a bucket of the wheel which was never used allocates it.
const TIMES: usize = 3;

#[test]
fn a_datagram_and_its_answer_allocate_nothing() {
    let _watchdog =
        Watchdog::new("a_datagram_and_its_answer_allocate_nothing", std::time::Duration::from_secs(60));
    let endpoint = UdpSocket::bind("127.0.0.1:0").unwrap();
    endpoint.set_read_timeout(Some(STEP)).unwrap();
    let house = House::of_datagrams(Upstream::saying("hello"), endpoint.local_addr().unwrap());
    let bound = house.fleet.bound();
    let dns = bound.iter().find(|bound| &*bound.name == "dns").unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(STEP)).unwrap();
    client.connect(&dns.address).unwrap();
    let mut bytes = [0; 2048];
    let mut ask = || {
        client.send(b"question").unwrap();
        let (length, from) = endpoint.recv_from(&mut bytes).unwrap();
        endpoint.send_to(&bytes[..length], from).unwrap();
        assert_eq!(client.recv(&mut bytes).unwrap(), length);
    };
    (0..WARM_UP).for_each(|_| ask());
    let counted = (0..TIMES).map(|_| {
        let before = house.tally.allocations();
        (0..ROUNDS).for_each(|_| ask());
        house.tally.allocations() - before
    });
    assert_eq!(counted.min(), Some(0), "allocations in {ROUNDS} rounds");
}
