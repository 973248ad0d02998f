//! Bytes that exchanges of a worker hold in buffers of their own: heads that are not whole, what is kept of a request
//! for another attempt, bodies that filters want whole.
//!
//! The budget takes every exchange to cost some of them (`budget.rs`). What an exchange that waits holds beyond that is
//! counted here by its task, and is part of the buffers that the worker publishes.

use std::cell::{Cell, RefCell};

/// Bytes of buffers that are part of what an exchange costs anyway.
const INCLUDED: usize = 16 * 1024;

/// Those of a worker.
#[derive(Debug, Default)]
pub(crate) struct HeldBytes {
    sum: Cell<usize>,
    tasks: RefCell<Vec<usize>>,
}

impl HeldBytes {
    /// Bytes of all exchanges.
    pub(crate) fn sum(&self) -> usize {
        self.sum.get()
    }

    /// The buffers of the exchange in a task have so many bytes now.
    #[inline]
    pub(crate) fn set(&self, task: u32, bytes: usize) {
        let bytes = bytes.saturating_sub(INCLUDED);
        let (mut tasks, at) = (self.tasks.borrow_mut(), task as usize);
        if at >= tasks.len() {
            if bytes == 0 {
                return;
            }
            tasks.resize(at + 1, 0);
        }
        let before = std::mem::replace(&mut tasks[at], bytes);
        self.sum.set(self.sum.get() - before + bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exchanges_hold_beyond_their_cost_is_counted_by_task() {
        let held = HeldBytes::default();
        held.set(7, INCLUDED);
        assert_eq!(held.sum(), 0, "so much is in the cost of an exchange");
        held.set(7, INCLUDED + 100);
        held.set(2, INCLUDED + 20);
        held.set(7, INCLUDED + 70);
        assert_eq!(held.sum(), 90);
        held.set(7, 0);
        held.set(9, 0);
        assert_eq!(held.sum(), 20);
        held.set(2, 0);
        assert_eq!(held.sum(), 0);
    }
}
