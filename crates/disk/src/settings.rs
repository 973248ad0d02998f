//! What a store is made with, and its bounds.

use std::path::PathBuf;
use std::time::Duration;

/// The smallest store, in bytes.
pub const LEAST_BYTES: u64 = 16 * 1024 * 1024;
/// Objects that wait to be written.
pub const MOST_QUEUED: usize = 4096;
/// Bytes of objects that wait to be written; they are held in memory meanwhile.
pub const MOST_QUEUED_BYTES: u64 = 32 * 1024 * 1024;
/// Loads at one time.
pub const MOST_LOADS: usize = 1024;
/// Threads that read.
pub const MOST_READERS: usize = 64;
/// Chunks that a load reads ahead of the client.
pub(crate) const AHEAD: usize = 2;
/// The same of one that reads what is still being written.
pub(crate) const AHEAD_OF_GROWTH: usize = 1;
/// Responses that are written while they come, at one time.
pub(crate) const MOST_GROWTHS: usize = 64;
/// Loads of them at one time.
pub(crate) const MOST_GROWTH_LOADS: usize = 1024;
/// Chunks of one that are written at once.
pub(crate) const WRITTEN_AT_ONCE: usize = 8;
/// Where nothing is written of one for so long, it is not stored.
pub(crate) const STALLED: Duration = Duration::from_secs(2);
/// How often is looked for that.
pub(crate) const STALL_CHECK: Duration = Duration::from_millis(500);
/// For so long nothing is written after the disk was full or failed.
pub(crate) const PAUSE: Duration = Duration::from_secs(10);
/// A limit that was lowered because the disk was full is tried again after this.
pub(crate) const LOWERED_FOR: Duration = Duration::from_secs(600);
/// A directory that another process uses is tried again after this.
pub(crate) const IN_USE_RETRY: Duration = Duration::from_secs(1);
/// A directory that cannot be used is tried again after this.
pub(crate) const UNUSABLE_RETRY: Duration = Duration::from_secs(30);
/// Marks of removed objects are on the disk after this time.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Objects are compared with bans, so that these can be forgotten, after this time, or when there are so many.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
pub(crate) const SWEEP_BANS: usize = 64;
/// Bans at one time; where there are more, everything goes.
pub(crate) const MOST_BANS: usize = 4096;
/// Bytes that are collected for one write.
pub(crate) const WRITE: usize = 1024 * 1024;
/// Bytes in which a file system gives space.
pub(crate) const BLOCK: u64 = 4096;

/// What a store is made with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Its directory, which nobody else uses. It is made if it is not there; what contains it must be.
    pub path: PathBuf,
    /// Bytes on the disk; at least [`LEAST_BYTES`].
    pub bytes: u64,
    /// Bytes of the body of the largest object; at most an eighth of [`Self::bytes`] counts.
    pub largest: u64,
    /// Threads that read, up to [`MOST_READERS`].
    pub readers: usize,
}

impl Settings {
    /// So many bytes, in which one object may take an eighth, and four threads.
    pub fn of(path: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { path: path.into(), bytes, largest: bytes / 8, readers: 4 }
    }

    /// Whether a store can be made of it.
    ///
    /// # Errors
    /// What is wrong, as a sentence with its remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.bytes < LEAST_BYTES {
            return Err("a disk cache of less than 16 MiB; help: 16 MiB is the least".into());
        }
        if !self.path.is_absolute() {
            let path = self.path.display();
            return Err(format!("the directory {path} is not absolute; help: write it from / on"));
        }
        if self.readers == 0 || self.readers > MOST_READERS {
            return Err(format!("{} threads for reading; help: write 1 to {MOST_READERS}", self.readers));
        }
        Ok(())
    }

    /// Bytes after which a segment ends. A few are made room in at a time, and copied from.
    pub(crate) fn segment(&self) -> u64 {
        (self.bytes / 128).clamp(256 * 1024, 256 * 1024 * 1024)
    }

    /// Bytes of segments: one is left for what is written again when another one goes, and room for other files.
    pub(crate) fn room(&self) -> u64 {
        let others = 2 * crate::state::SIZE as u64 + 4 * BLOCK;
        self.bytes - self.segment() - others
    }

    /// Bytes of the largest body.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.min(self.bytes / 8).min(crate::record::MOST_BODY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        let good = Settings::of("/var/cache/thalweg", LEAST_BYTES);
        assert_eq!(good.check(), Ok(()));
        for wrong in [
            Settings::of("/a", LEAST_BYTES - 1),
            Settings::of("a", LEAST_BYTES),
            Settings { readers: 0, ..good.clone() },
            Settings { readers: MOST_READERS + 1, ..good.clone() },
        ] {
            assert!(wrong.check().unwrap_err().contains("help: "));
        }
    }

    #[test]
    fn there_is_room_for_the_largest_object_and_more() {
        for bytes in [LEAST_BYTES, 1 << 30, 1 << 44] {
            let settings = Settings::of("/a", bytes);
            assert!(settings.room() > bytes / 2 && settings.room() > 3 * settings.largest());
        }
    }
}
