//! Memory that the decoders of a worker hold together, and who has how much of it.
//!
//! A sender chooses the window of a coding, and what it costs is the proxy's: so windows are read from the first bytes
//! of a stream and taken from a share before they are there, and what a decoder makes beside them is counted as it
//! comes.

use std::cell::Cell;
use std::rc::Rc;

/// What the decoders of a worker may hold, and hold.
#[derive(Debug)]
pub struct DecoderMemory {
    limit: usize,
    held: Cell<usize>,
    refused: Cell<u64>,
}

impl DecoderMemory {
    /// So many bytes.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self { limit, held: Cell::new(0), refused: Cell::new(0) })
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// Bodies that were refused for it since this was asked last.
    pub fn take_refused(&self) -> u64 {
        self.refused.take()
    }
}

/// What one decoder holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    /// `None`: nobody counts.
    memory: Option<Rc<DecoderMemory>>,
    bytes: Cell<usize>,
}

impl Held {
    /// Nothing yet.
    pub(crate) fn none_of(memory: Option<Rc<DecoderMemory>>) -> Self {
        Self { memory, bytes: Cell::new(0) }
    }

    /// Takes this much more; `false`: there is not so much, and nothing is taken.
    #[must_use]
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let Some(memory) = &self.memory else { return true };
        if memory.held.get().saturating_add(bytes) > memory.limit {
            memory.refused.set(memory.refused.get() + 1);
            return false;
        }
        self.count(bytes);
        true
    }

    /// The same for what is there already; [`Self::is_over`] says whether it was too much.
    pub(crate) fn count(&self, bytes: usize) {
        let Some(memory) = &self.memory else { return };
        memory.held.set(memory.held.get() + bytes);
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Gives some back.
    pub(crate) fn give(&self, bytes: usize) {
        let Some(memory) = &self.memory else { return };
        let bytes = bytes.min(self.bytes.get());
        memory.held.set(memory.held.get() - bytes);
        self.bytes.set(self.bytes.get() - bytes);
    }

    /// Whether all decoders together hold more than they may: this one ends, and what it holds is no longer counted, so
    /// that others do not end with it.
    pub(crate) fn is_over(&self) -> bool {
        let Some(memory) = self.memory.as_ref().filter(|memory| memory.held.get() > memory.limit) else {
            return false;
        };
        memory.refused.set(memory.refused.get() + 1);
        self.give(self.bytes.get());
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give(self.bytes.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_what_is_not_there_and_all_comes_back() {
        let memory = DecoderMemory::new(100);
        let (one, two) = (Held::none_of(Some(memory.clone())), Held::none_of(Some(memory.clone())));
        assert!(one.take(60) && !two.take(41) && two.take(40));
        assert_eq!((memory.held(), memory.take_refused(), memory.take_refused()), (100, 1, 0));
        two.count(7);
        assert!(two.is_over() && !one.is_over(), "one that goes over takes nobody with it");
        two.give(1000);
        assert_eq!(memory.held(), 60);
        drop((one, two));
        assert_eq!(memory.held(), 0);
        assert!(Held::none_of(None).take(usize::MAX));
    }
}
