//! Which object goes when room is needed: S3-FIFO (Yang et al., SOSP 2023).
//!
//! New objects enter a small queue. Those that are used more than once before they reach its end move to the main
//! queue, others go, and are remembered for a while ([`Ghost`]); one of those that comes back enters the main queue at
//! once. At the end of the main queue, an object that was used since gets another turn. A scan of objects that nobody
//! asks for again passes through the small queue and leaves the main one as it is. A hit moves nothing.
//!
//! Queues are lists through one table of nodes; sizes are bytes.

use crate::ghost::Ghost;
use std::sync::atomic::{AtomicU8, Ordering};

/// No node.
const NONE: u32 = u32::MAX;
/// The small queue has one byte in so many.
const SMALL_SHARE: u64 = 10;
/// Uses in the small queue that an object needs to be kept.
const KEPT_AFTER: u8 = 2;
/// Objects that are looked at for one that goes; past it the next one does.
const MOST_STEPS: usize = 256;
/// Bytes in which sizes are counted.
const UNIT: u64 = 16;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Queue {
    Free,
    Small,
    Main,
}

struct Node {
    hash: u64,
    /// In units.
    bytes: u32,
    /// The one that came before it.
    older: u32,
    newer: u32,
    queue: Queue,
}

#[derive(Default)]
struct List {
    ends: Option<(u32, u32)>,
    /// In units.
    bytes: u64,
}

/// An object that is in a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Queued {
    /// The hash of its key.
    pub(crate) hash: u64,
    /// Its node.
    pub(crate) node: u32,
}

/// What the queues need to know of an object.
pub(crate) struct Used<'o> {
    pub(crate) uses: &'o AtomicU8,
    pub(crate) id: u64,
}

/// The queues.
pub(crate) struct Queues {
    nodes: Vec<Node>,
    free: u32,
    len: usize,
    small: List,
    main: List,
    ghost: Ghost,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            len: 0,
            small: List::default(),
            main: List::default(),
            ghost: Ghost::default(),
        }
    }
}

impl Queues {
    /// Adds an object; gives its node.
    pub(crate) fn insert(&mut self, hash: u64, id: u64, bytes: u64) -> u32 {
        let queue = if self.ghost.take(id) { Queue::Main } else { Queue::Small };
        let node = Node { hash, bytes: units(bytes), older: NONE, newer: NONE, queue: Queue::Free };
        let at = match self.free {
            NONE => {
                if self.nodes.len() == self.nodes.capacity() {
                    // By an eighth: the table is not to take twice what it needs.
                    self.nodes.reserve_exact(self.nodes.len() / 8 + 16);
                }
                self.nodes.push(node);
                // There are fewer objects than 32 bits can tell: each takes more than 256 bytes.
                (self.nodes.len() - 1) as u32
            }
            free => {
                self.free = self.nodes[free as usize].newer;
                self.nodes[free as usize] = node;
                free
            }
        };
        self.len += 1;
        self.ghost.resize(self.len);
        self.push(at, queue);
        at
    }

    /// An object has been replaced by another one.
    pub(crate) fn resize(&mut self, at: u32, bytes: u64) {
        let node = &mut self.nodes[at as usize];
        let (was, now) = (node.bytes, units(bytes));
        node.bytes = now;
        let list = match node.queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
            Queue::Free => return,
        };
        list.bytes = list.bytes - u64::from(was) + u64::from(now);
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.nodes[at as usize].newer = self.free;
        self.free = at;
        self.len -= 1;
    }

    /// Removes the object that is to go next. `used` tells of an object; `None`: it is not known.
    pub(crate) fn evict<'o>(&mut self, used: impl Fn(Queued) -> Option<Used<'o>>) -> Option<Queued> {
        for step in 0.. {
            let is_last = step >= MOST_STEPS;
            let is_small = self.main.ends.is_none()
                || self.small.bytes * SMALL_SHARE >= self.small.bytes + self.main.bytes;
            let list = if is_small && self.small.ends.is_some() { &self.small } else { &self.main };
            let (at, _) = list.ends?;
            let (hash, queue) = (self.nodes[at as usize].hash, self.nodes[at as usize].queue);
            let queued = Queued { hash, node: at };
            let Some(Used { uses, id }) = used(queued) else {
                self.remove(at);
                continue;
            };
            let count = uses.load(Ordering::Relaxed);
            match queue {
                Queue::Small if count >= KEPT_AFTER && !is_last => {
                    uses.store(0, Ordering::Relaxed);
                    self.turn(at);
                }
                Queue::Main if count > 0 && !is_last => {
                    uses.store(count - 1, Ordering::Relaxed);
                    self.turn(at);
                }
                _ => {
                    if queue == Queue::Small {
                        self.ghost.add(id);
                    }
                    self.remove(at);
                    return Some(queued);
                }
            }
        }
        None
    }

    /// Nodes that there are, used or free.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The object of a node.
    pub(crate) fn at(&self, node: usize) -> Option<Queued> {
        let found = self.nodes.get(node)?;
        (found.queue != Queue::Free).then_some(Queued { hash: found.hash, node: node as u32 })
    }

    /// Bytes that the queues themselves take.
    pub(crate) fn charge(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node>()) as u64 + self.ghost.charge()
    }

    /// Puts an object to the new end of the main queue.
    fn turn(&mut self, at: u32) {
        self.unlink(at);
        self.push(at, Queue::Main);
    }

    fn push(&mut self, at: u32, queue: Queue) {
        let list = if queue == Queue::Small { &mut self.small } else { &mut self.main };
        let (oldest, newest) = list.ends.unwrap_or((at, NONE));
        list.ends = Some((oldest, at));
        let node = &mut self.nodes[at as usize];
        (node.queue, node.older, node.newer) = (queue, newest, NONE);
        list.bytes += u64::from(node.bytes);
        if let Some(newest) = self.nodes.get_mut(newest as usize) {
            newest.newer = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        let (older, newer, bytes) = (node.older, node.newer, node.bytes);
        let list = if node.queue == Queue::Small { &mut self.small } else { &mut self.main };
        node.queue = Queue::Free;
        list.bytes -= u64::from(bytes);
        list.ends = list.ends.and_then(|(oldest, newest)| {
            let oldest = if oldest == at { newer } else { oldest };
            let newest = if newest == at { older } else { newest };
            (oldest != NONE).then_some((oldest, newest))
        });
        if let Some(older) = self.nodes.get_mut(older as usize) {
            older.newer = newer;
        }
        if let Some(newer) = self.nodes.get_mut(newer as usize) {
            newer.older = older;
        }
    }
}

fn units(bytes: u64) -> u32 {
    // Up to 64 GiB; a larger object counts as such a one.
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
