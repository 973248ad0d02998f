//! A stored response.

use crate::body::Body;
use crate::size::{allocated, shared};
use crate::tags::Tags;
use foldhash::quality::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use thalweg_cache::{Key, Parts, StoredHead};

/// What hits are counted to; more than that tells nothing more.
const MOST_USES: u8 = 3;

/// The key and the variant of a response, as one allocation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Name {
    bytes: Box<[u8]>,
    key: u32,
    url: u32,
}

impl Name {
    pub(crate) fn of(key: &Key, variant: &[u8]) -> Self {
        // A key and a variant have at most some 40 KiB.
        let (all, url) = (key.bytes(), key.url());
        Self { bytes: [all, variant].concat().into(), key: all.len() as u32, url: url.len() as u32 }
    }

    /// The same key with another variant.
    pub(crate) fn with_variant(&self, variant: &[u8]) -> Self {
        Self { bytes: [self.key(), variant].concat().into(), ..*self }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..self.key as usize]
    }

    pub(crate) fn url(&self) -> &[u8] {
        &self.bytes[..self.url as usize]
    }

    pub(crate) fn variant(&self) -> &[u8] {
        &self.bytes[self.key as usize..]
    }

    /// Whether the key says more than the URL.
    pub(crate) fn has_rest(&self) -> bool {
        self.key > self.url
    }

    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn charge(&self) -> u64 {
        allocated(self.bytes.len())
    }
}

/// The hash of some bytes.
pub(crate) fn hash(bytes: &[u8], hasher: &RandomState) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(bytes);
    state.finish()
}

/// A stored response. It does not change: a response that is freshened is another object with the same body.
#[derive(Debug)]
pub struct Object {
    head: Arc<StoredHead>,
    body: Body,
    pub(crate) name: Name,
    pub(crate) tags: Tags,
    /// The hash of the whole name, by which it is known for a while after it has gone.
    pub(crate) id: u64,
    uses: AtomicU8,
}

impl Object {
    pub(crate) fn new(name: Name, head: Arc<StoredHead>, body: Body, hasher: &RandomState) -> Self {
        let (tags, id) = (Tags::of(&head, hasher), hash(name.all(), hasher));
        Self { head, body, name, tags, id, uses: AtomicU8::new(0) }
    }

    /// The same response with another head.
    pub(crate) fn with_head(&self, head: Arc<StoredHead>, hasher: &RandomState) -> Self {
        let object = Self::new(self.name.clone(), head, self.body.clone(), hasher);
        object.uses.store(self.uses.load(Ordering::Relaxed), Ordering::Relaxed);
        object
    }

    /// Its head.
    pub fn head(&self) -> &StoredHead {
        &self.head
    }

    /// Its head, to be kept.
    pub fn shared_head(&self) -> &Arc<StoredHead> {
        &self.head
    }

    /// Its body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Which bytes of the whole are there; `None`: all.
    pub fn parts(&self) -> Option<Parts> {
        let part = self.head.part?;
        Some(self.body.parts().cloned().unwrap_or_else(|| Parts::of(&part)))
    }

    /// The bytes of its key.
    pub fn key(&self) -> &[u8] {
        self.name.key()
    }

    /// The part of its key that is the URL ([`Key::url`]).
    pub fn url(&self) -> &[u8] {
        self.name.url()
    }

    /// Which variant of its key it is.
    pub fn variant(&self) -> &[u8] {
        self.name.variant()
    }

    /// Notes a hit. One that is used much is only read here, so that workers do not take its line from each other.
    pub(crate) fn touch(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn uses(&self) -> &AtomicU8 {
        &self.uses
    }

    /// What it takes of memory, beside its place in tables.
    pub(crate) fn charge(&self) -> u64 {
        shared(size_of::<Self>())
            + head_charge(&self.head)
            + self.body.charge()
            + self.name.charge()
            + self.tags.charge()
    }
}

/// What a head takes of memory.
pub(crate) fn head_charge(head: &StoredHead) -> u64 {
    shared(size_of::<StoredHead>()) + allocated(head.size())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure that a million objects feel.
    #[test]
    fn objects_are_small() {
        println!("object {}, head {}", size_of::<Object>(), size_of::<StoredHead>());
        assert!(shared(size_of::<Object>()) <= 192 && shared(size_of::<StoredHead>()) <= 256);
    }
}
