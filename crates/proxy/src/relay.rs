//! One direction of an exchange's bytes: from the socket of one side to the socket of the other.
//!
//! A flow decodes the framing it receives, writes the framing it sends, and holds what the receiver
//! has not taken yet. Reading and writing are decoupled: what arrives is sent at once, and while the
//! receiver stalls the flow reads on until it holds the high mark; then it stops, so that TCP slows
//! the sender, and goes on below half of the mark.

use crate::buffers::chunk_queue::{CHUNK, ChunkPool, ChunkQueue};
use crate::buffers::pool::BufferPool;
use crate::buffers::splice_pipes::PooledPipe;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use thalweg_core::limits::{TURN_BYTES, TURN_BYTES_CROWDED};
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_filter::TrailerRule;
use thalweg_http::h1::encode::{CHUNK_END, write_chunk_head, write_last_chunk};
use thalweg_http::{BodyReader, BodyStep, Framing};
use thalweg_net::Socket;

mod framed;
mod grpc_web;
mod inner;
mod pacer;
mod send_file;
mod splice;
mod spool;
mod stream;
mod transform;

pub(crate) use framed::{Framed, mark};
pub(crate) use grpc_web::Bridge;
pub(crate) use inner::{Inner, InnerEnd, InnerResponse, ResponseSink, inner};
pub(crate) use pacer::Pacer;
pub(crate) use stream::Stream;
pub(crate) use transform::{SharedTap, Tap};

use framed::Frames;
use splice::TransferMode;
use transform::Transformer;

/// Payload from this size on is sent from where it was received; less is copied beside what waits,
/// which is cheaper than a slice of its own.
const DIRECT: usize = 4 * 1024;
/// Payload from this size on is sent whatever comes behind it.
const LARGE: usize = 32 * 1024;
/// Pieces of memory handed to the kernel at once.
const SLICES: usize = 24;

/// Why a flow cannot go on.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// What was received is not a valid body, or ended too early.
    Sender(Fault),
    /// The sender's connection failed.
    SenderGone,
    /// The receiver's connection failed: it takes no more.
    ReceiverGone,
}

impl RelayError {
    /// Nothing more comes, for this reason: one that frames its messages by itself may have found a fault in them.
    fn by_sender(error: &io::Error) -> Self {
        let fault = error.get_ref().and_then(|error| error.downcast_ref::<Fault>());
        fault.map_or(Self::SenderGone, |fault| Self::Sender(*fault))
    }

    /// Nothing more can be sent: the receiver is gone, or what was received turned out to be no valid body.
    fn by_receiver(error: &io::Error) -> Self {
        let fault = error.get_ref().and_then(|error| error.downcast_ref::<Fault>());
        fault.map_or(Self::ReceiverGone, |fault| Self::Sender(*fault))
    }
}

/// What a pump achieved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RelayProgress {
    /// The whole body has been handed to the kernel.
    All,
    /// This turn's share is used up; go on in the next.
    Share,
}

/// What the worker lends to a flow while it moves.
#[derive(Debug)]
pub(crate) struct IoScratch<'a> {
    /// Where is received into.
    pub(crate) scratch: &'a mut [u8],
    /// Bytes that a flow may receive before others get their turn, the other direction among them.
    pub(crate) share: usize,
    /// For what must wait.
    pub(crate) chunks: &'a Rc<ChunkPool>,
}

impl<'a> IoScratch<'a> {
    /// What a flow may use in one turn; less where many receivers are slow.
    pub(crate) fn of(scratch: &'a mut [u8], chunks: &'a Rc<ChunkPool>) -> Self {
        let share = if chunks.is_crowded() { TURN_BYTES_CROWDED } else { TURN_BYTES };
        Self { scratch, share, chunks }
    }
}

/// What is kept of received bytes, beside what the flow itself passes on.
#[derive(Debug)]
pub(crate) enum ReplayBuffer<'a> {
    /// What stands behind the message.
    Surplus(&'a mut Vec<u8>),
    /// Also the message, while it is small enough to be sent again.
    Replay {
        /// All bytes since the request's first one, as long as `whole`.
        received: &'a mut Vec<u8>,
        /// How many of them belong to the message.
        consumed: &'a mut usize,
        /// Whether everything has been kept so far.
        whole: &'a mut bool,
        /// Bytes that may be kept.
        most: usize,
    },
}

impl ReplayBuffer<'_> {
    /// Whether it has a use for the next bytes of the message.
    fn is_keen(&self) -> bool {
        matches!(self, ReplayBuffer::Replay { whole: true, .. })
    }

    /// Keeps the bytes after the message.
    fn keep_behind(&mut self, bytes: &[u8]) {
        match self {
            ReplayBuffer::Surplus(behind) | ReplayBuffer::Replay { received: behind, .. } => {
                behind.extend_from_slice(bytes);
            }
        }
    }

    fn record(&mut self, read: &[u8], used: usize) {
        match self {
            ReplayBuffer::Surplus(surplus) => surplus.extend_from_slice(&read[used..]),
            ReplayBuffer::Replay { received, consumed, whole, most } => {
                **whole &= received.len() + read.len() <= *most;
                let from = if **whole { 0 } else { used };
                **consumed += used - from;
                received.extend_from_slice(&read[from..]);
            }
        }
    }
}

/// One direction of bytes.
#[derive(Debug)]
pub(crate) struct Flow {
    reader: BodyReader,
    /// Whether what is sent is framed in chunks.
    chunked: bool,
    /// Whether only the close tells the receiver where the message ends.
    open_ended: bool,
    /// The receiver's connection is closed right after the end.
    closes: bool,
    /// Bytes of a tunnel, whose last ones wait for the end where that is there too.
    joins_end: bool,
    ended: bool,
    frames: Frames,
    transforms: Option<Box<Transformer>>,
    pacer: Option<Box<Pacer>>,
    /// The trailers of a sender that frames its messages itself, as lines, or the remaining trailers after the rule
    /// was applied.
    trailers: Option<Box<[u8]>>,
    /// The rule for dropped trailers.
    refused: Option<Arc<TrailerRule>>,
    /// It holds the high mark and does not read until it holds half of it.
    paused: bool,
    way: TransferMode,
    /// Bytes to be sent first, of which `sent` are gone: heads, and payload while it is little.
    pending: Vec<u8>,
    sent: usize,
    /// Bytes to be sent after `pending`.
    ring: ChunkQueue,
    /// Bytes to be sent after those in `ring`. It is here while it holds some, and within a pump.
    pipe: Option<Box<PooledPipe>>,
    /// Bytes handed to the kernel, heads and framing included.
    bytes: u64,
    /// Bytes of body taken from the sender.
    body: u64,
    /// Most bytes of body.
    max_body: u64,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            reader: BodyReader::new(Framing::Empty, Side::Downstream),
            chunked: false,
            open_ended: false,
            closes: false,
            joins_end: false,
            ended: true,
            frames: Frames::None,
            transforms: None,
            pacer: None,
            trailers: None,
            refused: None,
            paused: false,
            way: TransferMode::Copies(0),
            pending: Vec::new(),
            sent: 0,
            ring: ChunkQueue::default(),
            pipe: None,
            bytes: 0,
            body: 0,
            max_body: u64::MAX,
        }
    }
}

impl Flow {
    /// Forgets the last message, whatever became of it.
    pub(crate) fn reset(&mut self) {
        self.forget();
        self.bytes = 0;
        self.body = 0;
        self.max_body = u64::MAX;
        self.ended = false;
        self.paused = false;
        self.frames = Frames::None;
        self.transforms = None;
        self.pacer = None;
    }

    /// Starts a message and gives the buffer to which its head is appended. Interim responses that
    /// still wait in the buffer go first.
    pub(crate) fn start(&mut self, framing: Framing, side: Side, chunked: bool) -> &mut Vec<u8> {
        debug_assert!(!chunked || framing != Framing::Empty, "a body that is empty is not sent in chunks");
        self.reader = BodyReader::new(framing, side);
        self.chunked = chunked;
        (self.closes, self.joins_end) = (false, false);
        self.open_ended = !chunked && matches!(framing, Framing::Chunked | Framing::UntilClose);
        self.ended = self.reader.is_complete();
        self.frames = Frames::None;
        self.transforms = None;
        self.pacer = None;
        (self.trailers, self.refused) = (None, None);
        self.way = TransferMode::Copies(0);
        &mut self.pending
    }

    /// What has come already of a body without framing goes first.
    pub(crate) fn begin_with(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        self.body += bytes.len() as u64;
    }

    /// Refuses a body of more bytes, as [`too_large`] says.
    pub(crate) fn bound(&mut self, max_body: Option<u64>) {
        self.max_body = max_body.unwrap_or(u64::MAX);
    }

    /// Gives up the memory of the buffer, when nothing waits in it.
    pub(crate) fn release_buffers(&mut self, warm: &BufferPool<u8>) {
        if !self.is_stalled() {
            self.sent = 0;
            warm.put(&mut self.pending);
        }
    }

    /// The buffer that is sent next, for what stands outside of a message's own framing.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Takes received bytes and says how many belonged to this message. With `to` a large payload is
    /// sent on the spot, behind what waits.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        to: Option<&Socket>,
        chunks: &Rc<ChunkPool>,
    ) -> Result<usize, Fault> {
        self.take(input, to, chunks)
    }

    /// Whether the sender's whole message has been received.
    pub(crate) fn is_received(&self) -> bool {
        self.ended
    }

    /// Whether the receiver keeps bytes waiting.
    pub(crate) fn is_stalled(&self) -> bool {
        self.queued() > 0 || self.has_more_to_make()
    }

    /// Whether only the close tells the receiver where the message ends.
    pub(crate) fn is_open_ended(&self) -> bool {
        self.open_ended
    }

    /// The receiver's connection is closed as soon as everything has been handed to the kernel.
    pub(crate) fn closes_after(&mut self) {
        self.closes = true;
    }

    /// The same, where the sender's direction ends as the receiver's does: its last bytes leave with the end. Not for
    /// unix sockets, of which a read may be short in the middle.
    pub(crate) fn joins_end(&mut self) {
        (self.closes, self.joins_end) = (true, true);
    }

    /// Whether everything has been received and handed to the kernel.
    pub(crate) fn is_done(&self) -> bool {
        self.ended && !self.is_stalled() && matches!(self.frames, Frames::None | Frames::Ended)
    }

    /// Bytes handed to the kernel, head and framing included.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that the receiver has acknowledged, less what it had not of an earlier message when this one began.
    /// One system call.
    pub(crate) fn acknowledged(&self, to: &Socket) -> i64 {
        (self.bytes + to.uncounted()).cast_signed() - to.unacknowledged().cast_signed()
    }

    /// Bytes that have gone another way: they are counted with those that came through here.
    pub(crate) fn note(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.body += bytes as u64;
    }

    /// Bytes of body taken from the sender.
    pub(crate) fn body(&self) -> u64 {
        self.body
    }

    /// Sends what is held. Cancel-safe.
    pub(crate) fn poll_flush(&mut self, to: &impl Stream) -> Poll<io::Result<()>> {
        ready!(self.poll_send_out(to))?;
        while self.has_more_to_make() {
            self.make_more()?;
            ready!(self.poll_send_out(to))?;
        }
        if self.ended && self.frames == Frames::Begun {
            self.finish(to)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what has been made.
    #[inline(always)]
    fn poll_send_out(&mut self, to: &impl Stream) -> Poll<io::Result<()>> {
        if self.frames == Frames::Staged {
            self.begin(to)?;
        }
        while self.in_memory() > 0 {
            let waiting = &self.pending[self.sent..];
            let n = if self.is_last() {
                ready!(to.poll_send_last(waiting))?
            } else if self.ring.is_empty() {
                ready!(to.poll_send(&[IoSlice::new(waiting)]))?
            } else {
                let mut scheduler = [IoSlice::new(&[]); SLICES];
                scheduler[0] = IoSlice::new(waiting);
                let count = 1 + self.ring.fill(&mut scheduler[1..]);
                let first = usize::from(waiting.is_empty());
                ready!(to.poll_send(&scheduler[first..count]))?
            };
            self.advance(n);
        }
        if self.pipe.is_some() {
            ready!(self.poll_drain(to))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Moves what can be moved; `moved` is set when bytes went anywhere. Cancel-safe.
    pub(crate) fn poll_pump<S: Stream>(
        &mut self,
        ends: &Ends<'_, S>,
        means: &mut IoScratch<'_>,
        keep: ReplayBuffer<'_>,
        moved: &mut bool,
    ) -> Poll<Result<RelayProgress, RelayError>> {
        let pumped = self.poll_move(ends, means, keep, moved);
        if self.pipe.is_some() {
            self.settle()?;
        }
        if let Some(from) = ends.from.framed() {
            from.hold(self.queued());
        }
        pumped
    }

    #[inline(always)]
    fn poll_move<S: Stream>(
        &mut self,
        ends: &Ends<'_, S>,
        means: &mut IoScratch<'_>,
        mut keep: ReplayBuffer<'_>,
        moved: &mut bool,
    ) -> Poll<Result<RelayProgress, RelayError>> {
        let mut share = means.share;
        loop {
            let before = self.bytes;
            let flushed = self.poll_flush(ends.to);
            *moved |= self.bytes != before;
            match flushed {
                Poll::Ready(Ok(())) if self.ended => return Poll::Ready(Ok(RelayProgress::All)),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(RelayError::by_receiver(&error))),
                Poll::Pending if self.ended => return Poll::Pending,
                Poll::Pending => {}
            }
            let mark = mark(means.chunks.high_mark(), ends.to);
            let Some(room) = self.room(mark).and_then(|room| self.paced(room)) else { return Poll::Pending };
            if share == 0 {
                return Poll::Ready(Ok(RelayProgress::Share));
            }
            let spliced =
                if self.is_spliced() { self.splice(ends, room, &keep, means.chunks)? } else { None };
            let mut has_end = false;
            let n = match spliced {
                Some(received) => ready!(received),
                None => {
                    let room = room.min(means.scratch.len());
                    let heard_all = self.joins_end && ends.from.has_heard_all();
                    let early = match self.take_spooled(&mut means.scratch[..room])? {
                        None => self.take_early(&mut means.scratch[..room]),
                        spooled => spooled,
                    };
                    let received = match early {
                        Some(n) => Poll::Ready(Ok(n)),
                        None => ends.from.poll_recv(&mut means.scratch[..room]),
                    };
                    if received.is_pending() && self.transforms.is_some() {
                        return self.poll_pause(ends.to);
                    }
                    let n = ready!(received).map_err(|error| RelayError::by_sender(&error))?;
                    has_end = heard_all && n < room.min(CHUNK);
                    n
                }
            };
            *moved = true;
            if n == 0 {
                self.hear_end(ends, means.chunks)?;
                continue;
            }
            share = share.saturating_sub(n);
            self.spend(n);
            if spliced.is_some() {
                continue;
            }
            let read = &means.scratch[..n];
            // The last bytes wait for the end, which is there too: both leave as one.
            let to = (!has_end).then_some(ends.to);
            let used = self.take(read, to, means.chunks).map_err(RelayError::Sender)?;
            if !self.is_spooled() {
                keep.record(read, used);
            }
            if self.ended
                && let Some(behind) = self.take_behind()
            {
                keep.keep_behind(&behind);
            }
            self.weigh(n);
            if has_end {
                self.hear_end(ends, means.chunks)?;
            }
        }
    }

    /// Nothing more comes for now: what transforms hold back goes out.
    #[cold]
    fn poll_pause(&mut self, to: &impl Stream) -> Poll<Result<RelayProgress, RelayError>> {
        self.flush_transforms().map_err(RelayError::Sender)?;
        match self.poll_flush(to) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(RelayError::by_receiver(&error))),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    /// The sender has said its last byte.
    fn hear_end<S: Stream>(&mut self, ends: &Ends<'_, S>, chunks: &Rc<ChunkPool>) -> Result<(), RelayError> {
        self.reader.end_of_input().map_err(RelayError::Sender)?;
        if let Some(from) = ends.from.framed() {
            self.trailers = Some(from.trailers().into());
        }
        self.end(chunks).map_err(RelayError::Sender)
    }

    /// Gives memory beyond `capacity` back.
    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.forget();
        // Of decoders and copies nothing stays behind.
        self.transforms = None;
        (self.trailers, self.refused) = (None, None);
        self.pending.shrink_to(capacity);
    }

    fn forget(&mut self) {
        self.pending.clear();
        self.sent = 0;
        if !self.ring.is_empty() || self.pipe.is_some() {
            self.ring.clear();
            self.pipe = None;
        }
    }

    /// Bytes held for the receiver.
    fn queued(&self) -> usize {
        self.in_memory() + self.untransformed() + self.pipe.as_ref().map_or(0, |pipe| pipe.held())
    }

    /// Those of them that are in user memory.
    fn in_memory(&self) -> usize {
        self.pending.len() - self.sent + self.ring.len()
    }

    /// Bytes that may be read now; `None`: not before the receiver has taken some.
    fn room(&mut self, mark: usize) -> Option<usize> {
        let queued = self.queued();
        // At the least mark all is to be gone first: what is read behind a rest begins another chunk.
        let low = if mark > CHUNK { mark / 2 } else { 0 };
        self.paused = queued >= mark || (self.paused && queued > low);
        (!self.paused).then(|| mark - queued)
    }

    /// Decodes `input`; sends what it can at once, keeps the rest.
    fn take<S: Stream>(
        &mut self,
        input: &[u8],
        to: Option<&S>,
        chunks: &Rc<ChunkPool>,
    ) -> Result<usize, Fault> {
        let mut at = 0;
        while !self.ended {
            match self.reader.read(&input[at..])? {
                BodyStep::Data { skip, len } => {
                    let payload = &input[at + skip..at + skip + len];
                    self.count_body(len)?;
                    at += skip + len;
                    // In the middle of many small chunks nothing is sent: they go out together.
                    let goes_out = len >= LARGE || input.len() - at < DIRECT;
                    self.carry(payload, to.filter(|_| goes_out), chunks)?;
                    if self.reader.is_complete() {
                        self.end(chunks)?;
                    }
                }
                BodyStep::More { consumed } => return Ok(at + consumed),
                BodyStep::End { consumed } => {
                    at += consumed;
                    self.end(chunks)?;
                }
            }
        }
        Ok(at)
    }

    /// Sends payload behind what waits, or lets it wait too.
    fn put<S: Stream>(&mut self, payload: &[u8], to: Option<&S>, chunks: &Rc<ChunkPool>) {
        let mut tail: &[u8] = &[];
        if self.chunked {
            let mut head = Vec::new();
            let into = if self.ring.is_empty() { &mut self.pending } else { &mut head };
            write_chunk_head(into, payload.len());
            if !head.is_empty() {
                self.ring.push(&head, chunks);
            }
            tail = CHUNK_END;
        }
        let is_sent =
            self.ring.is_empty() && (payload.len() >= DIRECT || (self.pending.is_empty() && tail.is_empty()));
        self.send_or_keep(payload, tail, to.filter(|_| is_sent), chunks);
    }

    /// Sends both behind what waits, and keeps what is not taken.
    fn send_or_keep<S: Stream>(
        &mut self,
        payload: &[u8],
        tail: &[u8],
        to: Option<&S>,
        chunks: &Rc<ChunkPool>,
    ) {
        let mut gone = to.map_or(0, |to| self.send_with(payload, tail, to));
        for part in [payload, tail] {
            let rest = part.get(gone..).unwrap_or_default();
            gone = gone.saturating_sub(part.len());
            if self.ring.is_empty() && self.pending.len() + rest.len() <= CHUNK {
                self.pending.extend_from_slice(rest);
            } else {
                self.ring.push(rest, chunks);
            }
        }
    }

    /// Sends what waits in `pending`, and payload behind it from where it is; says how much of the latter
    /// is gone. An error is met again, and reported, when the rest is flushed.
    fn send_with(&mut self, payload: &[u8], tail: &[u8], to: &impl Stream) -> usize {
        if self.frames == Frames::Staged && self.begin(to).is_err() {
            return 0;
        }
        let waiting = self.pending.len() - self.sent;
        let scheduler = [&self.pending[self.sent..], payload, tail].map(IoSlice::new);
        let first = usize::from(waiting == 0);
        let last = if tail.is_empty() { 2 } else { 3 };
        let Poll::Ready(Ok(n)) = to.poll_send(&scheduler[first..last]) else { return 0 };
        let beyond = n.saturating_sub(waiting);
        self.bytes += beyond as u64;
        self.advance(n - beyond);
        beyond
    }

    /// The first `n` of the bytes that wait have been handed to the kernel.
    fn advance(&mut self, n: usize) {
        self.bytes += n as u64;
        let first = n.min(self.pending.len() - self.sent);
        self.sent += first;
        if self.sent == self.pending.len() {
            self.pending.clear();
            self.sent = 0;
        }
        if n > first {
            self.ring.advance(n - first);
        }
    }

    /// The sender's message is over.
    pub(crate) fn end(&mut self, chunks: &Rc<ChunkPool>) -> Result<(), Fault> {
        if self.ended {
            return Ok(());
        }
        self.drop_refused_trailers();
        let is_all_made = self.end_transforms()?;
        self.ended = true;
        if is_all_made {
            self.write_end(chunks);
        }
        Ok(())
    }

    /// Writes what says that nothing more comes.
    fn write_end(&mut self, chunks: &Rc<ChunkPool>) {
        if !self.chunked {
            return;
        }
        if self.ring.is_empty() {
            let mut pending = std::mem::take(&mut self.pending);
            write_last_chunk(&mut pending, self.sent_trailers());
            self.pending = pending;
        } else {
            let mut last = Vec::new();
            write_last_chunk(&mut last, self.sent_trailers());
            self.ring.push(&last, chunks);
        }
    }
}

/// Why a body of this side is refused that has more bytes than it may.
pub(crate) const fn too_large(side: Side) -> Fault {
    match side {
        Side::Upstream => {
            Fault::new(FaultKind::HttpResponseBodySize, "the response body is larger than allowed")
        }
        Side::Downstream | Side::Proxy => Fault::request(413, "the request body is larger than allowed"),
    }
}

/// The two sockets of a flow.
#[derive(Debug)]
pub(crate) struct Ends<'a, S = Socket> {
    pub(crate) from: &'a S,
    pub(crate) to: &'a S,
}

#[cfg(test)]
mod tests;
