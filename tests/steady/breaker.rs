//! A service whose breaker opens, and what is answered then: the worker judges it at each failure, without a word of
//! the control thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use thalweg_tests::upstream::ok;
use thalweg_tests::{Message, Upstream, Watchdog};
use thalweg_upstream::{BreakerPolicy, BreakerState, Service, StaticAnswer, Statuses, WhenDown};

use super::client::{Client, get};
use super::house::House;

/// More than any test takes.
const LONG: Duration = Duration::from_secs(90);
/// So short that it is over when one request has been refused.
const SHORT: Duration = Duration::from_millis(1);

/// An upstream that answers 500 while the switch is set.
fn failing(switch: &Arc<AtomicBool>) -> Upstream {
    let switch = switch.clone();
    Upstream::start(move |request| {
        let error = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
        Some(if switch.load(SeqCst) && request.target() != "/enlist" { error.to_vec() } else { ok("well") })
    })
}

fn guarded(service: &mut Service, open: Duration) {
    service.breaker = Some(BreakerPolicy { open, ..BreakerPolicy::default() });
    service.ejection.statuses = Statuses::new(vec![500..=599]);
}

fn ask(client: &mut Client, request: &str) -> Message {
    client.send(request);
    client.read().expect("the connection was closed")
}

/// Requests fail until the breaker opens, which it does with the last of those that it takes to judge.
fn trip(house: &House, client: &mut Client) {
    let endpoint_set = &house.fleet.endpoint_sets()[0];
    for _ in 0..20 {
        assert_eq!(ask(client, &get("/")).status(), 500);
        if endpoint_set.standing.breaker() == BreakerState::Open {
            return;
        }
    }
    panic!("twenty failures in a row have not opened the breaker");
}

fn page(house: &House) -> String {
    house.fleet.measure();
    house.registry.render()
}

#[test]
fn an_open_breaker_refuses_without_asking_the_endpoint_and_says_when_to_come_again() {
    let _watchdog = Watchdog::new("an open breaker refuses", LONG);
    let (down, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let counted = asked.clone();
    let upstream = Upstream::start(move |request| {
        counted.fetch_add(1, SeqCst);
        let is_down = down.load(SeqCst) && request.target() != "/enlist";
        let error = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
        Some(if is_down { error.to_vec() } else { ok("well") })
    });
    let house = House::of(upstream, Vec::new(), |service| guarded(service, LONG));
    let mut client = Client::open(house.address());
    trip(&house, &mut client);
    let before = asked.load(SeqCst);
    let answer = ask(&mut client, &get("/"));
    assert_eq!(answer.status(), 503);
    let words =
        "thalweg; error=destination_unavailable; details=\"the circuit breaker of the service is open\"";
    assert_eq!(answer.value("proxy-status"), Some(words));
    let after: u64 = answer.value("retry-after").unwrap().parse().unwrap();
    assert!((30..=90).contains(&after), "{after} s");
    assert_eq!(asked.load(SeqCst), before, "the endpoint was asked");
    let page = page(&house);
    assert!(page.contains("thalweg_breaker_state{service=\"s\"} 1\n"), "{page}");
    assert!(page.contains("thalweg_breaker_refused_total{service=\"s\"} 1\n"), "{page}");
}

#[test]
fn a_trial_that_fails_opens_it_again_and_three_that_are_answered_close_it() {
    let _watchdog = Watchdog::new("trials", LONG);
    let down = Arc::new(AtomicBool::new(true));
    let mut house = House::of(failing(&down), Vec::new(), |service| guarded(service, SHORT));
    let mut client = Client::open(house.address());
    trip(&house, &mut client);
    let state = |house: &House| house.fleet.endpoint_sets()[0].standing.breaker();
    let over = |house: &House| {
        assert_eq!(state(house), BreakerState::Open);
        let over = Instant::now() + SHORT * 2;
        while Instant::now() < over {
            std::thread::yield_now();
        }
    };
    over(&house);
    assert_eq!(ask(&mut client, &get("/")).status(), 500, "a trial");
    over(&house);
    down.store(false, SeqCst);
    for expected in [BreakerState::HalfOpen, BreakerState::HalfOpen, BreakerState::Closed] {
        assert_eq!(ask(&mut client, &get("/")).status(), 200);
        assert_eq!(state(&house), expected);
    }
    assert_eq!(
        house.fleet.endpoint_sets()[0].standing.judge(Instant::now()),
        None,
        "what failed is paid for"
    );
    let mut notices = Vec::new();
    while let Ok(notice) = house.notices.try_recv() {
        notices.push(notice.text);
    }
    assert_eq!(
        notices,
        [
            "service `s`: its breaker is open again: a trial failed",
            "service `s`: its breaker is closed: every trial was answered"
        ]
    );
}

#[test]
fn the_configured_answer_stands_in_for_the_proxys_own() {
    let _watchdog = Watchdog::new("the configured answer", LONG);
    let down = Arc::new(AtomicBool::new(true));
    let body = "please come again\n".repeat(3_640);
    assert!(body.len() > 65_500);
    let answer =
        StaticAnswer { status: 200, content_type: "text/x-words".into(), body: Arc::from(body.as_str()) };
    let house = House::of(failing(&down), Vec::new(), |service| {
        guarded(service, LONG);
        service.when_down = WhenDown::Answer(answer);
    });
    let mut client = Client::open(house.address());
    trip(&house, &mut client);
    let answer = ask(&mut client, &get("/"));
    assert_eq!((answer.status(), answer.text()), (200, body.clone()));
    assert_eq!(answer.value("content-type"), Some("text/x-words"));
    assert!(answer.value("proxy-status").unwrap().contains("error=destination_unavailable"));
    assert_eq!(answer.value("retry-after"), None);
    let fault = "thalweg_faults_total{fault=\"destination_unavailable\",side=\"upstream\"} 1\n";
    house.settles("the fault is counted", |house| house.registry.render().contains(fault));
    // The answer to HEAD has the length and no body: the next answer on the connection is whole.
    client.send(&get("/").replacen("GET", "HEAD", 1));
    client.send(&get("/"));
    let (head, next) = client.read_head();
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert!(next.is_empty() || next.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert_eq!(client.read().unwrap().text(), body);
}

#[test]
fn the_configured_answer_may_have_no_body_at_all() {
    let _watchdog = Watchdog::new("the configured answer without a body", LONG);
    let down = Arc::new(AtomicBool::new(true));
    let house = House::of(failing(&down), Vec::new(), |service| {
        guarded(service, LONG);
        service.when_down = WhenDown::Answer(StaticAnswer {
            status: 204,
            content_type: "text/plain".into(),
            body: "".into(),
        });
    });
    let mut client = Client::open(house.address());
    trip(&house, &mut client);
    for _ in 0..2 {
        let answer = ask(&mut client, &get("/"));
        assert_eq!(answer.status(), 204);
        assert_eq!((answer.value("content-length"), answer.value("content-type")), (None, None));
        assert!(answer.value("proxy-status").is_some());
    }
}
