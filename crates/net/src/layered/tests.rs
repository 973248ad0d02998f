//! A toy protocol between two sockets: every cut of reads and writes, tiny kernel buffers, records without plaintext.

use super::*;
use crate::{Owner, Reactor};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::any::Any;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg_core::Sealed;

const DATA: u8 = 0;
const SILENT: u8 = 1;
const END: u8 = 2;
const HELLO: u8 = 3;
/// Type and length.
const HEAD: usize = 3;

/// Records of up to `record` bytes, each byte turned; silent records between them.
#[derive(Debug)]
struct Toy {
    random: fastrand::Rng,
    record: usize,
    to_say: Vec<u8>,
    shaking: bool,
    /// Opened and not handed out.
    rest: Vec<u8>,
}

impl Toy {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let record = random.usize(1..16_000);
        Self { random, record, to_say: vec![HELLO, 0, 0], shaking: true, rest: Vec::new() }
    }

    fn hand_out(&mut self, into: &mut [u8], opened: &mut Opened) {
        let n = self.rest.len().min(into.len() - opened.written);
        into[opened.written..][..n].copy_from_slice(&self.rest[..n]);
        self.rest.drain(..n);
        opened.written += n;
    }
}

fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let turned = bytes.iter().map(|byte| byte ^ 0x5a);
    [kind, length[0], length[1]].into_iter().chain(turned).collect()
}

impl Layer for Toy {
    fn open(&mut self, received: &mut [u8], into: &mut [u8]) -> io::Result<Opened> {
        let mut opened = Opened::default();
        self.hand_out(into, &mut opened);
        while self.rest.is_empty() {
            let left = &received[opened.consumed..];
            let Some(head) = left.first_chunk::<HEAD>() else { break };
            let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
            let Some(body) = left[HEAD..].get(..length) else { break };
            match head[0] {
                DATA => self.rest = body.iter().map(|byte| byte ^ 0x5a).collect(),
                SILENT => {}
                END => opened.ended = true,
                HELLO => self.shaking = false,
                _ => {
                    self.to_say = record(SILENT, b"what?");
                    return Err(io::Error::other("an unknown record"));
                }
            }
            opened.consumed += HEAD + length;
            self.hand_out(into, &mut opened);
            if opened.ended {
                break;
            }
        }
        opened.more = !self.rest.is_empty();
        Ok(opened)
    }

    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut [u8]) -> io::Result<Sealed> {
        let mut written = 0;
        if self.random.u8(..4) == 0 {
            let silent = record(SILENT, b"\0");
            if silent.len() < out.len() {
                out[..silent.len()].copy_from_slice(&silent);
                written = silent.len();
            }
        }
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let taken = bytes.len().min(self.record).min(out.len().saturating_sub(written + HEAD));
        if taken > 0 {
            let record = record(DATA, &bytes[..taken]);
            out[written..][..record.len()].copy_from_slice(&record);
            written += record.len();
        }
        Ok(Sealed { taken, written })
    }

    fn say(&mut self, out: &mut [u8]) -> usize {
        let n = self.to_say.len().min(out.len());
        out[..n].copy_from_slice(&self.to_say[..n]);
        self.to_say.drain(..n);
        n
    }

    fn part(&mut self, out: &mut [u8]) -> usize {
        out[..HEAD].copy_from_slice(&record(END, b""));
        HEAD
    }

    fn is_shaking_hands(&self) -> bool {
        self.shaking
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Two connected sockets with little room in the kernel, each with a layer, on one reactor.
fn pair(seed: u64) -> (Rc<Reactor>, [Socket; 2]) {
    let reactor = Rc::new(Reactor::new().unwrap());
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let sockets = [(a, 0), (b, 1)].map(|(fd, number)| {
        rustix::net::sockopt::set_socket_send_buffer_size(&fd, 4096).unwrap();
        let mut socket = Socket::accepted(&reactor, fd, Owner(number)).unwrap();
        socket.push_layer(Box::new(Toy::new(seed + number)), &[]);
        socket
    });
    (reactor, sockets)
}

/// One direction: what is to be sent and what came.
struct Way {
    bytes: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    over: bool,
}

/// Sends and receives what goes now; says whether anything moved.
fn step(random: &mut fastrand::Rng, [from, to]: [&Socket; 2], way: &mut Way) -> bool {
    let mut moved = false;
    if way.sent < way.bytes.len() {
        let left = &way.bytes[way.sent..];
        // The same bytes come first again; how many are offered, and in how many pieces, differs.
        let offered = &left[..random.usize(1..=left.len().min(100_000))];
        let cut = random.usize(..=offered.len());
        let slices = [IoSlice::new(&offered[..cut]), IoSlice::new(&offered[cut..])];
        if let Poll::Ready(sent) = from.poll_send(&slices) {
            way.sent += sent.unwrap();
            moved = true;
        }
    }
    if way.sent == way.bytes.len() {
        from.part();
    }
    let mut buffer = vec![0; random.usize(1..40_000)];
    if !way.over
        && let Poll::Ready(received) = to.poll_recv(&mut buffer)
    {
        let n = received.unwrap();
        way.received.extend_from_slice(&buffer[..n]);
        way.over = n == 0;
        moved = true;
    }
    moved
}

fn converse(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (reactor, [a, b]) = pair(seed);
    let mut way = |from: usize| {
        let length = random.usize(8..400_000) >> (from * 3);
        let bytes = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        Way { bytes, sent: 0, received: Vec::new(), over: false }
    };
    let (mut there, mut back) = (way(0), way(1));
    let end = Instant::now() + Duration::from_secs(20);
    let (mut shaken, mut called) = ([false; 2], Vec::new());
    while !(there.over && back.over) {
        let mut moved = false;
        for (at, socket) in [&a, &b].into_iter().enumerate() {
            if !shaken[at] {
                let shakes = socket.poll_handshake();
                shaken[at] = shakes.is_ready();
                moved |= shaken[at];
            }
        }
        if shaken == [true; 2] {
            moved |= step(&mut random, [&a, &b], &mut there);
            moved |= step(&mut random, [&b, &a], &mut back);
        }
        if !moved {
            // `Pending` on both sides: an event, or a record that waits for its turn, must bring it on.
            let waits = (a.is_readable() && !there.over) || (b.is_readable() && !back.over);
            let time = Duration::from_millis(if waits { 0 } else { 2000 });
            let events = reactor.wait(Some(time), &mut called).unwrap();
            assert!(
                events > 0 || waits,
                "seed {seed}: nobody is called: {} of {}",
                there.received.len(),
                there.bytes.len()
            );
        }
        assert!(Instant::now() < end, "seed {seed}: it does not end");
    }
    assert!(there.received == there.bytes && back.received == back.bytes, "seed {seed}: other bytes came");
}

#[test]
fn bytes_arrive_whole_and_in_order_whatever_the_kernel_takes() {
    let seeds = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .map_or(0..200, |seed: u64| seed..seed + 1);
    seeds.for_each(converse);
}

fn shaken(seed: u64) -> (Rc<Reactor>, [Socket; 2]) {
    let (reactor, sockets) = pair(seed);
    let mut called = Vec::new();
    while sockets.each_ref().map(|socket| socket.poll_handshake().is_ready()) != [true; 2] {
        assert!(reactor.wait(Some(Duration::from_secs(2)), &mut called).unwrap() > 0);
    }
    (reactor, sockets)
}

/// What comes on the wire, as it is.
fn raw(socket: &Socket, reactor: &Reactor) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    reactor.wait(Some(Duration::ZERO), &mut Vec::new()).unwrap();
    while let Poll::Ready(Ok(n @ 1..)) = socket.poll_discard(&mut buffer) {
        bytes.extend_from_slice(&buffer[..n]);
    }
    bytes
}

#[test]
fn the_last_bytes_bring_the_farewell_and_a_broken_answer_has_none() {
    let (reactor, [a, b]) = shaken(1);
    assert!(matches!(a.poll_send_last(b"all"), Poll::Ready(Ok(3))));
    a.shutdown_write();
    assert!(raw(&b, &reactor).ends_with(&[record(DATA, b"all"), record(END, b"")].concat()), "once");
    let (reactor, [a, b]) = shaken(1);
    assert!(matches!(a.poll_send(&[IoSlice::new(b"half")]), Poll::Ready(Ok(4))));
    a.reset_on_close();
    a.shutdown_write();
    assert!(raw(&b, &reactor).ends_with(&record(DATA, b"half")));
}

#[test]
fn an_end_that_was_not_told_is_an_error() {
    let (reactor, [a, b]) = shaken(1);
    drop(a);
    reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    match b.poll_recv(&mut [0; 16]) {
        Poll::Ready(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_that_was_not_told_is_one_where_that_is_enough() {
    let (reactor, [a, b]) = shaken(1);
    b.believe_any_end();
    drop(a);
    reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    assert!(matches!(b.poll_recv(&mut [0; 16]), Poll::Ready(Ok(0))) && b.peer_closed());
}

#[test]
fn a_connection_that_is_closed_at_rest_says_farewell() {
    let (reactor, [a, b]) = shaken(1);
    a.rest(true);
    drop(a);
    assert_eq!(raw(&b, &reactor), record(END, b""));
    let (reactor, [a, b]) = shaken(1);
    a.rest(true);
    a.rest(false);
    drop(a);
    assert_eq!(raw(&b, &reactor), b"");
}

#[test]
fn a_peer_that_breaks_the_protocol_is_told_and_gets_no_farewell() {
    let (reactor, [a, b]) = shaken(1);
    assert!(matches!(b.raw_send(&[IoSlice::new(&record(9, b"?"))], false), Poll::Ready(Ok(_))));
    reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    assert!(matches!(a.poll_recv(&mut [0; 16]), Poll::Ready(Err(_))));
    a.shutdown_write();
    assert_eq!(raw(&b, &reactor), record(SILENT, b"what?"));
}

#[test]
fn a_connection_that_waits_takes_in_what_concerns_only_the_layer() {
    let (reactor, [a, b]) = shaken(1);
    assert!(a.is_quiet() && a.is_silent());
    assert!(matches!(b.raw_send(&[IoSlice::new(&record(SILENT, b"news"))], false), Poll::Ready(Ok(_))));
    assert!(a.is_quiet(), "the kernel is asked, and the record taken in");
    assert!(matches!(b.raw_send(&[IoSlice::new(&record(SILENT, b"news"))], false), Poll::Ready(Ok(_))));
    reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    assert!(a.is_readable() && a.is_silent() && !a.is_readable());
    assert!(matches!(b.raw_send(&[IoSlice::new(&record(DATA, b"unasked"))], false), Poll::Ready(Ok(_))));
    reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    assert!(!a.is_silent() && !a.is_quiet());
    let mut buffer = [0; 16];
    assert!(matches!(a.poll_recv(&mut buffer), Poll::Ready(Ok(7))), "and nothing of it is lost");
    assert_eq!(&buffer[..7], b"unasked");
}

#[test]
fn a_pipe_does_not_come_near_it() {
    let (_reactor, [a, _b]) = shaken(1);
    let pipe = crate::Pipe::new(64 * 1024).unwrap();
    for moved in [a.poll_fill(&pipe, 1), a.poll_drain(&pipe)] {
        assert!(matches!(moved, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Unsupported));
    }
}

#[test]
fn it_goes_to_another_reactor_with_all_it_holds() {
    let (reactor, [a, b]) = shaken(1);
    assert!(matches!(b.raw_send(&[IoSlice::new(&record(DATA, b"abc")[..4])], false), Poll::Ready(Ok(4))));
    reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    assert!(a.poll_recv(&mut [0; 16]).is_pending());
    let other = Rc::new(Reactor::new().unwrap());
    let a = Socket::watched(&other, a.unwatch(), Owner(7)).unwrap();
    assert!(matches!(b.raw_send(&[IoSlice::new(&record(DATA, b"abc")[4..])], false), Poll::Ready(Ok(2))));
    other.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    assert!(matches!(a.poll_recv(&mut [0; 16]), Poll::Ready(Ok(3))));
}

#[test]
fn an_answer_is_read_though_what_waits_cannot_be_sent() {
    let (reactor, [a, b]) = shaken(1);
    let large = vec![7; 1_000_000];
    let mut at = 0;
    while let Poll::Ready(n) = a.poll_send(&[IoSlice::new(&large[at..])]) {
        at += n.unwrap();
    }
    assert!(matches!(b.poll_send(&[IoSlice::new(b"413")]), Poll::Ready(Ok(3))));
    drop(b);
    reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
    let mut buffer = [0; 16];
    assert!(matches!(a.poll_recv(&mut buffer), Poll::Ready(Ok(3))));
    assert_eq!(&buffer[..3], b"413");
    assert!(matches!(a.poll_send(&[IoSlice::new(&large[at..])]), Poll::Ready(Err(_))));
}

#[test]
fn records_that_went_whole_count_while_others_wait() {
    let large = vec![7; AT_ONCE];
    let counted = (0..50).filter(|seed| {
        let (_reactor, [a, _b]) = shaken(*seed);
        // Of large records none may go whole.
        let Poll::Ready(Ok(first)) = a.poll_send(&[IoSlice::new(&large)]) else { return false };
        assert!(first < AT_ONCE && a.uncounted() <= (AT_ONCE - first) as u64);
        assert!(a.uncounted() > 0 && a.poll_send(&[IoSlice::new(&large[first..])]).is_pending());
        true
    });
    assert!(counted.count() > 0);
}

#[test]
fn a_reactor_counts_what_its_layers_hold_as_long_as_it_has_them() {
    let unsent = (0..20).filter(|seed| {
        let (reactor, [a, b]) = shaken(*seed);
        assert_eq!(reactor.layer_bytes(), 0, "at rest");
        let part = &record(DATA, &[7; 900])[..600];
        assert!(matches!(b.raw_send(&[IoSlice::new(part)], false), Poll::Ready(Ok(600))));
        reactor.wait(Some(Duration::from_secs(2)), &mut Vec::new()).unwrap();
        assert!(a.poll_recv(&mut [0; 16]).is_pending());
        let part = reactor.layer_bytes();
        assert!(part >= 600, "a part of a record: {part}");
        let large = vec![7; 1_000_000];
        let mut at = 0;
        while let Poll::Ready(n) = a.poll_send(&[IoSlice::new(&large[at..])]) {
            at += n.unwrap();
        }
        let all = reactor.layer_bytes();
        let other = Rc::new(Reactor::new().unwrap());
        let a = Socket::watched(&other, a.unwatch(), Owner(7)).unwrap();
        assert_eq!((reactor.layer_bytes(), other.layer_bytes()), (0, all));
        drop(a);
        assert_eq!(other.layer_bytes(), 0);
        all > part
    });
    assert!(unsent.count() > 0, "sealed bytes that the peer does not take are counted");
}
