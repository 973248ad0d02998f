//! Bodies that are larger than memory's share go to a second tier while they are fetched ([`Lead::spill_to`]).
//!
//! The fill hands over whole chunks and keeps a window of the last ones. A reader that is behind the window reads from
//! the second tier up to what is there, and then from the window again. The leader waits for the second tier where that
//! is slower than the service, and for no reader. Where the second tier fails, the fill is not stored any more: it
//! keeps what is not written yet, and the leader waits for the slowest reader, as for any fill that is too large.
//!
//! [`Lead::spill_to`]: crate::Lead::spill_to

use crate::body::{Chunk, Piece};
use crate::fill::Fill;
use crate::reader::Broken;
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use thalweg_cache::StoredHead;

/// A second tier.
pub trait Spills: fmt::Debug + Send {
    /// Begins to store a response there; `None`: it has no room for it, or is not in use. Does not wait.
    fn begin(&self, response: &Spilled<'_>, progress: Progress) -> Option<Arc<dyn Spill>>;
}

/// A response that is to be stored in a second tier.
#[derive(Clone, Copy, Debug)]
pub struct Spilled<'a> {
    /// The bytes of its key.
    pub key: &'a [u8],
    /// The part of its key that is the URL.
    pub url: &'a [u8],
    /// Which variant of its key it is.
    pub variant: &'a [u8],
    /// Its head.
    pub head: &'a Arc<StoredHead>,
    /// The length of its body, where that is known.
    pub length: Option<u64>,
}

/// A response that is being stored in a second tier. None of its functions waits.
pub trait Spill: Send + Sync {
    /// Takes the next chunk of the body; all but the last have [`crate::CHUNK`] bytes.
    fn push(&self, chunk: Chunk);
    /// The body is complete: it is stored once all of it is there.
    fn finish(&self);
    /// It is not stored. What is there may still be read.
    fn abandon(&self);
    /// Reads bytes from this one on, up to those that [`Progress::written`] has told; `None`: too many read.
    fn read(&self, from: u64, upto: u64) -> Option<Box<dyn SpillRead>>;
}

/// Bytes that are read from a second tier.
pub trait SpillRead: fmt::Debug + Send {
    /// Waits for the next bytes; `None`: this is as far as it goes. Cancel-safe.
    ///
    /// # Errors
    /// They cannot be read.
    fn poll_piece(&mut self, context: &Context<'_>) -> Poll<Result<Option<Piece>, Broken>>;
}

/// What a second tier tells of a response that it stores.
pub struct Progress {
    fill: Weak<Fill>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

impl Progress {
    pub(crate) fn of(fill: &Arc<Fill>) -> Self {
        Self { fill: Arc::downgrade(fill) }
    }

    /// So many bytes of the body can be read there.
    pub fn written(&self, upto: u64) {
        if let Some(fill) = self.fill.upgrade() {
            fill.change(|state, wakers| state.set_spilled(upto, wakers));
        }
    }

    /// Nothing more is written, and the response is not stored there.
    pub fn failed(&self) {
        if let Some(fill) = self.fill.upgrade() {
            fill.unlist();
            fill.change(|state, wakers| state.end_spill(wakers));
        }
    }

    /// The response is stored and can be found there: nobody new follows the fill.
    pub fn stored(&self) {
        if let Some(fill) = self.fill.upgrade() {
            fill.unlist();
        }
    }
}

/// What a fill knows of its place in a second tier.
pub(crate) struct Place {
    pub(crate) to: Arc<dyn Spill>,
    /// Bytes that can be read there: whole chunks, and at the end all.
    pub(crate) written: u64,
    /// Nothing more is written.
    pub(crate) has_failed: bool,
}
