//! Requests that the proxy makes by itself, on their way into tasks.

use crate::state::exchange::Client;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Copies of requests under way at most, of one worker. More are left out and counted.
const COPIES: usize = 256;
/// Bytes of bodies that they may hold together.
const COPY_BYTES: usize = 16 * 1024 * 1024;

/// Those of a worker that wait for a task, and how many copies there are.
#[derive(Debug, Default)]
pub(crate) struct Subrequests {
    waiting: RefCell<Vec<Client>>,
    copies: Cell<usize>,
    copy_bytes: Cell<usize>,
}

impl Subrequests {
    /// It is served in this turn of the worker.
    pub(crate) fn push(&self, client: Client) {
        self.waiting.borrow_mut().push(client);
    }

    /// Takes those that wait.
    pub(crate) fn take(&self) -> Vec<Client> {
        self.waiting.take()
    }

    /// Room for a copy with at most so many bytes of body, where `most` copies may be under way; `None`: there is none.
    pub(crate) fn enter(self: &Rc<Self>, bytes: usize, most: usize) -> Option<CopyGuard> {
        let total = self.copy_bytes.get() + bytes;
        if self.copies.get() >= COPIES.min(most) || total > COPY_BYTES {
            return None;
        }
        self.copies.set(self.copies.get() + 1);
        self.copy_bytes.set(total);
        Some(CopyGuard { of: self.clone(), bytes })
    }
}

/// The room of a copy, until it is over.
#[derive(Debug)]
pub(crate) struct CopyGuard {
    of: Rc<Subrequests>,
    bytes: usize,
}

impl Drop for CopyGuard {
    fn drop(&mut self) {
        self.of.copies.set(self.of.copies.get() - 1);
        self.of.copy_bytes.set(self.of.copy_bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_bounds_in_number_and_in_bytes() {
        let all = Rc::new(Subrequests::default());
        let held: Vec<_> = (0..COPIES).map(|_| all.enter(10, usize::MAX).unwrap()).collect();
        assert!(all.enter(0, usize::MAX).is_none());
        drop(held);
        let half = all.enter(COPY_BYTES / 2, usize::MAX).unwrap();
        assert!(all.enter(COPY_BYTES / 2 + 1, usize::MAX).is_none());
        drop(half);
        assert!(all.enter(COPY_BYTES, 1).is_some());
        assert!(all.enter(0, 0).is_none());
    }
}
