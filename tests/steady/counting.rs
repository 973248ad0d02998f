//! The allocator hook: counts what enlisted threads allocate, and how many bytes of it live.
//!
//! A thread is enlisted into a [`Tally`] by a call on that thread (a worker's comes from a filter, see
//! [`super::house`]); all other threads go straight to the system's allocator and count nothing. Invariant: the
//! hook itself allocates only while it traces, and then its thread is not enlisted.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Tallies that this executable can hold: one per fleet that a test starts.
const TALLIES: usize = 128;
/// The slot of a thread that is not counted.
const NOBODY: usize = usize::MAX;

struct Slot {
    allocations: AtomicU64,
    live: AtomicI64,
    most: AtomicI64,
    /// Allocations whose backtrace is still wanted.
    wanted: AtomicU64,
    traces: Mutex<Vec<String>>,
}

static SLOTS: [Slot; TALLIES] = [const {
    Slot {
        allocations: AtomicU64::new(0),
        live: AtomicI64::new(0),
        most: AtomicI64::new(i64::MIN),
        wanted: AtomicU64::new(0),
        traces: Mutex::new(Vec::new()),
    }
}; TALLIES];

thread_local! {
    // Constant and without a destructor: using it allocates nothing, at any time of a thread's life.
    static SLOT: Cell<usize> = const { Cell::new(NOBODY) };
}

/// The counts of one thread; copies share them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally(usize);

impl Tally {
    /// Counts of nobody yet.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let slot = NEXT.fetch_add(1, Relaxed);
        assert!(slot < TALLIES, "TALLIES is too small");
        Self(slot)
    }

    /// Counts the calling thread from now on.
    pub(crate) fn enlist(self) {
        SLOT.set(self.0);
    }

    /// Whether a thread has been enlisted and has allocated.
    pub(crate) fn is_in_use(self) -> bool {
        self.allocations() > 0
    }

    /// Allocations until now, growing and shrinking ones included.
    pub(crate) fn allocations(self) -> u64 {
        SLOTS[self.0].allocations.load(Relaxed)
    }

    /// Bytes allocated less bytes freed: a number to take differences of.
    pub(crate) fn live(self) -> i64 {
        SLOTS[self.0].live.load(Relaxed)
    }

    /// What lives now; [`Self::most_live`] begins here.
    pub(crate) fn forget_most(self) -> i64 {
        SLOTS[self.0].most.store(i64::MIN, Relaxed);
        self.live()
    }

    /// The most that lived at one time since [`Self::forget_most`].
    pub(crate) fn most_live(self) -> i64 {
        SLOTS[self.0].most.load(Relaxed).max(self.live())
    }

    /// Keeps where the next `count` allocations come from, for [`Self::traces`]. Slow.
    pub(crate) fn trace(self, count: u64) {
        SLOTS[self.0].wanted.store(count, Relaxed);
    }

    /// Backtraces since [`Self::trace`].
    pub(crate) fn traces(self) -> Vec<String> {
        std::mem::take(&mut *SLOTS[self.0].traces.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notes a change of `bytes` in what the calling thread holds.
fn note(bytes: i64, allocates: bool) {
    // A thread that is about to end has no locals any more; it is not a worker in its steady state.
    let Ok(slot) = SLOT.try_with(Cell::get) else { return };
    let Some(counts) = SLOTS.get(slot) else { return };
    let live = counts.live.fetch_add(bytes, Relaxed) + bytes;
    counts.most.fetch_max(live, Relaxed);
    if !allocates {
        return;
    }
    counts.allocations.fetch_add(1, Relaxed);
    if counts.wanted.load(Relaxed) > 0 {
        counts.wanted.fetch_sub(1, Relaxed);
        // What a backtrace allocates must neither count nor come back here.
        SLOT.set(NOBODY);
        let trace = format!("{bytes:+} bytes\n{}", Backtrace::force_capture());
        counts.traces.lock().unwrap_or_else(PoisonError::into_inner).push(trace);
        SLOT.set(slot);
    }
}

fn signed(bytes: usize) -> i64 {
    // A layout is never larger than isize::MAX.
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

struct Counting;

// SAFETY: every method hands its arguments unchanged to the system's allocator, which keeps the contract of
// `GlobalAlloc`, and returns what that gave. `note` neither unwinds (its locks ignore poisoning, its arithmetic
// wraps) nor touches the memory, and a thread in it does not enter it again.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(signed(layout.size()), true);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(signed(layout.size()), true);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(signed(size) - signed(layout.size()), true);
        // SAFETY: the caller keeps the contract of `realloc`; `pointer` came from `System` through `self`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-signed(layout.size()), false);
        // SAFETY: the caller keeps the contract of `dealloc`; `pointer` came from `System` through `self`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn counts_the_enlisted_thread_and_no_other() {
    let tally = Tally::new();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert_eq!((tally.allocations(), tally.live()), (0, 0), "nobody is enlisted");
    let held = std::thread::spawn(move || {
        tally.enlist();
        let held = std::hint::black_box(vec![1_u8; 100]);
        let counted = (tally.allocations(), tally.live());
        assert_eq!((tally.forget_most(), tally.most_live()), (100, 100));
        drop(std::hint::black_box(Box::new([0_u64; 8])));
        assert_eq!(tally.most_live(), 164, "what is freed again is known too");
        assert_eq!((counted, (tally.allocations(), tally.live())), ((1, 100), (2, 100)));
        held
    });
    let held = held.join().unwrap();
    let live = tally.live();
    drop(held);
    assert_eq!(tally.live(), live, "a thread that is not enlisted frees uncounted");
}
