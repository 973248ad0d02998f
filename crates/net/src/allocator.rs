//! The allocator of the product, and how what is freed goes back to the system (`docs/decisions/0010`).

use mimalloc::MiMalloc;
use std::ffi::{c_int, c_long};

/// For `#[global_allocator]`.
pub type Allocator = MiMalloc;

/// The allocator itself; there is nothing to set.
pub const ALLOCATOR: Allocator = MiMalloc;

/// Milliseconds that freed memory is kept before the system gets it back: `mi_option_purge_delay` of mimalloc 3, which
/// its library for Rust does not name. The test below knows its value.
const PURGE_DELAY: c_int = 15;

/// From now on memory that is freed goes back to the system at once. By itself the allocator keeps it for a second and
/// looks at that only when something else is freed: after a burst, or a reload, on a quiet machine, that may be never.
/// To be called once, at the start.
pub fn give_back_at_once() {
    set(PURGE_DELAY, 0);
}

/// Gives back what the calling thread holds for what it may allocate next: after work that is seldom done. It takes
/// some microseconds.
#[expect(
    unsafe_code,
    reason = "the allocator's own function, which has no safe form in its library (decision 0010)"
)]
pub fn tidy_up() {
    // SAFETY: it takes a flag, frees nothing that is in use, and may be called by any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[expect(unsafe_code, reason = "the allocator's options have no safe form in its library (decision 0010)")]
fn set(option: c_int, value: c_long) {
    // SAFETY: it takes two numbers, checks the first, and may be called by any thread at any time.
    unsafe { libmimalloc_sys::mi_option_set(option, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "as above")]
    fn get(option: c_int) -> c_long {
        // SAFETY: as above.
        unsafe { libmimalloc_sys::mi_option_get(option) }
    }

    #[test]
    fn the_number_is_the_one_of_the_option() {
        // No other option has this default (milliseconds, in version 3).
        assert_eq!(get(PURGE_DELAY), 1000);
        give_back_at_once();
        assert_eq!(get(PURGE_DELAY), 0);
    }
}
