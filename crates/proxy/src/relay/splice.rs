//! The way of large plain bodies: through a pipe in the kernel, without a copy.
//!
//! A flow begins to copy. Where nothing is to be decoded, framed or kept, and much has come at once and more
//! is to come, it receives into a pipe instead; the pipe stands behind all that waits in memory. It goes back to
//! copying when little comes at once, when the kernel cannot do it, or when the last pipe would stay with a receiver
//! that stalls: then what is in the pipe goes to the ring. Invariant: nothing is received into memory
//! while bytes are in the pipe, so their order stays.

use super::{Ends, Flow, RelayError, ReplayBuffer, Stream, too_large};
use crate::buffers::chunk_queue::{CHUNK, ChunkPool};
use std::io;
use std::rc::Rc;
use std::task::{Poll, ready};
use thalweg_core::Fault;

/// A receive from this size on speaks for a large body.
const LARGE: usize = 64 * 1024;
/// A body of known length is spliced while at least so much of it is to come after a large receive.
const REST: u64 = 256 * 1024;
/// Large receives in a row before a body of unknown length, or a tunnel, is spliced.
const PROOFS: u8 = 4;
/// Splices of less than this speak for copying.
const SMALL: usize = 16 * 1024;
/// Small splices in a row before it is copied again.
const DOUBTS: u8 = 8;

/// How a flow receives, and how often in a row the other way would have been better.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TransferMode {
    /// Into memory.
    Copies(u8),
    /// Into a pipe, when there is one.
    Splices(u8),
    /// Into memory, to the end of the message: the kernel cannot splice it.
    OnlyCopies,
}

impl Flow {
    /// Whether a pipe has to do with what it receives next.
    #[inline]
    pub(super) fn is_spliced(&self) -> bool {
        matches!(self.way, TransferMode::Splices(_)) || self.pipe.is_some()
    }

    /// Decides how it goes on after a receive of `n` bytes into memory.
    #[inline]
    pub(super) fn weigh(&mut self, n: usize) {
        if n >= LARGE || self.way != TransferMode::Copies(0) {
            self.weigh_proofs(n);
        }
    }

    fn weigh_proofs(&mut self, n: usize) {
        if self.transforms.is_some() || self.pacer.is_some() {
            // What changes its form must be seen, and what is paced is measured.
            return;
        }
        match self.way {
            TransferMode::Copies(proofs) if n >= LARGE => {
                let proofs = proofs.saturating_add(1);
                let rest = if self.chunked { 0 } else { self.reader.plain() };
                let is_large = rest >= REST && (rest < u64::MAX || proofs >= PROOFS);
                self.way = if is_large { TransferMode::Splices(0) } else { TransferMode::Copies(proofs) };
            }
            TransferMode::Copies(1..) => self.way = TransferMode::Copies(0),
            _ => {}
        }
    }

    /// Receives up to `room` bytes into a pipe; `None`: they are to be received into memory.
    pub(super) fn splice(
        &mut self,
        ends: &Ends<'_, impl Stream>,
        room: usize,
        keep: &ReplayBuffer<'_>,
        chunks: &Rc<ChunkPool>,
    ) -> Result<Option<Poll<usize>>, RelayError> {
        let TransferMode::Splices(doubts) = self.way else { return self.evacuated() };
        if !ends.from.is_plain() || !ends.to.is_plain() {
            self.way = TransferMode::OnlyCopies;
            return self.evacuated();
        }
        let from = ends.from;
        if keep.is_keen() {
            return self.evacuated();
        }
        let pipe = match &self.pipe {
            Some(pipe) => pipe,
            None => match chunks.get_pipe() {
                Some(pipe) => self.pipe.insert(pipe),
                None => return Ok(None),
            },
        };
        let most = usize::try_from(self.reader.plain()).map_or(room, |plain| plain.min(room));
        let n = match pipe.counted(|pipe| from.poll_fill(pipe, most)) {
            Poll::Pending => return Ok(Some(Poll::Pending)),
            Poll::Ready(Ok(n)) => n,
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
                self.way = TransferMode::OnlyCopies;
                return self.evacuated();
            }
            Poll::Ready(Err(_)) => return Err(RelayError::SenderGone),
        };
        self.way = match doubts + 1 {
            _ if n >= SMALL => TransferMode::Splices(0),
            DOUBTS => TransferMode::Copies(0),
            doubts => TransferMode::Splices(doubts),
        };
        self.reader.pass(n);
        self.count_body(n).map_err(RelayError::Sender)?;
        if self.reader.is_complete() {
            self.end(chunks).map_err(RelayError::Sender)?;
            // Whoever uses the connection next goes by what is known of it.
            from.look();
        }
        Ok(Some(Poll::Ready(n)))
    }

    /// Counts what has been taken of a body.
    pub(super) fn count_body(&mut self, n: usize) -> Result<(), Fault> {
        self.body += n as u64;
        if self.body > self.max_body {
            return Err(too_large(self.reader.side()));
        }
        Ok(())
    }

    /// Sends what is in the pipe, with nothing waiting before it.
    pub(super) fn poll_drain(&mut self, to: &impl Stream) -> Poll<io::Result<()>> {
        while let Some(pipe) = self.pipe.as_ref().filter(|pipe| pipe.held() > 0) {
            match ready!(pipe.counted(|pipe| to.poll_drain(pipe))) {
                Ok(n) => self.bytes += n as u64,
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    self.way = TransferMode::OnlyCopies;
                    self.evacuate()?;
                    return self.poll_flush(to);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Gives the pipe back, unless bytes wait in it and others can have one.
    pub(super) fn settle(&mut self) -> Result<(), RelayError> {
        match &self.pipe {
            Some(pipe) if pipe.held() == 0 => self.pipe = None,
            Some(pipe) if pipe.is_last() => {
                self.way = TransferMode::Copies(0);
                self.evacuated()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets what is in the pipe wait in memory, so that the next bytes can be received there.
    fn evacuated(&mut self) -> Result<Option<Poll<usize>>, RelayError> {
        self.evacuate().map_err(|_| RelayError::ReceiverGone)?;
        Ok(None)
    }

    fn evacuate(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let pool = pipe.pool();
        let mut bytes = [0; CHUNK];
        while let n @ 1.. = pipe.read(&mut bytes)? {
            self.ring.push(&bytes[..n], &pool);
        }
        self.pipe = None;
        Ok(())
    }
}
