//! The edges of all trees of a table in one flat map: (node, segment) to child.
//!
//! [`crate::tree`] and [`crate::shapes`] look up here once per segment of a path. One map instead of one
//! per node keeps large tables small enough for the processor's caches. The hash is keyed, and only
//! configuration puts anything in.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;

/// No node.
pub(crate) const NONE: u32 = u32::MAX;

/// Slots of a map that is not empty, at least.
const FEWEST_SLOTS: usize = 8;

/// An open-addressing hash map, at most half full.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    hash: RandomState,
    /// A power of two, or none.
    slots: Vec<Slot>,
    used: usize,
    /// All segments, one after the other.
    keys: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key_start: usize,
    key_length: u32,
    /// The half of the hash that does not choose the slot.
    tag: u32,
    parent: u32,
    /// [`NONE`] in a free slot.
    child: u32,
}

const FREE: Slot = Slot { key_start: 0, key_length: 0, tag: 0, parent: NONE, child: NONE };

impl Edges {
    /// The child of `parent` by `segment`.
    pub(crate) fn child(&self, parent: u32, segment: &[u8]) -> Option<u32> {
        let hash = self.hash_of(parent, segment);
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            // Half of the slots are free, so this ends.
            let slot = self.slots.get(at).filter(|slot| slot.child != NONE)?;
            if slot.tag == (hash >> 32) as u32 && slot.parent == parent && self.key(slot) == segment {
                return Some(slot.child);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an edge that is not there yet.
    pub(crate) fn insert(&mut self, parent: u32, segment: &[u8], child: u32) {
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            let larger = vec![FREE; (self.slots.len() * 2).max(FEWEST_SLOTS)];
            for slot in std::mem::replace(&mut self.slots, larger) {
                if slot.child != NONE {
                    self.place(self.hash_of(slot.parent, self.key(&slot)), slot);
                }
            }
        }
        let hash = self.hash_of(parent, segment);
        let key_start = self.keys.len();
        self.keys.extend_from_slice(segment);
        let tag = (hash >> 32) as u32;
        self.place(hash, Slot { key_start, key_length: segment.len() as u32, tag, parent, child });
    }

    fn place(&mut self, hash: u64, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].child != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn key(&self, slot: &Slot) -> &[u8] {
        self.keys.get(slot.key_start..slot.key_start + slot.key_length as usize).unwrap_or_default()
    }

    fn hash_of(&self, parent: u32, segment: &[u8]) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write_u32(parent);
        hasher.write(segment);
        hasher.finish()
    }
}

/// Routes filed in one place, best first. Nearly always one, which needs no memory of its own.
#[derive(Debug, Default)]
pub(crate) enum Filed {
    #[default]
    None,
    One(u32),
    Many(Vec<u32>),
}

impl Filed {
    /// Appends a route, unless it is there already because it names a host twice.
    pub(crate) fn push(&mut self, route: u32) {
        if self.as_slice().last() == Some(&route) {
            return;
        }
        match self {
            Self::None => *self = Self::One(route),
            Self::One(first) => *self = Self::Many(vec![*first, route]),
            Self::Many(routes) => routes.push(route),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(route) => std::slice::from_ref(route),
            Self::Many(routes) => routes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_put_in_and_nothing_else() {
        let mut edges = Edges::default();
        assert_eq!(edges.child(0, b"a"), None);
        for parent in 0..100 {
            for segment in 0..20_u32 {
                edges.insert(parent, segment.to_string().as_bytes(), parent * 20 + segment);
            }
        }
        for parent in 0..100 {
            for segment in 0..20_u32 {
                assert_eq!(edges.child(parent, segment.to_string().as_bytes()), Some(parent * 20 + segment));
            }
            assert_eq!(edges.child(parent, b"20"), None);
            assert_eq!(edges.child(parent, b""), None);
        }
        assert_eq!(edges.child(100, b"0"), None);
    }

    #[test]
    fn files_routes_in_order_and_once() {
        let mut filed = Filed::default();
        assert!(filed.as_slice().is_empty());
        for route in [3, 3, 5, 5, 7] {
            filed.push(route);
        }
        assert_eq!(filed.as_slice(), [3, 5, 7]);
    }
}
