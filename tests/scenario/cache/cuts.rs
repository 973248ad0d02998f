//! Endpoints that break off within a body: nobody gets what looks whole and is not, and nothing of it is used again.

use thalweg_tests::Vitals;

use super::{Half, Halves, asking, body, caching, reads, reads_body, wait_metric, watchdog};

/// Clients that share the fetch that breaks off.
const CLIENTS: usize = 10;

fn a_cut_reaches_everybody(chunked: bool) {
    let object = body(1_000_000, 5);
    let endpoint = Halves::start(vec![object.clone()], chunked);
    let proxy = caching(&endpoint.url(), "{}", "");
    let vitals = Vitals::of(&proxy);
    let leader = asking(&proxy, "/object");
    let half = endpoint.next();
    // Each has its first bytes: none of them could still go alone.
    let mut clients: Vec<_> = (1..CLIENTS).map(|_| asking(&proxy, "/object")).collect();
    clients.push(leader);
    let heads: Vec<_> = clients.iter_mut().map(|client| client.head().unwrap()).collect();
    half.send(Half::Cut).unwrap();
    for (client, head) in clients.iter_mut().zip(&heads) {
        assert!(reads_body(client, head, &object).is_err(), "a response looks whole");
    }
    assert_eq!(endpoint.asked(), 1);
    // The next one is fetched anew, whole, and stored.
    let mut next = asking(&proxy, "/object");
    endpoint.next().send(Half::Rest).unwrap();
    assert_eq!(reads(&mut next, &object), Ok(()));
    assert_eq!(reads(&mut asking(&proxy, "/object"), &object), Ok(()));
    assert_eq!(endpoint.asked(), 2);
    drop((clients, next));
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
