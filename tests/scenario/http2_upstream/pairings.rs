//! Clients and endpoints of either version: what each of the four pairings carries.
//!
//! The endpoint is always the test's own, of HTTP/1.1; where the proxy is to speak HTTP/2 with it, another proxy stands
//! between them that takes HTTP/2 from clients.

use std::io::Read;
use std::net::SocketAddr;

use thalweg_tests::h2_frames::{
    CANCEL, DATA, END, END_HEADERS, HEADERS, frame, literal, reset, section, window_update,
};
use thalweg_tests::talk::chunk;
use thalweg_tests::{Frames, Noise, Proxy, Talk};

use super::{config, h2c, http2, watchdog};
use crate::scenario::scripted::{Asked, House};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Speaks {
    Http1,
    Http2,
}

/// One pairing.
struct Pair {
    client: Speaks,
    case: String,
    house: House,
    front: Option<Proxy>,
}

/// A client's connection.
enum Client {
    Http1(Talk),
    Http2(Frames),
}

/// What a client got.
#[derive(Debug, Default, Eq, PartialEq)]
struct Answer {
    interim: Vec<u16>,
    status: u16,
    body: Vec<u8>,
    has_trailers: bool,
    /// Its end was said.
    is_whole: bool,
}

/// Runs this with all four.
fn pairings(test: impl Fn(&Pair)) {
    for client in [Speaks::Http1, Speaks::Http2] {
        for upstream in [Speaks::Http1, Speaks::Http2] {
            let house = House::start_changed(1, ("", ""), h2c);
            let front = (upstream == Speaks::Http2).then(|| {
                Proxy::start(&http2(&h2c(&config(&[&format!("http://{}", house.proxy.web())], ""))))
            });
            let case = format!("{client:?} to {upstream:?}");
            test(&Pair { client, case, house, front });
        }
    }
}

impl Pair {
    fn address(&self) -> SocketAddr {
        self.front.as_ref().unwrap_or(&self.house.proxy).web()
    }

    /// A client that has said the head of a request whose body comes in pieces, and what the endpoint was asked.
    fn post(&self, fields: &[(&str, &str)]) -> (Client, Asked) {
        let client = match self.client {
            Speaks::Http1 => {
                let mut talk = Talk::open(self.address()).unwrap();
                let framing = match fields.iter().any(|field| field.0 == "content-length") {
                    true => "",
                    false => "Transfer-Encoding: chunked\r\n",
                };
                let fields: String =
                    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                talk.send(format!("POST /up HTTP/1.1\r\nHost: a.test\r\n{framing}{fields}\r\n")).unwrap();
                Client::Http1(talk)
            }
            Speaks::Http2 => {
                let frames = Frames::open(self.address(), &[]);
                frames.send(window_update(0, 1 << 24));
                frames.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/up", fields)));
                frames.send(window_update(1, 1 << 24));
                Client::Http2(frames)
            }
        };
        (client, self.house.asked())
    }

    /// The same, of a request without a body.
    fn get(&self) -> (Client, Asked) {
        let client = match self.client {
            Speaks::Http1 => {
                let mut talk = Talk::open(self.address()).unwrap();
                talk.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
                Client::Http1(talk)
            }
            Speaks::Http2 => {
                let frames = Frames::open(self.address(), &[]);
                frames.send(thalweg_tests::h2_frames::request(1, "/"));
                frames.send([window_update(0, 1 << 24), window_update(1, 1 << 24)].concat());
                Client::Http2(frames)
            }
        };
        (client, self.house.asked())
    }
}

impl Client {
    /// Sends a piece of a body without a length.
    fn piece(&mut self, bytes: &[u8]) {
        match self {
            Self::Http1(talk) => talk.send(chunk(bytes)).unwrap(),
            Self::Http2(frames) => frames.send(frame(DATA, 0, 1, bytes)),
        }
    }

    /// Sends bytes of a body with a length.
    fn plain(&mut self, bytes: &[u8], last: bool) {
        match self {
            Self::Http1(talk) => talk.send(bytes).unwrap(),
            Self::Http2(frames) => frames.send(frame(DATA, if last { END } else { 0 }, 1, bytes)),
        }
    }

    /// Ends a body without a length, with a trailer.
    fn end(&mut self) {
        match self {
            Self::Http1(talk) => talk.send("0\r\nx-sum: 5\r\n\r\n").unwrap(),
            Self::Http2(frames) => frames.send(frame(HEADERS, END | END_HEADERS, 1, &literal("x-sum", "5"))),
        }
    }

    /// Goes away.
    fn leave(self) {
        match self {
            Self::Http1(talk) => talk.reset(),
            Self::Http2(frames) => {
                frames.send(reset(1, CANCEL));
                // The connection stays a while.
                std::mem::forget(frames);
            }
        }
    }

    fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        match self {
            Self::Http1(talk) => {
                let head = loop {
                    let head = talk.head().unwrap();
                    match head.status() {
                        interim @ 100..=199 => answer.interim.push(interim),
                        _ => break head,
                    }
                };
                answer.status = head.status();
                let mut body = talk.body(&head);
                answer.is_whole = body.each(|part| answer.body.extend_from_slice(part)).is_ok();
                answer.has_trailers = body.trailer("x-status").is_some();
            }
            Self::Http2(frames) => frames.until(|frame| {
                if frame.stream != 1 {
                    return None;
                }
                match (frame.kind, frame.status()) {
                    (DATA, _) => answer.body.extend_from_slice(&frame.payload),
                    (HEADERS, Some(interim @ 100..=199)) => answer.interim.push(interim),
                    (HEADERS, Some(status)) => answer.status = status,
                    (HEADERS, None) => answer.has_trailers = true,
                    _ => {}
                }
                answer.is_whole = frame.ends();
                (frame.ends() || frame.code().is_some()).then_some(())
            }),
        }
        answer
    }
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn bodies_without_a_length_and_trailers_go_both_ways() {
    let _watchdog = watchdog("bodies_without_a_length_and_trailers_go_both_ways");
    pairings(|pair| {
        let case = &pair.case;
        let (mut client, mut asked) = pair.post(&[("te", "trailers")]);
        let body = Noise::new(3).take(40_000);
        for part in body.chunks(10_000) {
            client.piece(part);
        }
        client.end();
        let (mut got, mut reader) = (Vec::new(), asked.talk.body(&asked.head));
        reader.each(|part| got.extend_from_slice(part)).unwrap();
        assert!(got == body, "{case}: {} bytes", got.len());
        assert_eq!(reader.trailer("x-sum"), Some("5"), "{case}");
        drop(reader);
        assert_eq!(asked.head.value("te"), Some("trailers"), "{case}");
        asked.talk.send(CHUNKED).unwrap();
        for part in body.chunks(9000) {
            asked.talk.send(chunk(part)).unwrap();
        }
        asked.talk.send("0\r\nX-Status: 7\r\n\r\n").unwrap();
        let answer = client.answer();
        assert!(
            answer.body == body && answer.is_whole && answer.has_trailers,
            "{case}: {}",
            answer.body.len()
        );
    });
}

#[test]
fn bodies_with_a_length_keep_it() {
    let _watchdog = watchdog("bodies_with_a_length_keep_it");
    pairings(|pair| {
        let case = &pair.case;
        let (mut client, mut asked) = pair.post(&[("content-length", "300000")]);
        assert_eq!(asked.head.value("content-length"), Some("300000"), "{case}");
        let body = Noise::new(4).take(300_000);
        let reader = std::thread::spawn(move || (asked.body(), asked));
        match &mut client {
            Client::Http1(talk) => talk.send(&body).unwrap(),
            Client::Http2(frames) => {
                // What the windows hold at first; they are opened as the endpoint takes it.
                let (mut at, mut stream, mut connection) = (0, 65_535_usize, 65_535_usize);
                while at < body.len() {
                    let n = (body.len() - at).min(stream).min(connection).min(16_000);
                    if n == 0 {
                        let (of, more) = frames.until(|frame| Some((frame.stream, frame.increment()?)));
                        *(if of == 0 { &mut connection } else { &mut stream }) += more;
                        continue;
                    }
                    let flags = if at + n == body.len() { END } else { 0 };
                    frames.send(frame(DATA, flags, 1, &body[at..at + n]));
                    (at, stream, connection) = (at + n, stream - n, connection - n);
                }
            }
        }
        let (got, mut asked) = reader.join().unwrap();
        assert!(got == body, "{case}: {} bytes", got.len());
        asked.talk.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n").unwrap();
        asked.talk.send(&body).unwrap();
        let answer = client.answer();
        assert!(answer.body == body && answer.is_whole, "{case}: {} bytes", answer.body.len());
    });
}

#[test]
fn who_expects_to_be_told_to_go_on_is() {
    let _watchdog = watchdog("who_expects_to_be_told_to_go_on_is");
    pairings(|pair| {
        let case = &pair.case;
        let (mut client, mut asked) = pair.post(&[("expect", "100-continue"), ("content-length", "2")]);
        assert_eq!(asked.head.value("expect"), Some("100-continue"), "{case}");
        asked
            .talk
            .send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n")
            .unwrap();
        client.plain(b"hi", true);
        assert_eq!(asked.body(), b"hi", "{case}");
        asked.talk.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        let answer = client.answer();
        assert_eq!(
            (answer.interim, answer.status, answer.body),
            (vec![100, 103], 200, b"ok".to_vec()),
            "{case}"
        );
    });
}

#[test]
fn answers_without_a_body_are_whole() {
    let _watchdog = watchdog("answers_without_a_body_are_whole");
    pairings(|pair| {
        for said in [
            "204 No Content\r\n\r\n",
            "304 Not Modified\r\nETag: \"a\"\r\n\r\n",
            "200 OK\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (mut client, mut asked) = pair.get();
            asked.talk.send(format!("HTTP/1.1 {said}")).unwrap();
            let answer = match &mut client {
                // Its body could not be told from none.
                Client::Http1(talk) => (talk.head().unwrap().status(), true),
                Client::Http2(_) => {
                    let answer = client.answer();
                    (answer.status, answer.is_whole && answer.body.is_empty())
                }
            };
            assert_eq!(answer, (said[..3].parse().unwrap(), true), "{}: {said}", pair.case);
        }
    });
}

#[test]
fn an_answer_that_breaks_off_looks_broken() {
    let _watchdog = watchdog("an_answer_that_breaks_off_looks_broken");
    pairings(|pair| {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        ] {
            let (mut client, mut asked) = pair.get();
            asked.talk.send(head).unwrap();
            // A head that has not gone out when its body breaks off gives way.
            let is_whole = match &mut client {
                Client::Http1(talk) => {
                    let head = talk.head().unwrap();
                    drop(asked);
                    talk.body(&head).each(|_| {}).is_ok()
                }
                Client::Http2(frames) => {
                    assert_eq!(frames.answer(1), Ok(200), "{}", pair.case);
                    drop(asked);
                    frames.until(|frame| (frame.ends() || frame.code().is_some()).then(|| frame.ends()))
                }
            };
            assert!(!is_whole, "{}: {head}", pair.case);
        }
    });
}

#[test]
fn a_client_that_leaves_ends_the_attempt() {
    let _watchdog = watchdog("a_client_that_leaves_ends_the_attempt");
    pairings(|pair| {
        let (client, mut asked) = pair.get();
        client.leave();
        asked.talk.assert_ends(&pair.case);
        let (mut client, mut asked) = pair.post(&[]);
        client.piece(b"hello");
        client.leave();
        asked.talk.assert_ends(&pair.case);
    });
}

#[test]
fn an_answer_may_come_before_the_request_is_whole() {
    let _watchdog = watchdog("an_answer_may_come_before_the_request_is_whole");
    pairings(|pair| {
        let (mut client, mut asked) = pair.post(&[]);
        client.piece(b"hello");
        asked
            .talk
            .send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            .unwrap();
        let answer = client.answer();
        assert_eq!(
            (answer.status, &answer.body[..], answer.is_whole),
            (403, &b"no"[..], true),
            "{}",
            pair.case
        );
    });
}

#[test]
fn bytes_go_on_as_they_come() {
    let _watchdog = watchdog("bytes_go_on_as_they_come");
    pairings(|pair| {
        let (mut client, mut asked) = pair.post(&[]);
        // Each waits for the other: nothing is kept until there is more.
        client.piece(b"ping");
        let mut said = [0; 4];
        asked.talk.body(&asked.head).read_exact(&mut said).unwrap();
        assert_eq!(&said, b"ping", "{}", pair.case);
        asked.talk.send(format!("{CHUNKED}4\r\npong\r\n")).unwrap();
        let got = match &mut client {
            Client::Http1(talk) => {
                let head = talk.head().unwrap();
                let mut got = vec![0; 4];
                talk.body(&head).read_exact(&mut got).unwrap();
                got
            }
            Client::Http2(frames) => {
                frames.until(|frame| (frame.kind == DATA).then(|| frame.payload.clone()))
            }
        };
        assert_eq!(got, b"pong", "{}", pair.case);
    });
}
