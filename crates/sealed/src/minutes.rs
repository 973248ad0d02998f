//! Time as labels tell it: whole minutes since the beginning of 2025.

use std::fmt;
use std::time::Duration;

/// 2025-01-01T00:00:00Z in Unix seconds.
const EPOCH: u64 = 1_735_689_600;

/// Whole minutes since 2025-01-01T00:00:00Z, from 0 to 2²⁴-1 (in November 2056).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Minutes(u32);

impl Minutes {
    /// The last instant that a label can name. Once it has come, every label has expired.
    pub const MAX: Self = Self((1 << 24) - 1);

    /// The minute in which a time lies, in seconds since the Unix epoch. Earlier and later times are brought to the
    /// nearest end of the range: a clock that stands before 2025 finds no label expired.
    pub fn from_unix(secs: u64) -> Self {
        Self::bounded(secs.saturating_sub(EPOCH) / 60)
    }

    /// The first whole minute at which at least `ttl` has passed since `now_unix_secs`, in seconds since the Unix
    /// epoch; bounded as in [`from_unix`](Self::from_unix).
    pub fn after(now_unix_secs: u64, ttl: Duration) -> Self {
        let part = u64::from(ttl.subsec_nanos() > 0);
        let end = now_unix_secs.saturating_add(ttl.as_secs()).saturating_add(part);
        Self::bounded(end.saturating_sub(EPOCH).div_ceil(60))
    }

    /// The beginning of this minute, in seconds since the Unix epoch.
    pub fn unix(self) -> u64 {
        EPOCH + u64::from(self.0) * 60
    }

    pub(crate) fn to_be_bytes(self) -> [u8; 3] {
        let [_, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }

    pub(crate) fn from_be_bytes([a, b, c]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, a, b, c]))
    }

    fn bounded(minutes: u64) -> Self {
        u32::try_from(minutes).map_or(Self::MAX, Self).min(Self::MAX)
    }
}

impl fmt::Display for Minutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_rounded_down_and_an_end_up() {
        assert_eq!(Minutes::from_unix(EPOCH), Minutes(0));
        assert_eq!(Minutes::from_unix(EPOCH + 59), Minutes(0));
        assert_eq!(Minutes::from_unix(EPOCH + 60), Minutes(1));
        assert_eq!(Minutes::after(EPOCH, Duration::ZERO), Minutes(0));
        assert_eq!(Minutes::after(EPOCH, Duration::from_nanos(1)), Minutes(1));
        assert_eq!(Minutes::after(EPOCH + 30, Duration::from_secs(30)), Minutes(1));
        assert_eq!(Minutes::after(EPOCH + 30, Duration::from_secs(31)), Minutes(2));
        assert_eq!(Minutes(90).unix(), EPOCH + 5_400);
    }

    #[test]
    fn what_lies_outside_becomes_the_nearest_end() {
        assert_eq!(Minutes::from_unix(0), Minutes(0));
        assert_eq!(Minutes::from_unix(u64::MAX), Minutes::MAX);
        assert_eq!(Minutes::after(u64::MAX, Duration::MAX), Minutes::MAX);
        assert_eq!(Minutes::after(0, Duration::from_secs(60)), Minutes(0));
        assert_eq!(Minutes::from_unix(Minutes::MAX.unix() - 1), Minutes((1 << 24) - 2));
        assert_eq!(Minutes::MAX.unix(), 2_742_322_500);
    }

    #[test]
    fn three_bytes_hold_it() {
        for minutes in [Minutes(0), Minutes(0x01_02_03), Minutes::MAX] {
            assert_eq!(Minutes::from_be_bytes(minutes.to_be_bytes()), minutes);
        }
        assert_eq!(Minutes(0x01_02_03).to_be_bytes(), [1, 2, 3]);
    }
}
