//! Deadlines: two timing wheels per worker, so that a deadline costs a store in the common case.
//!
//! Every source has at most one deadline. Moving it later only changes a number: the entry in its
//! wheel stays where it is and is put further when its bucket comes up. A coarse deadline, a multiple of
//! [`TICK_MS`], stands in the coarse wheel and is met at most two of its ticks late. An exact one is met in its
//! millisecond: it stands in the fine wheel as soon as that reaches so far, and before in the coarse one, at the tick
//! before it. None is met early.

/// The grain of a coarse deadline, in milliseconds.
pub(crate) const TICK_MS: u64 = 16;
const BUCKETS: u64 = 1024;
/// Entries that an empty bucket keeps room for: 1 MiB in all buckets of a wheel together.
const KEEP: usize = 64;
const WORDS: usize = (BUCKETS / 64) as usize;
const _: () = assert!(WORDS == u16::BITS as usize);

/// "No deadline". Milliseconds are 64 bits wide: 32 would wrap after seven weeks.
pub(crate) const NEVER: u64 = u64::MAX;

/// An entry: the key of a source and the time, in milliseconds, for which it was put here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) at: u64,
}

/// The coarse and the fine wheel.
#[derive(Debug)]
pub(crate) struct Wheels {
    coarse: Wheel,
    fine: Wheel,
}

/// A bucket that is due, and where it comes from.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) list: Vec<Entry>,
    is_fine: bool,
}

impl Wheels {
    pub(crate) fn new() -> Self {
        Self { coarse: Wheel::new(TICK_MS), fine: Wheel::new(1) }
    }

    /// Puts an entry as near to `at` as a wheel reaches and says for which time it was put.
    pub(crate) fn push(&mut self, key: u64, at: u64) -> u64 {
        let is_near =
            !at.is_multiple_of(TICK_MS) && (at < self.fine.reach() || at / TICK_MS <= self.coarse.done);
        if is_near { self.fine.push(key, at) } else { self.coarse.push(key, at) }
    }

    /// Takes the next bucket that is due at `now`; `None` when all are taken.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<Due> {
        let coarse = self.coarse.take_due(now).map(|list| Due { list, is_fine: false });
        coarse.or_else(|| self.fine.take_due(now).map(|list| Due { list, is_fine: true }))
    }

    /// Gives a taken bucket's memory back.
    pub(crate) fn recycle(&mut self, due: Due) {
        let wheel = if due.is_fine { &mut self.fine } else { &mut self.coarse };
        wheel.recycle(due.list);
    }

    /// A wheel without entries follows the clock, so that times stay within its reach.
    pub(crate) fn follow(&mut self, now: u64) {
        self.coarse.follow(now);
        self.fine.follow(now);
    }

    /// The time of the nearest bucket with entries, `None` when there is none.
    pub(crate) fn next_occupied(&self) -> Option<u64> {
        let coarse = self.coarse.next_occupied().map(|tick| tick.saturating_mul(TICK_MS));
        coarse.into_iter().chain(self.fine.next_occupied()).min()
    }
}

/// Buckets of entries, one per tick, wrapping around.
#[derive(Debug)]
struct Wheel {
    /// Milliseconds of a tick.
    grain: u64,
    buckets: Vec<Vec<Entry>>,
    occupied: [u64; WORDS],
    /// Which words of `occupied` are not zero, a bit each: most turns look for the nearest bucket, and most are empty.
    words: u16,
    /// Every bucket up to this tick has been taken.
    done: u64,
}

impl Wheel {
    fn new(grain: u64) -> Self {
        let buckets = (0..BUCKETS).map(|_| Vec::new()).collect();
        Self { grain, buckets, occupied: [0; WORDS], words: 0, done: 0 }
    }

    /// The first time beyond it.
    fn reach(&self) -> u64 {
        (self.done + BUCKETS).saturating_mul(self.grain)
    }

    /// Puts an entry as near to `at` as the wheel reaches, at the tick before it where it falls between two, and
    /// says for which time it was put.
    fn push(&mut self, key: u64, at: u64) -> u64 {
        let tick = (at / self.grain).clamp(self.done + 1, self.done + BUCKETS - 1);
        let bucket = (tick % BUCKETS) as usize;
        let at = tick * self.grain;
        self.buckets[bucket].push(Entry { key, at });
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.words |= 1 << (bucket / 64);
        at
    }

    /// Takes the next bucket that is due at `now`; `None` when all are taken.
    fn take_due(&mut self, now: u64) -> Option<Vec<Entry>> {
        let now = now / self.grain;
        while self.done < now {
            let next = self.next_occupied()?.min(now);
            self.done = next;
            let bucket = (next % BUCKETS) as usize;
            if self.occupied[bucket / 64] & (1 << (bucket % 64)) != 0 {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
                if self.occupied[bucket / 64] == 0 {
                    self.words &= !(1 << (bucket / 64));
                }
                return Some(std::mem::take(&mut self.buckets[bucket]));
            }
        }
        None
    }

    /// Gives a taken bucket's memory back.
    fn recycle(&mut self, mut entries: Vec<Entry>) {
        entries.clear();
        let bucket = (self.done % BUCKETS) as usize;
        if self.buckets[bucket].is_empty() && entries.capacity() <= KEEP {
            self.buckets[bucket] = entries;
        }
    }

    /// Without entries the wheel follows the clock, so that ticks stay within its reach.
    fn follow(&mut self, now: u64) {
        if self.words == 0 {
            self.done = self.done.max(now / self.grain);
        }
    }

    /// The tick of the nearest bucket with entries, `None` when there is none.
    fn next_occupied(&self) -> Option<u64> {
        let start = self.done + 1;
        let first = (start % BUCKETS) as usize;
        let mut word = first / 64;
        let mut bits = self.occupied[word] & (!0 << (first % 64));
        if bits == 0 {
            // The words behind it, and around to its own beginning.
            let ahead = self.words.rotate_right(word as u32 + 1);
            if ahead == 0 {
                return None;
            }
            word = (word + 1 + ahead.trailing_zeros() as usize) % WORDS;
            bits = self.occupied[word];
        }
        let bucket = word as u64 * 64 + u64::from(bits.trailing_zeros());
        Some(start + (bucket + BUCKETS - start % BUCKETS) % BUCKETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(wheel: &mut Wheel, now: u64) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        while let Some(entries) = wheel.take_due(now) {
            out.extend(entries.iter().map(|e| (e.key, e.at)));
            wheel.recycle(entries);
        }
        out
    }

    #[test]
    fn gives_entries_at_their_tick_and_not_before() {
        let mut wheel = Wheel::new(1);
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
        let mut wheel = Wheel::new(1);
        assert_eq!(wheel.push(1, 1_000_000), BUCKETS - 1);
        assert_eq!(due(&mut wheel, 2000), [(1, BUCKETS - 1)]);
    }

    #[test]
    fn finds_the_nearest_across_the_wrap() {
        let mut wheel = Wheel::new(1);
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
    fn finds_the_nearest_wherever_it_is() {
        for start in [0, 1, 62, 63, 64, 1000, 1023, 1024, 70_001] {
            for ahead in (1..BUCKETS).step_by(7).chain([64, 128, BUCKETS - 1]) {
                let mut wheel = Wheel::new(1);
                wheel.follow(start);
                wheel.push(1, start + ahead);
                assert_eq!(wheel.next_occupied(), Some(start + ahead), "start {start}");
                wheel.push(2, start + ahead / 2);
                let nearest = start + (ahead / 2).max(1);
                assert_eq!(wheel.next_occupied(), Some(nearest), "start {start}, ahead {ahead}");
                assert_eq!(due(&mut wheel, start + ahead).len(), 2);
                assert_eq!(wheel.next_occupied(), None, "start {start}, ahead {ahead}");
            }
        }
    }

    #[test]
    fn works_across_and_beyond_two_to_the_32_ticks() {
        const WRAP: u64 = 1 << 32;
        for start in [WRAP - 3, WRAP, 3 * WRAP - 700, 1 << 50] {
            let mut wheel = Wheel::new(1);
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
        let mut wheel = Wheel::new(1);
        wheel.follow(100);
        assert_eq!(wheel.push(1, 7), 101);
        assert_eq!(due(&mut wheel, 101), [(1, 101)]);
    }

    #[test]
    fn an_exact_deadline_is_met_in_its_millisecond_however_far_it_is() {
        for far in [3, 20, 1_000, 1_023, 1_024, 1_025, 2_000, 16_383, 16_385, 20_003, 100_001] {
            for start in [0_u64, 7, 16, 40_000] {
                let mut wheels = Wheels::new();
                wheels.follow(start);
                let deadline = start + far;
                let (mut now, mut armed) = (start, wheels.push(1, deadline));
                let mut turns = 0;
                // As the reactor does: sleep to the nearest bucket, and put further what is not due yet.
                let met = 'met: loop {
                    while let Some(due) = wheels.take_due(now) {
                        for entry in &due.list {
                            assert_eq!(entry.at, armed);
                            if deadline <= now {
                                break 'met now;
                            }
                            armed = wheels.push(entry.key, deadline);
                        }
                        wheels.recycle(due);
                    }
                    wheels.follow(now);
                    now = wheels.next_occupied().expect("it is in a wheel");
                    turns += 1;
                    assert!(turns < 20, "start {start}, far {far}");
                };
                assert_eq!(met, deadline, "start {start}, far {far}");
            }
        }
    }
}
