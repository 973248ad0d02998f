//! MultiplexedPool without a network: who gets a stream, who opens a connection, who waits.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Wake;
use std::time::Duration;
use thalweg_core::FaultKind;
use thalweg_net::Owner;

#[derive(Debug)]
struct Nothing;

impl Wire for Nothing {
    type DetachedSocket = ();

    fn is_spent(&self) -> bool {
        false
    }

    fn is_quiet(&self) -> bool {
        true
    }

    fn set_owner(&self, _: Owner) {}

    fn set_deadline(&self, _: Option<Duration>) {}

    fn rest(&self, _: bool) {}

    fn loosen(self) {}
}

#[derive(Debug, Default)]
struct Simulated {
    room: Cell<usize>,
    under_way: Cell<usize>,
    over: Cell<bool>,
}

impl Multiplexed<Nothing> for Simulated {
    fn open(&self) -> Option<Nothing> {
        self.has_room().then(|| {
            self.room.set(self.room.get() - 1);
            self.under_way.set(self.under_way.get() + 1);
            Nothing
        })
    }

    fn has_room(&self) -> bool {
        !self.over.get() && self.room.get() > 0
    }

    fn is_over(&self) -> bool {
        self.over.get()
    }

    fn is_idle(&self) -> bool {
        self.under_way.get() == 0
    }

    fn leave(&self) {
        self.over.set(true);
    }
}

#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn multiplexed(room: usize) -> Rc<Simulated> {
    Rc::new(Simulated { room: Cell::new(room), ..Simulated::default() })
}

/// One that waits, and how often it was called.
fn waiter(line: &Rc<StreamLine>) -> (Waiting, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let mut waiting = line.join();
    let waker = Waker::from(calls.clone());
    assert!(waiting.poll(&mut Context::from_waker(&waker)).is_pending());
    (waiting, calls)
}

fn calls(of: &Calls) -> usize {
    of.0.load(SeqCst)
}

#[test]
fn the_first_with_room_takes_the_next_request() {
    let (multiplexed_pool, now, policy) =
        (MultiplexedPool::<Nothing>::default(), Instant::now(), PoolPolicy::default());
    assert!(
        multiplexed_pool.take(&policy, now, false).is_none()
            && multiplexed_pool.is_empty()
            && !multiplexed_pool.has_room()
    );
    let (first, second) = (multiplexed(2), multiplexed(2));
    multiplexed_pool.add(first.clone(), now);
    multiplexed_pool.add(second.clone(), now);
    let taken: Vec<_> = (0..4).map_while(|_| multiplexed_pool.take(&policy, now, false)).collect();
    let requests: Vec<_> = taken.iter().map(|connection| connection.requests).collect();
    assert_eq!(requests, [0, 1, 0, 1]);
    assert!(
        multiplexed_pool.take(&policy, now, false).is_none()
            && !multiplexed_pool.has_room()
            && !multiplexed_pool.is_empty()
    );
    assert_eq!(multiplexed_pool.speaks(), Some(Speaks::Http2));
    first.leave();
    second.leave();
    assert!(multiplexed_pool.is_empty());
}

#[test]
fn what_is_old_or_has_carried_enough_takes_no_more() {
    let now = Instant::now();
    let policy = PoolPolicy { max_requests: 2, max_age: Duration::from_secs(10), ..PoolPolicy::default() };
    let multiplexed_pool = MultiplexedPool::<Nothing>::default();
    let (used, old) = (multiplexed(9), multiplexed(9));
    multiplexed_pool.add(used.clone(), now);
    assert!((0..2).all(|_| multiplexed_pool.take(&policy, now, false).is_some()));
    assert!(multiplexed_pool.take(&policy, now, false).is_none() && used.is_over());
    multiplexed_pool.add(old.clone(), now);
    assert!(multiplexed_pool.take(&policy, now + Duration::from_secs(11), false).is_none() && old.is_over());
}

#[test]
fn nobody_overtakes_who_waits() {
    let (multiplexed_pool, now, policy) =
        (MultiplexedPool::<Nothing>::default(), Instant::now(), PoolPolicy::default());
    let busy = multiplexed(0);
    multiplexed_pool.add(busy.clone(), now);
    let (waiting, called) = waiter(multiplexed_pool.line());
    busy.room.set(1);
    assert!(
        multiplexed_pool.take(&policy, now, false).is_none() && !multiplexed_pool.has_room(),
        "somebody stands before"
    );
    multiplexed_pool.line().wake(1);
    assert_eq!(calls(&called), 1);
    assert!(multiplexed_pool.take(&policy, now, true).is_some());
    waiting.served();
}

#[test]
fn a_call_that_is_not_used_goes_to_the_next() {
    let multiplexed_pool = MultiplexedPool::<Nothing>::default();
    let [(first, one), (second, two), (_third, three)] = [(); 3].map(|()| waiter(multiplexed_pool.line()));
    drop(second);
    multiplexed_pool.line().wake(1);
    assert_eq!((calls(&one), calls(&two), calls(&three)), (1, 0, 0));
    drop(first);
    assert_eq!((calls(&two), calls(&three)), (0, 1), "who has left is not called");
    assert!(multiplexed_pool.line().is_empty());
}

#[test]
fn who_opens_one_calls_the_others() {
    let (multiplexed_pool, now) = (MultiplexedPool::<Nothing>::default(), Instant::now());
    let opening = multiplexed_pool.begin_opening();
    assert!(multiplexed_pool.is_opening());
    let (first, one) = waiter(multiplexed_pool.line());
    let (_second, two) = waiter(multiplexed_pool.line());
    // It leaves: the next one is to try.
    drop(opening);
    assert_eq!((multiplexed_pool.is_opening(), calls(&one), calls(&two)), (false, 1, 0));
    first.served();
    let before = multiplexed_pool.failures();
    let fault = Fault::new(FaultKind::ConnectionRefused, "a test");
    multiplexed_pool.begin_opening().fail(fault);
    assert_eq!(
        (calls(&two), multiplexed_pool.failed_since(before)),
        (1, Some(fault)),
        "it has failed for all"
    );
    assert_eq!(multiplexed_pool.failed_since(multiplexed_pool.failures()), None);
    let (_third, three) = waiter(multiplexed_pool.line());
    let opening = multiplexed_pool.begin_opening();
    multiplexed_pool.add(multiplexed(1), now);
    drop(opening);
    assert_eq!(calls(&three), 1);
}

#[test]
fn an_idle_one_makes_room_and_a_busy_one_does_not() {
    let (multiplexed_pool, now, policy) =
        (MultiplexedPool::<Nothing>::default(), Instant::now(), PoolPolicy::default());
    let (busy, idle) = (multiplexed(5), multiplexed(5));
    multiplexed_pool.add(busy.clone(), now);
    let taken = multiplexed_pool.take(&policy, now, false);
    assert!(taken.is_some() && multiplexed_pool.idle() == 0 && !multiplexed_pool.evict());
    multiplexed_pool.add(idle.clone(), now);
    assert_eq!(multiplexed_pool.idle(), 1);
    assert!(multiplexed_pool.evict() && idle.is_over() && !busy.is_over() && !multiplexed_pool.evict());
    multiplexed_pool.close();
    assert!(busy.is_over());
}
