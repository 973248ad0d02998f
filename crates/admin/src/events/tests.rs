//! Numbers, replay, bounds, waking.

use std::time::SystemTime;

use thalweg_core::{EndpointCondition, EndpointSnapshot, EventKind};

use super::*;

/// An event about an endpoint, without states of endpoints.
pub(crate) fn event(cause: &str) -> Event {
    Event {
        at: SystemTime::UNIX_EPOCH,
        kind: EventKind::EndpointDown,
        service: Some("shop".into()),
        endpoint: Some("http://10.0.0.1:80".into()),
        cause: cause.into(),
        endpoints: Default::default(),
    }
}

/// The event with the states of `endpoints` endpoints.
pub(crate) fn with_endpoints(event: Event, endpoints: usize) -> Event {
    let state =
        EndpointSnapshot { url: "http://10.0.0.1:80".into(), weight: 1, state: EndpointCondition::Ready };
    Event { endpoints: vec![state; endpoints].into(), ..event }
}

/// Everything a subscription has to say now, as `id` or `-missed`.
fn drain(subscription: &mut Subscription) -> Vec<i64> {
    let number = |heard| match heard {
        Heard::Event(published) => published.id as i64,
        Heard::Missed(missed) => -(missed as i64),
    };
    std::iter::from_fn(|| subscription.try_next()).map(number).collect()
}

#[test]
fn events_are_numbered_from_one_and_heard_from_the_subscription_on() {
    let events = Events::new();
    let mut first = events.subscribe();
    events.publish(event("a"));
    events.publish(event("b"));
    let mut second = events.clone().subscribe();
    events.publish(event("c"));
    assert_eq!((drain(&mut first), drain(&mut second)), (vec![1, 2, 3], vec![3]));
    assert_eq!(drain(&mut first), Vec::<i64>::new());
}

#[test]
fn kept_events_are_replayed_after_a_number() {
    let events = Events::new();
    assert_eq!(drain(&mut events.subscribe_after(0)), Vec::<i64>::new());
    (0..5).for_each(|_| events.publish(event("x")));
    assert_eq!(drain(&mut events.subscribe_after(0)), [1, 2, 3, 4, 5]);
    assert_eq!(drain(&mut events.subscribe_after(3)), [4, 5]);
    assert_eq!(drain(&mut events.subscribe_after(5)), Vec::<i64>::new());
}

#[test]
fn a_number_of_an_earlier_process_brings_everything() {
    let events = Events::new();
    events.publish(event("a"));
    assert_eq!(drain(&mut events.subscribe_after(700)), [1]);
    assert_eq!(drain(&mut events.subscribe_after(u64::MAX)), [1]);
}

#[test]
fn who_is_too_slow_is_told_how_many_events_are_gone() {
    let events = Events::new();
    let mut slow = events.subscribe();
    (0..KEPT as i64 + 10).for_each(|_| events.publish(event("x")));
    let heard = drain(&mut slow);
    assert_eq!((heard.len(), heard[0], heard[1]), (KEPT + 1, -10, 11));
    assert_eq!(heard.last(), Some(&(KEPT as i64 + 10)));
    assert_eq!(drain(&mut events.subscribe_after(4))[..2], [-6, 11]);
}

#[test]
fn events_with_many_endpoints_are_kept_in_smaller_numbers() {
    let events = Events::new();
    let mut slow = events.subscribe();
    events.publish(event("small"));
    events.publish(with_endpoints(event("half"), KEPT_ENDPOINTS / 2));
    events.publish(with_endpoints(event("half"), KEPT_ENDPOINTS / 2));
    assert_eq!(drain(&mut events.subscribe_after(0)), [1, 2, 3]);
    events.publish(with_endpoints(event("one more"), 1));
    assert_eq!(drain(&mut events.subscribe_after(0)), [-2, 3, 4]);
    events.publish(with_endpoints(event("too large, but the newest"), KEPT_ENDPOINTS + 1));
    assert_eq!(drain(&mut slow), [-4, 5]);
}

#[tokio::test]
async fn waiting_subscribers_are_woken_from_any_thread() {
    let events = Events::new();
    let mut subscription = events.subscribe();
    let publisher = std::thread::spawn({
        let events = events.clone();
        move || (0..100).for_each(|_| events.publish(event("x")))
    });
    for id in 1..=100 {
        match subscription.next().await {
            Heard::Event(published) => assert_eq!(published.id, id),
            Heard::Missed(missed) => panic!("missed {missed}"),
        }
    }
    publisher.join().unwrap();
}

#[tokio::test]
async fn nothing_is_lost_when_a_waiting_future_is_dropped() {
    let events = Events::new();
    let mut subscription = events.subscribe();
    tokio::select! {
        biased;
        _ = subscription.next() => panic!("nothing has happened"),
        () = async { events.publish(event("x")) } => {}
    }
    assert!(matches!(subscription.next().await, Heard::Event(published) if published.id == 1));
}

#[test]
fn publishers_on_many_threads_get_numbers_without_a_gap() {
    let events = Events::new();
    let mut subscription = events.subscribe();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..KEPT / 4).for_each(|_| events.publish(event("x"))));
        }
    });
    assert_eq!(drain(&mut subscription), (1..=KEPT as i64).collect::<Vec<_>>());
}
