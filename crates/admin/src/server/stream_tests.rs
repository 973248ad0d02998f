//! The event stream from outside.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use super::tests::{Running, Sample};
use super::{CONNECTION_TIME, LAST_ANSWER_TIME, STREAM_TIME, routes, serve_connection};
use crate::audit::AuditLog;
use crate::auth::{Auth, Peer};
use crate::control::Control;
use crate::events::STREAMS;
use crate::events::tests::event;
use crate::operation::App;
use crate::socket::tests::Folder;

/// Longest wait for a line.
const LONG: Duration = Duration::from_secs(30);

/// A stream of events as a client reads it.
struct Reader(BufReader<TcpStream>);

impl Reader {
    /// Asks, and reads the head of the answer. `more` are further lines of the request's head.
    fn open(running: &Running, path: &str, more: &str) -> (String, Self) {
        let mut stream = TcpStream::connect(running.addresses().admin.unwrap()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n{more}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = Self(BufReader::new(stream));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.0.read_line(&mut head).unwrap(), 0, "broke off: {head}");
        }
        (head, reader)
    }

    /// A stream that must have begun.
    fn stream(running: &Running, path: &str, more: &str) -> Self {
        let (head, reader) = Self::open(running, path, more);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
        reader
    }

    /// The lines of the next message, without those of the chunked coding.
    fn message(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            match line.strip_suffix("\r\n") {
                Some(_) => {}
                None if line == "\n" => return lines,
                None => lines.push(line.trim_end().to_owned()),
            }
        }
    }

    /// The id of the next message, which must be an event.
    fn id(&mut self) -> u64 {
        let lines = self.message();
        let field = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        assert_eq!(field("event: "), "endpoint_down", "{lines:?}");
        let data: serde_json::Value = serde_json::from_str(field("data: ")).unwrap();
        assert_eq!(data["id"].to_string(), field("id: "));
        data["id"].as_u64().unwrap()
    }

    /// What comes after the last message, to the end of the connection.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn publish(running: &Running, number: usize) {
    (0..number).for_each(|_| running.sample.events.publish(event("x\ny")));
}

#[test]
fn events_come_as_they_happen() {
    let running = Running::start(Some("secret"));
    publish(&running, 1);
    let mut reader = Reader::stream(&running, "/api/v1/events", "");
    publish(&running, 2);
    assert_eq!((reader.id(), reader.id()), (2, 3));
    publish(&running, 1);
    assert_eq!(reader.id(), 4);
}

#[test]
fn a_reader_goes_on_where_it_was() {
    let running = Running::start(Some("secret"));
    publish(&running, 4);
    for (path, more, first) in [
        ("/api/v1/events?since=0", "", 1),
        ("/api/v1/events?&since=3", "", 4),
        ("/api/v1/events", "Last-Event-ID: 2\r\n", 3),
        ("/api/v1/events?since=0", "Last-Event-ID: 3\r\n", 4),
        ("/api/v1/events?since=2", "Last-Event-ID: \r\n", 3),
        ("/api/v1/events?since=99", "", 1),
    ] {
        assert_eq!(Reader::stream(&running, path, more).id(), first, "{path} {more}");
    }
}

#[test]
fn a_reader_is_told_what_it_has_missed() {
    let running = Running::start(Some("secret"));
    publish(&running, 300);
    let mut reader = Reader::stream(&running, "/api/v1/events?since=10", "");
    assert_eq!(reader.message(), ["event: missed", "data: {\"missed\":34}"]);
    assert_eq!(reader.id(), 45);
}

#[test]
fn what_is_not_a_number_is_refused() {
    let running = Running::start(Some("secret"));
    for (path, more) in [
        ("/api/v1/events?since=", ""),
        ("/api/v1/events?since=-1", ""),
        ("/api/v1/events?since=1x", ""),
        ("/api/v1/events?since=1&since=1", ""),
        ("/api/v1/events?x=9&since=3", ""),
        ("/api/v1/events?since=x", "Last-Event-ID: 1\r\n"),
        ("/api/v1/events", "Last-Event-ID: x\r\n"),
        ("/api/v1/events", "Last-Event-ID: \u{e4}\r\n"),
    ] {
        let (head, _) = Reader::open(&running, path, more);
        assert!(head.starts_with("HTTP/1.1 400 "), "{path} {more}: {head}");
        assert!(head.contains("application/problem+json"), "{head}");
    }
}

#[test]
fn streams_have_a_bound_and_a_place_becomes_free_when_a_reader_leaves() {
    let running = Running::start(Some("secret"));
    let mut readers: Vec<_> = (0..STREAMS).map(|_| Reader::stream(&running, "/api/v1/events", "")).collect();
    let (head, _) = Reader::open(&running, "/api/v1/events", "");
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    readers.pop();
    // The server learns of it through the socket: when is not ours to say.
    let begun = Instant::now();
    loop {
        let (head, _) = Reader::open(&running, "/api/v1/events", "");
        if head.starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(begun.elapsed() < LONG, "{head}");
        std::thread::yield_now();
    }
    publish(&running, 1);
    assert!(readers.iter_mut().all(|reader| reader.id() == 1));
}

#[test]
fn streams_end_with_the_server() {
    let mut running = Running::start(Some("secret"));
    let mut reader = Reader::stream(&running, "/api/v1/events", "");
    publish(&running, 1);
    assert_eq!(reader.id(), 1);
    running.handle.take().expect("runs").shutdown();
    // The end of the last message's chunk, then the last chunk: not cut off.
    assert_eq!(reader.rest(), "\r\n0\r\n\r\n");
}

#[test]
fn only_a_token_opens_it() {
    let running = Running::start(Some("other"));
    let (head, _) = Reader::open(&running, "/api/v1/events", "");
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
}

#[test]
fn asking_for_the_head_takes_no_place() {
    let running = Running::start(Some("secret"));
    for _ in 0..=STREAMS {
        let head = running.send("HEAD /api/v1/events", "", "");
        assert_eq!((head.status, head.field("content-type")), (200, Some("text/event-stream")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_kept_alive_and_lives_longer_than_other_connections_but_not_for_ever() {
    let sample = Arc::new(Sample::default());
    let events = sample.events.clone();
    let (_stop, stopped) = watch::channel(false);
    let (client, server) = tokio::io::duplex(64 * 1024);
    let folder = Folder::new();
    let control = sample as Arc<dyn Control>;
    let audit = AuditLog::new(folder.0.clone(), Arc::clone(&control));
    let router =
        routes::admin(Arc::new(App::new(control, audit, crate::openapi::document, None)), Auth::Open);
    let head = crate::heads::Heads::default().connect();
    tokio::spawn(async move { serve_connection(server, (Peer::Unknown, &head), router, stopped).await });
    let (reader, mut writer) = tokio::io::split(client);
    writer.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let begun = tokio::time::Instant::now();
    let mut lines = tokio::io::BufReader::new(reader).lines();
    let mut comments = 0;
    while let Some(line) = lines.next_line().await.unwrap() {
        if line == ":" {
            comments += 1;
            let since = begun.elapsed();
            assert!(since.abs_diff(Duration::from_secs(15 * comments)) < Duration::from_secs(1), "{since:?}");
        }
        if begun.elapsed() > CONNECTION_TIME * 2 {
            break;
        }
    }
    events.publish(event("late"));
    while lines.next_line().await.unwrap().expect("the event comes") != "id: 1" {}
    while let Ok(Some(_)) = lines.next_line().await {}
    let expected = CONNECTION_TIME + STREAM_TIME + LAST_ANSWER_TIME;
    assert!(begun.elapsed().abs_diff(expected) < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn a_tap_tells_what_was_dropped_and_ends_when_its_time_is_up() {
    let running = Running::start(Some("secret"));
    let mut reader = Reader::stream(&running, "/api/v1/tap?route=shop&for=50ms", "Connection: close\r\n");
    assert_eq!(reader.message(), ["event: dropped", "data: {\"count\":7}"]);
    assert_eq!(reader.message(), ["event: end", "data: {\"reason\":\"time\"}"]);
    assert_eq!(reader.rest().trim(), "0");
}
