//! What a store counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        /// Counters, shared by all workers; none is on the way of a hit.
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
    /// Objects that are stored.
    objects,
    /// Bytes of objects, of what finds them, and of fills.
    bytes,
    /// Bytes of fills among them.
    fill_bytes,
    /// Fills that go on.
    filling,
    /// Fills that were begun, ever.
    fills,
    /// Fills that broke off.
    broken,
    /// Objects that were stored, ever.
    stored,
    /// Responses that were too large for memory and went to a second tier as a whole, ever.
    spilled,
    /// Objects that went because room was needed.
    evictions,
    /// Objects that were taken away by a purge or an invalidation.
    removed,
    /// Objects that a purge has made stale.
    made_stale,
    /// Responses that were not stored: too large, or purged before they were there.
    rejected,
    /// Claims that were passed: not to be stored, or a bound was reached.
    passed,
}

pub(crate) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

pub(crate) fn sub(counter: &AtomicU64, number: u64) {
    counter.fetch_sub(number, Ordering::Relaxed);
}

/// One amount becomes another.
pub(crate) fn change(counter: &AtomicU64, from: u64, to: u64) {
    // Wraps where it becomes less, as two's complement does.
    counter.fetch_add(to.wrapping_sub(from), Ordering::Relaxed);
}
