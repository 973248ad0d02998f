//! What is kept of one step of one object: 52 bytes.

use crate::meter::{BOUNDS_US, BUCKETS};
use crate::totals::Totals;

/// A count in 16 bits: exact below 2,048, above with an error of at most one part in 4,096, up to 4.4 · 10¹².
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Small(pub(super) u16);

/// Bits of the fraction.
const FRACTION: u32 = 11;

impl Small {
    /// The nearest that can be kept.
    pub(super) fn of(count: u64) -> Self {
        let bits = u64::BITS - count.leading_zeros();
        let Some(shift) = bits.checked_sub(FRACTION + 1) else {
            return Self(count as u16);
        };
        // Rounded; what rounds up to the next power of two has a fraction of 0 in the next exponent.
        let rounded = if shift == 0 { count } else { (count >> shift) + (count >> (shift - 1) & 1) };
        let code = (u64::from(shift + 1) << FRACTION) + (rounded - (1 << FRACTION));
        Self(u16::try_from(code).unwrap_or(u16::MAX))
    }

    /// The count.
    pub(super) fn count(self) -> u64 {
        let (exponent, fraction) = (self.0 >> FRACTION, u64::from(self.0 & ((1 << FRACTION) - 1)));
        match exponent {
            0 => fraction,
            exponent => (fraction | 1 << FRACTION) << (exponent - 1),
        }
    }
}

/// What one object has counted in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) requests: u32,
    pub(super) errors: u32,
    /// Exact below 16 MiB, above to seven digits.
    pub(super) bytes_in: f32,
    pub(super) bytes_out: f32,
    pub(super) buckets: [Small; BUCKETS],
}

impl Point {
    /// Adds counts.
    pub(super) fn add(&mut self, counts: &Totals) {
        let add = |sum: u32, more: u64| sum.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.requests = add(self.requests, counts.requests);
        self.errors = add(self.errors, counts.errors);
        self.bytes_in += counts.bytes_in as f32;
        self.bytes_out += counts.bytes_out as f32;
        for (bucket, more) in self.buckets.iter_mut().zip(counts.buckets).filter(|(_, more)| *more > 0) {
            *bucket = Small::of(bucket.count().saturating_add(more));
        }
    }

    /// Adds another point.
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets).filter(|(_, more)| more.0 > 0) {
            *bucket = Small::of(bucket.count().saturating_add(more.count()));
        }
    }

    /// Whether nothing was counted.
    pub(super) fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    /// The duration in microseconds that this share of the exchanges did not exceed: exact to the bucket, within it as
    /// if they lay evenly; above the last bound that bound. `None` without exchanges.
    pub(super) fn quantile_us(&self, share: f64) -> Option<u64> {
        let counts = self.buckets.map(|bucket| bucket.count() as f64);
        let all: f64 = counts.iter().sum();
        let wanted = all * share;
        let (mut below, mut least) = (0.0, 0.0);
        for (count, bound) in counts.into_iter().zip(BOUNDS_US) {
            let bound = bound as f64;
            if count > 0.0 && below + count >= wanted {
                return Some((least + (bound - least) * (wanted - below) / count) as u64);
            }
            (below, least) = (below + count, bound);
        }
        (all > 0.0).then_some(BOUNDS_US[BOUNDS_US.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_counts_are_exact_and_large_ones_nearly() {
        for count in 0..10_000 {
            let kept = Small::of(count).count();
            assert!(kept.abs_diff(count) * 4096 <= count, "{count} became {kept}");
            assert!(count >= 4096 || kept == count, "{count} became {kept}");
        }
        for bits in 11..42 {
            for count in [(1 << bits) - 1, 1 << bits, (1 << bits) + 1, (1 << bits) + (1 << (bits - 1))] {
                let kept = Small::of(count).count();
                assert!(kept.abs_diff(count) * 4096 <= count, "{count} became {kept}");
            }
        }
        assert_eq!(Small::of(u64::MAX), Small(u16::MAX));
        assert!((0..u16::MAX).all(|code| Small(code).count() < Small(code + 1).count()));
        assert!((0..=u16::MAX).all(|code| Small::of(Small(code).count()) == Small(code)));
    }

    #[test]
    fn quantiles_are_those_of_the_buckets() {
        let mut counts = Totals { requests: 100, ..Totals::default() };
        counts.buckets[0] = 90;
        counts.buckets[6] = 10;
        let mut point = Point::default();
        assert_eq!(point.quantile_us(0.5), None);
        point.add(&counts);
        assert_eq!(point.quantile_us(0.45), Some(250));
        assert_eq!(point.quantile_us(0.99), Some(47_500));
        counts.buckets[16] = 1_000;
        point.add(&counts);
        assert_eq!(point.quantile_us(0.99), Some(60_000_000));
    }
}
