//! The ranges of bytes that a request asks for (RFC 9110 §14).

use std::ops::Range;

/// Ranges that are given at most; who asks for more gets the whole (RFC 9110 §14.2 allows it, §17.15 says why).
const MOST: usize = 64;

/// What a `Range` field asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Ranges {
    /// All: the unit is unknown, there are too many ranges, or they overlap so that they are more than the whole.
    Whole,
    /// 416: nothing that the file has.
    Unsatisfiable,
    /// These, none empty and in the order that was asked for.
    Some(Vec<Range<u64>>),
}

/// Reads the field for a file of this size. What is no list of ranges is refused as one that asks for nothing, as nginx
/// does.
pub(super) fn parse(value: &[u8], size: u64) -> Ranges {
    let Some((prefix, set)) = value.split_at_checked(6) else { return Ranges::Whole };
    if !prefix.eq_ignore_ascii_case(b"bytes=") || set.is_empty() {
        return Ranges::Whole;
    }
    let (mut ranges, mut sum) = (Vec::new(), 0_u64);
    for element in set.split(|byte| *byte == b',') {
        let Some(range) = range(element, size) else { return Ranges::Unsatisfiable };
        if range.is_empty() {
            if range.start == 0 {
                return Ranges::Whole;
            }
            continue;
        }
        sum = sum.saturating_add(range.end - range.start);
        if ranges.len() == MOST {
            return Ranges::Whole;
        }
        ranges.push(range);
    }
    match ranges.as_slice() {
        [] => Ranges::Unsatisfiable,
        _ if sum > size => Ranges::Whole,
        _ => Ranges::Some(ranges),
    }
}

/// Reads `0-499`, `500-` or `-500`; an empty range for one that the file does not have.
fn range(element: &[u8], size: u64) -> Option<Range<u64>> {
    let element = element.trim_ascii();
    let dash = memchr::memchr(b'-', element)?;
    let (first, last) = (element[..dash].trim_ascii_end(), element[dash + 1..].trim_ascii_start());
    match (first, last) {
        (b"", last) => Some(size.saturating_sub(number(last)?)..size),
        (first, b"") => Some(number(first)?..size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            Some(first..last.saturating_add(1).min(size))
        }
    }
}

/// A number of any length; one that is too large is larger than any file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges are what is compared")]
mod tests {
    use super::*;

    fn of(value: &str, size: u64) -> Ranges {
        parse(value.as_bytes(), size)
    }

    #[test]
    fn ranges_are_what_was_asked_for() {
        for (value, expected) in [
            ("bytes=0-0", &[0..1][..]),
            ("bytes=2-4", &[2..5]),
            ("BYTES=2-4", &[2..5]),
            ("bytes=5-", &[5..10]),
            ("bytes=-3", &[7..10]),
            ("bytes=-99", &[0..10]),
            ("bytes=8-99", &[8..10]),
            ("bytes=8-99999999999999999999999999", &[8..10]),
            ("bytes= 1 - 2 , 4-5", &[1..3, 4..6]),
            ("bytes=5-6,0-1", &[5..7, 0..2]),
            ("bytes=0-4,3-5", &[0..5, 3..6]),
            ("bytes=0-1,99-100", &[0..2]),
            ("bytes=0-1,5-3", &[0..2]),
        ] {
            assert_eq!(of(value, 10), Ranges::Some(expected.to_vec()), "{value}");
        }
    }

    #[test]
    fn what_cannot_be_given_is_refused_and_what_need_not_be_is_the_whole() {
        for value in [
            "bytes=10-",
            "bytes=99-100",
            "bytes=5-3",
            "bytes=-0",
            "bytes=a",
            "bytes=1",
            "bytes=-",
            "bytes=1-2-3",
            "bytes=0-1,",
            "bytes=,0-1",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1--2",
            "bytes=--1",
            "bytes=1- 2 3",
            "bytes=99999999999999999999999-",
        ] {
            assert_eq!(of(value, 10), Ranges::Unsatisfiable, "{value}");
        }
        for value in
            ["", "bytes", "bytes=", "lines=0-1", "bytes:0-1", "items=5-", "bytes=0-9,0-0", "bytes=0-,0-,0-"]
        {
            assert_eq!(of(value, 10), Ranges::Whole, "{value}");
        }
        assert_eq!((of("bytes=0-", 0), of("bytes=-5", 0), of("bytes=1-", 0)), {
            (Ranges::Whole, Ranges::Whole, Ranges::Unsatisfiable)
        });
    }

    #[test]
    fn ten_thousand_ranges_are_the_whole() {
        let many: Vec<String> = (0..10_000).map(|at| format!("{at}-{at}")).collect();
        assert_eq!(of(&format!("bytes={}", many.join(",")), 1_000_000), Ranges::Whole);
        assert_eq!(of(&format!("bytes={}", many[..64].join(",")), 1_000_000), {
            Ranges::Some((0..64).map(|at| at..at + 1).collect())
        });
    }
}
