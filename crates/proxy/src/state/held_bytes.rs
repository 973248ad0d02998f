//! Bytes that a worker's exchanges hold in buffers of their own: incomplete heads, request bytes kept for a retry,
//! bodies that filters buffer.
//!
//! The budget includes a fixed amount for every exchange (`budget.rs`). The excess of a waiting exchange is counted
//! here by its task, and is part of the buffers that the worker publishes.

use std::cell::{Cell, RefCell};

/// Bytes of buffers that the fixed cost of an exchange includes.
const INCLUDED: usize = 16 * 1024;

/// The held bytes of one worker.
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

    /// Sets the present size of the buffers of a task's exchange.
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
