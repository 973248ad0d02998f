//! Ranges of bytes: what a request asks for, what a 206 has (RFC 9110 §14).

use std::ops::Range;
use thalweg_http::octet;

/// Ranges that are served at most; who asks for more gets the whole (RFC 9110 §14.2 allows it, §17.15 says why).
pub const MOST_RANGES: usize = 16;

/// Where the body of a 206 belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ContentRange {
    /// Its first byte.
    pub first: u64,
    /// The byte behind its last; more than `first`.
    pub end: u64,
    /// Bytes of the whole representation; at least `end`.
    pub total: u64,
}

impl ContentRange {
    /// Reads `bytes 0-4/10`. A length that is not known (`*`) is no use to a cache and none.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = value.split_at_checked(6)?;
        unit.eq_ignore_ascii_case(b"bytes ").then_some(())?;
        let slash = memchr::memchr(b'/', rest)?;
        let dash = memchr::memchr(b'-', &rest[..slash])?;
        let (first, last) = (number(&rest[..dash])?, number(&rest[dash + 1..slash])?);
        let total = number(&rest[slash + 1..])?;
        (first <= last && last < total).then(|| Self { first, end: last + 1, total })
    }

    /// Bytes of the part.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> u64 {
        self.end - self.first
    }

    /// The part.
    pub fn range(&self) -> Range<u64> {
        self.first..self.end
    }
}

/// What a `Range` field asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ranges {
    /// All: the unit is unknown, it is no list of ranges, there are too many, or they are more than the whole.
    Whole,
    /// 416: nothing that the representation has.
    Unsatisfiable,
    /// One range, not empty.
    One(Range<u64>),
    /// Several, none empty, in the order that was asked for.
    Many(Vec<Range<u64>>),
}

impl Ranges {
    /// Reads the field for a representation of this many bytes.
    pub fn parse(value: &[u8], total: u64) -> Self {
        let Some((unit, set)) = value.split_at_checked(6) else { return Self::Whole };
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return Self::Whole;
        }
        let (mut found, mut count, mut sum) = (Vec::new(), 0, 0_u64);
        for element in octet::list(set) {
            count += 1;
            let Some(range) = range(element, total) else { return Self::Whole };
            if count > MOST_RANGES {
                return Self::Whole;
            }
            if !range.is_empty() {
                sum = sum.saturating_add(range.end - range.start);
                found.push(range);
            }
        }
        match (count, found.as_slice()) {
            (0, _) => Self::Whole,
            (_, []) => Self::Unsatisfiable,
            (_, [only]) => Self::One(only.clone()),
            _ if sum > total => Self::Whole,
            _ => Self::Many(found),
        }
    }
}

/// Reads `0-499`, `500-` or `-500`; an empty range for one that the representation does not have.
fn range(element: &[u8], total: u64) -> Option<Range<u64>> {
    let dash = memchr::memchr(b'-', element)?;
    match (&element[..dash], &element[dash + 1..]) {
        (b"", last) => Some(total.saturating_sub(number(last)?)..total),
        (first, b"") => Some(number(first)?.min(total)..total),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first.min(total)..last.saturating_add(1).min(total))
        }
    }
}

/// A number of any length; one that is too large is larger than any representation.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Ranges {
        Ranges::parse(value.as_bytes(), 10)
    }

    #[test]
    fn one_range_is_what_was_asked_for() {
        for (value, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-4", 2..5),
            ("BYTES=2-4", 2..5),
            ("bytes=5-", 5..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
            ("bytes=8-99", 8..10),
            ("bytes=8-99999999999999999999999999", 8..10),
            ("bytes=, 1-2 ,", 1..3),
            ("bytes=0-1,99-100", 0..2),
        ] {
            assert_eq!(of(value), Ranges::One(expected), "{value}");
        }
    }

    #[test]
    fn several_ranges_keep_their_order() {
        assert_eq!(of("bytes=5-6,0-1"), Ranges::Many(vec![5..7, 0..2]));
        assert_eq!(of("bytes=0-4, 3-5"), Ranges::Many(vec![0..5, 3..6]));
    }

    #[test]
    fn what_cannot_be_given_is_refused() {
        for value in ["bytes=10-", "bytes=99-100", "bytes=-0", "bytes=10-10,11-"] {
            assert_eq!(of(value), Ranges::Unsatisfiable, "{value}");
        }
        assert_eq!(Ranges::parse(b"bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(Ranges::parse(b"bytes=-5", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn what_is_no_list_of_ranges_or_too_much_is_the_whole() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes 0-1",
            "lines=0-1",
            "bytes=a",
            "bytes=1",
            "bytes=-",
            "bytes=5-3",
            "bytes=1-2-3",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes= 1 - 2",
            "bytes=0-9,0-9",
        ] {
            assert_eq!(of(value), Ranges::Whole, "{value}");
        }
        let many = format!("bytes={}", vec!["0-0"; MOST_RANGES + 1].join(","));
        assert_eq!(Ranges::parse(many.as_bytes(), 1000), Ranges::Whole);
    }

    #[test]
    fn content_ranges_are_read_strictly() {
        let part = |first, end, total| Some(ContentRange { first, end, total });
        assert_eq!(ContentRange::parse(b"bytes 0-4/10"), part(0, 5, 10));
        assert_eq!(ContentRange::parse(b"Bytes 9-9/10"), part(9, 10, 10));
        for value in [
            "",
            "bytes 0-4/*",
            "bytes */10",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes 0-4",
            "bytes=0-4/10",
            "bytes 0-4/10 ",
            "bytes 0 -4/10",
            "bytes 0-18446744073709551615/18446744073709551615",
            "lines 0-4/10",
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), None, "{value}");
        }
    }
}
