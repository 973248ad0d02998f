//! A stored response as bytes of a segment.
//!
//! ```text
//! header (128 bytes, its checksum among them)
//! key, variant, lines of the head            checksum in the header
//! chunk 0, checksum, chunk 1, checksum, …    all but the last as long as in memory
//! zeros up to a multiple of 16 bytes
//! ```
//!
//! Numbers are little-endian. The checksum of a header depends on where it stands, those of what follows on a number
//! that the header has and no other one: bytes that are right, but at the wrong place, do not pass either.

use std::ops::Range;
use thalweg_cache::{ContentRange, UnixMillis};
use thalweg_store::CHUNK;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a header.
pub(crate) const HEADER: usize = 128;
/// Bytes of a checksum.
pub(crate) const SUM: usize = 8;
/// Records begin at multiples of this.
pub(crate) const ALIGN: u64 = 16;
/// The longest key, with what is known of the variant.
pub(crate) const MOST_NAME: usize = 256 * 1024;
/// The longest lines of a head.
pub(crate) const MOST_LINES: usize = 2 * 1024 * 1024;
/// The longest body.
pub(crate) const MOST_BODY: u64 = 1 << 35;

const LIVE: u64 = u64::from_le_bytes(*b"thwlive1");
const DEAD: u64 = u64::from_le_bytes(*b"thwdead1");
/// It has not been made stale.
const NEVER: u64 = u64::MAX;

/// What the checksum of a header depends on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct At {
    /// The number of the store.
    pub(crate) instance: u64,
    pub(crate) segment: u32,
    pub(crate) offset: u64,
}

impl At {
    fn seed(self) -> u64 {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.segment.to_le_bytes());
        bytes[4..].copy_from_slice(&self.offset.to_le_bytes());
        xxh3_64_with_seed(&bytes, self.instance)
    }
}

/// The header of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) is_live: bool,
    pub(crate) nonce: u64,
    pub(crate) body: u64,
    pub(crate) received: u64,
    pub(crate) initial_age: u64,
    /// The number of the last ban that does not concern it.
    pub(crate) bans: u64,
    pub(crate) stale_from: Option<UnixMillis>,
    pub(crate) part: Option<ContentRange>,
    pub(crate) key: u32,
    pub(crate) url: u32,
    pub(crate) variant: u32,
    pub(crate) lines: u32,
    pub(crate) status: u16,
    /// The checksum of key, variant and lines.
    pub(crate) meta_sum: u64,
}

impl Header {
    pub(crate) fn encode(&self, at: At) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        let part = self.part.map_or([0; 3], |part| [part.first, part.end, part.total]);
        let stale = self.stale_from.map_or(NEVER, |from| from.0);
        let long = [self.nonce, self.body, self.received, self.initial_age, self.bans, stale];
        let long = long.into_iter().chain(part).chain([self.meta_sum]);
        let magic = if self.is_live { LIVE } else { DEAD };
        out[..8].copy_from_slice(&magic.to_le_bytes());
        for (place, number) in out[16..].as_chunks_mut::<8>().0.iter_mut().zip(long) {
            *place = number.to_le_bytes();
        }
        let short = [self.key, self.url, self.variant, self.lines, u32::from(self.status)];
        for (place, number) in out[96..].as_chunks_mut::<4>().0.iter_mut().zip(short) {
            *place = number.to_le_bytes();
        }
        let sum = header_sum(&out, at);
        out[8..16].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None`: these are not the bytes that were written here.
    pub(crate) fn decode(bytes: &[u8], at: At) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let long = |number: usize| u64::from_le_bytes(bytes.as_chunks::<8>().0[number]);
        let short = |number: usize| u32::from_le_bytes(bytes[96..].as_chunks::<4>().0[number]);
        if long(1) != header_sum(bytes, at) || !matches!(long(0), LIVE | DEAD) {
            return None;
        }
        let part = ContentRange { first: long(8), end: long(9), total: long(10) };
        let header = Self {
            is_live: long(0) == LIVE,
            nonce: long(2),
            body: long(3),
            received: long(4),
            initial_age: long(5),
            bans: long(6),
            stale_from: (long(7) != NEVER).then_some(UnixMillis(long(7))),
            part: (part.end > 0).then_some(part),
            meta_sum: long(11),
            key: short(0),
            url: short(1),
            variant: short(2),
            lines: short(3),
            status: u16::try_from(short(4)).ok()?,
        };
        header.is_possible().then_some(header)
    }

    /// Whether it is within bounds. What is not is not stored.
    pub(crate) fn is_possible(&self) -> bool {
        self.key as usize + self.variant as usize <= MOST_NAME
            && self.url <= self.key
            && self.lines as usize <= MOST_LINES
            && self.body <= MOST_BODY
            && self.part.is_none_or(|part| part.first < part.end && part.end <= part.total)
    }

    /// Bytes of key, variant and lines.
    pub(crate) fn meta(&self) -> usize {
        self.key as usize + self.variant as usize + self.lines as usize
    }

    /// Bytes of the record.
    pub(crate) fn record(&self) -> u64 {
        let sums = self.chunks() * SUM as u64;
        ((HEADER + self.meta()) as u64 + self.body + sums).next_multiple_of(ALIGN)
    }

    /// Chunks of the body.
    pub(crate) fn chunks(&self) -> u64 {
        self.body.div_ceil(CHUNK as u64)
    }

    /// Where a chunk stands in the record, and its length without its checksum.
    pub(crate) fn chunk(&self, number: u64) -> Option<(u64, usize)> {
        let left = self.body.checked_sub(number.checked_mul(CHUNK as u64)?).filter(|left| *left > 0)?;
        let from = (HEADER + self.meta()) as u64 + number * (CHUNK + SUM) as u64;
        Some((from, left.min(CHUNK as u64) as usize))
    }

    /// The checksum of a chunk.
    pub(crate) fn chunk_sum(&self, number: u64, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, xxh3_64_with_seed(&number.to_le_bytes(), self.nonce))
    }

    /// The checksum of key, variant and lines.
    pub(crate) fn sum_of_meta(nonce: u64, meta: &[u8]) -> u64 {
        xxh3_64_with_seed(meta, nonce)
    }

    /// The chunk at the front of these bytes, which have its checksum behind it; `None`: it is damaged.
    pub(crate) fn checked_chunk<'b>(&self, number: u64, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (_, length) = self.chunk(number)?;
        let (chunk, rest) = bytes.split_at_checked(length)?;
        let sum = u64::from_le_bytes(*rest.first_chunk()?);
        (sum == self.chunk_sum(number, chunk)).then_some(chunk)
    }
}

fn header_sum(bytes: &[u8; HEADER], at: At) -> u64 {
    let magic = xxh3_64_with_seed(&bytes[..8], at.seed());
    xxh3_64_with_seed(&bytes[16..], magic)
}

/// Key, variant and lines, whose checksum was right.
#[derive(Clone, Debug)]
pub(crate) struct Meta<B> {
    bytes: B,
    key: Range<usize>,
    url: usize,
    variant: Range<usize>,
    lines: Range<usize>,
}

impl<B: AsRef<[u8]>> Meta<B> {
    /// `None`: they are damaged.
    pub(crate) fn check(header: &Header, bytes: B) -> Option<Self> {
        let all = bytes.as_ref();
        if all.len() != header.meta() || Header::sum_of_meta(header.nonce, all) != header.meta_sum {
            return None;
        }
        let (key, name) = (header.key as usize, (header.key + header.variant) as usize);
        let (url, end) = (header.url as usize, header.meta());
        Some(Self { bytes, key: 0..key, url, variant: key..name, lines: name..end })
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes.as_ref()[self.key.clone()]
    }

    pub(crate) fn url(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.url]
    }

    pub(crate) fn variant(&self) -> &[u8] {
        &self.bytes.as_ref()[self.variant.clone()]
    }

    pub(crate) fn lines(&self) -> &[u8] {
        &self.bytes.as_ref()[self.lines.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: At = At { instance: 7, segment: 3, offset: 64 };

    fn header() -> Header {
        Header {
            is_live: true,
            nonce: 99,
            body: 2 * CHUNK as u64 + 5,
            received: 1,
            initial_age: 2,
            bans: 3,
            stale_from: Some(UnixMillis(4)),
            part: Some(ContentRange { first: 1, end: 2, total: 3 }),
            key: 10,
            url: 9,
            variant: 3,
            lines: 20,
            status: 206,
            meta_sum: 5,
        }
    }

    #[test]
    fn headers_come_back_only_where_they_were_written() {
        for header in [header(), Header { is_live: false, part: None, stale_from: None, ..header() }] {
            let bytes = header.encode(AT);
            assert_eq!(Header::decode(&bytes, AT), Some(header));
            for other in [At { instance: 8, ..AT }, At { segment: 4, ..AT }, At { offset: 80, ..AT }] {
                assert_eq!(Header::decode(&bytes, other), None);
            }
            for bit in 0..HEADER * 8 {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&bytes, AT), None, "{bit}");
            }
        }
    }

    #[test]
    fn chunks_have_their_places() {
        let header = header();
        let front = (HEADER + 33) as u64;
        assert_eq!(header.chunk(0), Some((front, CHUNK)));
        assert_eq!(header.chunk(2), Some((front + 2 * (CHUNK + SUM) as u64, 5)));
        assert_eq!((header.chunk(3), header.chunk(u64::MAX)), (None, None));
        assert_eq!(header.record(), (front + header.body + 24).next_multiple_of(16));
        let mut bytes = b"abcde".to_vec();
        bytes.extend_from_slice(&header.chunk_sum(2, b"abcde").to_le_bytes());
        assert_eq!(header.checked_chunk(2, &bytes), Some(&b"abcde"[..]));
        bytes[2] ^= 1;
        assert_eq!(header.checked_chunk(2, &bytes), None);
        assert_eq!(header.checked_chunk(2, &bytes[..9]), None);
    }

    #[test]
    fn what_is_out_of_bounds_is_no_header() {
        for wrong in [
            Header { url: 11, ..header() },
            Header { body: MOST_BODY + 1, ..header() },
            Header { key: MOST_NAME as u32, ..header() },
            Header { lines: MOST_LINES as u32 + 1, ..header() },
            Header { part: Some(ContentRange { first: 2, end: 2, total: 3 }), ..header() },
        ] {
            assert_eq!(Header::decode(&wrong.encode(AT), AT), None);
        }
    }
}
