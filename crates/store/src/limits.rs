//! What a store may hold.

/// Variants of one key; where there are more, the oldest that was not used lately goes.
pub const MOST_VARIANTS: usize = thalweg_cache::vary::MOST_VARIANTS;
/// Sets of names that the variants of one key may differ by and that a request is compared with.
pub const MOST_VARIES: usize = 4;
/// Fills at the same time.
pub const MOST_FILLS: usize = 4096;
/// Readers of one fill; those who come later go alone.
pub const MOST_READERS: usize = 16 * 1024;
/// Marks of what may not be stored; the oldest goes.
pub const MOST_MARKS: usize = 64 * 1024;
/// Bytes that a fill keeps for its readers once it cannot be stored any more.
pub const WINDOW: usize = 128 * 1024;
/// Bytes that a fill keeps of those that it has written to a second tier: who is not further behind reads no file.
pub const SPILL_WINDOW: usize = 256 * 1024;
/// Bytes of a fill that wait to be written to a second tier; then its leader waits.
pub const SPILL_AHEAD: usize = 512 * 1024;
/// Readers of a fill in a second tier; those who come later go alone.
pub const MOST_SPILL_READERS: usize = 768;
/// Fills in a second tier at the same time.
pub const MOST_SPILLS: usize = 64;
/// The smallest store, in bytes.
pub const LEAST_BYTES: u64 = 8 * 1024 * 1024;
/// Most shards.
pub const MOST_SHARDS: usize = 1024;

/// What a store may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of memory in all, with what finds the objects and with fills.
    pub bytes: u64,
    /// Bytes of the body of the largest object; at most a quarter of [`Self::bytes`] counts.
    pub largest: u64,
    /// Parts with a lock each, a power of two; a few for each worker.
    pub shards: usize,
}

impl Limits {
    /// So many bytes, in which one object may take an eighth.
    pub const fn of(bytes: u64) -> Self {
        Self { bytes, largest: bytes / 8, shards: 64 }
    }

    /// Whether a store can be made of it.
    ///
    /// # Errors
    /// What is wrong, as a sentence with its remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.bytes < LEAST_BYTES {
            return Err(format!("a store of less than {LEAST_BYTES} bytes; help: 8 MiB is the least"));
        }
        if !self.shards.is_power_of_two() || self.shards > MOST_SHARDS {
            return Err(format!("{} shards; help: write a power of two up to {MOST_SHARDS}", self.shards));
        }
        Ok(())
    }

    /// Bytes of the largest object.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.min(self.bytes / 4)
    }

    /// Bytes of fills that are to be stored; half of the store always is for objects.
    pub(crate) fn fill_bytes(&self) -> u64 {
        self.bytes / 2
    }

    /// Fills in a second tier at the same time: what they keep takes an eighth of the store at most, where that is
    /// enough for one.
    pub(crate) fn spills(&self) -> usize {
        let each = (SPILL_WINDOW + SPILL_AHEAD) as u64;
        (self.bytes / 8 / each).clamp(1, MOST_SPILLS as u64) as usize
    }

    /// Fills at the same time: their windows take a quarter of the store at most.
    pub(crate) fn fills(&self) -> usize {
        (self.bytes / 4 / WINDOW as u64).clamp(16, MOST_FILLS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        assert_eq!(Limits::of(LEAST_BYTES).check(), Ok(()));
        for wrong in [
            Limits::of(LEAST_BYTES - 1),
            Limits { shards: 3, ..Limits::of(LEAST_BYTES) },
            Limits { shards: 0, ..Limits::of(LEAST_BYTES) },
            Limits { shards: 2 * MOST_SHARDS, ..Limits::of(LEAST_BYTES) },
        ] {
            assert!(wrong.check().unwrap_err().contains("help: "));
        }
    }

    #[test]
    fn fills_leave_room_for_objects() {
        for bytes in [LEAST_BYTES, 64 << 20, 1 << 30, 1 << 40] {
            let limits = Limits { largest: u64::MAX, ..Limits::of(bytes) };
            assert!(limits.largest() <= bytes / 4);
            assert!(limits.fill_bytes() + (limits.fills() * WINDOW) as u64 <= bytes / 4 * 3);
        }
    }
}
