//! A set of HTTP statuses.

use std::ops::RangeInclusive;

/// Statuses from 100 to 599: `[200, 204]`, `[500-599]`, `[5xx]`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl Statuses {
    /// Those of all ranges.
    pub fn new(ranges: Vec<RangeInclusive<u16>>) -> Self {
        Self(ranges)
    }

    /// Whether the status is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    /// Whether it is the empty set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
