//! One direction of an exchange's bytes: from the socket of one side to the socket of the other.
//!
//! A flow decodes the framing it receives, writes the framing it sends, and holds what the receiver
//! has not taken yet. It reads only when it holds nothing, so it never holds more than one receive
//! buffer, and a receiver that stops reading stops the sender through TCP.

use crate::warm::Stack;
use std::io::{self, IoSlice};
use std::task::{Poll, ready};
use thalweg_core::limits::TURN_BYTES;
use thalweg_core::{Fault, Side};
use thalweg_http::h1::encode::{CHUNK_END, write_chunk_head, write_last_chunk};
use thalweg_http::{BodyReader, BodyStep, Framing};
use thalweg_net::Socket;

/// Why a flow cannot go on.
#[derive(Debug)]
pub(crate) enum Broken {
    /// What was received is not a valid body, or ended too early.
    Sender(Fault),
    /// The sender's connection failed.
    SenderGone,
    /// The receiver's connection failed: it takes no more.
    ReceiverGone,
}

/// What a pump achieved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pumped {
    /// The whole body has been handed to the kernel.
    All,
    /// This turn's share is used up; go on in the next.
    Share,
}

/// One direction of bytes.
#[derive(Debug)]
pub(crate) struct Flow {
    reader: BodyReader,
    /// Whether what is sent is framed in chunks.
    chunked: bool,
    /// Whether only the close tells the receiver where the message ends.
    open_ended: bool,
    /// Bytes to be sent, of which `sent` are gone.
    pending: Vec<u8>,
    sent: usize,
    /// Bytes handed to the kernel, heads and framing included.
    bytes: u64,
    /// Bytes of body taken from the sender.
    body: u64,
    ended: bool,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            reader: BodyReader::new(Framing::Empty, Side::Downstream),
            chunked: false,
            open_ended: false,
            pending: Vec::new(),
            sent: 0,
            bytes: 0,
            body: 0,
            ended: true,
        }
    }
}

impl Flow {
    /// Forgets the last message, whatever became of it.
    pub(crate) fn reset(&mut self) {
        self.pending.clear();
        self.sent = 0;
        self.bytes = 0;
        self.body = 0;
        self.ended = false;
    }

    /// Starts a message and gives the buffer to which its head is appended. Interim responses that
    /// still wait in the buffer go first.
    pub(crate) fn start(&mut self, framing: Framing, side: Side, chunked: bool) -> &mut Vec<u8> {
        debug_assert!(!chunked || framing != Framing::Empty, "a body that is empty is not sent in chunks");
        self.reader = BodyReader::new(framing, side);
        self.chunked = chunked;
        self.open_ended = !chunked && matches!(framing, Framing::Chunked | Framing::UntilClose);
        self.ended = self.reader.is_complete();
        &mut self.pending
    }

    /// Gives up the memory of the buffer, when nothing waits in it.
    pub(crate) fn cool(&mut self, warm: &Stack<u8>) {
        if !self.is_stalled() {
            self.sent = 0;
            warm.take_back(&mut self.pending);
        }
    }

    /// The buffer that is sent next, for what stands outside of a message's own framing.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Takes received bytes and says how many belonged to this message.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<usize, Fault> {
        self.take(input, None)
    }

    /// Whether the sender's whole message has been received.
    pub(crate) fn is_received(&self) -> bool {
        self.ended
    }

    /// Whether the receiver keeps bytes waiting.
    pub(crate) fn is_stalled(&self) -> bool {
        self.sent < self.pending.len()
    }

    /// Whether only the close tells the receiver where the message ends.
    pub(crate) fn is_open_ended(&self) -> bool {
        self.open_ended
    }

    /// Whether everything has been received and handed to the kernel.
    pub(crate) fn is_done(&self) -> bool {
        self.ended && !self.is_stalled()
    }

    /// Bytes handed to the kernel, head and framing included.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of body taken from the sender.
    pub(crate) fn body(&self) -> u64 {
        self.body
    }

    /// Sends what is held. Cancel-safe.
    pub(crate) fn poll_flush(&mut self, to: &Socket) -> Poll<io::Result<()>> {
        while self.sent < self.pending.len() {
            let n = ready!(to.poll_send(&[IoSlice::new(&self.pending[self.sent..])]))?;
            self.sent += n;
            self.bytes += n as u64;
        }
        self.pending.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Moves what can be moved. What the sender sent beyond its message goes to `surplus`.
    /// `moved` is set when bytes went anywhere. Cancel-safe.
    pub(crate) fn poll_pump(
        &mut self,
        ends: &Ends<'_>,
        scratch: &mut [u8],
        surplus: &mut Vec<u8>,
        moved: &mut bool,
    ) -> Poll<Result<Pumped, Broken>> {
        let mut share = TURN_BYTES;
        loop {
            let before = self.bytes;
            let flushed = self.poll_flush(ends.to);
            *moved |= self.bytes != before;
            ready!(flushed).map_err(|_| Broken::ReceiverGone)?;
            if self.ended {
                return Poll::Ready(Ok(Pumped::All));
            }
            if share == 0 {
                return Poll::Ready(Ok(Pumped::Share));
            }
            let n = ready!(ends.from.poll_recv(scratch)).map_err(|_| Broken::SenderGone)?;
            *moved = true;
            if n == 0 {
                self.reader.end_of_input().map_err(Broken::Sender)?;
                self.end();
                continue;
            }
            share = share.saturating_sub(n);
            let used = self.take(&scratch[..n], Some(ends.to)).map_err(Broken::Sender)?;
            surplus.extend_from_slice(&scratch[used..n]);
        }
    }

    /// Gives memory beyond `capacity` back.
    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.pending.clear();
        self.sent = 0;
        self.pending.shrink_to(capacity);
    }

    /// Decodes `input`; sends payload at once when nothing waits before it, keeps the rest.
    fn take(&mut self, input: &[u8], mut to: Option<&Socket>) -> Result<usize, Fault> {
        let mut at = 0;
        while !self.ended {
            match self.reader.read(&input[at..])? {
                BodyStep::Data { skip, len } => {
                    let payload = &input[at + skip..at + skip + len];
                    self.body += len as u64;
                    at += skip + len;
                    // Only the first piece goes out at once: many small ones are sent together.
                    self.put(payload, to.take());
                    if self.reader.is_complete() {
                        self.end();
                    }
                }
                BodyStep::More { consumed } => return Ok(at + consumed),
                BodyStep::End { consumed } => {
                    at += consumed;
                    self.end();
                }
            }
        }
        Ok(at)
    }

    fn put(&mut self, payload: &[u8], to: Option<&Socket>) {
        if self.chunked {
            write_chunk_head(&mut self.pending, payload.len());
            self.pending.extend_from_slice(payload);
            self.pending.extend_from_slice(CHUNK_END);
            return;
        }
        let mut rest = payload;
        if let Some(to) = to
            && self.pending.is_empty()
            // An error is met again, and reported, when the rest is flushed.
            && let Poll::Ready(Ok(n)) = to.poll_send(&[IoSlice::new(payload)])
        {
            self.bytes += n as u64;
            rest = &payload[n..];
        }
        self.pending.extend_from_slice(rest);
    }

    fn end(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        if self.chunked {
            write_last_chunk(&mut self.pending, self.reader.trailers());
        }
    }
}

/// The two sockets of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends<'a> {
    pub(crate) from: &'a Socket,
    pub(crate) to: &'a Socket,
}
