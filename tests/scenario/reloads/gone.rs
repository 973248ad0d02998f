//! Connections that outlive their listener, and HTTP/2 clients that ignore GOAWAY: no request of them bypasses a
//! filter, and no connection lasts for ever.

use std::thread;
use std::time::Instant;

use thalweg_tests::connection::Event;
use thalweg_tests::h2_frames::{
    END_HEADERS, Frame, GOAWAY, HEADERS, NO_ERROR, REFUSED_STREAM, frame, section,
};
use thalweg_tests::h2_frames::{ENHANCE_YOUR_CALM, request};
use thalweg_tests::message::{Kind, get};
use thalweg_tests::{Connection, Frames, Held, Message, Proxy, STEP, Upstream};

use super::super::{wait_counted, watchdog};
use super::{metric, plan, reload};

const WEB: &str = "web: { address: \"127.0.0.1:0\" }";
/// Requests after which a client stops expecting a refusal: many more than any bound of these tests.
const MANY: u32 = 400;

/// A listener beside `web`, and a service that refuses every client.
fn guarded(guest: &str) -> (Upstream, String, String) {
    let upstream = Upstream::saying("of the service");
    let services = format!(
        "s: {{ endpoints: [ \"{}\" ], filters: [ {{ access: {{ deny: [ 127.0.0.0/8 ] }} }} ] }}",
        upstream.url()
    );
    let with = plan(&format!("{WEB}, guest: {{ address: \"127.0.0.1:0\"{guest} }}"), "{ to: s }", &services);
    (upstream, with, plan(WEB, "{ to: s }", &services))
}

/// Waits until no worker holds the plan before the last reload.
fn wait_forgotten(proxy: &Proxy) {
    let end = Instant::now() + STEP;
    while metric(proxy, "thalweg_plans_alive", "") > 1.5 {
        assert!(Instant::now() < end, "the last plan of the listener is kept");
        thread::yield_now();
    }
}

/// Reads to the end: a refusal, and no bytes from the service.
fn assert_refused(client: &mut Connection) {
    assert_eq!(client.read_to_end(Instant::now() + STEP), Event::End);
    let seen = String::from_utf8_lossy(client.seen());
    let refused = seen.find("HTTP/1.1 421 ").unwrap_or_else(|| panic!("no refusal in {seen}"));
    assert!(seen[refused..].contains("\r\nConnection: close\r\n"), "{seen}");
    assert!(seen[refused..].contains("the listener of the connection is gone"), "{seen}");
    assert!(!seen.contains("of the service"), "{seen}");
}

#[test]
fn a_head_that_is_whole_after_its_listener_has_gone_is_refused() {
    let _watchdog = watchdog("a_head_that_is_whole_after_its_listener_has_gone_is_refused");
    let (_upstream, with, without) = guarded("");
    let proxy = Proxy::start(&with);
    assert_eq!(get(proxy.address("guest"), "/").unwrap().status(), 403);
    let mut client = Connection::open(proxy.address("guest")).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.te");
    let end = Instant::now() + STEP;
    while metric(&proxy, "thalweg_requests_active", "") < 0.5 {
        assert!(Instant::now() < end, "the head has not begun");
        thread::yield_now();
    }
    reload(&proxy, &without);
    wait_forgotten(&proxy);
    client.send("st\r\n\r\n");
    assert_refused(&mut client);
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 403, "the other listener has its filters");
}

/// Its response head promised keep-alive.
#[test]
fn a_request_behind_a_download_that_outlasts_its_listener_is_refused() {
    let _watchdog = watchdog("a_request_behind_a_download_that_outlasts_its_listener_is_refused");
    let (_upstream, with, without) = guarded("");
    let held = Held::start("held");
    let open = |text: String| {
        let service = format!("services: {{ o: {{ endpoints: [ \"{}\" ] }}, ", held.url());
        let route = "routes: [ { match: { path: /long }, to: o }, ";
        text.replace("services: { ", &service).replace("routes: [ ", route)
    };
    let proxy = Proxy::start(&open(with));
    let mut client = Connection::open(proxy.address("guest")).unwrap();
    client.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = Message::read(&mut client, Kind::ResponseToHead, Instant::now() + STEP).unwrap();
    assert_eq!((head.status(), head.value("connection")), (200, None));
    reload(&proxy, &open(without));
    wait_forgotten(&proxy);
    client.send("GET /secret HTTP/1.1\r\nHost: a.test\r\n\r\n");
    held.release();
    assert_refused(&mut client);
}

/// The results of a client's sequential requests, until one was refused.
struct Asked {
    statuses: Vec<u16>,
    /// The code that ended the last one; `None`: the connection ended.
    refusal: Option<u32>,
    next: u32,
}

/// Sends requests until one is refused. The client acknowledges no PING.
fn ask_on(client: &mut Frames, from: u32) -> Asked {
    let mut statuses = Vec::new();
    for stream in (from..).step_by(2).take(MANY as usize) {
        client.send(request(stream, "/"));
        let end = Instant::now() + STEP;
        let answer = loop {
            match client.next(end) {
                Ok(frame) if frame.kind == GOAWAY => {}
                Ok(frame) if frame.stream == stream => match (frame.status(), frame.code()) {
                    (None, None) => {}
                    answer => break answer,
                },
                Ok(_) => {}
                Err(Event::Late) => panic!("no answer on stream {stream} after {statuses:?}"),
                Err(_) => break (None, None),
            }
        };
        match answer {
            (Some(status), _) => statuses.push(status),
            (None, refusal) => return Asked { statuses, refusal, next: stream + 2 },
        }
    }
    panic!("{MANY} requests, and none was refused: {:?}", statuses.last());
}

/// The last GOAWAY and the end.
fn farewell(client: &mut Frames) -> (Option<Frame>, Event) {
    let (end, mut last) = (Instant::now() + STEP, None);
    loop {
        match client.next(end) {
            Ok(frame) if frame.kind == GOAWAY => last = Some(frame),
            Ok(_) => {}
            Err(event) => return (last, event),
        }
    }
}

/// The stream that a GOAWAY names.
fn names(frame: &Frame) -> u32 {
    u32::from_be_bytes(*frame.payload.first_chunk().unwrap())
}

#[test]
fn a_client_of_http2_that_does_not_go_loses_no_filter_and_is_refused() {
    let _watchdog = watchdog("a_client_of_http2_that_does_not_go_loses_no_filter_and_is_refused");
    let (_upstream, with, without) = guarded(", h2c: true, limits: { max_streams: 10 }");
    let proxy = Proxy::start(&with);
    let mut client = Frames::open(proxy.address("guest"), &[]);
    client.send(request(1, "/"));
    assert_eq!(client.answer(1), Ok(403));
    reload(&proxy, &without);
    let asked = ask_on(&mut client, 3);
    assert!(asked.statuses.iter().all(|status| [403, 421].contains(status)), "{:?}", asked.statuses);
    assert_eq!(asked.refusal, Some(REFUSED_STREAM));
    let (last, end) = farewell(&mut client);
    let last = last.expect("a last GOAWAY");
    assert_eq!((last.code(), end), (Some(NO_ERROR), Event::End));
    assert!(names(&last) < asked.next, "it names the last stream: {}", names(&last));
}

#[test]
fn a_connection_of_http2_has_few_requests_beyond_those_that_it_may_have() {
    let _watchdog = watchdog("a_connection_of_http2_has_few_requests_beyond_those_that_it_may_have");
    let upstream = Upstream::saying("served");
    let services = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
    let limited = "limits: { max_requests: 3, max_streams: 5 }";
    let listener = format!("web: {{ address: \"127.0.0.1:0\", h2c: true, {limited} }}");
    let proxy = Proxy::start(&plan(&listener, "{ to: s }", &services));
    let mut client = Frames::open(proxy.web(), &[]);
    let asked = ask_on(&mut client, 1);
    // The requests that may have been in flight at the GOAWAY.
    assert!((3..=3 + 5).contains(&asked.statuses.len()), "{} were served", asked.statuses.len());
    assert_eq!(asked.refusal, Some(REFUSED_STREAM));
    let (last, end) = farewell(&mut client);
    assert_eq!((last.and_then(|frame| frame.code()), end), (Some(NO_ERROR), Event::End));
}

/// A long exchange keeps the connection open, but not for further requests.
#[test]
fn requests_beside_one_that_lasts_are_refused_and_a_flood_of_them_ends_the_connection() {
    let _watchdog =
        watchdog("requests_beside_one_that_lasts_are_refused_and_a_flood_of_them_ends_the_connection");
    let upstream = Upstream::saying("served");
    let services = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
    let limited = "limits: { max_requests: 2, max_streams: 4 }";
    let listener = format!("web: {{ address: \"127.0.0.1:0\", h2c: true, {limited} }}");
    let proxy = Proxy::start(&plan(&listener, "{ to: s }", &services));
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/", &[])));
    wait_counted(&proxy, "thalweg_service_requests_active", "\"s\"", 1);
    let asked = ask_on(&mut client, 3);
    assert_eq!(asked.refusal, Some(REFUSED_STREAM));
    let flood = (asked.next..).step_by(2).take(500).flat_map(|stream| request(stream, "/"));
    client.send(flood.collect::<Vec<_>>());
    let (last, _) = farewell(&mut client);
    assert_eq!(last.and_then(|frame| frame.code()), Some(ENHANCE_YOUR_CALM));
    wait_counted(&proxy, "thalweg_http2_floods_total", "\"provoked_resets\"", 1);
}
