//! Which bytes of a representation are stored (RFC 9111 §3.3, §3.4).

use crate::range::ContentRange;
use std::ops::Range;

/// Separate ranges that are kept of one representation; what would be one more is not stored.
pub const MOST_PARTS: usize = 64;

/// Ranges of the bytes of one representation, apart from each other, in order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parts {
    total: u64,
    ranges: Vec<Range<u64>>,
}

impl Parts {
    /// The first part.
    pub fn of(part: &ContentRange) -> Self {
        Self { total: part.total, ranges: vec![part.range()] }
    }

    /// Bytes of the whole.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is there, in order.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Whether all of this range is there.
    pub fn has(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.ranges.iter().any(|known| known.start <= range.start && range.end <= known.end)
    }

    /// Whether all is there.
    pub fn is_complete(&self) -> bool {
        self.has(&(0..self.total))
    }

    /// The first bytes of this range that are not there, up to the next ones that are.
    pub fn first_gap(&self, within: &Range<u64>) -> Option<Range<u64>> {
        let mut at = within.start;
        for known in &self.ranges {
            if known.start > at {
                return (at < within.end).then(|| at..known.start.min(within.end));
            }
            at = at.max(known.end);
        }
        (at < within.end).then_some(at..within.end)
    }

    /// Adds a range; false, and nothing is added, where it is outside the whole or there are too many apart.
    pub fn add(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() || range.end > self.total {
            return false;
        }
        // Those that touch it become one with it.
        let from = self.ranges.partition_point(|known| known.end < range.start);
        let to = self.ranges.partition_point(|known| known.start <= range.end);
        if from == to && self.ranges.len() == MOST_PARTS {
            return false;
        }
        let touched = &self.ranges[from..to];
        let start = touched.first().map_or(range.start, |known| known.start.min(range.start));
        let end = touched.last().map_or(range.end, |known| known.end.max(range.end));
        self.ranges.splice(from..to, std::iter::once(start..end));
        true
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges are what is compared")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(ranges: &[Range<u64>], total: u64) -> Parts {
        let first = ContentRange { first: ranges[0].start, end: ranges[0].end, total };
        let mut parts = Parts::of(&first);
        for range in &ranges[1..] {
            assert!(parts.add(range.clone()));
        }
        parts
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(parts(&[4..6, 0..2, 2..4], 10).ranges(), [0..6]);
        assert_eq!(parts(&[0..2, 4..6, 8..10, 1..9], 10).ranges(), [0..10]);
        assert_eq!(parts(&[4..6, 5..6], 10).ranges(), [4..6]);
        assert_eq!(parts(&[4..6, 0..1, 8..9], 10).ranges(), [0..1, 4..6, 8..9]);
    }

    #[test]
    fn what_is_outside_or_too_much_is_not_added() {
        let mut parts = parts(&[0..1], 1000);
        assert!(!parts.add(5..5) && !parts.add(999..1001));
        for number in 1..MOST_PARTS as u64 {
            assert!(parts.add(number * 3..number * 3 + 1));
        }
        assert!(!parts.add(900..901), "one too many");
        assert!(parts.add(1..3), "it touches others");
    }

    #[test]
    fn the_first_gap_is_found() {
        let parts = parts(&[2..4, 6..8], 10);
        assert_eq!(parts.first_gap(&(0..10)), Some(0..2));
        assert_eq!(parts.first_gap(&(2..10)), Some(4..6));
        assert_eq!(parts.first_gap(&(3..5)), Some(4..5));
        assert_eq!(parts.first_gap(&(7..10)), Some(8..10));
        assert_eq!(parts.first_gap(&(2..4)), None);
        assert!(!parts.is_complete());
    }

    proptest! {
        #[test]
        fn parts_agree_with_a_set_of_bytes(ranges in prop::collection::vec((0..40_u64, 1..12_u64), 1..20), asked in (0..40_u64, 0..12_u64)) {
            const TOTAL: u64 = 40;
            let mut bytes = [false; TOTAL as usize];
            let mut parts: Option<Parts> = None;
            for (start, len) in ranges {
                let range = start..(start + len).min(TOTAL);
                bytes[range.start as usize..range.end as usize].fill(true);
                match &mut parts {
                    None => parts = Some(Parts::of(&ContentRange { first: range.start, end: range.end, total: TOTAL })),
                    Some(parts) => prop_assert!(parts.add(range)),
                }
            }
            let parts = parts.unwrap();
            let asked = asked.0..(asked.0 + asked.1).min(TOTAL);
            let gap = asked.clone().find(|byte| !bytes[*byte as usize]);
            prop_assert_eq!(parts.has(&asked), gap.is_none());
            let found = parts.first_gap(&asked);
            prop_assert_eq!(found.as_ref().map(|gap| gap.start), gap);
            if let Some(found) = found {
                prop_assert!(found.clone().all(|byte| !bytes[byte as usize]));
                prop_assert!(found.end == asked.end || bytes[found.end as usize]);
            }
            prop_assert!(parts.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
