//! Parts of a representation (RFC 9111 §3.3, §3.4): pieces, each with the byte of the whole at which it begins.
//!
//! Parts are joined without a copy but for the pieces at their ends. Whoever joins two has made sure that they are of
//! one representation: where both have a byte, it is the same one.
//!
//! Invariant: pieces stand in order, do not overlap, and cover what [`Rope::parts`] says and nothing else.

use crate::body::{CHUNK, Chunk, Piece, join};
use crate::size::{allocated, shared};
use std::ops::Range;
use thalweg_cache::{ContentRange, Parts};

/// Parts of a representation.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    parts: Parts,
    pieces: Vec<(u64, Chunk)>,
    len: u64,
}

impl Rope {
    /// One part, of chunks in order.
    pub(crate) fn of(part: &ContentRange, chunks: &[Chunk]) -> Self {
        let mut at = part.first;
        let place = |chunk: &Chunk| {
            let start = at;
            at += chunk.len() as u64;
            (start, chunk.clone())
        };
        let pieces: Vec<_> = chunks.iter().map(place).collect();
        debug_assert_eq!(at, part.end, "the body is as long as its range");
        Self { parts: Parts::of(part), pieces, len: part.len() }
    }

    /// Both together; `None`: they are not of one length as a whole, or there are too many parts apart.
    pub(crate) fn with(&self, other: &Self) -> Option<Self> {
        if self.parts.total() != other.parts.total() {
            return None;
        }
        let (mut parts, mut pieces) = (self.parts.clone(), self.pieces.clone());
        for range in other.parts.ranges() {
            let mut at = range.start;
            while let Some(gap) = self.parts.first_gap(&(at..range.end)) {
                at = gap.end;
                other.slice(&gap, &mut pieces);
            }
            if !parts.add(range.clone()) {
                return None;
            }
        }
        pieces.sort_by_key(|(start, _)| *start);
        let len = parts.ranges().iter().map(|range| range.end - range.start).sum();
        Some(Self { parts, pieces: without_crumbs(pieces), len })
    }

    /// Appends the pieces of a range that is there.
    fn slice(&self, range: &Range<u64>, out: &mut Vec<(u64, Chunk)>) {
        let from = self.pieces.partition_point(|(start, chunk)| start + chunk.len() as u64 <= range.start);
        for (start, chunk) in self.pieces[from..].iter().take_while(|(start, _)| *start < range.end) {
            let first = range.start.saturating_sub(*start) as usize;
            let end = (range.end - start).min(chunk.len() as u64) as usize;
            let piece = if end - first == chunk.len() { chunk.clone() } else { chunk[first..end].into() };
            out.push((start + first as u64, piece));
        }
    }

    /// What of the whole is there.
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Bytes that are there.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// All pieces, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Chunk> {
        self.pieces.iter().map(|(_, chunk)| chunk)
    }

    /// The bytes from this one of the whole to the end of their piece, where they are there.
    pub(crate) fn piece(&self, at: u64) -> Option<Piece> {
        let number = self.pieces.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let (start, chunk) = self.pieces.get(number)?;
        let from = usize::try_from(at - start).ok()?;
        (from < chunk.len()).then(|| Piece { chunk: chunk.clone(), from })
    }

    /// What it takes of memory beside what points to it, without its pieces.
    pub(crate) fn charge(&self) -> u64 {
        let tables = self.pieces.capacity() * size_of::<(u64, Chunk)>() + size_of_val(self.parts.ranges());
        let pieces: u64 = self.pieces().map(|chunk| shared(chunk.len())).sum();
        shared(size_of::<Self>()) + allocated(tables) + pieces
    }
}

/// Joins pieces that follow each other up to the length of a chunk, so that many small parts are not many pieces.
fn without_crumbs(pieces: Vec<(u64, Chunk)>) -> Vec<(u64, Chunk)> {
    let mut kept: Vec<(u64, Chunk)> = Vec::with_capacity(pieces.len());
    for (start, chunk) in pieces {
        match kept.last_mut() {
            Some((first, last))
                if *first + last.len() as u64 == start && last.len() + chunk.len() <= CHUNK =>
            {
                *last = join([&**last, &*chunk].into_iter());
            }
            _ => kept.push((start, chunk)),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;
    use proptest::prelude::*;

    /// The byte of a representation at a place.
    fn byte(at: u64) -> u8 {
        (at.wrapping_mul(31) % 251) as u8
    }

    fn rope(range: Range<u64>, total: u64) -> Rope {
        let bytes: Vec<u8> = range.clone().map(byte).collect();
        let part = ContentRange { first: range.start, end: range.end, total };
        Rope::of(&part, Body::copy_of(&bytes).chunks())
    }

    #[test]
    fn parts_of_wholes_of_other_lengths_are_not_joined() {
        assert!(rope(0..2, 10).with(&rope(2..4, 11)).is_none());
    }

    #[test]
    fn many_small_parts_are_few_pieces() {
        let mut all = rope(0..1, 5000);
        for at in 1..5000 {
            all = all.with(&rope(at..at + 1, 5000)).unwrap();
        }
        assert!(all.parts().is_complete());
        assert_eq!(all.pieces.len(), 1);
        let even = Body::of_parts(all).even();
        assert_eq!(&*even.chunks()[0], &(0..5000).map(byte).collect::<Vec<_>>()[..]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn every_byte_is_that_of_the_whole(ranges in prop::collection::vec((0..300_u64, 1..90_u64), 1..30), scale in prop::sample::select(vec![1_u64, 250])) {
            let total = 400 * scale;
            let mut all: Option<Rope> = None;
            let mut known = vec![false; total as usize];
            for (start, len) in ranges {
                let range = start * scale..((start + len) * scale).min(total);
                known[range.start as usize..range.end as usize].fill(true);
                let one = rope(range, total);
                all = Some(match all {
                    None => one,
                    Some(all) => all.with(&one).unwrap(),
                });
            }
            let all = all.unwrap();
            prop_assert_eq!(all.len(), known.iter().filter(|known| **known).count() as u64);
            let mut at = 0;
            while at < total {
                let Some(piece) = all.piece(at) else {
                    prop_assert!(!known[at as usize]);
                    at += 1;
                    continue;
                };
                for found in piece.iter() {
                    prop_assert!(known[at as usize]);
                    prop_assert_eq!(*found, byte(at));
                    at += 1;
                }
            }
        }
    }
}
