//! Bodies of the proxy's own answers that are not read piece by piece: files that go from the kernel's memory to the
//! receiver, past ours, and what is in memory and leaves together with its head.
//!
//! Called by `exchange/send_reply.rs`. Invariant: files go only when nothing waits to be sent before them, and the flow
//! counts them as it counts what it sends itself.

use super::{Flow, Frames};
use crate::buffers::chunk_queue::ChunkPool;
use std::rc::Rc;
use thalweg_core::Fault;
use thalweg_net::Socket;

impl Flow {
    /// Bytes of the body that may go to the receiver past this flow now: none where something waits, or where the body
    /// is framed, changed or measured on its way.
    pub(crate) fn room_beside(&self) -> u64 {
        if self.ended || !self.is_plain() || self.is_stalled() { 0 } else { self.reader.plain() }
    }

    /// Bytes of the body that may be sent with the head that waits: none where there is no such head, as above.
    pub(crate) fn room_behind_head(&self) -> u64 {
        let is_head = !self.pending.is_empty() && self.ring.is_empty() && self.body == 0;
        if self.ended || self.closes || !self.is_plain() || !is_head { 0 } else { self.reader.plain() }
    }

    /// Whether the body is sent as it is.
    fn is_plain(&self) -> bool {
        !self.chunked
            && self.transforms.is_none()
            && self.pacer.is_none()
            && self.pipe.is_none()
            && matches!(self.frames, Frames::None)
    }

    /// Sends the head that waits and these bytes of the body, at most [`Self::room_behind_head`], in one call; keeps
    /// what the receiver does not take.
    pub(crate) fn send_with_head(
        &mut self,
        [payload, tail]: [&[u8]; 2],
        to: &Socket,
        chunks: &Rc<ChunkPool>,
    ) -> Result<(), Fault> {
        let n = payload.len() + tail.len();
        debug_assert!(n as u64 <= self.room_behind_head(), "more than the body has");
        self.reader.pass(n);
        self.count_body(n)?;
        self.send_or_keep(payload, tail, Some(to), chunks);
        if self.reader.is_complete() { self.end(chunks) } else { Ok(()) }
    }

    /// So many bytes have gone, at most [`Self::room_beside`].
    pub(crate) fn went_beside(&mut self, n: usize, chunks: &Rc<ChunkPool>) -> Result<(), Fault> {
        debug_assert!(n as u64 <= self.room_beside(), "more than the body has");
        self.reader.pass(n);
        self.count_body(n)?;
        self.bytes += n as u64;
        if self.reader.is_complete() { self.end(chunks) } else { Ok(()) }
    }
}
