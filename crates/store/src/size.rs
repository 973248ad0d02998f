//! What an allocation takes of memory.

/// What an allocator takes beside its classes, as a share: headers of its pages, pages that are not full or are
/// kept for a while. Measured at a million small objects and with large ones among them (`store_figures`): 6.5 to
/// 8.5 percent.
const PAGES_SHARE: u64 = 16;

/// Bytes of memory for an allocation of so many.
pub(crate) const fn allocated(bytes: usize) -> u64 {
    let class = class(bytes);
    class + class / PAGES_SHARE
}

/// Bytes that the allocator sets apart for so many.
///
/// Its classes have four steps to each power of two (mimalloc up to 128 KiB; others are no coarser); a large allocation
/// is counted alike.
const fn class(bytes: usize) -> u64 {
    if bytes == 0 {
        return 0;
    }
    if bytes <= 128 {
        return (bytes as u64).next_multiple_of(16);
    }
    let step = 1 << (((bytes - 1) as u64).ilog2() - 2);
    (bytes as u64).next_multiple_of(step)
}

/// Bytes of a shared slice of so many bytes: two counters stand in front.
pub(crate) const fn shared(bytes: usize) -> u64 {
    allocated(bytes + 2 * size_of::<usize>())
}

/// Bytes of the table of a hash map: it has room for an eighth more, in a power of two, and a byte of control each.
pub(crate) fn table(capacity: usize, entry: usize) -> u64 {
    if capacity == 0 {
        return 0;
    }
    let buckets = (capacity * 8 / 7).next_power_of_two();
    (buckets * (entry + 1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_four_steps_to_each_power_of_two() {
        for (bytes, expected) in [
            (0, 0),
            (1, 16),
            (16, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (160, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (1024, 1024),
            (1040, 1280),
            (65_536, 65_536),
        ] {
            assert_eq!(class(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn a_full_chunk_wastes_nothing() {
        assert_eq!(class(crate::CHUNK + 2 * size_of::<usize>()), 64 * 1024);
    }
}
