//! A set of HTTP statuses.

use std::fmt;
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

/// As in the configuration: `[200, 500-599]`.
impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        write!(f, "[{}]", self.0.iter().map(range).collect::<Vec<_>>().join(", "))
    }
}
