//! A budget that fills by itself.
//!
//! Used by the flood guard for what a peer may ask for without giving anything: time gives a little of it
//! back, work that was done gives more.

/// Parts of one unit, so that a refill of less than one a millisecond is not lost.
const PARTS: u32 = 1000;
/// Largest budget, in units.
const MOST: u32 = u32::MAX / PARTS;

/// What is left of a budget. Never above its cap, whatever is given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    /// In parts, as the two bounds.
    level: u32,
    burst: u32,
    cap: u32,
    per_second: u32,
}

impl Bucket {
    /// A full one: `burst` units, to which time gives `per_second` back up to the burst, and work up to `cap`
    /// (at least the burst). All are below 4 million.
    pub fn new(burst: u32, per_second: u32, cap: u32) -> Self {
        let burst = burst.min(MOST) * PARTS;
        Self { level: burst, burst, cap: (cap.min(MOST) * PARTS).max(burst), per_second }
    }

    /// Time went by.
    #[inline]
    pub fn refill(&mut self, elapsed_ms: u64) {
        if self.level < self.burst {
            let room = self.burst - self.level;
            let earned = elapsed_ms.saturating_mul(u64::from(self.per_second));
            self.level += u32::try_from(earned).map_or(room, |earned| earned.min(room));
        }
    }

    /// Work was done.
    #[inline]
    pub fn give(&mut self, units: u32) {
        self.level = self.level.saturating_add(units.saturating_mul(PARTS)).min(self.cap);
    }

    /// Takes the price of something, or nothing if that much is not left.
    #[inline]
    #[must_use]
    pub fn take(&mut self, units: u32) -> bool {
        let left = self.level.checked_sub(units.saturating_mul(PARTS));
        self.level = left.unwrap_or(self.level);
        left.is_some()
    }

    /// Whole units that are left.
    pub const fn level(&self) -> u32 {
        self.level / PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn time_fills_it_to_the_burst_and_work_to_the_cap() {
        let mut bucket = Bucket::new(10, 5, 20);
        assert!(bucket.take(10) && !bucket.take(1));
        bucket.refill(199);
        assert!(!bucket.take(1));
        bucket.refill(1);
        assert!(bucket.take(1) && !bucket.take(1));
        bucket.refill(u64::MAX);
        assert_eq!(bucket.level(), 10);
        bucket.give(u32::MAX);
        assert_eq!(bucket.level(), 20);
        bucket.refill(u64::MAX);
        assert_eq!(bucket.level(), 20);
    }

    proptest! {
        #[test]
        fn never_holds_more_than_its_cap_nor_spends_what_it_has_not(
            (burst, rate, cap) in (0u32..5_000_000, any::<u32>(), 0u32..5_000_000),
            steps in prop::collection::vec((0u8..3, any::<u32>()), 0..60),
        ) {
            let mut bucket = Bucket::new(burst, rate, cap);
            let most = burst.min(MOST).max(cap.min(MOST));
            for (what, amount) in steps {
                let before = bucket.level();
                match what {
                    0 => bucket.refill(u64::from(amount)),
                    1 => bucket.give(amount),
                    _ => {
                        let taken = bucket.take(amount % 2_000);
                        prop_assert_eq!(taken, before >= amount % 2_000);
                        prop_assert_eq!(bucket.level(), before - if taken { amount % 2_000 } else { 0 });
                    }
                }
                prop_assert!(bucket.level() <= most);
                prop_assert!(what > 1 || bucket.level() >= before);
            }
        }
    }
}
