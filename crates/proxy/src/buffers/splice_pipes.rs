//! The pipes of a worker, for flows that are spliced (`relay/splice.rs`).
//!
//! A pipe is lent while bytes are in it, and for the moment of a pump: so a handful serves any number of
//! fast transfers, and what slow receivers keep waiting in pipes is bounded. They are lent only while memory
//! is plentiful, and closed when they are not used for a while.

use crate::buffers::chunk_queue::{ChunkPool, HIGH_MARK};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use thalweg_net::Pipe;

/// What a pipe has slots for, in bytes.
const SIZE: usize = HIGH_MARK;

/// The pipes of a worker.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    free: RefCell<Vec<Rc<Pipe>>>,
    /// Fewest that were free since the last [`Self::trim`].
    spare: Cell<usize>,
    /// The kernel gave none since the last [`Self::trim`].
    refused: Cell<bool>,
    lent: Cell<usize>,
    most: Cell<usize>,
    /// Bytes in those that are lent.
    held: Cell<usize>,
}

impl Pipes {
    /// From now on so many may be open.
    pub(crate) fn set_most(&self, most: usize) {
        self.most.set(most);
    }

    /// Bytes in them.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// Closes those that nobody needed since the last call. Called by [`ChunkPool::trim`].
    pub(crate) fn trim(&self) {
        self.refused.set(false);
        let mut free = self.free.borrow_mut();
        let needed = free.len() - self.spare.get().min(free.len());
        free.truncate(needed);
        self.spare.set(needed);
    }

    /// A pipe that is empty; `None` when all are lent, or the kernel gives no more.
    fn take(&self) -> Option<Rc<Pipe>> {
        if self.lent.get() >= self.most.get() {
            return None;
        }
        let mut free = self.free.borrow_mut();
        let pipe = match free.pop() {
            Some(pipe) => pipe,
            None if self.refused.get() => return None,
            None => Rc::new(Pipe::new(SIZE).inspect_err(|_| self.refused.set(true)).ok()?),
        };
        self.spare.set(self.spare.get().min(free.len()));
        self.lent.set(self.lent.get() + 1);
        Some(pipe)
    }
}

impl ChunkPool {
    /// Lends a pipe, while memory is plentiful and few receivers are slow.
    pub(crate) fn get_pipe(self: &Rc<Self>) -> Option<Box<PooledPipe>> {
        if !self.is_plentiful() || self.is_crowded() {
            return None;
        }
        Some(Box::new(PooledPipe { pipe: self.pipes.take()?, pool: self.clone() }))
    }
}

/// A pipe on loan; dropping it gives it back, or closes it when bytes are in it.
#[derive(Debug)]
pub(crate) struct PooledPipe {
    pipe: Rc<Pipe>,
    pool: Rc<ChunkPool>,
}

impl PooledPipe {
    /// Bytes in it.
    pub(crate) fn held(&self) -> usize {
        self.pipe.held()
    }

    /// Where it came from.
    pub(crate) fn pool(&self) -> Rc<ChunkPool> {
        self.pool.clone()
    }

    /// Whether nobody else could be lent one.
    pub(crate) fn is_last(&self) -> bool {
        self.pool.pipes.lent.get() >= self.pool.pipes.most.get()
    }

    /// Takes bytes out; 0 when it holds none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.counted(|pipe| pipe.read(buffer))
    }

    /// Works with the pipe itself; what it holds is counted afterwards.
    pub(crate) fn counted<T>(&self, work: impl FnOnce(&Pipe) -> T) -> T {
        let before = self.pipe.held();
        let done = work(&self.pipe);
        let held = &self.pool.pipes.held;
        held.set(held.get() - before + self.pipe.held());
        done
    }
}

impl Drop for PooledPipe {
    fn drop(&mut self) {
        let pipes = &self.pool.pipes;
        pipes.lent.set(pipes.lent.get() - 1);
        pipes.held.set(pipes.held.get() - self.pipe.held());
        if self.pipe.held() == 0 {
            pipes.free.borrow_mut().push(self.pipe.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::chunk_queue::LIMIT;

    fn chunks(pipes: usize) -> Rc<ChunkPool> {
        let chunks = Rc::new(ChunkPool::default());
        chunks.pipes.set_most(pipes);
        chunks
    }

    #[test]
    fn no_more_are_lent_than_there_may_be_and_they_come_back() {
        let chunks = chunks(2);
        let (one, other) = (chunks.get_pipe().unwrap(), chunks.get_pipe().unwrap());
        assert!(one.is_last() && chunks.get_pipe().is_none());
        drop(one);
        assert!(!other.is_last() && chunks.get_pipe().is_some());
        assert_eq!(chunks.pipes.free.borrow().len(), 1, "it was used again");
    }

    #[test]
    fn a_pipe_with_bytes_in_it_is_not_used_again() {
        let chunks = chunks(1);
        let pipe = chunks.get_pipe().unwrap();
        pipe.counted(|pipe| pipe.write(b"secret").unwrap());
        assert_eq!((pipe.held(), chunks.held()), (6, 6));
        drop(pipe);
        assert_eq!((chunks.held(), chunks.pipes.free.borrow().len()), (0, 0));
        let pipe = chunks.get_pipe().unwrap();
        assert_eq!(pipe.read(&mut [0; 16]).unwrap(), 0);
    }

    #[test]
    fn none_is_lent_while_memory_is_short_or_receivers_are_many() {
        let chunks = chunks(1);
        chunks.set_limits(HIGH_MARK, usize::MAX);
        assert!(chunks.get_pipe().is_none(), "flows may hold little together");
        chunks.set_limits(LIMIT, usize::MAX);
        let slow: Vec<_> = (0..100).map(|_| chunks.count_slow()).collect();
        assert!(chunks.get_pipe().is_none(), "many receivers are slow");
        drop(slow);
        assert!(chunks.get_pipe().is_some());
    }

    #[test]
    fn what_is_not_needed_is_closed() {
        let chunks = chunks(3);
        drop([(); 3].map(|()| chunks.get_pipe().unwrap()));
        chunks.pipes.trim();
        assert_eq!(chunks.pipes.free.borrow().len(), 3, "they were needed just now");
        drop(chunks.get_pipe());
        chunks.pipes.trim();
        assert_eq!(chunks.pipes.free.borrow().len(), 1, "one was");
        chunks.pipes.trim();
        assert_eq!(chunks.pipes.free.borrow().len(), 0);
    }
}
