//! Bytes that wait to be taken from the front: what a session has to say, and plaintext for which there was no room.

/// A queue of bytes that gives its memory back when it is empty.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    /// Bytes of them that are gone already.
    gone: usize,
}

impl ByteQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.gone
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Room for so many bytes behind the others.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        let at = self.bytes.len();
        self.bytes.resize(at + length, 0);
        &mut self.bytes[at..]
    }

    /// Moves as much as fits into `out`, and says how much.
    pub(crate) fn take(&mut self, out: &mut [u8]) -> usize {
        let waiting = &self.bytes[self.gone..];
        let count = waiting.len().min(out.len());
        out[..count].copy_from_slice(&waiting[..count]);
        self.gone += count;
        if self.gone == self.bytes.len() {
            *self = Self::default();
        }
        count
    }
}
