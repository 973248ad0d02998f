//! WebSockets over a stream (RFC 8441), before an endpoint that knows only HTTP/1.1.

use std::io::Read;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use thalweg_tests::h2_frames::{CANCEL, DATA, END, END_HEADERS, HEADERS, frame, literal, reset};
use thalweg_tests::upstream::Listener;
use thalweg_tests::{Frames, Proxy, STEP, Vitals};
use tungstenite::accept;

use super::{config, h2c, house, watchdog};

/// What asks for a WebSocket.
fn connect(stream: u32) -> Vec<u8> {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "a.test"),
        (":path", "/chat"),
        ("sec-websocket-version", "13"),
        ("origin", "http://a.test"),
    ];
    let section: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
    frame(HEADERS, END_HEADERS, stream, &section)
}

/// A text frame of a client (RFC 6455 §5.2), masked with zeros.
fn text(said: &str) -> Vec<u8> {
    let len = u8::try_from(said.len()).unwrap();
    [&[0x81, 0x80 | len, 0, 0, 0, 0], said.as_bytes()].concat()
}

/// A WebSocket server that says everything again.
pub(in crate::scenario) fn echo() -> Listener {
    let (accepted, connections) = mpsc::channel::<TcpStream>();
    thread::spawn(move || {
        for stream in connections {
            stream.set_read_timeout(Some(STEP)).unwrap();
            thread::spawn(move || {
                let Ok(mut socket) = accept(stream) else { return };
                while let Ok(message) = socket.read() {
                    let _ = if message.is_text() { socket.send(message) } else { socket.flush() };
                }
            });
        }
    });
    Listener::start(accepted)
}

#[test]
fn a_stream_is_a_websocket() {
    let _watchdog = watchdog("a_stream_is_a_websocket");
    let echo = echo();
    let proxy = Proxy::start(&h2c(&config(&[&format!("http://{}", echo.address())], "")));
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(connect(1));
    assert_eq!(client.answer(1), Ok(200));
    for said in ["hello", "and again"] {
        client.send(frame(DATA, 0, 1, &text(said)));
        let mut got = Vec::new();
        client.until(|frame| {
            if frame.kind == DATA {
                got.extend_from_slice(&frame.payload);
            }
            (got.len() >= said.len() + 2).then_some(())
        });
        assert_eq!(got, [&[0x81, u8::try_from(said.len()).unwrap()], said.as_bytes()].concat());
    }
    // A second one beside it, and the first one's end.
    client.send(connect(3));
    assert_eq!(client.answer(3), Ok(200));
    client.send(frame(DATA, END, 1, &[0x88, 0x80, 0, 0, 0, 0]));
    client.until(|frame| (frame.stream == 1 && frame.ends()).then_some(()));
}

#[test]
fn an_endpoint_that_does_not_know_the_key_is_refused() {
    let _watchdog = watchdog("an_endpoint_that_does_not_know_the_key_is_refused");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(connect(1));
    let mut asked = house.asked();
    assert_eq!(asked.head.start, "GET /chat HTTP/1.1");
    let value = |name| asked.head.value(name).unwrap_or_default();
    assert_eq!(
        [value("upgrade"), value("connection"), value("sec-websocket-version")],
        ["websocket", "Upgrade", "13"]
    );
    assert_eq!(value("sec-websocket-key").len(), 24);
    let wrong = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    asked.talk.send(wrong).unwrap();
    assert_eq!(client.answer(1), Ok(502));
}

#[test]
fn a_refusal_of_the_endpoint_is_the_answer() {
    let _watchdog = watchdog("a_refusal_of_the_endpoint_is_the_answer");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(connect(1));
    house.asked().talk.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(client.answer(1), Ok(403));
}

/// RFC 8441 §5: to the client 2xx means that the WebSocket is open.
#[test]
fn an_answer_that_switches_nothing_opens_no_websocket() {
    let _watchdog = watchdog("an_answer_that_switches_nothing_opens_no_websocket");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    let heads = ["200 OK", "204 No Content", "302 Found", "426 Upgrade Required"];
    for (stream, head) in [1, 3, 5, 7].into_iter().zip(heads) {
        client.send(connect(stream));
        let length = if head.starts_with("204") { "" } else { "Content-Length: 0\r\n" };
        house.asked().talk.send(format!("HTTP/1.1 {head}\r\n{length}\r\n")).unwrap();
        let expected = if head.starts_with('2') { 502 } else { head[..3].parse().unwrap() };
        assert_eq!(client.answer(stream), Ok(expected), "{head}");
    }
    let log = house.proxy.stop().log;
    assert_eq!(log.iter().filter(|line| line["fault"] == "http_upgrade_failed").count(), 2, "{log:?}");
}

#[test]
fn a_client_that_is_gone_after_its_end_leaves_nothing_behind() {
    let _watchdog = watchdog("a_client_that_is_gone_after_its_end_leaves_nothing_behind");
    let (accepted, connections) = mpsc::channel::<TcpStream>();
    let (ended, ends) = mpsc::channel();
    thread::spawn(move || {
        for stream in connections {
            stream.set_read_timeout(Some(STEP)).unwrap();
            let Ok(mut socket) = accept(stream) else { return };
            let mut rest = Vec::new();
            let read = socket.get_mut().read_to_end(&mut rest).map(|_| rest);
            // It would go on for as long as it likes.
            let _ = ended.send((socket, read));
        }
    });
    let listener = Listener::start(accepted);
    let proxy = Proxy::start(&h2c(&config(&[&format!("http://{}", listener.address())], "")));
    let before = Vitals::of(&proxy);
    for resets in [true, false] {
        let mut client = Frames::open(proxy.web(), &[]);
        let opened = Vitals::of(&proxy);
        client.send(connect(1));
        assert_eq!(client.answer(1), Ok(200));
        client.send(frame(DATA, END, 1, b"bye"));
        let (_socket, read) = ends.recv_timeout(STEP).unwrap();
        assert_eq!(read.unwrap(), b"bye");
        if resets {
            client.send(reset(1, CANCEL));
            opened.wait_for(&proxy, "a reset");
        }
        drop(client);
        before.wait_for(&proxy, "the end of the connection");
    }
}
