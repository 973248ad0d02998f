//! Permits of one kind that are left in the whole process.

use crate::budget::Budget;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A worker's batch of places is this part of its even share.
const BATCHES: usize = 32;

/// Permits that are left in the whole process, of one kind.
#[derive(Debug)]
pub(crate) struct Credits {
    pub(crate) free: AtomicUsize,
    /// How many a worker takes at once; 0: there is no bound.
    pub(crate) batch: usize,
}

impl Credits {
    /// So many places. They are not counted when connections are bounded as much.
    pub(crate) fn new(places: usize, budget: &Budget) -> Self {
        let batch = (places / budget.workers / BATCHES).max(1);
        Self { free: AtomicUsize::new(places), batch: if places < budget.connections { batch } else { 0 } }
    }

    /// Takes a batch, or what is left of one.
    pub(crate) fn take(&self) -> usize {
        let rest = |free: usize| Some(free - free.min(self.batch));
        let before = self.free.fetch_update(Relaxed, Relaxed, rest).unwrap_or_else(|same| same);
        before.min(self.batch)
    }

    pub(crate) fn give_back(&self, credits: usize) {
        self.free.fetch_add(credits, Relaxed);
    }
}
