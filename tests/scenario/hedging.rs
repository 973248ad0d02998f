//! Hedging: a copy of a request that is slow to be answered goes to another endpoint, and the first response wins.

use std::time::{Duration, Instant};

use thalweg_tests::message::get;
use thalweg_tests::vitals::sum;
use thalweg_tests::{Bare, Noise, Proxy, STEP, Talk, Upstream, Vitals};

use super::scripted::{Asked, GET, House, OK, response};
use super::{config, wait_counted, watchdog};

const AFTER: Duration = Duration::from_millis(150);
/// Every request may be copied.
const HEDGE: &str = "retry: { attempts: 2, hedge: { after: 150ms, budget: 100% } }";

fn saying(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A request that is under way to two endpoints.
fn hedged(house: &House, request: &str) -> (Talk, Asked, Asked) {
    let client = house.client(request);
    let (first, second) = (house.asked(), house.asked());
    assert_ne!(first.port, second.port, "both copies went to one endpoint");
    (client, first, second)
}

/// Waits until the proxy keeps so many idle connections.
fn wait_idle(house: &House, expected: u64) {
    let end = Instant::now() + STEP;
    loop {
        let text = get(house.proxy.metrics(), "/metrics").unwrap().text();
        let idle = sum(&text, "thalweg_upstream_connections_idle");
        if idle == expected {
            return;
        }
        assert!(Instant::now() < end, "{idle} idle connections, not {expected}");
    }
}

#[test]
fn another_endpoint_answers_for_one_that_is_slow() {
    let _watchdog = watchdog("another_endpoint_answers_for_one_that_is_slow");
    let house = House::start(2, HEDGE, "");
    let began = Instant::now();
    let (mut client, mut slow, mut second) = hedged(&house, GET);
    assert!(began.elapsed() >= AFTER, "{:?}", began.elapsed());
    assert_eq!(slow.head.value("x-request-id"), second.head.value("x-request-id"));
    second.talk.send(saying("second")).unwrap();
    assert_eq!(response(&mut client).1, b"second");
    slow.talk.assert_ends("the one that lost");
    let port = second.port.to_string();
    wait_counted(&house.proxy, "thalweg_upstream_hedges_total", &port, 1);
    wait_counted(&house.proxy, "thalweg_upstream_hedges_won_total", &port, 1);
    wait_counted(&house.proxy, "thalweg_upstream_requests_total", "\"s\"", 2);
    wait_counted(&house.proxy, "thalweg_upstream_retries_total", "\"s\"", 0);
    wait_idle(&house, 1);
    let log = house.proxy.stop().log;
    assert_eq!((log[0]["attempts"].as_u64(), log[0]["status"].as_u64()), (Some(2), Some(200)), "{log:?}");
    assert!(log[0]["endpoint"].as_str().unwrap().ends_with(&port), "{log:?}");
    assert!(log[0]["fault"].is_null(), "{log:?}");
}

#[test]
fn the_one_that_was_slow_may_still_win() {
    let _watchdog = watchdog("the_one_that_was_slow_may_still_win");
    let house = House::start(2, HEDGE, "");
    let (mut client, mut first, mut second) = hedged(&house, GET);
    first.talk.send(saying("first")).unwrap();
    assert_eq!(response(&mut client).1, b"first");
    second.talk.assert_ends("the copy that lost");
    wait_counted(&house.proxy, "thalweg_upstream_hedges_won_total", "\"s\"", 0);
    wait_idle(&house, 1);
    let log = house.proxy.stop().log;
    assert_eq!(log[0]["attempts"], 2, "{log:?}");
    assert!(log[0]["endpoint"].as_str().unwrap().ends_with(&first.port.to_string()), "{log:?}");
}

#[test]
fn a_head_that_does_not_come_to_its_end_wins_nothing() {
    let _watchdog = watchdog("a_head_that_does_not_come_to_its_end_wins_nothing");
    let house = House::start(2, HEDGE, "");
    for _ in 0..2 {
        let (mut client, mut first, mut second) = hedged(&house, GET);
        let (mut half, mut whole) = (saying("half").into_bytes(), saying("whole"));
        half.truncate(20);
        // Read in turn with the other's, byte by byte.
        for byte in &half {
            first.talk.send([*byte]).unwrap();
        }
        for byte in &whole.as_bytes()[..30] {
            second.talk.send([*byte]).unwrap();
        }
        let rest = whole.split_off(30);
        second.talk.send(rest).unwrap();
        assert_eq!(response(&mut client).1, b"whole");
        first.talk.assert_ends("the one that lost");
    }
}

#[test]
fn when_one_breaks_off_the_other_goes_on() {
    let _watchdog = watchdog("when_one_breaks_off_the_other_goes_on");
    for first_breaks in [true, false] {
        for reset in [true, false] {
            let house = House::start(2, HEDGE, "");
            let (mut client, first, second) = hedged(&house, GET);
            let both = Vitals::of(&house.proxy);
            let (breaks, mut stays) = if first_breaks { (first, second) } else { (second, first) };
            if reset {
                breaks.talk.reset();
            } else {
                drop(breaks);
            }
            Vitals { descriptors: both.descriptors - 1, ..both }.wait_for(&house.proxy, "one has broken off");
            stays.talk.send(saying("stays")).unwrap();
            assert_eq!(response(&mut client).1, b"stays", "{first_breaks} {reset}");
            assert!(house.is_quiet(), "a third attempt");
            let log = house.proxy.stop().log;
            assert_eq!(log[0]["attempts"], 2, "{log:?}");
            assert!(log[0]["fault"].is_null(), "{log:?}");
            assert!(log[0]["endpoint"].as_str().unwrap().ends_with(&stays.port.to_string()), "{log:?}");
        }
    }
}

#[test]
fn only_when_both_have_failed_is_it_a_fault() {
    let _watchdog = watchdog("only_when_both_have_failed_is_it_a_fault");
    let house = House::start(2, HEDGE, "");
    let (mut client, first, second) = hedged(&house, GET);
    drop((first, second));
    let head = client.head().unwrap();
    assert_eq!(head.status(), 502, "{head:?}");
    assert!(head.value("proxy-status").unwrap().contains("connection_terminated"), "{head:?}");
    assert!(house.is_quiet(), "a third attempt");
    assert_eq!(house.proxy.stop().log[0]["attempts"], 2);
}

#[test]
fn when_both_have_failed_a_third_endpoint_is_asked() {
    let _watchdog = watchdog("when_both_have_failed_a_third_endpoint_is_asked");
    let house = House::start(3, &HEDGE.replace("attempts: 2", "attempts: 3, budget: 100%"), "");
    let (mut client, first, second) = hedged(&house, GET);
    let before = [first.port, second.port];
    drop((first, second));
    let mut third = house.asked();
    assert!(!before.contains(&third.port), "one that has failed is asked again");
    third.talk.send(saying("third")).unwrap();
    assert_eq!(response(&mut client).1, b"third");
    assert_eq!(house.proxy.stop().log[0]["attempts"], 3);
}

#[test]
fn a_copy_that_is_refused_costs_nothing() {
    let _watchdog = watchdog("a_copy_that_is_refused_costs_nothing");
    let gone = Upstream::saying("x").url();
    let slow = Bare::start(|talk| {
        loop {
            talk.head()?;
            std::thread::sleep(AFTER * 3); // What the endpoint does with its time.
            talk.send(saying("slow"))?;
        }
    });
    let config = config(&[&gone, &slow.url()], "");
    let proxy = Proxy::start(&config.replace("services: { s: {", &format!("services: {{ s: {{ {HEDGE},")));
    for _ in 0..4 {
        let answer = get(proxy.web(), "/").unwrap();
        assert_eq!((answer.status(), answer.text()), (200, "slow".into()));
    }
    let log = proxy.stop().log;
    assert!(log.iter().all(|record| record["endpoint"] == slow.url()), "{log:?}");
}

#[test]
fn a_status_that_calls_for_another_attempt_waits_for_the_other_copy() {
    let _watchdog = watchdog("a_status_that_calls_for_another_attempt_waits_for_the_other_copy");
    let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
    // Of retries there is no budget: the other copy is there already.
    let retry =
        HEDGE.replace("attempts: 2", "attempts: 2, statuses: [ 503 ], budget: 0%, min_retries_per_second: 0");
    for first_is_busy in [true, false] {
        let house = House::start(2, &retry, "");
        let (mut client, mut first, mut second) = hedged(&house, GET);
        let (refuses, answers) =
            if first_is_busy { (&mut first, &mut second) } else { (&mut second, &mut first) };
        refuses.talk.send(busy).unwrap();
        refuses.talk.assert_ends("the one that was busy");
        answers.talk.send(OK).unwrap();
        assert_eq!(response(&mut client).0.status(), 200);
    }

    let house = House::start(2, &retry, "");
    let (mut client, mut first, mut second) = hedged(&house, GET);
    first.talk.send(busy).unwrap();
    first.talk.assert_ends("the one that was busy first");
    second.talk.send(busy.replace("busy", "last")).unwrap();
    let (head, body) = response(&mut client);
    assert_eq!((head.status(), &body[..]), (503, &b"last"[..]), "both are busy");
}

#[test]
fn an_interim_response_decides() {
    let _watchdog = watchdog("an_interim_response_decides");
    let house = House::start(2, HEDGE, "");
    for first_hints in [true, false] {
        let (mut client, mut first, mut second) = hedged(&house, GET);
        let (hints, waits) = if first_hints { (&mut first, &mut second) } else { (&mut second, &mut first) };
        hints.talk.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n").unwrap();
        assert_eq!(client.head().unwrap().status(), 103);
        waits.talk.assert_ends("the one that has said nothing");
        hints.talk.send(saying("hinted")).unwrap();
        assert_eq!(response(&mut client).1, b"hinted");
    }
}

#[test]
fn what_may_not_be_sent_twice_is_not_copied() {
    let _watchdog = watchdog("what_may_not_be_sent_twice_is_not_copied");
    let large = Noise::new(5).take(200 * 1024);
    let put = format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", large.len());
    let upgrade = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi";
    // Who is not asked beside the first is asked in its place only when its time is over.
    let house = House::start(2, &HEDGE.replace("attempts: 2", "attempts: 2, per_try_timeout: 600ms"), "");
    for (name, head, body) in [("post", post, &[][..]), ("large", &put, &large), ("upgrade", upgrade, &[])] {
        let began = Instant::now();
        let mut client = house.client(head);
        client.send(body).unwrap();
        let mut asked = house.asked();
        if name == "large" {
            assert!(asked.body() == large);
        }
        if name == "upgrade" {
            // A GET that may be tried again: not before its time.
            let mut second = house.asked();
            assert!(began.elapsed() >= AFTER * 3, "copied after {:?}", began.elapsed());
            asked.talk.assert_ends("the attempt that is over");
            second.talk.send(OK).unwrap();
            assert_eq!(response(&mut client).0.status(), 200);
        } else {
            assert_eq!(client.head().unwrap().status(), 504, "{name}");
            assert!(house.is_quiet(), "{name} was copied");
        }
    }
    wait_counted(&house.proxy, "thalweg_upstream_hedges_total", "\"s\"", 0);
}

#[test]
fn a_body_goes_to_both_whole() {
    let _watchdog = watchdog("a_body_goes_to_both_whole");
    let house = House::start(2, HEDGE, "");
    let body = Noise::new(6).take(20 * 1024);
    let framed = [
        (format!("Content-Length: {}", body.len()), body.clone()),
        ("Transfer-Encoding: chunked".into(), {
            let mut chunks = thalweg_tests::talk::chunk(&body[..7000]);
            chunks.extend(thalweg_tests::talk::chunk(&body[7000..]));
            chunks.extend(b"0\r\n\r\n");
            chunks
        }),
    ];
    for (field, sent) in framed {
        let mut client = house.client(&format!("PUT / HTTP/1.1\r\nHost: a.test\r\n{field}\r\n\r\n"));
        client.send(&sent).unwrap();
        let mut first = house.asked();
        assert!(first.body() == body, "{field}: the first got something else");
        let mut second = house.asked();
        assert!(second.body() == body, "{field}: the second got something else");
        second.talk.send(OK).unwrap();
        assert_eq!(response(&mut client).0.status(), 200);
        first.talk.assert_ends("the one that lost");
    }
}

#[test]
fn a_client_that_leaves_ends_both() {
    let _watchdog = watchdog("a_client_that_leaves_ends_both");
    let house = House::start(2, HEDGE, "");
    let before = Vitals::of(&house.proxy);
    for reset in [true, false] {
        let (client, mut first, mut second) = hedged(&house, GET);
        if reset {
            client.reset();
        } else {
            drop(client);
        }
        first.talk.assert_ends("the first");
        second.talk.assert_ends("the second");
    }
    before.wait_for(&house.proxy, "clients that left");
    wait_idle(&house, 0);
    let log = house.proxy.stop().log;
    assert!(log.iter().all(|record| record["status"] == 499), "{log:?}");
}

#[test]
fn deadlines_hold_for_both() {
    let _watchdog = watchdog("deadlines_hold_for_both");
    let per_try_timeout = HEDGE.replace("attempts: 2", "attempts: 2, per_try_timeout: 1s");
    for (retry, more) in [
        (&*per_try_timeout, ""),
        (HEDGE, "defaults: { timeouts: { request: 1s } }"),
        (HEDGE, "defaults: { timeouts: { first_byte: 1s } }"),
    ] {
        let house = House::start(2, retry, more);
        let began = Instant::now();
        let (mut client, mut first, mut second) = hedged(&house, GET);
        assert_eq!(client.head().unwrap().status(), 504, "{retry} {more}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        first.talk.assert_ends("the first");
        second.talk.assert_ends("the second");
    }
}

#[test]
fn copies_keep_to_their_budget() {
    let _watchdog = watchdog("copies_keep_to_their_budget");
    const REQUESTS: u64 = 200;
    let slow = || {
        Bare::start(|talk| {
            loop {
                talk.head()?;
                std::thread::sleep(Duration::from_millis(100)); // What the endpoint does with its time.
                talk.send(OK)?;
            }
        })
    };
    let (one, two) = (slow(), slow());
    let config = config(&[&one.url(), &two.url()], "");
    let hedge = "services: { s: { retry: { hedge: { after: 20ms, budget: 10% } },";
    let proxy = Proxy::start(&config.replace("services: { s: {", hedge));
    let web = proxy.web();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            std::thread::spawn(move || {
                (0..REQUESTS / 20).for_each(|_| assert_eq!(get(web, "/").unwrap().status(), 200));
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let text = get(proxy.metrics(), "/metrics").unwrap().text();
    let hedges = sum(&text, "thalweg_upstream_hedges_total");
    assert!((1..=REQUESTS / 10).contains(&hedges), "{hedges} of {REQUESTS}");
    let asked = sum(&text, "thalweg_upstream_requests_total");
    assert_eq!(asked, REQUESTS + hedges, "requests that are neither first nor copies");
    let refused = text.lines().find(|line| line.starts_with("thalweg_limit_hits_total{limit=\"hedges\"}"));
    assert!(refused.is_some_and(|line| !line.ends_with(" 0")), "{refused:?}");
}

#[test]
fn a_service_with_one_endpoint_asks_nobody_else() {
    let _watchdog = watchdog("a_service_with_one_endpoint_asks_nobody_else");
    let house = House::start(1, &HEDGE.replace("attempts: 2", "attempts: 2, per_try_timeout: 450ms"), "");
    let began = Instant::now();
    let mut client = house.client(GET);
    let _asked = house.asked();
    assert_eq!(client.head().unwrap().status(), 504);
    assert!(began.elapsed() >= Duration::from_millis(450), "{:?}", began.elapsed());
    assert!(house.is_quiet(), "it was asked twice");
}

#[test]
fn an_endpoint_without_a_place_is_not_asked() {
    let _watchdog = watchdog("an_endpoint_without_a_place_is_not_asked");
    // Long enough that both are asked before the first copy is due. One after the other: two workers that choose in
    // the same moment may choose the same endpoint, and then one of them waits in its line.
    let after = Duration::from_millis(1500);
    let hedge = HEDGE.replace("150ms", "1500ms");
    for bound in ["max_in_flight", "max_connections"] {
        let house = House::start_bounded(2, &format!("{bound}: 1"), &hedge, "");
        // Both have one under way, before the time for a copy has come: each is the other's only choice.
        let both = [(); 2].map(|()| (house.client(GET), house.asked()));
        let (mut clients, mut asked) = (Vec::new(), Vec::new());
        for (client, at) in both {
            clients.push(client);
            asked.push(at);
        }
        assert_ne!(asked[0].port, asked[1].port);
        let began = Instant::now();
        for asked in &mut asked {
            std::thread::sleep((after * 2).saturating_sub(began.elapsed())); // Their time passes.
            asked.talk.send(OK).unwrap();
        }
        clients.iter_mut().for_each(|client| assert_eq!(response(client).0.status(), 200));
        assert!(house.is_quiet(), "{bound} was not kept");
        wait_counted(&house.proxy, "thalweg_upstream_hedges_total", "\"s\"", 0);
    }
}

#[test]
fn who_is_kept_at_an_endpoint_is_not_moved_because_it_is_slow() {
    let _watchdog = watchdog("who_is_kept_at_an_endpoint_is_not_moved_because_it_is_slow");
    let sticky = "sticky: { secret: { value: \"0123456789abcdef0123456789abcdef\" } }, ";
    let retry = HEDGE.replace("attempts: 2", "attempts: 2, per_try_timeout: 600ms");
    let house = House::start(2, &format!("{sticky}{retry}"), "");
    let began = Instant::now();
    let mut client = house.client(GET);
    let mut slow = house.asked();
    // A failure moves it all the same.
    let mut second = house.asked();
    assert!(began.elapsed() >= Duration::from_millis(600), "copied after {:?}", began.elapsed());
    slow.talk.assert_ends("the attempt that is over");
    second.talk.send(OK).unwrap();
    let (head, _) = response(&mut client);
    assert!(head.value("set-cookie").is_some(), "{head:?}");
    wait_counted(&house.proxy, "thalweg_upstream_hedges_total", "\"s\"", 0);
}

/// Its listener allows half-close.
#[test]
fn a_client_that_has_said_all_it_wants_to_say_waits_for_either_answer() {
    let _watchdog = watchdog("a_client_that_has_said_all_it_wants_to_say_waits_for_either_answer");
    let allow = |text: &str| text.replace("127.0.0.1:0\" } }", "127.0.0.1:0\", allow_half_close: true } }");
    let house = House::start_changed(2, (HEDGE, ""), allow);
    let mut client = house.client(GET);
    client.half_close();
    let (first, mut second) = (house.asked(), house.asked());
    assert_ne!(first.port, second.port);
    second.talk.send(saying("second")).unwrap();
    assert_eq!(response(&mut client).1, b"second");
}
