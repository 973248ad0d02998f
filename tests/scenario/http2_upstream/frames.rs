//! Endpoints of HTTP/2 whose every frame the test has in hand.

use std::net::TcpStream;
use std::sync::mpsc::RecvTimeoutError::Disconnected;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use thalweg_tests::h2_frames::{
    ACK, CANCEL, CONTINUATION, DATA, END, END_HEADERS, HEADERS, INITIAL_WINDOW, MAX_STREAMS, NO_ERROR,
    REFUSED_STREAM, RST_STREAM, SETTINGS, frame, goaway, literal, reset, response, section, settings,
};
use thalweg_tests::message::fetch;
use thalweg_tests::upstream::Listener;
use thalweg_tests::{Frames, Message, Proxy, STEP, Talk};

use super::{config, h2c, http2, watchdog};

/// A proxy with one worker before one endpoint, and the connections that it makes.
pub(super) struct Scene {
    pub(super) proxy: Proxy,
    accepted: Receiver<TcpStream>,
    _listener: Listener,
}

impl Scene {
    /// `service` are further keys of the service, with a comma behind each.
    pub(super) fn new(service: &str) -> Self {
        let (sender, accepted) = mpsc::channel();
        let listener = Listener::start(sender);
        let config = h2c(&http2(&config(&[&format!("http://{}", listener.address())], "")));
        let config = config.replace("services: { s: {", &format!("services: {{ s: {{ {service}"));
        let proxy = Proxy::start(&config.replace("workers: 2", "workers: 1"));
        Self { proxy, accepted, _listener: listener }
    }

    pub(super) fn accept(&self, own: &[(u16, u32)]) -> Frames {
        Frames::accept(self.accepted.recv_timeout(STEP).expect("a connection"), own)
    }

    /// A connection that bears one stream, and the request on it; the proxy knows that it is full.
    fn accept_one(&self) -> (Frames, u32) {
        let mut endpoint = self.accept(&[(MAX_STREAMS, 1)]);
        let (mut known, mut asked) = (false, None);
        let stream = endpoint.until(|frame| {
            known |= frame.kind == SETTINGS && frame.flags & ACK != 0;
            asked = asked.or((frame.kind == HEADERS).then_some(frame.stream));
            asked.filter(|_| known)
        });
        (endpoint, stream)
    }

    /// A client that has said this, and its answer when it comes.
    pub(super) fn ask(&self, said: &str) -> Receiver<Message> {
        let (tell, told) = mpsc::channel();
        let (address, said) = (self.proxy.web(), said.to_owned());
        thread::spawn(move || {
            if let Ok(answer) = fetch(address, &said) {
                let _ = tell.send(answer);
            }
        });
        told
    }

    pub(super) fn get(&self) -> Receiver<Message> {
        self.ask("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
    }

    /// A connection that has carried a request.
    fn first(&self) -> Frames {
        let answer = self.get();
        let mut endpoint = self.accept(&[]);
        let stream = endpoint.asked();
        endpoint.send(response(stream, 200, b"ok"));
        assert_eq!(status(&answer), 200);
        endpoint
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.accepted.try_recv().is_err()
    }
}

pub(super) fn status(answer: &Receiver<Message>) -> u16 {
    answer.recv_timeout(STEP).expect("an answer").status()
}

const POST: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

#[test]
fn one_connection_carries_many_requests() {
    let _watchdog = watchdog("one_connection_carries_many_requests");
    let scene = Scene::new("");
    // Before the endpoint has accepted: a burst at a cold service.
    let answers: Vec<_> = (0..20).map(|_| scene.get()).collect();
    let mut endpoint = scene.accept(&[]);
    let streams: Vec<_> = answers.iter().map(|_| endpoint.asked()).collect();
    assert!(streams.is_sorted() && streams[0] == 1, "{streams:?}");
    streams.iter().rev().for_each(|stream| endpoint.send(response(*stream, 200, b"ok")));
    assert!(answers.iter().all(|answer| status(answer) == 200));
    assert!(scene.is_quiet(), "a second connection");
}

#[test]
fn what_an_endpoint_refuses_is_asked_again_whatever_the_method() {
    let _watchdog = watchdog("what_an_endpoint_refuses_is_asked_again_whatever_the_method");
    let scene = Scene::new("");
    let answer = scene.ask(POST);
    let mut endpoint = scene.accept(&[]);
    let first = endpoint.asked();
    endpoint.send(reset(first, REFUSED_STREAM));
    let second = endpoint.asked();
    let body =
        endpoint.until(|frame| (frame.kind == DATA && frame.stream == second).then(|| frame.payload.clone()));
    assert_eq!(body, b"hi");
    endpoint.send(response(second, 201, b""));
    assert_eq!(status(&answer), 201);
}

#[test]
fn an_endpoint_that_refuses_everything_is_not_asked_for_ever() {
    let _watchdog = watchdog("an_endpoint_that_refuses_everything_is_not_asked_for_ever");
    let scene = Scene::new("");
    let answer = scene.get();
    let mut endpoint = scene.accept(&[]);
    let refuser = thread::spawn(move || {
        let deadline = std::time::Instant::now() + STEP;
        let mut asked = 0;
        while let Ok(frame) = endpoint.next(deadline) {
            if frame.kind == HEADERS {
                asked += 1;
                endpoint.send(reset(frame.stream, REFUSED_STREAM));
            }
        }
        asked
    });
    assert_eq!(status(&answer), 503);
    drop(scene);
    let asked = refuser.join().unwrap();
    assert!((2..=6).contains(&asked), "{asked} times");
}

#[test]
fn what_a_goaway_leaves_out_goes_to_another_connection() {
    let _watchdog = watchdog("what_a_goaway_leaves_out_goes_to_another_connection");
    let scene = Scene::new("");
    let served = scene.get();
    let mut endpoint = scene.accept(&[]);
    let first = endpoint.asked();
    let left_out = scene.ask(POST);
    let second = endpoint.asked();
    assert!(second > first);
    endpoint.send(goaway(first, NO_ERROR));
    let mut next = scene.accept(&[]);
    let again = next.asked();
    next.send(response(again, 201, b""));
    assert_eq!(status(&left_out), 201);
    // What was under way comes to its end.
    endpoint.send(response(first, 200, b"ok"));
    assert_eq!(status(&served), 200);
    let ended = endpoint.ending();
    assert_eq!(ended.resets, [], "{ended:?}");
}

#[test]
fn what_was_begun_is_repeated_only_where_that_is_safe() {
    let _watchdog = watchdog("what_was_begun_is_repeated_only_where_that_is_safe");
    let scene = Scene::new("");
    let mut endpoint = scene.first();
    let get = scene.get();
    endpoint.asked();
    drop(endpoint);
    let mut endpoint = scene.accept(&[]);
    let again = endpoint.asked();
    endpoint.send(response(again, 200, b"ok"));
    assert_eq!(status(&get), 200);
    let post = scene.ask(POST);
    let stream = endpoint.asked();
    endpoint.send(reset(stream, CANCEL));
    assert_eq!(status(&post), 502);
    assert!(scene.is_quiet());
}

#[test]
fn an_endpoints_bound_on_streams_is_kept() {
    let _watchdog = watchdog("an_endpoints_bound_on_streams_is_kept");
    let scene = Scene::new("limits: { max_connections: 1 }, ");
    let first = scene.get();
    let (mut endpoint, one) = scene.accept_one();
    // They wait: another connection may not be opened.
    let others = [scene.get(), scene.get()];
    endpoint.send(response(one, 200, b"ok"));
    assert_eq!(status(&first), 200);
    let two = endpoint.asked();
    endpoint.send(response(two, 200, b"ok"));
    let three = endpoint.asked();
    // The endpoint bears more from now on: who waits goes on.
    let more = [scene.get(), scene.get()];
    endpoint.send(settings(&[(MAX_STREAMS, 10)]));
    let rest = [three, endpoint.asked(), endpoint.asked()];
    rest.iter().for_each(|stream| endpoint.send(response(*stream, 200, b"ok")));
    assert!(others.iter().chain(&more).all(|answer| status(answer) == 200));
    assert!(scene.is_quiet());
}

#[test]
fn workers_take_turns_with_the_only_connection() {
    let _watchdog = watchdog("workers_take_turns_with_the_only_connection");
    let (sender, accepted) = mpsc::channel();
    let listener = Listener::start(sender);
    let config = http2(&config(&[&format!("http://{}", listener.address())], ""));
    let proxy = Proxy::start(
        &config.replace("services: { s: {", "services: { s: { limits: { max_connections: 1 }, "),
    );
    // Every connection is served until it is closed.
    thread::spawn(move || {
        for stream in accepted {
            thread::spawn(move || {
                let mut endpoint = Frames::accept(stream, &[]);
                let deadline = std::time::Instant::now() + 3 * STEP;
                while let Ok(frame) = endpoint.next(deadline) {
                    if frame.kind == HEADERS {
                        endpoint.send(response(frame.stream, 200, b"ok"));
                    }
                }
            });
        }
    });
    let address = proxy.web();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            thread::spawn(move || {
                let ask = |_| {
                    fetch(address, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
                        .unwrap()
                        .status()
                };
                (0..5).map(ask).collect::<Vec<_>>()
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), [200; 5]);
    }
}

#[test]
fn a_full_connection_gets_another_beside_it() {
    let _watchdog = watchdog("a_full_connection_gets_another_beside_it");
    let scene = Scene::new("");
    let first = scene.get();
    let (endpoint, one) = scene.accept_one();
    let second = scene.get();
    let (other, two) = scene.accept_one();
    other.send(response(two, 200, b"ok"));
    endpoint.send(response(one, 200, b"ok"));
    assert_eq!((status(&first), status(&second)), (200, 200));
}

#[test]
fn who_waits_too_long_for_a_stream_is_told() {
    let _watchdog = watchdog("who_waits_too_long_for_a_stream_is_told");
    let scene = Scene::new("limits: { max_connections: 1 }, timeouts: { connect: 300ms }, ");
    let first = scene.get();
    let (endpoint, one) = scene.accept_one();
    assert_eq!(status(&scene.get()), 503);
    endpoint.send(response(one, 200, b"ok"));
    assert_eq!(status(&first), 200);
}

#[test]
fn an_endpoint_of_http_1_is_told_apart() {
    let _watchdog = watchdog("an_endpoint_of_http_1_is_told_apart");
    let scene = Scene::new("");
    let answer = scene.get();
    let mut talk = Talk::new(scene.accepted.recv_timeout(STEP).unwrap());
    talk.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
    let answer = answer.recv_timeout(STEP).unwrap();
    assert_eq!(answer.status(), 502);
    let told = answer.value("proxy-status").unwrap();
    assert!(told.contains("does not speak HTTP/2"), "{told}");
}

#[test]
fn an_answer_of_a_head_alone_stays_one() {
    let _watchdog = watchdog("an_answer_of_a_head_alone_stays_one");
    let scene = Scene::new("");
    let answer = scene.get();
    let mut endpoint = scene.accept(&[]);
    let stream = endpoint.asked();
    endpoint.send(frame(
        HEADERS,
        END | END_HEADERS,
        stream,
        &[literal(":status", "200"), literal("grpc-status", "12")].concat(),
    ));
    let answer = answer.recv_timeout(STEP).unwrap();
    assert_eq!(
        (answer.status(), answer.value("grpc-status"), answer.value("content-length")),
        (200, Some("12"), Some("0"))
    );
}

/// RFC 9113 §8.1: an endpoint may reset with NO_ERROR what it has answered whole, and nothing else is whole.
#[test]
fn a_reset_without_an_error_makes_no_answer_whole() {
    let _watchdog = watchdog("a_reset_without_an_error_makes_no_answer_whole");
    let scene = Scene::new("");
    let mut endpoint = scene.first();
    for ends in [0, END] {
        let answer = scene.get();
        let stream = endpoint.asked();
        endpoint.send(frame(HEADERS, END_HEADERS, stream, &literal(":status", "200")));
        endpoint.send(frame(DATA, ends, stream, b"half"));
        endpoint.send(reset(stream, NO_ERROR));
        let answer = answer.recv_timeout(STEP);
        assert_eq!(answer.map(|answer| answer.status()), [Err(Disconnected), Ok(200)][usize::from(ends)]);
    }
}

#[test]
fn a_client_that_reads_nothing_takes_no_window_from_others() {
    let _watchdog = watchdog("a_client_that_reads_nothing_takes_no_window_from_others");
    let scene = Scene::new("");
    let mut endpoint = None;
    let mut stalled = Vec::new();
    let mut windows = std::collections::HashMap::new();
    for _ in 0..8 {
        // It asks, and reads nothing of what it gets.
        let mut client = Talk::open(scene.proxy.web()).unwrap();
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        stalled.push(client);
        let endpoint = endpoint.get_or_insert_with(|| scene.accept(&[]));
        let stream = endpoint.asked();
        windows.insert(stream, 160 * 1024_i64);
        endpoint.send(frame(HEADERS, END_HEADERS, stream, &literal(":status", "200")));
    }
    let mut endpoint = endpoint.unwrap();
    // Each stream gets all that its window takes, until the kernel and the proxy hold what they may and windows stay
    // shut.
    let mut quiet = false;
    while !quiet {
        for (stream, window) in &mut windows {
            while *window >= 16_000 {
                endpoint.send(frame(DATA, 0, *stream, &[b'x'; 16_000]));
                *window -= 16_000;
            }
        }
        quiet = true;
        let until = std::time::Instant::now() + Duration::from_millis(500);
        while let Ok(frame) = endpoint.next(until) {
            if let Some(more) = frame.increment()
                && let Some(window) = windows.get_mut(&frame.stream)
            {
                *window += more as i64;
                quiet = false;
            }
        }
    }
    let other = scene.get();
    let stream = endpoint.asked();
    endpoint.send(response(stream, 200, &[b'y'; 16_000]));
    assert_eq!(status(&other), 200);
}

#[test]
fn an_idle_connection_is_closed_in_good_order() {
    let _watchdog = watchdog("an_idle_connection_is_closed_in_good_order");
    let scene = Scene::new("pool: { idle: 300ms }, ");
    let mut endpoint = scene.first();
    assert_eq!(endpoint.ending().goaways, [NO_ERROR]);
}

#[test]
fn an_upload_waits_for_the_window_of_its_stream() {
    let _watchdog = watchdog("an_upload_waits_for_the_window_of_its_stream");
    let scene = Scene::new("");
    let answer = scene.ask(&format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n{}",
        "x".repeat(1000)
    ));
    let mut endpoint = scene.accept(&[(INITIAL_WINDOW, 600)]);
    let stream = endpoint.asked();
    let mut got = 0;
    let mut first = endpoint.until(|frame| (frame.kind == DATA).then_some(frame.payload.len()));
    got += std::mem::take(&mut first);
    // The settings may have come when all of it had been sent.
    if got < 1000 {
        endpoint.send(thalweg_tests::h2_frames::window_update(stream, 400));
        while got < 1000 {
            got += endpoint.until(|frame| (frame.kind == DATA).then_some(frame.payload.len()));
        }
    }
    assert_eq!(got, 1000);
    endpoint.send(response(stream, 200, b"ok"));
    assert_eq!(status(&answer), 200);
}

#[test]
fn a_silent_connection_takes_no_second_request() {
    let _watchdog = watchdog("a_silent_connection_takes_no_second_request");
    let scene = Scene::new("timeouts: { first_byte: 300ms }, retry: { attempts: 1 }, ");
    let mut endpoint = scene.first();
    let answer = scene.get();
    let stream = endpoint.asked();
    assert_eq!(status(&answer), 504);
    let code =
        endpoint.until(|frame| frame.code().filter(|_| frame.kind == RST_STREAM && frame.stream == stream));
    assert_eq!(code, CANCEL);
    // It may be that nobody is there any more.
    let again = scene.get();
    let mut other = scene.accept(&[]);
    let stream = other.asked();
    other.send(response(stream, 200, b"ok"));
    assert_eq!(status(&again), 200);
    assert_eq!(endpoint.ending().goaways, [NO_ERROR]);
}

#[test]
fn a_call_without_a_message_says_its_end_apart() {
    let _watchdog = watchdog("a_call_without_a_message_says_its_end_apart");
    let scene = Scene::new("");
    let asked = |media: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
        )
    };
    let page = scene.ask(&asked("text/plain"));
    let mut endpoint = scene.accept(&[]);
    let head = endpoint.until(|frame| (frame.kind == HEADERS).then(|| (frame.stream, frame.ends())));
    endpoint.send(response(head.0, 200, b"ok"));
    assert_eq!((status(&page), head.1), (200, true));
    let call = scene.ask(&asked("application/grpc"));
    let head = endpoint.until(|frame| (frame.kind == HEADERS).then(|| (frame.stream, frame.ends())));
    assert!(!head.1, "grpc-go waits for ever");
    endpoint.until(|frame| (frame.kind == DATA && frame.stream == head.0 && frame.ends()).then_some(()));
    endpoint.send(response(head.0, 200, b"ok"));
    assert_eq!(status(&call), 200);
}

#[test]
fn the_status_of_a_call_comes_also_behind_a_body_with_a_length() {
    let _watchdog = watchdog("the_status_of_a_call_comes_also_behind_a_body_with_a_length");
    let scene = Scene::new("");
    let mut client = Frames::open(scene.proxy.web(), &[]);
    let mut endpoint = None;
    for (stream, body) in [(1, &b"\0\0\0\0\x02hi"[..]), (3, b"")] {
        let call = section("POST", "/a.B/C", &[("content-type", "application/grpc"), ("te", "trailers")]);
        client.send([frame(HEADERS, END_HEADERS, stream, &call), frame(DATA, END, stream, b"")].concat());
        let endpoint = endpoint.get_or_insert_with(|| scene.accept(&[]));
        let asked = endpoint.asked();
        let length = body.len().to_string();
        let fields = [(":status", "200"), ("content-type", "application/grpc"), ("content-length", &length)];
        let head: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
        endpoint.send(frame(HEADERS, END_HEADERS, asked, &head));
        if !body.is_empty() {
            endpoint.send(frame(DATA, 0, asked, body));
        }
        endpoint.send(frame(HEADERS, END | END_HEADERS, asked, &literal("grpc-status", "5")));
        let (mut got, mut heads) = (Vec::new(), 0);
        client.until(|frame| {
            if frame.kind == DATA {
                got.extend_from_slice(&frame.payload);
            }
            heads += usize::from(frame.kind == HEADERS && frame.stream == stream);
            (frame.stream == stream && frame.ends()).then_some(())
        });
        assert_eq!((got, heads), (body.to_vec(), 2), "a head, the message and trailers");
    }
}

#[test]
fn an_endpoint_that_closes_without_a_word_is_not_there() {
    let _watchdog = watchdog("an_endpoint_that_closes_without_a_word_is_not_there");
    let scene = Scene::new("retry: { attempts: 1 }, ");
    let answer = scene.get();
    drop(scene.accepted.recv_timeout(STEP).unwrap());
    assert_eq!(status(&answer), 502);
    assert_eq!(scene.proxy.stop().log[0]["fault"], "connection_terminated");
}

#[test]
fn a_head_that_is_too_large_costs_its_response_and_no_other() {
    let _watchdog = watchdog("a_head_that_is_too_large_costs_its_response_and_no_other");
    let scene = Scene::new("");
    let answers = [scene.get(), scene.get()];
    let mut endpoint = scene.accept(&[]);
    let streams = [endpoint.asked(), endpoint.asked()];
    let fields = literal("x-long", &"y".repeat(12_000)).repeat(7);
    let pieces: Vec<_> = fields.chunks(16_000).collect();
    let mut head = frame(HEADERS, 0, streams[0], &literal(":status", "200"));
    for (at, piece) in pieces.iter().enumerate() {
        let flags = if at + 1 == pieces.len() { END_HEADERS } else { 0 };
        head.extend(frame(CONTINUATION, flags, streams[0], piece));
    }
    endpoint.send(head);
    endpoint.send(response(streams[1], 200, b"ok"));
    let mut got = answers.map(|answer| status(&answer));
    got.sort_unstable();
    assert_eq!(got, [200, 502]);
}

#[test]
fn an_endpoint_that_drops_every_connection_is_not_asked_for_ever() {
    let _watchdog = watchdog("an_endpoint_that_drops_every_connection_is_not_asked_for_ever");
    let scene = Scene::new("");
    let mut endpoint = scene.first();
    let answers: Vec<_> = (0..4).map(|_| scene.get()).collect();
    for _ in &answers {
        endpoint.asked();
    }
    drop(endpoint);
    let (mut connections, mut left) = (0, answers);
    while !left.is_empty() {
        if let Ok(stream) = scene.accepted.recv_timeout(Duration::from_millis(50)) {
            connections += 1;
            let mut endpoint = Frames::accept(stream, &[]);
            endpoint.asked();
        }
        left.retain(|answer| match answer.try_recv() {
            Ok(answer) => {
                assert_eq!(answer.status(), 502);
                false
            }
            Err(error) => error != mpsc::TryRecvError::Disconnected,
        });
    }
    assert!((1..=5).contains(&connections), "{connections} connections");
}
