//! The relay under a deterministic simulation: two streams that read short, write short, refuse and
//! break off wherever the seed says. A failure names its seed; `SEED=n` runs that one alone.

use super::*;
use crate::buffers::chunk_queue::HIGH_MARK;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use thalweg_filter::Bandwidth;
use thalweg_net::Pipe;

/// A stream whose kernel is a random number generator.
struct Simulated {
    random: RefCell<fastrand::Rng>,
    /// What its peer sends, of which `read` bytes are gone.
    incoming: Vec<u8>,
    read: Cell<usize>,
    /// What its peer has been given.
    outgoing: RefCell<Vec<u8>>,
    /// Bytes after which it breaks, in either direction.
    breaks_at: usize,
    /// How often it refuses, of 10.
    reluctance: u32,
    /// Whether its kernel can splice.
    splices: bool,
    /// A pipe must not come near it.
    layered: bool,
    /// Bytes that went into a pipe.
    filled: Cell<usize>,
    /// A splice left open whether there is more.
    open: Cell<bool>,
    /// Its end is known from the first byte on: then no read is short but the last.
    is_told: bool,
    /// Sends that said that nothing follows.
    last_sends: Cell<usize>,
}

impl Simulated {
    fn new(random: &mut fastrand::Rng, incoming: Vec<u8>, breaks_at: usize) -> Self {
        let reluctance = random.u32(..10);
        let splices = random.u32(..8) > 0;
        let layered = !splices && reluctance == 0;
        let is_told = breaks_at >= incoming.len() && random.bool();
        let random = RefCell::new(random.fork());
        Self {
            random,
            incoming,
            read: Cell::new(0),
            outgoing: RefCell::default(),
            breaks_at,
            reluctance,
            splices,
            layered,
            filled: Cell::new(0),
            open: Cell::new(false),
            is_told,
            last_sends: Cell::new(0),
        }
    }

    fn refuses(&self) -> bool {
        self.random.borrow_mut().u32(..10) < self.reluctance
    }

    /// Some of what is possible, mostly much.
    fn some(&self, most: usize) -> usize {
        let mut random = self.random.borrow_mut();
        if random.u32(..4) > 0 { most } else { random.usize(1..=most) }
    }
}

impl Stream for Simulated {
    fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.refuses() {
            return Poll::Pending;
        }
        let read = self.read.get();
        if read >= self.breaks_at {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let left = self.incoming.len().min(self.breaks_at) - read;
        let most = left.min(buffer.len());
        let n = match most {
            0 => 0,
            _ if self.is_told => most,
            _ => self.some(most),
        };
        buffer[..n].copy_from_slice(&self.incoming[read..read + n]);
        self.read.set(read + n);
        self.open.set(false);
        Poll::Ready(Ok(n))
    }

    fn poll_send(&self, scheduler: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.refuses() {
            return Poll::Pending;
        }
        let mut outgoing = self.outgoing.borrow_mut();
        if outgoing.len() >= self.breaks_at {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let all: usize = scheduler.iter().map(|slice| slice.len()).sum();
        assert!(all > 0, "an empty send");
        let n = self.some(all);
        let bytes: Vec<u8> = scheduler.iter().flat_map(|slice| slice.iter().copied()).take(n).collect();
        outgoing.extend_from_slice(&bytes);
        Poll::Ready(Ok(n))
    }

    fn poll_send_last(&self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.last_sends.set(self.last_sends.get() + 1);
        self.poll_send(&[IoSlice::new(bytes)])
    }

    fn poll_fill(&self, pipe: &Pipe, most: usize) -> Poll<io::Result<usize>> {
        assert!(!self.layered, "a pipe at a layer");
        if !self.splices {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        assert!(most > 0, "an empty splice");
        let mut bytes = vec![0; most];
        let n = match self.poll_recv(&mut bytes) {
            Poll::Ready(Ok(n @ 1..)) => n,
            other => return other,
        };
        let taken = pipe.write(&bytes[..n]);
        // What the pipe has no slots for stays in the queue.
        self.read.set(self.read.get() - n + *taken.as_ref().unwrap_or(&0));
        self.filled.set(self.filled.get() + *taken.as_ref().unwrap_or(&0));
        self.open.set(true);
        match taken {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            taken => Poll::Ready(taken),
        }
    }

    fn look(&self) {
        self.open.set(false);
    }

    fn has_heard_all(&self) -> bool {
        self.is_told && !self.layered
    }

    fn is_plain(&self) -> bool {
        !self.layered
    }

    fn poll_drain(&self, pipe: &Pipe) -> Poll<io::Result<usize>> {
        assert!(!self.layered, "a pipe at a layer");
        if !self.splices {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        if self.refuses() {
            return Poll::Pending;
        }
        let mut outgoing = self.outgoing.borrow_mut();
        if outgoing.len() >= self.breaks_at {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        assert!(pipe.held() > 0, "an empty splice");
        let mut bytes = vec![0; self.some(pipe.held())];
        let n = pipe.read(&mut bytes).unwrap();
        outgoing.extend_from_slice(&bytes[..n]);
        Poll::Ready(Ok(n))
    }
}

/// A message: its payload, and how it is framed on the way in.
struct Message {
    payload: Vec<u8>,
    framing: Framing,
    wire: Vec<u8>,
}

impl Message {
    fn new(random: &mut fastrand::Rng) -> Self {
        let len = match random.u32(..5) {
            0 => random.usize(1..100),
            1 => random.usize(1..CHUNK),
            2 => random.usize(1..4_000_000),
            _ => random.usize(1..1_000_000),
        };
        let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        match random.u32(..5) {
            0 | 1 => Self { framing: Framing::Length(len as u64), wire: payload.clone(), payload },
            2 | 3 => Self { framing: Framing::UntilClose, wire: payload.clone(), payload },
            _ => Self { framing: Framing::Chunked, wire: in_chunks(&payload, random), payload },
        }
    }
}

fn in_chunks(payload: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut rest = payload;
    let most = if random.bool() { 300 } else { 200_000 };
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(random.usize(1..=most).min(rest.len()));
        write_chunk_head(&mut wire, chunk.len());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(CHUNK_END);
        rest = after;
    }
    write_last_chunk(&mut wire, b"");
    wire
}

/// The payload of what was sent, as far as it goes, and whether it is whole.
fn decoded(sent: &[u8], chunked: bool) -> (Vec<u8>, bool) {
    let framing = if chunked { Framing::Chunked } else { Framing::UntilClose };
    let mut reader = BodyReader::new(framing, Side::Upstream);
    let (mut at, mut payload) = (0, Vec::new());
    loop {
        match reader.read(&sent[at..]).expect("what the relay writes is valid") {
            BodyStep::Data { skip, len } => {
                payload.extend_from_slice(&sent[at + skip..at + skip + len]);
                at += skip + len;
            }
            BodyStep::More { .. } => return (payload, false),
            BodyStep::End { consumed } => return (payload, at + consumed == sent.len()),
        }
    }
}

const HEAD: &[u8] = b"the head of the message\r\n\r\n";
const BEHIND: &[u8] = b"the next message";

/// Says how many bytes went through a pipe.
fn run(seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let message = Message::new(&mut random);
    let mut wire = message.wire.clone();
    if message.framing != Framing::UntilClose && random.bool() {
        wire.extend_from_slice(BEHIND);
    }
    let breaks = |random: &mut fastrand::Rng| match random.u32(..4) {
        0 => random.usize(..message.wire.len() + 100),
        _ => usize::MAX,
    };
    let (sender_breaks, receiver_breaks) = (breaks(&mut random), breaks(&mut random));
    let from = Simulated::new(&mut random, wire, sender_breaks);
    let to = Simulated::new(&mut random, Vec::new(), receiver_breaks);
    let chunked = random.bool();
    let chunks = Rc::new(ChunkPool::default());
    chunks.pipes.set_most(random.usize(..3));
    let most = chunks.high_mark();
    let mut scratch = vec![0; if random.bool() { 64 * 1024 } else { HIGH_MARK }];
    let mut surplus = Vec::new();
    let mut flow = Flow::default();
    flow.reset();
    flow.start(message.framing, Side::Upstream, chunked).extend_from_slice(HEAD);
    if random.bool() && message.framing == Framing::UntilClose {
        flow.joins_end();
    }
    let ends = Ends { from: &from, to: &to };
    let mut turns = 0;
    let end = loop {
        turns += 1;
        assert!(turns < 1_000_000, "it goes on for ever");
        let mut moved = false;
        let mut means = IoScratch::of(&mut scratch, &chunks);
        let before = (from.read.get(), to.outgoing.borrow().len());
        let pumped = flow.poll_pump(&ends, &mut means, ReplayBuffer::Surplus(&mut surplus), &mut moved);
        let after = (from.read.get(), to.outgoing.borrow().len());
        assert!(before == after || moved, "bytes went somewhere unseen");
        assert!(flow.queued() <= most + scratch.len(), "it holds {} bytes", flow.queued());
        let in_pipe = flow.queued() - flow.in_memory();
        assert!(flow.pipe.is_none() || in_pipe > 0, "it keeps a pipe for nothing");
        assert_eq!(chunks.pipes.held(), in_pipe);
        match pumped {
            Poll::Pending | Poll::Ready(Ok(RelayProgress::Share)) => {}
            Poll::Ready(Ok(RelayProgress::All)) => break None,
            Poll::Ready(Err(broken)) => break Some(broken),
        }
    };
    let sent = to.outgoing.borrow();
    assert_eq!(flow.bytes(), sent.len() as u64, "what is counted is what was sent");
    let body = sent.strip_prefix(HEAD).unwrap_or_default();
    let (payload, whole) = decoded(body, chunked);
    assert!(message.payload.starts_with(&payload), "bytes are lost, doubled or out of order");
    match end {
        None => {
            assert_eq!(payload.len(), message.payload.len(), "the end came too early");
            assert!(whole || !chunked, "the last chunk is missing");
            assert!(BEHIND.starts_with(&surplus), "the surplus is what stands behind the message");
            assert!(flow.is_done() && !from.open.get());
        }
        Some(RelayError::SenderGone) => assert!(sender_breaks < usize::MAX),
        Some(RelayError::Sender(_)) => assert!(sender_breaks < message.wire.len()),
        Some(RelayError::ReceiverGone) => assert!(receiver_breaks < usize::MAX),
    }
    flow.reset();
    assert_eq!(chunks.held(), 0, "chunks are kept back");
    from.filled.get()
}

#[test]
fn bytes_arrive_whole_and_in_order_or_the_break_is_seen() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed);
        return;
    }
    let mut spliced = 0;
    let seeds = if std::env::var_os("THALWEG_LONG").is_some() { 20_000 } else { 300 };
    for seed in 0..seeds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(filled) => spliced += usize::from(filled > 0),
            Err(panic) => {
                eprintln!("the relay fails with SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(spliced > seeds as usize / 20, "only {spliced} of {seeds} were spliced");
}

#[test]
fn the_last_bytes_leave_with_the_end_where_that_is_there_too() {
    let mut random = fastrand::Rng::with_seed(3);
    let chunks = Rc::new(ChunkPool::default());
    let mut scratch = vec![0; 64 * 1024];
    for (length, closes) in [(1, true), (CHUNK - 1, true), (1, false), (CHUNK - 1, false)] {
        let plain = |random: &mut fastrand::Rng, incoming| Simulated {
            reluctance: 0,
            splices: false,
            layered: false,
            is_told: true,
            ..Simulated::new(random, incoming, usize::MAX)
        };
        let (from, to) = (plain(&mut random, vec![7; length]), plain(&mut random, Vec::new()));
        let (mut flow, mut surplus, mut moved) = (Flow::default(), Vec::new(), false);
        flow.reset();
        flow.start(Framing::UntilClose, Side::Upstream, false);
        if closes {
            flow.joins_end();
        }
        let ends = Ends { from: &from, to: &to };
        let mut pump = || {
            let mut means = IoScratch::of(&mut scratch, &chunks);
            flow.poll_pump(&ends, &mut means, ReplayBuffer::Surplus(&mut surplus), &mut moved)
        };
        while !matches!(pump(), Poll::Ready(Ok(RelayProgress::All))) {}
        assert_eq!(to.outgoing.borrow().len(), length);
        assert_eq!(to.last_sends.get() > 0, closes, "{length}");
    }
}

#[test]
fn a_receiver_that_takes_nothing_stops_the_reading_at_the_mark() {
    let mut random = fastrand::Rng::with_seed(1);
    let from = Simulated { reluctance: 0, ..Simulated::new(&mut random, vec![7; 10_000_000], usize::MAX) };
    let to = Simulated { reluctance: 10, ..Simulated::new(&mut random, Vec::new(), usize::MAX) };
    let chunks = Rc::new(ChunkPool::default());
    let mut scratch = vec![0; 64 * 1024];
    let (mut flow, mut surplus, mut moved) = (Flow::default(), Vec::new(), false);
    flow.reset();
    flow.start(Framing::UntilClose, Side::Upstream, false);
    for _ in 0..100 {
        let mut means = IoScratch::of(&mut scratch, &chunks);
        let ends = Ends { from: &from, to: &to };
        let pumped = flow.poll_pump(&ends, &mut means, ReplayBuffer::Surplus(&mut surplus), &mut moved);
        assert!(pumped.is_pending());
    }
    let read = from.read.get();
    assert!((HIGH_MARK..HIGH_MARK + CHUNK).contains(&read), "{read}");
}

#[test]
fn a_direction_that_uses_up_its_share_leaves_the_other_one_its_own() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut eager =
        |len| Simulated { reluctance: 0, ..Simulated::new(&mut random, vec![7; len], usize::MAX) };
    let (one, other) = (eager(10_000_000), eager(100));
    let chunks = Rc::new(ChunkPool::default());
    let (mut scratch, mut surplus, mut moved) = (vec![0; 64 * 1024], Vec::new(), false);
    let mut means = IoScratch::of(&mut scratch, &chunks);
    for (from, to) in [(&one, &other), (&other, &one)] {
        let mut flow = Flow::default();
        flow.reset();
        flow.start(Framing::UntilClose, Side::Upstream, false);
        let keep = ReplayBuffer::Surplus(&mut surplus);
        let _ = flow.poll_pump(&Ends { from, to }, &mut means, keep, &mut moved);
    }
    assert!(one.read.get() < 10_000_000, "the first one has used up its share");
    assert_eq!(one.outgoing.borrow().len(), 100, "the second one has moved all the same");
}

#[test]
fn a_body_is_kept_for_another_attempt_until_it_is_too_large() {
    let (mut received, mut consumed, mut whole) = (b"head".to_vec(), 4, true);
    let mut record = |read: &[u8], used: usize| {
        let keep = (&mut received, &mut consumed, &mut whole);
        ReplayBuffer::Replay { received: keep.0, consumed: keep.1, whole: keep.2, most: 10 }
            .record(read, used);
    };
    record(b"12345", 5);
    record(b"67", 2);
    record(b"89next", 2);
    assert_eq!((&received[..], consumed, whole), (&b"head12345next"[..], 9, false));
}

/// They wait for the body's rate limit with it, and are not part of it.
#[test]
fn bytes_that_came_behind_a_paced_body_are_kept_when_it_ends() {
    let mut random = fastrand::Rng::with_seed(3);
    let [from, to] =
        [(); 2].map(|()| Simulated { reluctance: 0, ..Simulated::new(&mut random, Vec::new(), usize::MAX) });
    let chunks = Rc::new(ChunkPool::default());
    let (mut scratch, mut moved, begin) = (vec![0; 1024], false, Instant::now());
    let (mut flow, mut behind) = (Flow::default(), Vec::new());
    flow.reset();
    flow.start(Framing::Length(6), Side::Downstream, false);
    flow.set_pace(Pacer::of(Some(Bandwidth { bytes_per_second: 1000, burst: 4 }), begin));
    flow.hold_early(b"bytes.GET /next HTTP/1.1");
    for after in [Duration::ZERO, Duration::from_secs(1)] {
        flow.tick(begin + after);
        let mut means = IoScratch::of(&mut scratch, &chunks);
        let keep = ReplayBuffer::Surplus(&mut behind);
        let pumped = flow.poll_pump(&Ends { from: &from, to: &to }, &mut means, keep, &mut moved);
        assert_eq!(
            pumped.is_ready(),
            !after.is_zero(),
            "its pace has four bytes now, and as many in a second"
        );
    }
    assert_eq!((&to.outgoing.borrow()[..], &behind[..]), (&b"bytes."[..], &b"GET /next HTTP/1.1"[..]));
}

/// A flow that is spliced to a receiver which takes nothing, with some bytes in the pipe.
fn held_in_a_pipe(from: &Simulated, to: &Simulated, chunks: &Rc<ChunkPool>) -> Flow {
    chunks.pipes.set_most(2);
    let (mut scratch, mut surplus, mut moved) = (vec![0; 64 * 1024], Vec::new(), false);
    let mut flow = Flow::default();
    flow.reset();
    flow.start(Framing::UntilClose, Side::Upstream, false);
    flow.way = TransferMode::Splices(0);
    let mut means = IoScratch::of(&mut scratch, chunks);
    let pumped =
        flow.poll_pump(&Ends { from, to }, &mut means, ReplayBuffer::Surplus(&mut surplus), &mut moved);
    assert!(pumped.is_pending() && chunks.pipes.held() > 0);
    flow
}

#[test]
fn what_is_in_the_pipe_goes_before_what_is_copied_after_it() {
    let mut random = fastrand::Rng::with_seed(3);
    let bytes: Vec<u8> = (0..1_000_000).map(|i| (i % 251) as u8).collect();
    let eager = |s: Simulated| Simulated { reluctance: 0, splices: true, ..s };
    let from = eager(Simulated::new(&mut random, bytes.clone(), usize::MAX));
    let stalled = Simulated { reluctance: 10, ..Simulated::new(&mut random, Vec::new(), usize::MAX) };
    let to = eager(Simulated::new(&mut random, Vec::new(), usize::MAX));
    let chunks = Rc::new(ChunkPool::default());
    let mut flow = held_in_a_pipe(&from, &stalled, &chunks);
    flow.way = TransferMode::Copies(0);
    flow.paused = false;
    let (mut scratch, mut surplus, mut moved) = (vec![0; 64 * 1024], Vec::new(), false);
    // The receiver still takes nothing, and there is room again.
    let room = HIGH_MARK - flow.queued();
    assert!(flow.is_spliced() && room < HIGH_MARK);
    let received = flow
        .splice(&Ends { from: &from, to: &from }, 1, &ReplayBuffer::Surplus(&mut surplus), &chunks)
        .unwrap();
    assert!(received.is_none() && flow.pipe.is_none() && chunks.pipes.held() == 0);
    for _ in 0..100 {
        let mut means = IoScratch::of(&mut scratch, &chunks);
        let ends = Ends { from: &from, to: &to };
        let keep = ReplayBuffer::Surplus(&mut surplus);
        if let Poll::Ready(Ok(RelayProgress::All)) = flow.poll_pump(&ends, &mut means, keep, &mut moved) {
            break;
        }
    }
    assert!(*to.outgoing.borrow() == bytes, "bytes are lost, doubled or out of order");
}

#[test]
fn a_body_that_is_spliced_has_its_bound_too() {
    let mut random = fastrand::Rng::with_seed(4);
    let eager = |s: Simulated| Simulated { reluctance: 0, splices: true, ..s };
    let from = eager(Simulated::new(&mut random, vec![7; 1_000_000], usize::MAX));
    let to = eager(Simulated::new(&mut random, Vec::new(), usize::MAX));
    let chunks = Rc::new(ChunkPool::default());
    chunks.pipes.set_most(2);
    let (mut surplus, mut flow) = (Vec::new(), Flow::default());
    flow.reset();
    flow.start(Framing::UntilClose, Side::Downstream, false);
    flow.bound(Some(100));
    flow.way = TransferMode::Splices(0);
    let refused =
        flow.splice(&Ends { from: &from, to: &to }, HIGH_MARK, &ReplayBuffer::Surplus(&mut surplus), &chunks);
    assert!(matches!(refused, Err(RelayError::Sender(fault)) if fault.status == 413));
    assert!(from.filled.get() > 0 && to.outgoing.borrow().is_empty());
}
