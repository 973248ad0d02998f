//! Why a label was not opened.

use std::fmt;

/// Why a label was not opened: for logs and metrics. A client gets one answer for all of them.
///
/// Where several hold, the first of this list is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Refusal {
    /// It has not 63 characters.
    Length,
    /// A character is none of `a`–`z`, `A`–`Z`, `2`–`7`.
    Alphabet,
    /// The 3 bits behind the last byte are not zero.
    SpareBits,
    /// Its version is not 1.
    Version,
    /// No key has its id.
    UnknownKey,
    /// It was not sealed with this key for this domain, or was changed.
    Forged,
    /// It was sealed with the key, but says what this version does not know: another kind, a flag, a port out of place.
    Malformed,
    /// Its time is over.
    Expired,
}

impl Refusal {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 8] = [
        Self::Length,
        Self::Alphabet,
        Self::SpareBits,
        Self::Version,
        Self::UnknownKey,
        Self::Forged,
        Self::Malformed,
        Self::Expired,
    ];

    /// A word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Alphabet => "alphabet",
            Self::SpareBits => "spare_bits",
            Self::Version => "version",
            Self::UnknownKey => "unknown_key",
            Self::Forged => "forged",
            Self::Malformed => "malformed",
            Self::Expired => "expired",
        }
    }

    /// The first one that holds. Looks at all of them, in the order of [`ALL`](Self::ALL).
    pub(crate) fn first(holds: [bool; 8]) -> Option<Self> {
        let bits = holds.into_iter().rev().fold(0u32, |bits, holds| bits << 1 | u32::from(holds));
        Self::ALL.get(std::hint::black_box(bits).trailing_zeros() as usize).copied()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_that_holds_is_told() {
        assert_eq!(Refusal::first([false; 8]), None);
        for (at, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(Refusal::first(std::array::from_fn(|i| i >= at)), Some(refusal));
            assert_eq!(Refusal::first(std::array::from_fn(|i| i == at)), Some(refusal));
        }
    }
}
