//! What a store counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        /// Counters, shared by all threads.
        #[derive(Default)]
        pub(crate) struct Counters {
            $( pub(crate) $name: AtomicU64, )*
        }

        /// What a store has and did.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct Counts {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $( $name: self.$name.load(Ordering::Relaxed), )* }
            }
        }
    };
}

counters! {
    /// Objects that are stored and can be found.
    objects,
    /// Bytes on the disk, in blocks of the file system.
    bytes,
    /// Objects that were written, ever.
    written,
    /// Objects that were not written: the queue was full, the disk was, they are too large, or were purged meanwhile.
    not_written,
    /// Loads that found their object.
    loaded,
    /// Loads that did not begin, since there were too many.
    busy,
    /// Objects that went because room was needed.
    evictions,
    /// Objects that were written again, since they had been used, when their segment went.
    kept,
    /// Objects that were taken away by a purge or an invalidation, as far as they have been looked at.
    removed,
    /// Objects that were damaged, and parts of segments.
    damaged,
    /// Calls of the operating system that failed, a full disk among them.
    errors,
    /// Purges that are not forgotten yet.
    bans,
}

pub(crate) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}
