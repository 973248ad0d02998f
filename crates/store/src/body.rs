//! Bodies: immutable chunks, so that a hit is sent without a copy and a fill can be read while it grows.

use crate::rope::Rope;
use crate::size::shared;
use std::ops::{Deref, Range};
use std::sync::Arc;
use thalweg_cache::Parts;

/// Bytes of a chunk; only the last one of a body has fewer. With its counters it is an allocation of 64 KiB.
pub const CHUNK: usize = 64 * 1024 - 2 * size_of::<usize>();

/// A part of a body.
pub type Chunk = Arc<[u8]>;

/// The body of a stored object.
#[derive(Clone, Debug, Default)]
pub struct Body {
    chunks: Chunks,
    len: u64,
}

#[derive(Clone, Debug, Default)]
enum Chunks {
    #[default]
    None,
    One(Chunk),
    Many(Arc<[Chunk]>),
    Rope(Arc<Rope>),
}

impl Body {
    /// A copy of these bytes.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::of(bytes.chunks(CHUNK).map(Chunk::from).collect())
    }

    /// Of chunks, all of which but the last have [`CHUNK`] bytes.
    pub fn of(mut chunks: Vec<Chunk>) -> Self {
        debug_assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.len() == CHUNK));
        let len = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let chunks = match chunks.len() {
            0 => Chunks::None,
            1 => chunks.pop().map_or(Chunks::None, Chunks::One),
            _ => Chunks::Many(chunks.into()),
        };
        Self { chunks, len }
    }

    /// Of parts of a representation. Bytes have the positions there that they have in the whole.
    pub(crate) fn of_parts(rope: Rope) -> Self {
        Self { len: rope.len(), chunks: Chunks::Rope(Arc::new(rope)) }
    }

    /// Its parts, where it is made of them.
    pub(crate) fn rope(&self) -> Option<&Rope> {
        match &self.chunks {
            Chunks::Rope(rope) => Some(rope),
            Chunks::None | Chunks::One(_) | Chunks::Many(_) => None,
        }
    }

    /// Which bytes of the whole are there, where it is made of parts; positions are those of the whole then.
    pub fn parts(&self) -> Option<&Parts> {
        self.rope().map(Rope::parts)
    }

    /// The same in chunks of even length, as [`Self::chunks`] has them: copied where it is made of parts.
    #[must_use]
    pub fn even(&self) -> Self {
        let Some(rope) = self.rope() else { return self.clone() };
        let (mut chunks, mut last) = (Vec::new(), Vec::new());
        for piece in rope.pieces() {
            let mut rest = &**piece;
            while !rest.is_empty() {
                let (now, after) = rest.split_at(rest.len().min(CHUNK - last.len()));
                last.extend_from_slice(now);
                rest = after;
                if last.len() == CHUNK {
                    chunks.push(Chunk::from(&last[..]));
                    last.clear();
                }
            }
        }
        if !last.is_empty() {
            chunks.push(last.into());
        }
        Self::of(chunks)
    }

    /// Its length; of parts, that of all together.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its chunks; none where it is made of parts ([`Self::even`]).
    pub fn chunks(&self) -> &[Chunk] {
        match &self.chunks {
            Chunks::None | Chunks::Rope(_) => &[],
            Chunks::One(chunk) => std::slice::from_ref(chunk),
            Chunks::Many(chunks) => chunks,
        }
    }

    /// The bytes from this one to the end of their chunk; `None` at the end.
    pub fn piece(&self, at: u64) -> Option<Piece> {
        if let Some(rope) = self.rope() {
            return rope.piece(at);
        }
        if at >= self.len {
            return None;
        }
        let (number, from) = (at / CHUNK as u64, at % CHUNK as u64);
        let chunk = self.chunks().get(usize::try_from(number).ok()?)?;
        Some(Piece { chunk: chunk.clone(), from: from as usize })
    }

    /// What it takes of memory.
    pub(crate) fn charge(&self) -> u64 {
        let list = match &self.chunks {
            Chunks::Many(chunks) => shared(size_of_val::<[Chunk]>(chunks)),
            Chunks::Rope(rope) => rope.charge(),
            Chunks::None | Chunks::One(_) => 0,
        };
        list + self.chunks().iter().map(|chunk| shared(chunk.len())).sum::<u64>()
    }
}

/// Bytes of a chunk, from one of them to the end.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(crate) chunk: Chunk,
    pub(crate) from: usize,
}

impl Piece {
    /// The bytes of a chunk from this one on.
    pub fn of(chunk: Chunk, from: usize) -> Self {
        let from = from.min(chunk.len());
        Self { chunk, from }
    }

    /// The chunk, and which of its bytes these are.
    pub fn into_parts(self) -> (Chunk, Range<usize>) {
        let range = self.from..self.chunk.len();
        (self.chunk, range)
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.chunk[self.from..]
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Joins parts into one chunk.
pub(crate) fn join<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone) -> Chunk {
    let len = parts.clone().map(<[u8]>::len).sum();
    let mut chunk: Chunk = std::iter::repeat_n(0, len).collect();
    if let Some(mut out) = Arc::get_mut(&mut chunk) {
        for part in parts {
            let (here, rest) = out.split_at_mut(part.len());
            here.copy_from_slice(part);
            out = rest;
        }
    }
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_go_from_any_byte_to_the_end_of_its_chunk() {
        let bytes: Vec<u8> = (0..2 * CHUNK + 10).map(|number| (number % 251) as u8).collect();
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, bytes.len()] {
            let body = Body::copy_of(&bytes[..len]);
            assert_eq!(body.len(), len as u64);
            for from in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 9, len.saturating_sub(1)] {
                let Some(piece) = body.piece(from as u64) else {
                    assert!(from >= len);
                    continue;
                };
                let end = ((from / CHUNK + 1) * CHUNK).min(len);
                assert_eq!(piece.as_ref(), &bytes[from..end], "{from} of {len}");
            }
        }
        assert!(Body::copy_of(b"a").piece(u64::MAX).is_none());
    }

    #[test]
    fn parts_are_joined() {
        let parts: [&[u8]; 3] = [b"ab", b"", b"c"];
        assert_eq!(&*join(parts.into_iter()), b"abc");
        assert!(join([].into_iter()).is_empty());
    }
}
