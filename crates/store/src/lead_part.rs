//! The end of a fill with a part of a representation (RFC 9111 §3.4).
//!
//! What is stored is looked at, both are joined without a lock, and what comes of that is stored if nothing else is
//! there meanwhile. A part never takes the place of a whole response, and parts are joined by a strong validator only:
//! see [`is_same_representation`].

use crate::body::Body;
use crate::fill::End;
use crate::lead::Lead;
use crate::object::{Name, Object};
use crate::reader::Given;
use crate::rope::Rope;
use std::sync::Arc;
use thalweg_cache::{ContentRange, StoredHead, is_same_representation};

/// How often a part is joined with what is stored where that changes meanwhile; then it is not stored.
const JOINS: usize = 4;

impl Lead {
    /// The part is complete; `body` has its bytes alone.
    pub(crate) fn finish_part(
        &mut self,
        given: &Given,
        part: &ContentRange,
        body: Body,
    ) -> Option<Arc<Object>> {
        let stored = self.store_part(given, Rope::of(part, body.chunks()));
        self.fill.unlist();
        // Its readers read it by itself. What the store shares with it is counted twice until they are gone.
        self.fill.change(|state, _| state.set_body(body, false));
        self.end(End::Complete);
        stored
    }

    fn store_part(&self, given: &Given, part: Rope) -> Option<Arc<Object>> {
        let (fill, inner) = (&self.fill, &self.fill.inner);
        let name = fill.name.with_variant(&given.variant);
        for _ in 0..JOINS {
            let old = inner.shard(fill.of_key).lock().of_name(fill.of_key, &name);
            let (head, rope) = match &old {
                Some(old) => self.join(old, (&given.head, &part))?,
                None => (given.head.clone(), None),
            };
            let rope = rope.unwrap_or_else(|| part.clone());
            let is_whole = rope.parts().is_complete();
            let head = if is_whole { Arc::new(head.completed()) } else { with_first(&head, &rope) };
            let object = Arc::new(Object::new(name.clone(), head, Body::of_parts(rope), &inner.hasher));
            let mut is_same = false;
            let is_stored = inner.insert(fill.of_key, object.clone(), |shard| {
                is_same = is(old.as_ref(), shard.of_name(fill.of_key, &name).as_ref());
                is_same && shard.end_fill(fill)
            });
            if is_same {
                return is_stored.then_some(object);
            }
        }
        None
    }

    /// The head of both, and their parts; no parts: those of the new one alone. `None`: what is stored stays.
    fn join(
        &self,
        old: &Arc<Object>,
        (head, part): (&Arc<StoredHead>, &Rope),
    ) -> Option<(Arc<StoredHead>, Option<Rope>)> {
        let stored = old.head();
        let is_older = head.freshness.received < stored.freshness.received;
        let first = stored.part?;
        if !is_same_representation(stored, head) {
            return (!is_older).then(|| (head.clone(), None));
        }
        let joined = match old.body().rope() {
            Some(rope) => rope.with(part),
            None => Rope::of(&first, old.body().chunks()).with(part),
        };
        let newer = if is_older { old.shared_head() } else { head };
        // Where all together is too much, it begins anew with what was asked for last.
        Some((newer.clone(), joined.filter(|rope| rope.len() <= self.most)))
    }
}

fn is(one: Option<&Arc<Object>>, other: Option<&Arc<Object>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// The head with the first of these parts.
fn with_first(head: &Arc<StoredHead>, rope: &Rope) -> Arc<StoredHead> {
    let total = rope.parts().total();
    let first = rope.parts().ranges().first();
    let part = first.map(|range| ContentRange { first: range.start, end: range.end, total });
    if part == head.part {
        return head.clone();
    }
    Arc::new(head.with_part(part))
}

impl crate::shard::Shard {
    /// The object of a name.
    fn of_name(&self, hash: u64, name: &Name) -> Option<Arc<Object>> {
        self.objects(hash).find(|object| object.name == *name).cloned()
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges are what is compared")]
mod tests;
