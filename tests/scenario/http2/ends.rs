//! How streams and connections end: whole, broken off, in good order and when others need the place.

use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::h2_frames::{
    ACK, CANCEL, DATA, END, END_HEADERS, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, INITIAL_WINDOW, NO_ERROR,
    REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, goaway, literal, request, reset, section,
    window_update,
};
use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Connection, Directory, Frames, Identity, Proxy, STEP, Upstream, vitals};

use super::{House, config, h2c, house, watchdog};
use crate::scenario::reload;
use crate::scenario::scripted::OK;

/// INTERNAL_ERROR.
const INTERNAL_ERROR: u32 = 2;
/// SETTINGS_TIMEOUT.
const SETTINGS_TIMEOUT: u32 = 4;

#[test]
fn a_stream_that_the_client_resets_ends_its_attempt_and_no_other() {
    let _watchdog = watchdog("a_stream_that_the_client_resets_ends_its_attempt_and_no_other");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(request(1, "/one"));
    let mut one = house.asked();
    client.send(request(3, "/three"));
    let mut three = house.asked();
    client.send(reset(1, CANCEL));
    one.talk.assert_ends("the attempt of a stream that was reset");
    three.talk.send(OK).unwrap();
    assert_eq!(client.answer(3), Ok(200));
}

#[test]
fn an_answer_that_breaks_off_resets_its_stream() {
    let _watchdog = watchdog("an_answer_that_breaks_off_resets_its_stream");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    let heads = [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ];
    for (stream, head) in [1, 3].into_iter().zip(heads) {
        client.send(request(stream, "/"));
        let mut asked = house.asked();
        asked.talk.send(head).unwrap();
        assert_eq!(client.answer(stream), Ok(200));
        drop(asked);
        let code = client.until(|frame| frame.code().filter(|_| frame.stream == stream));
        assert_eq!(code, INTERNAL_ERROR, "stream {stream}");
    }
}

#[test]
fn an_answer_to_an_upload_that_goes_on_is_whole() {
    let _watchdog = watchdog("an_answer_to_an_upload_that_goes_on_is_whole");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/", &[])));
    let mut asked = house.asked();
    asked.talk.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").unwrap();
    assert_eq!(client.answer(1), Ok(403));
    client.until(|frame| (frame.stream == 1 && frame.ends()).then_some(()));
    // Only then is the client told to stop, in a way that does not undo the answer (RFC 9113 §8.1).
    assert_eq!(client.until(|frame| frame.code().filter(|_| frame.kind == RST_STREAM)), NO_ERROR);
}

#[test]
fn a_stopping_proxy_says_so_and_finishes_what_is_under_way() {
    let _watchdog = watchdog("a_stopping_proxy_says_so_and_finishes_what_is_under_way");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(request(1, "/"));
    let mut asked = house.asked();
    house.proxy.process().signal(Signal::TERM);
    assert_eq!(client.until(|frame| frame.code().filter(|_| frame.kind == GOAWAY)), NO_ERROR);
    asked.talk.send(OK).unwrap();
    assert_eq!(client.answer(1), Ok(200));
    assert_eq!(house.proxy.ended(STEP).status.code(), Some(0));
}

#[test]
fn a_silent_connection_is_told_goodbye() {
    let _watchdog = watchdog("a_silent_connection_is_told_goodbye");
    let upstream = Upstream::saying("hello");
    let more = "defaults: { timeouts: { keep_alive: 200ms } }";
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], more)));
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(request(1, "/"));
    assert_eq!(client.answer(1), Ok(200));
    let ending = client.ending();
    assert_eq!((ending.goaways.last(), ending.event), (Some(&NO_ERROR), Event::End));
}

#[test]
fn a_connection_on_which_nothing_is_under_way_makes_room() {
    let _watchdog = watchdog("a_connection_on_which_nothing_is_under_way_makes_room");
    let upstream = Upstream::saying("hello");
    let one = |text: &str| {
        h2c(text)
            .replace("h2c: true", "h2c: true, limits: { max_connections: 1 }")
            .replace("workers: 2", "workers: 1")
    };
    let proxy = Proxy::start(&one(&config(&[&upstream.url()], "")));
    let mut first = Frames::open(proxy.web(), &[]);
    first.send(request(1, "/"));
    assert_eq!(first.answer(1), Ok(200));
    first.until(|frame| frame.ends().then_some(()));
    let mut second = Frames::open(proxy.web(), &[]);
    second.send(request(1, "/"));
    assert_eq!(second.answer(1), Ok(200));
    let ending = first.ending();
    assert_eq!((ending.goaways, ending.event), (vec![NO_ERROR], Event::End));
}

#[test]
fn a_flood_is_ended_and_told() {
    let _watchdog = watchdog("a_flood_is_ended_and_told");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], "")));
    let mut client = Frames::open(proxy.web(), &[]);
    let ping = frame(thalweg_tests::h2_frames::PING, 0, 0, &[0; 8]);
    client.send(ping.repeat(10_000));
    assert_eq!(client.ending().goaways, [ENHANCE_YOUR_CALM]);
    crate::scenario::wait_counted(&proxy, "thalweg_http2_floods_total", "flood=\"pings\"", 1);
}

#[test]
fn http_1_goes_on_beside_it_and_what_is_neither_gets_no_words() {
    let _watchdog = watchdog("http_1_goes_on_beside_it_and_what_is_neither_gets_no_words");
    let upstream = Upstream::start(|request| Some(ok(request.target())));
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], "")));
    assert_eq!(get(proxy.web(), "/PRI").unwrap().text(), "/PRI");
    for said in ["PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "INVALID CONNECTION PREFACE\r\n\r\n"] {
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send(said);
        let event = client.read_to_end(Instant::now() + STEP);
        let ended = matches!(event, Event::End | Event::Reset);
        assert!(ended && client.seen().is_empty(), "{said:?}: {event:?} after {:?}", client.seen());
    }
    // A request of HTTP/1 that is wrong is told so.
    for said in [
        "GET / HTTP/1.1\r\nHost: a\r\nbad field\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a\r\n\r\n",
    ] {
        assert_eq!(thalweg_tests::message::fetch(proxy.web(), said).unwrap().status(), 400, "{said:?}");
    }
    let log = proxy.stop().log;
    assert_eq!(log.iter().filter(|line| line["status"] == 400).count(), 5, "all are in the log: {log:?}");
}

/// RFC 9113 §6.5.3.
#[test]
fn who_does_not_acknowledge_settings_is_not_served_for_long() {
    let _watchdog = watchdog("who_does_not_acknowledge_settings_is_not_served_for_long");
    let house = house("", "");
    let mut client = Frames::over_without_a_word(Connection::open(house.proxy.web()).unwrap());
    client.send(request(1, "/one"));
    let mut asked = house.asked();
    let code = client.until(|frame| frame.code().filter(|_| frame.kind == GOAWAY));
    assert_eq!(code, SETTINGS_TIMEOUT);
    assert_eq!(client.ending().event, Event::End);
    asked.talk.assert_ends("the attempt of a client that is sent away");
}

#[test]
fn who_acknowledges_settings_waits_for_its_answer() {
    let _watchdog = watchdog("who_acknowledges_settings_waits_for_its_answer");
    let house = house("", "");
    let mut client = Frames::over_without_a_word(Connection::open(house.proxy.web()).unwrap());
    client.send(request(1, "/one"));
    let mut asked = house.asked();
    client.send(frame(SETTINGS, ACK, 0, &[]));
    // Longer than settings may take.
    assert_eq!(
        client.next_but(&[SETTINGS, WINDOW_UPDATE], Instant::now() + Duration::from_secs(6)),
        Err(Event::Late)
    );
    asked.talk.send(OK).unwrap();
    assert_eq!(client.answer(1), Ok(200));
    // And the connection goes on.
    client.send(request(3, "/two"));
    asked.talk.head().unwrap();
    asked.talk.send(OK).unwrap();
    assert_eq!(client.answer(3), Ok(200));
}

/// The client learns only later that nobody wants the rest of its upload.
#[test]
fn crumbs_of_an_upload_that_is_over_end_no_connection() {
    let _watchdog = watchdog("crumbs_of_an_upload_that_is_over_end_no_connection");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    let upload = section("POST", "/", &[]);
    client.send([frame(HEADERS, END_HEADERS, 1, &upload), frame(DATA, 0, 1, b"x")].concat());
    house.asked().talk.send(OK.replacen("\r\n", "\r\nConnection: close\r\n", 1)).unwrap();
    client.until(|frame| (frame.kind == RST_STREAM && frame.stream == 1).then_some(()));
    client.send(frame(DATA, 0, 1, b"x").repeat(6000));
    client.send(request(3, "/"));
    house.asked().talk.send(OK).unwrap();
    assert_eq!(client.answer(3), Ok(200));
}

/// They have come before the request is looked at.
#[test]
fn small_frames_behind_their_head_are_its_body() {
    let _watchdog = watchdog("small_frames_behind_their_head_are_its_body");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    for (stream, last) in
        [(1, frame(DATA, END, 1, b"")), (3, frame(HEADERS, END | END_HEADERS, 3, &literal("a", "b")))]
    {
        let head = frame(HEADERS, END_HEADERS, stream, &section("POST", "/", &[]));
        client.send([head, frame(DATA, 0, stream, b"x").repeat(100), last].concat());
        let mut asked = house.asked();
        assert_eq!(asked.body(), [b'x'; 100]);
        asked.talk.send(OK).unwrap();
        assert_eq!(client.answer(stream), Ok(200));
    }
}

/// The exchange is over when its last bytes are with the engine; the connection is not when its client takes them
/// slowly.
#[test]
fn the_last_bytes_of_a_download_come_also_when_the_connection_goes() {
    let _watchdog = watchdog("the_last_bytes_of_a_download_come_also_when_the_connection_goes");
    const SIZE: usize = 16 << 20;
    let upstream = Upstream::saying("x".repeat(SIZE).leak());
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], "")));
    let mut client = Frames::open(proxy.web(), &[(INITIAL_WINDOW, 1 << 30)]);
    client.send([window_update(0, 1 << 30), request(1, "/"), goaway(0, NO_ERROR)].concat());
    let (mut taken, mut is_whole) = (0, false);
    let mut take = |client: &mut Frames, up_to: usize| {
        while !is_whole && taken < up_to {
            client.until(|frame| {
                taken += if frame.kind == DATA { frame.payload.len() } else { 0 };
                is_whole |= frame.ends() && frame.stream == 1;
                (frame.kind == DATA).then_some(())
            });
        }
        (taken, is_whole)
    };
    take(&mut client, 1);
    let is_served = || {
        let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
        vitals::sum(&metrics, "thalweg_requests_active") == 0
    };
    let mut up_to = 0;
    while !is_served() {
        up_to += 32 * 1024;
        take(&mut client, up_to);
    }
    thread::sleep(Duration::from_millis(600)); // Longer than a farewell lasts.
    assert_eq!(take(&mut client, usize::MAX), (SIZE, true));
}

/// What a stream had handed over and took with it is no longer counted as held for its connection.
#[test]
fn downloads_that_are_broken_off_leave_the_others_their_room() {
    let _watchdog = watchdog("downloads_that_are_broken_off_leave_the_others_their_room");
    const SIZE: usize = 1 << 20;
    let upstream = Upstream::saying("x".repeat(SIZE).leak());
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], "")));
    let mut client = Frames::open(proxy.web(), &[(INITIAL_WINDOW, 1 << 30)]);
    client.send(window_update(0, 1 << 30));
    for stream in (1..400).step_by(2) {
        client.send(request(stream, "/"));
        client.until(|frame| (frame.kind == DATA && frame.stream == stream).then_some(()));
        client.send(reset(stream, CANCEL));
    }
    client.send(request(401, "/"));
    let mut taken = 0;
    client.until(|frame| {
        let is_of_it = frame.kind == DATA && frame.stream == 401;
        taken += if is_of_it { frame.payload.len() } else { 0 };
        (is_of_it && frame.flags & END != 0).then_some(())
    });
    assert_eq!(taken, SIZE);
}

#[test]
fn a_client_has_as_many_streams_as_its_listener_says() {
    let _watchdog = watchdog("a_client_has_as_many_streams_as_its_listener_says");
    let listener = |text: &str| h2c(text).replace("h2c: true", "h2c: true, limits: { max_streams: 2 }");
    let house = House::start_changed(1, ("", ""), listener);
    let mut client = Frames::open(house.proxy.web(), &[]);
    for stream in [1, 3] {
        client.send(request(stream, "/"));
    }
    let mut asked = [house.asked(), house.asked()];
    client.send(request(5, "/"));
    let refused = client.until(|frame| frame.code().filter(|_| frame.stream == 5));
    assert_eq!(refused, REFUSED_STREAM);
    let last = OK.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    asked.iter_mut().for_each(|asked| asked.talk.send(&last).unwrap());
    for _ in 0..2 {
        client.until(|frame| frame.status().filter(|status| *status == 200));
    }
    client.send(request(7, "/"));
    house.asked().talk.send(OK).unwrap();
    assert_eq!(client.answer(7), Ok(200));
}

#[test]
fn a_reload_that_brings_tls_sends_plain_connections_away() {
    let _watchdog = watchdog("a_reload_that_brings_tls_sends_plain_connections_away");
    let upstream = Upstream::saying("fine");
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "web");
    let text = h2c(&config(&[&upstream.url()], ""));
    let proxy = Proxy::start_in(directory, &text);
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(request(1, "/"));
    assert_eq!(client.answer(1), Ok(200));
    let tls = format!("h2c: true, tls: {{ certificates: [ {certificate} ] }}");
    reload(&proxy, &text.replace("h2c: true", &tls), 1);
    let ending = client.ending();
    assert_eq!((ending.event, ending.goaways.last()), (Event::End, Some(&NO_ERROR)));
}
