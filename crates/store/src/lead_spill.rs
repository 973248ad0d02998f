//! The way of a fill to a second tier ([`crate::spill`]).

use crate::body::Chunk;
use crate::counters::add;
use crate::fill::End;
use crate::lead::Lead;
use crate::object::Object;
use crate::reader::Given;
use crate::spill::{Place, Progress, Spill, Spilled, Spills};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a lead knows of a second tier.
#[derive(Default)]
pub(crate) struct ToSpill {
    /// Where what is too large for memory goes.
    pub(crate) tier: Option<Box<dyn Spills>>,
    /// It goes there.
    pub(crate) to: Option<Arc<dyn Spill>>,
}

impl Lead {
    /// A body that is too large for this store goes there. To be said before the head is given.
    pub fn spill_to(&mut self, tier: Box<dyn Spills>) {
        self.spill.tier = Some(tier);
    }

    /// Begins to write to the second tier, if there is one that takes the response; what is there already goes first.
    /// Parts stay in memory.
    pub(crate) fn begin_spill(&mut self, given: &Given, length: Option<u64>) -> bool {
        let Some(tier) = self.spill.tier.take().filter(|_| given.head.part.is_none()) else { return false };
        let (fill, inner) = (&self.fill, &self.fill.inner);
        if inner.spilling.fetch_add(1, Ordering::Relaxed) >= inner.limits.spills() {
            inner.spilling.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let (key, url, variant) = (fill.name.key(), fill.name.url(), &*given.variant);
        let response = Spilled { key, url, variant, head: &given.head, length };
        let Some(to) = tier.begin(&response, Progress::of(fill)) else {
            inner.spilling.fetch_sub(1, Ordering::Relaxed);
            return false;
        };
        let pieces = fill.change(|state, _| {
            state.spill = Some(Place { to: to.clone(), written: 0, has_failed: false });
            state.chunks()
        });
        // Those at the end are not a whole chunk yet.
        let whole = pieces.len() - self.tail.len();
        pieces.into_iter().take(whole).for_each(|chunk| to.push(chunk));
        self.spill.to = Some(to);
        true
    }

    /// A whole chunk, or the last one, goes to the second tier too.
    pub(crate) fn spill(&self, chunk: &Chunk) {
        if let Some(to) = &self.spill.to {
            to.push(chunk.clone());
        }
    }

    /// Where the second tier has failed, the fill is a window.
    pub(crate) fn note_failure(&mut self) {
        if self.spill.to.is_some()
            && self.fill.change(|state, _| state.spill.as_ref().is_some_and(|place| place.has_failed))
        {
            self.spill.to = None;
            self.begin_window();
        }
    }

    /// It is not stored in the second tier.
    pub(crate) fn abandon_spill(&mut self) {
        if let Some(to) = self.spill.to.take() {
            to.abandon();
        }
    }

    /// The response is complete, and stored in the second tier once all of it is there; until then who comes follows
    /// the fill. An earlier one in memory goes.
    pub(crate) fn finish_spill(&mut self, given: &Given) {
        match self.tail.len() {
            0 => {}
            1 => self.spill(&self.tail[0]),
            _ => self.settle(&[]),
        }
        let Some(to) = self.spill.to.take() else { return };
        let (fill, inner) = (&self.fill, &self.fill.inner);
        let mut gone: Vec<Arc<Object>> = Vec::new();
        let is_listed = inner.change(fill.of_key, |shard| {
            let is_listed = shard.has_fill(fill);
            if is_listed {
                let is_same = |object: &Arc<Object>| {
                    object.key() == fill.name.key() && object.variant() == &*given.variant
                };
                shard.take(fill.of_key, is_same, &mut gone);
            }
            is_listed
        });
        inner.forget(&gone);
        self.end(End::Complete);
        if is_listed {
            add(&self.fill.inner.counters.spilled, 1);
            to.finish();
        } else {
            add(&self.fill.inner.counters.rejected, 1);
            to.abandon();
        }
    }
}
