//! What a call is told when the proxy has to answer in place of a service.

use std::thread;

use thalweg_tests::Frames;
use thalweg_tests::h2_frames::{END_HEADERS, HEADERS, frame, section};
use thalweg_tests::program::find_or_skip;

use super::{call, house, says, watchdog};
use crate::scenario::wait_counted;

#[test]
fn an_answer_of_the_proxys_own_is_a_status_and_nothing_else() {
    let _watchdog = watchdog("an_answer_of_the_proxys_own_is_a_status_and_nothing_else");
    let house = house(1, "", "defaults: { timeouts: { first_byte: 200ms } }");
    let Some(silent) = call(&house.proxy, "/shop.Cart/Add", &[], "message") else { return };
    assert!(says(&silent, "HTTP/2 200 ") && says(&silent, "content-type: application/grpc"), "{silent:?}");
    assert!(says(&silent, "grpc-status: 14"), "an endpoint that is late is no deadline: {silent:?}");
    assert!(says(&silent, "grpc-message: the endpoint did not begin its response in time"), "{silent:?}");
    wait_counted(&house.proxy, "thalweg_grpc_requests_total", "grpc_status=\"unavailable\"", 1);
}

#[test]
fn it_is_one_frame() {
    let _watchdog = watchdog("it_is_one_frame");
    let house = house(1, "", "defaults: { limits: { max_body: 8B } }");
    let mut client = Frames::open(house.proxy.web(), &[]);
    let call = [("content-type", "application/grpc"), ("te", "trailers"), ("content-length", "9")];
    client.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/a.B/C", &call)));
    let whole = client.until(|frame| (frame.kind == HEADERS).then(|| (frame.status(), frame.ends())));
    assert_eq!(whole, (Some(200), true));
    wait_counted(&house.proxy, "thalweg_grpc_requests_total", "grpc_status=\"resource_exhausted\"", 1);
}

#[test]
fn an_answer_that_breaks_off_ends_with_a_status() {
    let _watchdog = watchdog("an_answer_that_breaks_off_ends_with_a_status");
    let house = house(1, "", "");
    if find_or_skip("curl").is_none() {
        return;
    }
    let proxy = &house.proxy;
    let answer = thread::scope(|scope| {
        let client = scope.spawn(|| call(proxy, "/a.B/C", &[], "message"));
        let mut asked = house.asked();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
        asked.talk.send(format!("{head}5\r\n\0\0\0\0\0\r\n")).unwrap();
        drop(asked);
        client.join().unwrap().unwrap()
    });
    assert!(says(&answer, "HTTP/2 200 "), "{answer:?}");
    assert!(answer.stdout.contains("grpc-status: 14"), "{answer:?}");
    assert_eq!(answer.code, 0, "the stream ends in good order: {answer:?}");
    let log = house.proxy.stop().log;
    assert_eq!(
        (&log[0]["grpc_status"], &log[0]["fault"]),
        (&"unavailable".into(), &"http_response_incomplete".into())
    );
}
