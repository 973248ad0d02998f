//! Memory that is about to be used, asked for ahead of time.
//!
//! A worker knows from its events which connections it will serve next, and with hundreds under way
//! their state has left the cache. Asked for a few connections ahead, it arrives beside other work.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the cache lines of `value`, without waiting for them. Only a hint: nothing is read.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for at in (0..size_of_val(value)).step_by(LINE) {
        line(start.wrapping_add(at));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "the hint of the processor has no safe form on the stable compiler")]
fn line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: SSE is part of every x86-64, and a prefetch faults on no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn line(_address: *const u8) {}
