//! Memory that exchanges get from their worker for moments: buffers and field lists.
//!
//! Last in, first out, so that a worker with thousands of exchanges under way composes every head in
//! the same few cache lines, and an exchange that waits holds none of it.

use std::cell::RefCell;
use thalweg_http::Field;

/// Items kept; more are given back to the allocator.
const KEPT: usize = 64;
/// Larger items are not kept.
const LARGEST: usize = 16 * 1024;

/// A stack of empty vectors that have their memory already.
#[derive(Debug)]
pub(crate) struct BufferPool<T>(RefCell<Vec<Vec<T>>>);

impl<T> Default for BufferPool<T> {
    fn default() -> Self {
        Self(RefCell::new(Vec::with_capacity(KEPT)))
    }
}

impl<T> BufferPool<T> {
    /// Puts memory into `empty`, unless it has some.
    pub(crate) fn get(&self, empty: &mut Vec<T>) {
        if empty.capacity() == 0
            && let Some(warm) = self.0.borrow_mut().pop()
        {
            *empty = warm;
        }
    }

    /// Takes the memory of `used`, whose content is no longer wanted.
    pub(crate) fn put(&self, used: &mut Vec<T>) {
        let mut stack = self.0.borrow_mut();
        if used.capacity() == 0 || used.capacity() * size_of::<T>() > LARGEST || stack.len() >= KEPT {
            return;
        }
        used.clear();
        stack.push(std::mem::take(used));
    }
}

/// What a worker lends.
#[derive(Debug, Default)]
pub(crate) struct BufferPools {
    /// What is composed and sent.
    pub(crate) buffers: BufferPool<u8>,
    /// The fields of a response head.
    pub(crate) fields: BufferPool<Field>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_given_back_last_is_lent_first() {
        let stack = BufferPool::default();
        let (mut a, mut b) = (vec![1_u8; 10], vec![2_u8; 10]);
        let place = b.as_ptr();
        stack.put(&mut a);
        stack.put(&mut b);
        assert_eq!((a.capacity(), b.capacity()), (0, 0));
        stack.get(&mut a);
        assert_eq!((a.as_ptr(), a.len()), (place, 0));
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let stack = BufferPool::default();
        let mut large = vec![0_u8; LARGEST + 1];
        stack.put(&mut large);
        let mut next = Vec::new();
        stack.get(&mut next);
        assert_eq!(next.capacity(), 0);
    }
}
