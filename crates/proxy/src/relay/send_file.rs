//! Bodies of files that go from the kernel's memory to the receiver, past ours.
//!
//! Called by `exchange/send_reply.rs`. Invariant: they go only when nothing waits to be sent before them, and the flow
//! counts them as it counts what it sends itself.

use super::{Flow, Frames};
use crate::buffers::chunk_queue::ChunkPool;
use std::rc::Rc;
use thalweg_core::Fault;

impl Flow {
    /// Bytes of the body that may go to the receiver past this flow now: none where something waits, or where the body
    /// is framed, changed or measured on its way.
    pub(crate) fn room_beside(&self) -> u64 {
        let is_plain = !self.chunked
            && self.transforms.is_none()
            && self.pacer.is_none()
            && self.pipe.is_none()
            && matches!(self.frames, Frames::None);
        if self.ended || !is_plain || self.is_stalled() { 0 } else { self.reader.plain() }
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
