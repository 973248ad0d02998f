//! Ends that frame messages by themselves: streams of HTTP/2 (RFC 9113 §8.1).
//!
//! Towards such an end the head of a message is no part of its bytes: it is staged, and goes out with the first of
//! them, or alone as the whole message. So a fault that is found before still gives way to an answer, and a message
//! without a body is one frame. From such an end trailers come after the last byte.

use super::{Flow, Stream};
use crate::buffers::chunk_queue::ChunkPool;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_filter::TrailerRule;

/// What is held at most for a receiver that shares its connection with others, in bytes: there may be a hundred, and
/// one client that opens no window stalls them all.
const MARK: usize = 32 * 1024;

/// What may be held for `to`, where it is `mark` for others.
#[inline]
pub(crate) fn mark(mark: usize, to: &impl Stream) -> usize {
    if to.framed().is_some() { mark.min(MARK) } else { mark }
}

/// An end of a flow where the end of a message is no end of a connection.
pub(crate) trait Framed {
    /// Sets the head of the next message aside, given as lines with the empty one that ends it; one that was staged
    /// before is forgotten.
    fn stage(&self, head: &mut [u8]);
    /// What is staged goes out; `ended`: it is the whole message. Nothing where nothing is staged.
    fn begin(&self, ended: bool) -> io::Result<()>;
    /// Whether what is staged is the head of a message that never ends by itself: the stream becomes a tunnel.
    fn goes_on(&self) -> bool {
        false
    }
    /// Whether the end of what is staged may not be said with the head.
    fn ends_apart(&self) -> bool {
        false
    }
    /// The message is over, but for its trailers, given as lines. Nothing when its end has been said.
    fn finish(&self, trailers: &[u8]) -> io::Result<()>;
    /// The trailers of the message that was received to its end, as lines.
    fn trailers(&self) -> Vec<u8>;
    /// So much of what was received is held still: the peer may send as much less.
    fn hold(&self, bytes: usize);
}

/// How far a message has gone to an end that frames it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Frames {
    /// The end has a connection of its own: the message is framed here.
    #[default]
    None,
    /// The head waits.
    Staged,
    /// The end of the message has not been said.
    Begun,
    Ended,
}

impl Flow {
    /// The head of the message has been written to [`Flow::buffer`] from `at` on: where `to` frames messages by itself,
    /// it is staged there.
    pub(crate) fn seal_head(&mut self, to: &impl Stream, at: usize) {
        if let Some(framed) = to.framed() {
            framed.stage(&mut self.pending[at..]);
            self.pending.truncate(at);
            self.frames = Frames::Staged;
            // Whatever comes last says so.
            self.closes = true;
        }
    }

    /// The head of the message is the first `len` bytes of [`Flow::buffer`], and what waits behind it is the beginning
    /// of its body, without framing: the head is staged.
    pub(crate) fn seal_first(&mut self, to: &dyn Framed, len: usize) {
        to.stage(&mut self.pending[..len]);
        self.pending.drain(..len);
        self.frames = Frames::Staged;
        self.closes = true;
    }

    /// The message goes on as a tunnel: what is staged is its head.
    pub(crate) fn stays_framed(&mut self, to: &impl Stream) {
        if to.framed().is_some() {
            (self.frames, self.closes) = (Frames::Staged, true);
        }
    }

    /// Sends the staged head.
    pub(super) fn begin(&mut self, to: &impl Stream) -> io::Result<()> {
        let Some(framed) = to.framed() else { return Ok(()) };
        if framed.goes_on() {
            (self.frames, self.closes) = (Frames::None, false);
            return framed.begin(false);
        }
        let is_all = self.ended && !self.is_stalled() && self.sent_trailers().is_empty();
        let ended = is_all && !framed.ends_apart();
        framed.begin(ended)?;
        self.frames = if ended { Frames::Ended } else { Frames::Begun };
        Ok(())
    }

    /// Says where the message ends, after its last byte.
    pub(super) fn finish(&mut self, to: &impl Stream) -> io::Result<()> {
        let Some(framed) = to.framed() else { return Ok(()) };
        framed.finish(self.sent_trailers())?;
        self.frames = Frames::Ended;
        Ok(())
    }

    /// Whether no byte of the message has gone out, and no head.
    pub(crate) fn is_unsent(&self) -> bool {
        self.bytes == 0 && matches!(self.frames, Frames::None | Frames::Staged)
    }

    /// Ends as `other` did, which has carried the same message to its end.
    pub(crate) fn end_as(&mut self, other: &Self, chunks: &Rc<ChunkPool>) {
        if !self.ended {
            self.trailers.clone_from(&other.trailers);
            // Whatever was wrong with it has been found in the other one.
            let _ = self.end(chunks);
        }
    }

    /// A message that will not come whole is over, with these trailers; `false`: it cannot be told, because bytes wait
    /// or the end frames no messages.
    pub(crate) fn break_off(&mut self, to: &impl Stream, trailers: &[u8]) -> bool {
        let Some(framed) = to.framed() else { return false };
        if self.frames != Frames::Begun || self.is_stalled() {
            return false;
        }
        self.frames = Frames::Ended;
        framed.finish(trailers).is_ok()
    }

    /// Whether nothing comes behind what waits in the buffer, and the receiver is told so with it.
    pub(super) fn is_last(&self) -> bool {
        self.closes
            && self.ended
            && self.ring.is_empty()
            && !self.has_more_to_make()
            && (self.frames == Frames::None || self.sent_trailers().is_empty())
    }

    /// What may be passed on of the trailers of the message that has been received.
    pub(crate) fn last_trailers(&self) -> &[u8] {
        self.trailers.as_deref().unwrap_or_else(|| self.reader.trailers())
    }

    /// Applies this rule to the trailers of the current message.
    pub(crate) fn refuse_trailers(&mut self, rule: Arc<TrailerRule>) {
        self.refused = Some(rule);
    }

    /// Drops the refused trailers of a message that has been received to its end.
    pub(super) fn drop_refused_trailers(&mut self) {
        if let Some(rule) = &self.refused
            && !self.last_trailers().is_empty()
        {
            self.trailers = Some(rule.allowed(self.last_trailers()).into());
        }
    }
}
