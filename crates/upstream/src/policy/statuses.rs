//! Sets of statuses, of HTTP and of gRPC.

use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;
use thalweg_core::GRPC_STATUSES;

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

/// Statuses of gRPC calls, by their numbers: `[unavailable, internal]`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GrpcStatuses(u32);

impl GrpcStatuses {
    /// Those with these numbers, 0–16.
    pub fn new(numbers: impl IntoIterator<Item = u8>) -> Self {
        Self(numbers.into_iter().fold(0, |set, number| set | 1_u32.checked_shl(number.into()).unwrap_or(0)))
    }

    /// Whether the status is one of them.
    pub fn contains(self, number: u8) -> bool {
        self.0.checked_shr(number.into()).unwrap_or(0) & 1 == 1
    }

    /// Whether it is the empty set.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// As in the configuration.
impl fmt::Display for GrpcStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            (0..).zip(GRPC_STATUSES).filter(|(number, _)| self.contains(*number)).map(|(_, name)| name);
        write!(f, "[{}]", names.collect::<Vec<_>>().join(", "))
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for GrpcStatuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
