//! The endpoint in a process of its own does what it is told: other scenarios rest on that.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use thalweg_tests::endpoint::{CHECK, Endpoint, Mood, PAUSE, PIECE, PIECES, TRICKLE};
use thalweg_tests::message::fetch;
use thalweg_tests::process::Signal;
use thalweg_tests::{STEP, Talk};

use super::watchdog;

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

fn start(name: &str) -> Endpoint {
    Endpoint::start(env!("CARGO_BIN_EXE_test-endpoint"), name)
}

fn answers(endpoint: &Endpoint, request: &str, status: u16, text: &str) {
    let answer = fetch(endpoint.address(), request).unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (status, text), "{request:?}");
}

fn refuses(endpoint: &Endpoint) {
    let error = TcpStream::connect_timeout(&endpoint.address(), STEP).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

/// The end of a conversation whose request gets no answer.
fn unanswered(endpoint: &Endpoint) -> Result<Vec<u8>, ErrorKind> {
    let mut talk = Talk::open(endpoint.address()).unwrap();
    talk.send(GET).unwrap();
    talk.rest().map_err(|error| error.kind())
}

#[test]
fn an_endpoint_does_what_it_is_told() {
    let _watchdog = watchdog("an_endpoint_does_what_it_is_told");
    let endpoint = start("one");
    answers(&endpoint, GET, 200, "one");
    answers(&endpoint, "HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n", 200, "");
    answers(&endpoint, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello", 200, "one");
    answers(
        &endpoint,
        "PUT / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        200,
        "one",
    );
    assert_eq!(endpoint.count(), 4);

    endpoint.tell(Mood::Status(500));
    answers(&endpoint, GET, 500, "one");
    let (delay, begin) = (Duration::from_millis(300), Instant::now());
    endpoint.tell(Mood::Slow(delay));
    answers(&endpoint, GET, 200, "one");
    assert!(begin.elapsed() >= delay, "it was not slow");
    endpoint.tell(Mood::Reset);
    assert_eq!(unanswered(&endpoint), Err(ErrorKind::ConnectionReset));
    endpoint.tell(Mood::HalfClose);
    assert_eq!(unanswered(&endpoint), Ok(Vec::new()));
    assert_eq!(endpoint.count(), 8);
}

#[test]
fn an_endpoint_that_refuses_has_no_connection_left_until_it_is_well_again() {
    let _watchdog = watchdog("an_endpoint_that_refuses_has_no_connection_left_until_it_is_well_again");
    let endpoint = start("two");
    let mut kept = Talk::open(endpoint.address()).unwrap();
    kept.send(GET).unwrap();
    let head = kept.head().unwrap();
    assert_eq!(kept.body(&head).each(|_| {}).unwrap(), 3);
    for _ in 0..3 {
        endpoint.tell(Mood::Refuse);
        refuses(&endpoint);
        kept.assert_ends("kept from before");
        endpoint.tell(Mood::Ok);
        answers(&endpoint, GET, 200, "two");
    }
    assert_eq!(endpoint.count(), 4);
}

#[test]
fn an_endpoint_that_was_killed_comes_back_at_its_address() {
    let _watchdog = watchdog("an_endpoint_that_was_killed_comes_back_at_its_address");
    let mut endpoint = start("three");
    for _ in 0..3 {
        answers(&endpoint, GET, 200, "three");
        endpoint.process().signal(Signal::KILL);
        endpoint.process().wait_exit(STEP);
        refuses(&endpoint);
        endpoint.restart();
        assert_eq!(endpoint.count(), 0);
    }
    answers(&endpoint, GET, 200, "three");
}

#[test]
fn a_frozen_endpoint_accepts_and_answers_when_it_goes_on() {
    let _watchdog = watchdog("a_frozen_endpoint_accepts_and_answers_when_it_goes_on");
    let endpoint = start("four");
    super::freeze(endpoint.process());
    let mut talk = Talk::open(endpoint.address()).unwrap();
    talk.send(GET).unwrap();
    talk.stream().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let nothing = talk.head().unwrap_err().kind();
    assert!(matches!(nothing, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing}");
    endpoint.process().signal(Signal::CONT);
    talk.stream().set_read_timeout(Some(STEP)).unwrap();
    assert_eq!(talk.head().unwrap().status(), 200);
    assert_eq!(endpoint.count(), 1);
}

#[test]
fn an_endpoint_tells_checks_from_requests_and_counts_over_all_its_lives() {
    let _watchdog = watchdog("an_endpoint_tells_checks_from_requests_and_counts_over_all_its_lives");
    let mut endpoint = start("five");
    let check = GET.replace("/ ", &format!("{CHECK} "));
    endpoint.tell_requests(Mood::Status(500));
    answers(&endpoint, GET, 500, "five");
    answers(&endpoint, &check, 200, "five");
    endpoint.tell(Mood::Status(503));
    answers(&endpoint, &check, 503, "five");
    assert_eq!((endpoint.count(), endpoint.checks(), endpoint.total()), (1, 2, 1));
    endpoint.restart();
    let put = "PUT / HTTP/1.1\r\nHost: a.test\r\nX-Id: 7\r\nContent-Length: 2\r\n\r\nhi";
    answers(&endpoint, put, 200, "five 7 hi");
    assert_eq!((endpoint.count(), endpoint.total()), (1, 2));
    endpoint.kill();
    assert_eq!(endpoint.total(), 2);
}

#[test]
fn an_answer_that_trickles_comes_in_pieces() {
    let _watchdog = watchdog("an_answer_that_trickles_comes_in_pieces");
    let (endpoint, begun) = (start("six"), Instant::now());
    let answer = fetch(endpoint.address(), &GET.replace("/ ", &format!("{TRICKLE} "))).unwrap();
    assert!(begun.elapsed() >= PAUSE * (PIECES - 1) as u32, "it came at once");
    assert_eq!((answer.body.len(), answer.value("x-endpoint")), (PIECES * PIECE, Some("six")));
}
