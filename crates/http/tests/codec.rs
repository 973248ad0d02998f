//! The meter around the codec that the proxy uses, without sockets: what is lawful to the one is lawful
//! to the other, the gate never leaves the codec waiting for nothing, and what the codec keeps to itself is known.
//!
//! A client of the same codec talks to a server through two queues of bytes; every party is polled in turn
//! until all is said. Sizes and cuts come from a seed that a failure names; `SEED=n` runs that one alone.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::{RecvStream, SendStream, client, server};
use http::{Request, Response};
use thalweg_core::{Side, limits};
use thalweg_http::h2::frame::{PREFACE, flag, kind};
use thalweg_http::h2::{FloodGuard, FloodLimits, FrameHead, FrameReader, Piece, Stop};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most rounds of polling; the longest conversation here takes a few thousand.
const ROUNDS: usize = 100_000;

/// One direction of a connection.
type Queue = Rc<RefCell<Vec<u8>>>;

/// An end of the connection as the codec sees it.
struct End {
    from: Queue,
    to: Queue,
    gate: Option<Rc<RefCell<Gate>>>,
    random: fastrand::Rng,
}

/// What the driver of a connection keeps beside the codec.
struct Gate {
    meter: FloodGuard,
    now_ms: u64,
    inbox: Vec<u8>,
    allowed: usize,
    stop: Stop,
}

impl Gate {
    fn new(peer: Side) -> Self {
        let meter = FloodGuard::new(peer, FloodLimits::default());
        Self { meter, now_ms: 0, inbox: Vec::new(), allowed: 0, stop: Stop::Bytes }
    }

    /// After the codec was polled: what it had to give out was taken, and the next turn begins.
    fn open(&mut self) {
        match self.stop {
            Stop::Heads => self.meter.opened(),
            Stop::Turn => self.meter.turn(limits::H2_TURN_BYTES),
            Stop::Bytes | Stop::Skip => {}
        }
    }

    /// Hands on what may be, of what has come.
    fn read(&mut self, from: &mut Vec<u8>, random: &mut fastrand::Rng, buffer: &mut ReadBuf<'_>) -> bool {
        while self.allowed == 0 {
            let allow = self.meter.inbound(&self.inbox, self.now_ms).expect("a lawful peer");
            (self.allowed, self.stop) = (allow.pass, allow.stop);
            self.inbox.drain(allow.pass..allow.pass + allow.skip);
            if allow.pass > 0 || allow.stop == Stop::Skip {
                continue;
            }
            if allow.stop != Stop::Bytes || from.is_empty() {
                return false;
            }
            let some = random.usize(1..=from.len());
            self.inbox.extend(from.drain(..some));
        }
        let part = self.allowed.min(buffer.remaining());
        self.allowed -= part;
        buffer.put_slice(&self.inbox[..part]);
        self.inbox.drain(..part);
        true
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let end = self.get_mut();
        let mut from = end.from.borrow_mut();
        match &end.gate {
            Some(gate) if gate.borrow_mut().read(&mut from, &mut end.random, buffer) => {}
            None if !from.is_empty() => {
                let most = from.len().min(buffer.remaining());
                let some = end.random.usize(1..=most);
                buffer.put_slice(&from[..some]);
                from.drain(..some);
            }
            _ => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let end = self.get_mut();
        let some = end.random.usize(1..=bytes.len());
        if let Some(gate) = &end.gate {
            gate.borrow_mut().meter.outbound(&bytes[..some]);
        }
        end.to.borrow_mut().extend_from_slice(&bytes[..some]);
        Poll::Ready(Ok(some))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A body on its way out: bytes that are left, in pieces of at most so many.
struct Outgoing {
    stream: SendStream<Bytes>,
    left: usize,
    piece: usize,
    ended: bool,
}

impl Outgoing {
    /// Sends what the window takes.
    fn poll(&mut self, gate: Option<&RefCell<Gate>>, cx: &mut Context<'_>) {
        if self.left > 0 {
            let want = self.left.min(self.piece);
            self.stream.reserve_capacity(want);
            let mut capacity = self.stream.capacity();
            if capacity == 0 {
                match self.stream.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(more))) => capacity = more,
                    _ => return,
                }
            }
            let size = want.min(capacity);
            if let Some(gate) = gate {
                let stream = self.stream.stream_id().as_u32();
                gate.borrow_mut().meter.gave(stream, size, size < want);
            }
            self.left -= size;
            self.stream.send_data(Bytes::from(vec![b'x'; size]), false).unwrap();
        } else {
            self.ended = true;
            self.stream.send_data(Bytes::new(), true).unwrap();
        }
    }
}

/// A body that comes in.
struct Incoming {
    stream: RecvStream,
    ended: bool,
}

impl Incoming {
    /// Takes what has come.
    fn poll(&mut self, cx: &mut Context<'_>) {
        match self.stream.poll_data(cx) {
            Poll::Ready(Some(bytes)) => {
                let size = bytes.unwrap().len();
                self.stream.flow_control().release_capacity(size).unwrap();
            }
            Poll::Ready(None) => self.ended = true,
            Poll::Pending => {}
        }
    }
}

/// Two queues with an end of each; the server's has a meter.
fn ends(random: &mut fastrand::Rng) -> (End, End, Rc<RefCell<Gate>>) {
    let (up, down) = (Queue::default(), Queue::default());
    let gate = Rc::new(RefCell::new(Gate::new(Side::Downstream)));
    let client = End { from: down.clone(), to: up.clone(), gate: None, random: random.fork() };
    let server = End { from: up, to: down, gate: Some(gate.clone()), random: random.fork() };
    (client, server, gate)
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Requests with bodies both ways until `count` are answered whole.
fn converse(seed: u64, count: usize, most: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let cx = &mut Context::from_waker(Waker::noop());
    let (client_end, server_end, gate) = ends(&mut random);
    let mut opening = Box::pin(client::handshake(client_end));
    let Poll::Ready(Ok((mut requests, connection))) = poll(&mut opening) else { panic!("no client") };
    let mut connection = Box::pin(connection);
    let mut opening = Box::pin(server::Builder::new().max_concurrent_streams(20).handshake(server_end));
    let mut server = loop {
        let _ = poll(&mut connection);
        if let Poll::Ready(server) = poll(&mut opening) {
            break server.unwrap();
        }
    };
    let (mut asked, mut answered) = (0, 0);
    let mut outgoing: Vec<(bool, Outgoing)> = Vec::new();
    let mut incoming: Vec<(bool, Incoming)> = Vec::new();
    let mut answers = Vec::new();
    for round in 0.. {
        assert!(round < ROUNDS, "no end, seed {seed}: {answered} of {count}");
        if asked < count && matches!(requests.poll_ready(cx), Poll::Ready(Ok(()))) && random.bool() {
            let request = Request::post("http://a.example/x").header("n", "v".repeat(random.usize(..200)));
            let (answer, stream) = requests.send_request(request.body(()).unwrap(), false).unwrap();
            let (left, piece) = (random.usize(..most), random.usize(1..20_000));
            outgoing.push((false, Outgoing { stream, left, piece, ended: false }));
            answers.push(Box::pin(answer));
            asked += 1;
        }
        let _ = poll(&mut connection);
        while let Poll::Ready(request) = server.poll_accept(cx) {
            let (request, mut respond) = request.expect("an open connection").unwrap();
            gate.borrow_mut().meter.opened();
            incoming.push((true, Incoming { stream: request.into_body(), ended: false }));
            let stream = respond.send_response(Response::new(()), false).unwrap();
            let (left, piece) = (random.usize(..most), random.usize(1..20_000));
            outgoing.push((true, Outgoing { stream, left, piece, ended: false }));
        }
        gate.borrow_mut().open();
        gate.borrow_mut().now_ms += u64::from(random.u8(..) == 0);
        for (serves, outgoing) in &mut outgoing {
            outgoing.poll(serves.then_some(&*gate), cx);
        }
        answers.retain_mut(|answer| match poll(answer) {
            Poll::Ready(response) => {
                let stream = response.unwrap().into_body();
                incoming.push((false, Incoming { stream, ended: false }));
                false
            }
            Poll::Pending => true,
        });
        for (_, incoming) in &mut incoming {
            incoming.poll(cx);
        }
        outgoing.retain(|(_, outgoing)| !outgoing.ended);
        answered += incoming.iter().filter(|(served, incoming)| !served && incoming.ended).count();
        incoming.retain(|(_, incoming)| !incoming.ended);
        if answered == count {
            return;
        }
    }
}

#[test]
fn lawful_clients_of_the_same_codec_are_served_through_the_gate() {
    let seeds = std::env::var("SEED").map_or(0..20, |seed| {
        let seed = seed.parse().unwrap();
        seed..seed + 1
    });
    for seed in seeds {
        converse(seed, 30, 100_000);
        converse(seed, 300, 20);
    }
}

/// A field that is written out, without a table (RFC 7541 §6.2.2); both are shorter than 127 bytes.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0, name.len() as u8];
    field.extend_from_slice(name.as_bytes());
    field.push(value.len() as u8);
    field.extend_from_slice(value.as_bytes());
    field
}

/// The field section of a GET, with this one behind the others.
fn section(path: &[u8]) -> Vec<u8> {
    let others = [(":method", "GET"), (":scheme", "http"), (":authority", "a.example")];
    let others: Vec<u8> = others.iter().flat_map(|(name, value)| literal(name, value)).collect();
    [&others, path].concat()
}

/// What becomes of one request: it is given out, with a path that had a fragment or not, or the stream is reset with a
/// code.
fn ask(section: &[u8]) -> Result<(String, bool), u32> {
    let mut random = fastrand::Rng::with_seed(7);
    let cx = &mut Context::from_waker(Waker::noop());
    let (client, end, gate) = ends(&mut random);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let head = FrameHead { len: section.len() as u32, kind: kind::HEADERS, flags, stream: 1 };
    let settings = FrameHead { kind: kind::SETTINGS, ..FrameHead::default() };
    client.to.borrow_mut().extend([&PREFACE[..], &settings.write(), &head.write(), section].concat());
    let mut opening = Box::pin(server::handshake(end));
    let Poll::Ready(Ok(mut server)) = poll(&mut opening) else { panic!("no server") };
    let accepted = server.poll_accept(cx);
    if let Poll::Ready(Some(Ok((request, _)))) = accepted {
        let has_fragment = gate.borrow().meter.has_fragment(1);
        return Ok((request.uri().path_and_query().unwrap().to_string(), has_fragment));
    }
    let written = client.from.borrow();
    let (mut reader, mut rest, mut is_reset) = (FrameReader::after(0), &written[..], false);
    while let Some(piece) = reader.next(&mut rest) {
        match piece {
            Piece::Head(head) => is_reset = matches!(head.kind, kind::RST_STREAM | kind::GOAWAY),
            Piece::Payload { bytes, .. } if is_reset => return Err(u32::from(bytes[bytes.len().min(8) - 1])),
            Piece::Payload { .. } => {}
        }
    }
    panic!("neither an answer nor a reset");
}

/// The codec cuts the fragment off before anybody can see it; the meter tells.
#[test]
fn a_fragment_that_the_codec_cuts_off_is_known() {
    assert_eq!(ask(&section(&literal(":path", "/a?b"))), Ok(("/a?b".to_owned(), false)));
    let cut = [("/a#b", "/a"), ("/#", "/"), ("/a?b#", "/a?b"), ("/admin#/../public", "/admin")];
    for (path, rest) in cut {
        assert_eq!(ask(&section(&literal(":path", path))), Ok((rest.to_owned(), true)), "{path}");
    }
    // `/a#a`, packed, with each form of its name.
    let value = [0x84, 0x60, 0x7f, 0xf4, 0x3f];
    let names: [&[u8]; 4] = [&[0x04], &[0x45], b"\x10\x05:path", &[0x40, 0x84, 0xb9, 0x58, 0xd3, 0x3f]];
    for name in names {
        assert_eq!(ask(&section(&[name, &value].concat())), Ok(("/a".to_owned(), true)), "{name:?}");
    }
}

/// The code of a text in HPACK is unique: the meter looks for that of `:path`.
#[test]
fn the_codec_takes_no_other_code_of_a_name() {
    let padded = [0, 0x85, 0xb9, 0x58, 0xd3, 0x3f, 0xff, 0x04, b'/', b'a', b'#', b'a'];
    assert!(ask(&section(&padded)).is_err(), "padding of a byte");
    let open = [0, 0x84, 0xb9, 0x58, 0xd3, 0x38, 0x04, b'/', b'a', b'#', b'a'];
    assert!(ask(&section(&open)).is_err(), "padding that is none");
}
