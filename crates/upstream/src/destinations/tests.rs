use super::*;
use crate::Names;
use crate::connection::{Connection, OpenCount};
use crate::endpoint_sets::EndpointSets;
use crate::members::ServiceState;
use crate::service::{PoolPolicy, Service};
use crate::service_shared::Notifier;
use std::time::{Duration, Instant};
use thalweg_net::Owner;

#[derive(Debug)]
struct WaitQueue(Rc<Cell<bool>>);

impl Wire for WaitQueue {
    type DetachedSocket = ();

    fn is_spent(&self) -> bool {
        self.0.get()
    }

    fn is_quiet(&self) -> bool {
        true
    }

    fn set_owner(&self, _: Owner) {}

    fn set_deadline(&self, _: Option<Duration>) {}

    fn rest(&self, _: bool) {}

    fn loosen(self) {}
}

/// The same service on two workers.
fn workers(most: u32) -> [Rc<Destinations<WaitQueue>>; 2] {
    let policy = DestinationPolicy { max_in_flight: most, sources: Arc::new([]) };
    let service = Service { name: "sealed".into(), destinations: Some(policy), ..Service::default() };
    let endpoint_set =
        EndpointSets::new(2, Notifier::default()).update(&[Arc::new(service)], &Names::new()).remove(0);
    [0, 1].map(|worker| {
        let state: ServiceState<WaitQueue> = ServiceState::new(endpoint_set.clone(), worker, None);
        state.destinations().unwrap()
    })
}

fn aim(last: u8) -> Aim {
    Aim { address: ([192, 0, 2, last], 80).into(), secure: false }
}

/// Entries of the directory, living or not.
fn listed(destinations: &Destinations<WaitQueue>) -> usize {
    destinations.directory.len()
}

#[test]
fn what_nobody_uses_leaves_nothing_behind() {
    let [one, other] = workers(10);
    let now = Instant::now();
    let visits: Vec<_> = (0..=255).map(|last| one.attempt_guard(aim(last), now).unwrap()).collect();
    let again = one.attempt_guard(aim(7), now).unwrap();
    let there = other.attempt_guard(aim(7), now).unwrap();
    assert!(Arc::ptr_eq(&again.standing, &there.standing), "workers share what they count");
    assert_eq!((one.len(), other.len(), listed(&one)), (256, 1, 256));
    drop(visits);
    assert_eq!((one.len(), listed(&one)), (1, 1));
    drop(again);
    assert_eq!((one.len(), listed(&one)), (0, 1));
    drop(there);
    assert_eq!((other.len(), listed(&one)), (0, 0));
    assert!(one.rooms.borrow().all.capacity() == 0);
}

#[test]
fn an_idle_connection_keeps_its_endpoint_known_until_it_ends() {
    let [one, _] = workers(10);
    let (now, spent, count) = (Instant::now(), Rc::new(Cell::new(false)), OpenCount::default());
    let idle = |last: u8| {
        let attempt_guard = one.attempt_guard(aim(last), now).unwrap();
        let connection = Connection::new(WaitQueue(spent.clone()), now, &count);
        attempt_guard.pool.put(connection, &PoolPolicy::default(), Owner(0));
        attempt_guard.index
    };
    let index = idle(1);
    assert_eq!((one.len(), one.idle(), count.current()), (1, 1, 1));
    let attempt_guard = one.attempt_guard(aim(1), now).unwrap();
    assert_eq!(attempt_guard.index, index);
    assert!(
        attempt_guard.pool.take(&PoolPolicy::default(), now, false).is_some(),
        "the next attempt_guard finds it"
    );
    drop(attempt_guard);
    assert!(one.is_empty());
    let index = idle(1);
    one.sweep(index);
    assert_eq!(one.len(), 1);
    spent.set(true);
    one.sweep(index);
    one.sweep(index);
    assert!(one.is_empty());
    spent.set(false);
    idle(1);
    idle(2);
    assert!(one.evict() && one.evict() && !one.evict());
    assert_eq!((one.len(), count.current()), (0, 0));
}

#[test]
fn the_policy_says_which_idle_connection_goes_first() {
    let [one, _] = workers(10);
    let (now, count) = (Instant::now(), OpenCount::default());
    for (oldest_first, first) in [(false, 2), (true, 1)] {
        let policy = PoolPolicy { oldest_first, ..PoolPolicy::default() };
        let guard = one.attempt_guard(aim(1), now).unwrap();
        for requests in [1, 2] {
            let mut connection = Connection::new(WaitQueue(Rc::default()), now, &count);
            connection.requests = requests;
            guard.pool.put(connection, &policy, Owner(0));
        }
        assert_eq!(guard.pool.take(&policy, now, false).map(|taken| taken.requests), Some(first));
    }
}

#[test]
fn all_workers_together_keep_the_bound_of_each_endpoint() {
    let [one, other] = workers(3);
    let now = Instant::now();
    let held =
        [one.attempt_guard(aim(1), now), other.attempt_guard(aim(1), now), one.attempt_guard(aim(1), now)];
    assert!(held.iter().all(Result::is_ok));
    assert_eq!(other.attempt_guard(aim(1), now).err(), Some(NoAttempt::Full));
    assert!(other.attempt_guard(aim(2), now).is_ok(), "another one has its own");
    drop(held);
    assert!(other.attempt_guard(aim(1), now).is_ok());
    assert!(one.is_empty() && other.is_empty());
}

#[test]
fn of_those_that_are_only_idle_some_are_kept() {
    let [one, _] = workers(10);
    let (now, count) = (Instant::now(), OpenCount::default());
    for n in 0..5000_u32 {
        let aim = Aim { address: (n.to_be_bytes(), 80).into(), secure: false };
        let attempt_guard = one.attempt_guard(aim, now).unwrap();
        let connection = Connection::new(WaitQueue(Rc::default()), now, &count);
        attempt_guard.pool.put(connection, &PoolPolicy::default(), Owner(0));
    }
    assert_eq!((one.len(), count.current()), (KEPT, KEPT));
}

#[test]
fn a_service_that_changes_keeps_its_counts_and_no_connection() {
    let service = |most| {
        let policy = DestinationPolicy { max_in_flight: most, sources: Arc::new([]) };
        Arc::new(Service { name: "sealed".into(), destinations: Some(policy), ..Service::default() })
    };
    let endpoint_sets = EndpointSets::new(1, Notifier::default());
    let draw = |most| endpoint_sets.update(&[service(most)], &Names::new()).remove(0);
    let before: ServiceState<WaitQueue> = ServiceState::new(draw(1), 0, None);
    let (old, now, count) = (before.destinations().unwrap(), Instant::now(), OpenCount::default());
    let connection = || Connection::new(WaitQueue(Rc::default()), now, &count);
    let idle = old.attempt_guard(aim(1), now).unwrap();
    idle.pool.put(connection(), &PoolPolicy::default(), Owner(0));
    drop(idle);
    let held = old.attempt_guard(aim(2), now).unwrap();
    let after: ServiceState<WaitQueue> = ServiceState::new(draw(2), 0, Some(&before));
    let new = after.destinations().unwrap();
    assert_eq!((old.len(), count.current()), (1, 0), "idle connections are closed");
    let other = new.attempt_guard(aim(2), now).unwrap();
    assert_eq!(new.attempt_guard(aim(2), now).err(), Some(NoAttempt::Full), "who visits still counts");
    held.pool.put(connection(), &PoolPolicy::default(), Owner(0));
    assert_eq!(count.current(), 0, "nothing is kept any more");
    drop(held);
    assert!(old.is_empty() && new.attempt_guard(aim(2), now).is_ok());
    drop(other);
}

#[test]
fn through_tls_is_another_endpoint_and_needs_terms() {
    let [one, _] = workers(3);
    let secure = Aim { secure: true, ..aim(1) };
    assert_eq!(one.attempt_guard(secure, Instant::now()).err(), Some(NoAttempt::NoTlsTerms));
    assert!(one.is_empty());
    assert_eq!(secure.to_string(), "https://192.0.2.1:80");
}

#[test]
fn a_directory_does_not_grow_by_what_was_let_go_of_without_a_word() {
    let directory = Directory::default();
    let standing = Arc::new(ServiceShared::new("s".into(), 1, Notifier::default()));
    for port in 1..=u16::MAX {
        let aim = Aim { address: ([192, 0, 2, 1], port).into(), secure: false };
        directory.find(aim, || {
            EndpointState::new(
                standing.clone(),
                (aim.to_string().into(), PeerAddress::Tcp(aim.address)),
                0,
                1,
            )
        });
    }
    let kept = directory.len();
    assert!(kept < 1000, "{kept}");
}
