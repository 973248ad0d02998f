//! Endpoints that break off within a body: nobody gets what looks whole and is not, and nothing of it is used again.

use std::thread;

use thalweg_tests::Vitals;

use super::{Half, Halves, asking, body, caching, reads, wait_metric, watchdog};

/// Clients that share the fetch that breaks off.
const CLIENTS: usize = 10;

fn a_cut_reaches_everybody(chunked: bool) {
    let object = body(1_000_000, 5);
    let endpoint = Halves::start(vec![object.clone()], chunked);
    let proxy = caching(&endpoint.url(), "{}", "");
    let vitals = Vitals::of(&proxy);
    let mut leader = asking(&proxy, "/object");
    let half = endpoint.next();
    let followers: Vec<_> = (1..CLIENTS)
        .map(|_| {
            let (mut follower, object) = (asking(&proxy, "/object"), object.clone());
            thread::spawn(move || reads(&mut follower, &object))
        })
        .collect();
    wait_metric(&proxy, "thalweg_requests_active", |active| active >= CLIENTS as u64);
    half.send(Half::Cut).unwrap();
    assert!(reads(&mut leader, &object).is_err(), "the leader's response looks whole");
    for follower in followers {
        assert!(follower.join().unwrap().is_err(), "a follower's response looks whole");
    }
    assert_eq!(endpoint.asked(), 1);
    // The next one is fetched anew, whole, and stored.
    let mut next = asking(&proxy, "/object");
    endpoint.next().send(Half::Rest).unwrap();
    assert_eq!(reads(&mut next, &object), Ok(()));
    assert_eq!(reads(&mut asking(&proxy, "/object"), &object), Ok(()));
    assert_eq!(endpoint.asked(), 2);
    drop((leader, next));
    vitals.wait_for(&proxy, "a cut");
}

#[test]
fn a_body_of_known_length_that_is_cut_is_whole_for_nobody() {
    let _watchdog = watchdog("a_body_of_known_length_that_is_cut_is_whole_for_nobody");
    a_cut_reaches_everybody(false);
}

#[test]
fn a_chunked_body_that_is_cut_is_whole_for_nobody() {
    let _watchdog = watchdog("a_chunked_body_that_is_cut_is_whole_for_nobody");
    a_cut_reaches_everybody(true);
}

#[test]
fn a_cut_after_its_client_has_left_is_not_stored() {
    let _watchdog = watchdog("a_cut_after_its_client_has_left_is_not_stored");
    for chunked in [false, true] {
        let object = body(1_000_000, 6);
        let endpoint = Halves::start(vec![object.clone()], chunked);
        let proxy = caching(&endpoint.url(), "{}", "");
        let vitals = Vitals::of(&proxy);
        let mut leader = asking(&proxy, "/object");
        let half = endpoint.next();
        leader.head().unwrap();
        leader.reset();
        wait_metric(&proxy, "thalweg_connections_active", |open| open <= vitals.clients);
        half.send(Half::Cut).unwrap();
        vitals.wait_for(&proxy, "a leader and an endpoint that left");
        let mut next = asking(&proxy, "/object");
        endpoint.next().send(Half::Rest).unwrap();
        assert_eq!(reads(&mut next, &object), Ok(()), "chunked: {chunked}");
        assert_eq!(endpoint.asked(), 2);
    }
}
