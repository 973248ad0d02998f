//! Bytes that wait for a receiver: rings of chunks from the worker's pool.
//!
//! A flow whose receiver keeps up never touches this. One that stalls holds chunks up to a mark:
//! a share of what the worker has left ([`ChunkPool::high_mark`]), so that few slow receivers get much, many
//! get little, and all together stay within the limit but for a chunk each. ChunkPool go back to the pool as they are
//! sent.

use crate::buffers::splice_pipes::Pipes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 16 * 1024;
/// What one direction of an exchange may hold while memory is plentiful, in bytes.
pub(crate) const HIGH_MARK: usize = 256 * 1024;
/// The mark is this part of what is left (the dynamic threshold of shared-buffer switches).
const PART: usize = 8;
/// What the flows of a worker may hold together at most, in bytes; the budget may say less.
pub(crate) const LIMIT: usize = 64 * 1024 * 1024;
/// From this part of the limit on, slow receivers are many.
const CROWD: usize = 8;
/// So are more than this; and so many large responses under way may turn out to have slow receivers.
const MANY: usize = 32;
/// Free chunks kept; more are given back to the allocator.
const KEPT: usize = 64;

/// The chunks of a worker, and its pipes.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    pub(crate) pipes: Pipes,
    free: RefCell<Vec<Vec<u8>>>,
    /// Fewest that were free since the last [`Self::trim`].
    spare: Cell<usize>,
    lent: Cell<usize>,
    limit: Cell<usize>,
    most: Cell<usize>,
    under_way: Cell<usize>,
    slow: Cell<usize>,
}

/// What the kernel is to hold for a receiver of what is not on its way to it yet.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Unsent {
    /// What it likes.
    #[default]
    Any,
    Some,
    Little,
}

impl Default for ChunkPool {
    fn default() -> Self {
        Self {
            pipes: Pipes::default(),
            free: RefCell::default(),
            spare: Cell::new(0),
            lent: Cell::new(0),
            limit: Cell::new(LIMIT),
            most: Cell::new(HIGH_MARK),
            under_way: Cell::new(0),
            slow: Cell::new(0),
        }
    }
}

impl ChunkPool {
    /// Bytes that one direction of an exchange may hold now, before it stops reading. Never less than a
    /// chunk: every exchange goes on.
    pub(crate) fn high_mark(&self) -> usize {
        let left = self.limit.get().saturating_sub(self.held());
        (left / PART).clamp(CHUNK, self.most.get())
    }

    /// Whether one direction may hold the most that any may.
    pub(crate) fn is_plentiful(&self) -> bool {
        self.high_mark() == self.most.get()
    }

    /// From now on flows may hold so many bytes together, but for a chunk each, and one of them so many.
    pub(crate) fn set_limits(&self, together: usize, one: usize) {
        self.limit.set(together);
        self.most.set(one.clamp(CHUNK, HIGH_MARK));
    }

    /// Whether receivers that are slow are so many that the kernel is to hold little for each of them too.
    pub(crate) fn is_crowded(&self) -> bool {
        self.slow.get() > MANY || self.held() > self.limit.get() / CROWD
    }

    /// What the kernel is to hold for each receiver of a large response now.
    pub(crate) fn unsent(&self) -> Unsent {
        match self.is_crowded() {
            true => Unsent::Little,
            // Thousands that begin together fill the kernel's memory before the first of them stalls.
            false if self.under_way.get() > MANY => Unsent::Some,
            false => Unsent::Any,
        }
    }

    /// Counts a response that takes more than one turn, as long as it is kept.
    pub(crate) fn count_under_way(self: &Rc<Self>) -> Counted {
        Counted::new(self, |pool| &pool.under_way)
    }

    /// Counts a receiver that keeps bytes waiting, as long as it is kept.
    pub(crate) fn count_slow(self: &Rc<Self>) -> Counted {
        Counted::new(self, |pool| &pool.slow)
    }

    /// Bytes in chunks and pipes that are lent.
    pub(crate) fn held(&self) -> usize {
        self.lent.get() * CHUNK + self.pipes.held()
    }

    /// Gives back what nobody needed since the last call, and says how many bytes. Called by the worker's heartbeat.
    pub(crate) fn trim(&self) -> usize {
        self.pipes.trim();
        let mut free = self.free.borrow_mut();
        let given = self.spare.get().min(free.len());
        let needed = free.len() - given;
        free.truncate(needed);
        self.spare.set(needed);
        given * CHUNK
    }

    fn take(self: &Rc<Self>) -> Chunk {
        self.lent.set(self.lent.get() + 1);
        let mut free = self.free.borrow_mut();
        let bytes = free.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
        self.spare.set(self.spare.get().min(free.len()));
        drop(free);
        Chunk { bytes, pool: self.clone() }
    }
}

/// One more in a count of the worker, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Rc<ChunkPool>, fn(&ChunkPool) -> &Cell<usize>);

impl Counted {
    fn new(pool: &Rc<ChunkPool>, count: fn(&ChunkPool) -> &Cell<usize>) -> Self {
        count(pool).set(count(pool).get() + 1);
        Self(pool.clone(), count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let count = (self.1)(&self.0);
        count.set(count.get() - 1);
    }
}

/// A chunk on loan; dropping it gives it back.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    pool: Rc<ChunkPool>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.pool.lent.set(self.pool.lent.get() - 1);
        let mut free = self.pool.free.borrow_mut();
        if free.len() < KEPT {
            self.bytes.clear();
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Bytes in the order in which they came, in chunks. A pointer while it is empty: every flow has one.
#[derive(Debug, Default)]
pub(crate) struct ChunkQueue(Option<Box<Chain>>);

#[derive(Debug, Default)]
struct Chain {
    chunks: VecDeque<Chunk>,
    /// How much of the first chunk is gone.
    gone: usize,
    /// Bytes that wait, above 0.
    len: usize,
}

impl ChunkQueue {
    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |chain| chain.len)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, mut bytes: &[u8], pool: &Rc<ChunkPool>) {
        if bytes.is_empty() {
            return;
        }
        let chain = self.0.get_or_insert_default();
        chain.len += bytes.len();
        while !bytes.is_empty() {
            if chain.chunks.back().is_none_or(|chunk| chunk.bytes.len() == CHUNK) {
                chain.chunks.push_back(pool.take());
            }
            let Some(last) = chain.chunks.back_mut() else { return };
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK - last.bytes.len()));
            last.bytes.extend_from_slice(now);
            bytes = rest;
        }
    }

    /// Points at the first bytes, as far as `scheduler` reaches; says how many scheduler were set.
    pub(crate) fn fill<'a>(&'a self, scheduler: &mut [IoSlice<'a>]) -> usize {
        let Some(chain) = &self.0 else { return 0 };
        let mut gone = chain.gone;
        let mut count = 0;
        for (slice, chunk) in scheduler.iter_mut().zip(&chain.chunks) {
            *slice = IoSlice::new(&chunk.bytes[std::mem::take(&mut gone)..]);
            count += 1;
        }
        count
    }

    /// Forgets the first `n` bytes.
    pub(crate) fn advance(&mut self, mut n: usize) {
        let Some(chain) = &mut self.0 else { return };
        if n >= chain.len {
            return self.clear();
        }
        chain.len -= n;
        while let Some(first) = chain.chunks.front() {
            let left = first.bytes.len() - chain.gone;
            if n < left {
                chain.gone += n;
                return;
            }
            n -= left;
            chain.gone = 0;
            chain.chunks.pop_front();
        }
    }

    /// Forgets everything and gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the ring holds, through scheduler as a send sees them.
    fn content(ring: &ChunkQueue) -> Vec<u8> {
        let mut scheduler = [IoSlice::new(&[]); 64];
        let count = ring.fill(&mut scheduler);
        scheduler[..count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn many_slow_receivers_get_little_each_and_fit_but_for_a_chunk() {
        let pool = Rc::new(ChunkPool::default());
        assert_eq!((pool.high_mark(), pool.is_crowded()), (HIGH_MARK, false));
        let mut rings: Vec<ChunkQueue> = (0..1000).map(|_| ChunkQueue::default()).collect();
        for ring in &mut rings {
            while ring.len() < pool.high_mark() {
                ring.push(&[0; CHUNK], &pool);
            }
        }
        assert!(pool.is_crowded() && pool.held() <= LIMIT + rings.len() * CHUNK, "{}", pool.held());
        assert!(rings[0].len() > rings[999].len(), "the later ones got less");
        assert!(rings[999].len() >= CHUNK, "everybody got something");
        drop(rings);
        assert_eq!((pool.high_mark(), pool.held()), (HIGH_MARK, 0));
    }

    #[test]
    fn what_is_not_needed_is_given_back() {
        let pool = Rc::new(ChunkPool::default());
        let (mut one, mut other) = (ChunkQueue::default(), ChunkQueue::default());
        one.push(&[0; 3 * CHUNK], &pool);
        drop(one);
        assert_eq!(pool.trim(), 0);
        assert_eq!(pool.free.borrow().len(), 3, "they were needed just now");
        other.push(&[0; CHUNK], &pool);
        drop(other);
        assert_eq!(pool.trim(), 2 * CHUNK);
        assert_eq!(pool.free.borrow().len(), 1, "one was");
        pool.trim();
        assert_eq!(pool.free.borrow().len(), 0);
    }

    #[test]
    fn the_kernel_holds_less_for_many_and_little_for_many_that_are_slow() {
        let pool = Rc::new(ChunkPool::default());
        let mut under_way: Vec<_> = (0..MANY).map(|_| pool.count_under_way()).collect();
        assert_eq!(pool.unsent(), Unsent::Any);
        under_way.push(pool.count_under_way());
        assert_eq!(pool.unsent(), Unsent::Some);
        let slow: Vec<_> = (0..=MANY).map(|_| pool.count_slow()).collect();
        assert_eq!(pool.unsent(), Unsent::Little);
        drop(slow);
        assert_eq!(pool.unsent(), Unsent::Some);
        under_way.pop();
        assert_eq!(pool.unsent(), Unsent::Any);
    }

    #[test]
    fn bytes_come_out_as_they_went_in_and_the_chunks_go_back() {
        let pool = Rc::new(ChunkPool::default());
        let (mut ring, mut model) = (ChunkQueue::default(), Vec::new());
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..random.usize(..CHUNK / 2)).map(|_| random.u8(..)).collect();
            ring.push(&bytes, &pool);
            model.extend_from_slice(&bytes);
            let n = random.usize(..=model.len().min(CHUNK));
            ring.advance(n);
            model.drain(..n);
            assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
            if model.len() > 20 * CHUNK {
                assert_eq!(content(&ring), model);
                ring.advance(model.len());
                model.clear();
                assert_eq!(pool.held(), 0, "an empty ring holds nothing");
            }
        }
        ring.push(b"rest", &pool);
        drop(ring);
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn the_budget_lowers_what_flows_may_hold() {
        let pool = ChunkPool::default();
        pool.set_limits(LIMIT, 32 * 1024);
        assert_eq!(pool.high_mark(), 32 * 1024);
        pool.set_limits(LIMIT, usize::MAX);
        assert_eq!(pool.high_mark(), HIGH_MARK);
        pool.set_limits(0, usize::MAX);
        assert_eq!(pool.high_mark(), CHUNK, "every exchange goes on");
    }
}
