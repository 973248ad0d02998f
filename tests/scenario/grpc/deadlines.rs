//! `grpc-timeout`: a call has no more time than its client gives it, and what is left of it goes on.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::Talk;
use thalweg_tests::program::find_or_skip;

use super::{call, house, says, watchdog};
use crate::scenario::wait_counted;

/// A timeout in microseconds, as the proxy writes it here.
fn micros(value: Option<&str>) -> u64 {
    value.and_then(|value| value.strip_suffix('u')).expect("microseconds").parse().unwrap()
}

#[test]
fn a_call_ends_when_its_time_is_over_and_nobody_else_is_blamed() {
    let _watchdog = watchdog("a_call_ends_when_its_time_is_over_and_nobody_else_is_blamed");
    let house = house(1, "ejection: { consecutive: 1 }", "");
    if find_or_skip("curl").is_none() {
        return;
    }
    for _ in 0..2 {
        let began = Instant::now();
        let proxy = &house.proxy;
        let answer = thread::scope(|scope| {
            let client = scope.spawn(|| call(proxy, "/a.B/C", &["grpc-timeout: 300m"], "message"));
            let mut asked = house.asked();
            assert!(micros(asked.head.value("grpc-timeout")) <= 300_000);
            // It is told that nobody waits any more.
            asked.talk.assert_ends("the attempt of a call whose time is over");
            client.join().unwrap().unwrap()
        });
        assert!(began.elapsed() >= Duration::from_millis(300));
        assert!(says(&answer, "HTTP/2 200 ") && says(&answer, "grpc-status: 4"), "{answer:?}");
    }
}

#[test]
fn a_stream_of_messages_ends_when_its_time_is_over() {
    let _watchdog = watchdog("a_stream_of_messages_ends_when_its_time_is_over");
    let house = house(1, "", "");
    if find_or_skip("curl").is_none() {
        return;
    }
    let proxy = &house.proxy;
    let answer = thread::scope(|scope| {
        let client = scope.spawn(|| call(proxy, "/a.B/C", &["grpc-timeout: 500m"], "message"));
        let mut asked = house.asked();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
        asked.talk.send(format!("{head}5\r\n\0\0\0\0\0\r\n")).unwrap();
        asked.talk.assert_ends("the attempt of a call whose time is over");
        client.join().unwrap().unwrap()
    });
    assert!(answer.stdout.contains("grpc-status: 4\r\n"), "{answer:?}");
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn the_time_of_the_route_holds_where_it_is_shorter() {
    let _watchdog = watchdog("the_time_of_the_route_holds_where_it_is_shorter");
    let house = house(1, "", "defaults: { timeouts: { request: 300ms } }");
    if find_or_skip("curl").is_none() {
        return;
    }
    let proxy = &house.proxy;
    let answer = thread::scope(|scope| {
        let client = scope.spawn(|| call(proxy, "/a.B/C", &["grpc-timeout: 1H"], "message"));
        let mut asked = house.asked();
        assert!(micros(asked.head.value("grpc-timeout")) <= 300_000);
        asked.talk.assert_ends("the attempt of a call whose time is over");
        client.join().unwrap().unwrap()
    });
    assert!(says(&answer, "grpc-status: 4"), "{answer:?}");
    let log = house.proxy.stop().log;
    assert_eq!(
        (&log[0]["grpc_status"], &log[0]["fault"]),
        (&"deadline_exceeded".into(), &"http_response_timeout".into())
    );
}

#[test]
fn what_a_wait_has_taken_is_not_passed_on() {
    let _watchdog = watchdog("what_a_wait_has_taken_is_not_passed_on");
    let house = house(1, "limits: { max_in_flight: 1 }", "");
    if find_or_skip("curl").is_none() {
        return;
    }
    let proxy = &house.proxy;
    thread::scope(|scope| {
        let first = scope.spawn(|| call(proxy, "/a.B/C", &[], "message"));
        let mut asked = house.asked();
        let second = scope.spawn(|| call(proxy, "/a.B/C", &["grpc-timeout: 10S"], "message"));
        wait_counted(proxy, "thalweg_service_requests_queued", "service=\"s\"", 1);
        let waits = Instant::now();
        while waits.elapsed() < Duration::from_millis(100) {
            thread::yield_now();
        }
        let waited = micros(Some(&format!("{}u", waits.elapsed().as_micros())));
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: 0\r\nContent-Length: 0\r\n";
        asked.talk.send(format!("{head}Connection: close\r\n\r\n")).unwrap();
        let mut asked = house.asked();
        let left = micros(asked.head.value("grpc-timeout"));
        assert!(left > 0 && left <= 10_000_000 - waited, "{left} left after {waited}");
        asked.talk.send(format!("{head}\r\n")).unwrap();
        for client in [first, second] {
            let answer = client.join().unwrap().unwrap();
            assert!(says(&answer, "grpc-status: 0"), "{answer:?}");
        }
    });
}

#[test]
fn a_stream_that_never_pauses_ends_when_its_time_is_over() {
    let _watchdog = watchdog("a_stream_that_never_pauses_ends_when_its_time_is_over");
    let house = house(1, "", "");
    if find_or_skip("curl").is_none() {
        return;
    }
    let proxy = &house.proxy;
    let answer = thread::scope(|scope| {
        let client = scope.spawn(|| call(proxy, "/a.B/C", &["grpc-timeout: 500m"], "message"));
        let mut asked = house.asked();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
        asked.talk.send(head).unwrap();
        // The pace of the messages: each puts off what waits for silence.
        while asked.talk.send("5\r\n\0\0\0\0\0\r\n").is_ok() {
            thread::sleep(Duration::from_millis(2));
        }
        client.join().unwrap().unwrap()
    });
    assert!(answer.stdout.contains("grpc-status: 4\r\n"), "{answer:?}");
}

#[test]
fn a_body_that_never_pauses_ends_when_the_time_of_the_route_is_over() {
    let _watchdog = watchdog("a_body_that_never_pauses_ends_when_the_time_of_the_route_is_over");
    let house = house(1, "", "defaults: { timeouts: { request: 300ms } }");
    let mut client = Talk::open(house.proxy.web()).unwrap();
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut asked = house.asked();
    let mut writer = client.writer().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && writer.write_all(b"1\r\nx\r\n").is_ok() {
                thread::sleep(Duration::from_millis(2));
            }
        });
        let status = client.head().map(|head| head.status());
        // The writer's handle would keep the connection for as long as the proxy lets it linger.
        over.store(true, Ordering::Relaxed);
        assert_eq!(status.unwrap(), 408);
        asked.talk.assert_ends("the attempt of an exchange whose time is over");
    });
}
