//! Deadlines: one coarse wheel per worker, so that a deadline costs a store in the common case.
//!
//! Every source has at most one deadline. Moving it later only changes a number: the entry in the
//! wheel stays where it is and is put further when its bucket comes up. Deadlines are met at most
//! two ticks of [`TICK_MS`] late and never early.

/// The grain of every deadline, in milliseconds.
pub(crate) const TICK_MS: u64 = 16;
const BUCKETS: u64 = 1024;
/// Entries that an empty bucket keeps room for: 1 MiB in all buckets together.
const KEEP: usize = 64;
const WORDS: usize = (BUCKETS / 64) as usize;

/// "No deadline". Ticks are 64 bits wide: 32 would wrap after two years.
pub(crate) const NEVER: u64 = u64::MAX;

/// An entry: the key of a source and the tick for which it was put here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) tick: u64,
}

/// Buckets of entries, one per tick, wrapping around.
#[derive(Debug)]
pub(crate) struct Wheel {
    buckets: Vec<Vec<Entry>>,
    occupied: [u64; WORDS],
    /// Every bucket up to this tick has been taken.
    done: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| Vec::new()).collect(), occupied: [0; WORDS], done: 0 }
    }

    /// Puts an entry as near to `tick` as the wheel reaches and says for which tick it was put.
    pub(crate) fn push(&mut self, key: u64, tick: u64) -> u64 {
        let tick = tick.clamp(self.done + 1, self.done + BUCKETS - 1);
        let bucket = (tick % BUCKETS) as usize;
        self.buckets[bucket].push(Entry { key, tick });
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        tick
    }

    /// Takes the next bucket that is due at `now`; `None` when all are taken.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<Vec<Entry>> {
        while self.done < now {
            let next = self.next_occupied()?.min(now);
            self.done = next;
            let bucket = (next % BUCKETS) as usize;
            if self.occupied[bucket / 64] & (1 << (bucket % 64)) != 0 {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
                return Some(std::mem::take(&mut self.buckets[bucket]));
            }
        }
        None
    }

    /// Gives a taken bucket's memory back.
    pub(crate) fn recycle(&mut self, mut entries: Vec<Entry>) {
        entries.clear();
        let bucket = (self.done % BUCKETS) as usize;
        if self.buckets[bucket].is_empty() && entries.capacity() <= KEEP {
            self.buckets[bucket] = entries;
        }
    }

    /// Without entries the wheel follows the clock, so that ticks stay within its reach.
    pub(crate) fn follow(&mut self, now: u64) {
        if self.next_occupied().is_none() {
            self.done = self.done.max(now);
        }
    }

    /// The tick of the nearest bucket with entries, `None` when there is none.
    pub(crate) fn next_occupied(&self) -> Option<u64> {
        let start = self.done + 1;
        let first = (start % BUCKETS) as usize;
        let mut word = first / 64;
        let mut bits = self.occupied[word] & (!0 << (first % 64));
        for _ in 0..=WORDS {
            if bits != 0 {
                let bucket = word as u64 * 64 + u64::from(bits.trailing_zeros());
                return Some(start + (bucket + BUCKETS - start % BUCKETS) % BUCKETS);
            }
            word = (word + 1) % WORDS;
            bits = self.occupied[word];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(wheel: &mut Wheel, now: u64) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        while let Some(entries) = wheel.take_due(now) {
            out.extend(entries.iter().map(|e| (e.key, e.tick)));
            wheel.recycle(entries);
        }
        out
    }

    #[test]
    fn gives_entries_at_their_tick_and_not_before() {
        let mut wheel = Wheel::new();
        wheel.push(1, 5);
        wheel.push(2, 700);
        assert_eq!(wheel.next_occupied(), Some(5));
        assert_eq!(due(&mut wheel, 4), []);
        assert_eq!(due(&mut wheel, 5), [(1, 5)]);
        assert_eq!(wheel.next_occupied(), Some(700));
        assert_eq!(due(&mut wheel, 699), []);
        assert_eq!(due(&mut wheel, 5000), [(2, 700)]);
        assert_eq!(wheel.next_occupied(), None);
    }

    #[test]
    fn puts_far_entries_as_far_as_it_reaches() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.push(1, 1_000_000), BUCKETS - 1);
        assert_eq!(due(&mut wheel, 2000), [(1, BUCKETS - 1)]);
    }

    #[test]
    fn finds_the_nearest_across_the_wrap() {
        let mut wheel = Wheel::new();
        wheel.follow(1000);
        wheel.push(1, 1030);
        wheel.push(2, 1001);
        assert_eq!(wheel.next_occupied(), Some(1001));
        assert_eq!(due(&mut wheel, 1029), [(2, 1001)]);
        assert_eq!(wheel.next_occupied(), Some(1030));
        wheel.push(3, 1029 + 1023);
        assert_eq!(due(&mut wheel, 1030), [(1, 1030)]);
        assert_eq!(wheel.next_occupied(), Some(2052));
    }

    #[test]
    fn works_across_and_beyond_two_to_the_32_ticks() {
        const WRAP: u64 = 1 << 32;
        for start in [WRAP - 3, WRAP, 3 * WRAP - 700, 1 << 50] {
            let mut wheel = Wheel::new();
            wheel.follow(start);
            assert_eq!(wheel.push(1, start + 5), start + 5);
            assert_eq!(wheel.push(2, start + 700), start + 700);
            assert_eq!(wheel.push(3, NEVER - 1), start + BUCKETS - 1, "as far as it reaches");
            assert_eq!(wheel.next_occupied(), Some(start + 5));
            assert_eq!(due(&mut wheel, start + 4), []);
            assert_eq!(due(&mut wheel, start + 5), [(1, start + 5)]);
            assert_eq!(due(&mut wheel, start + 699), []);
            assert_eq!(due(&mut wheel, start + 5000), [(2, start + 700), (3, start + BUCKETS - 1)]);
            assert_eq!(wheel.next_occupied(), None);
        }
    }

    #[test]
    fn never_puts_an_entry_into_the_past() {
        let mut wheel = Wheel::new();
        wheel.follow(100);
        assert_eq!(wheel.push(1, 7), 101);
        assert_eq!(due(&mut wheel, 101), [(1, 101)]);
    }
}
