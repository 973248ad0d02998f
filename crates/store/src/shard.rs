//! A part of the store, behind one lock: what finds objects, their queues, and what is claimed.
//!
//! Objects are found by the 64-bit hash of their key, with a secret seed; the key is compared. Of two keys with one
//! hash, the newer one is kept. Nothing here waits or wakes; what leaves is handed out, to be freed after the lock.

use crate::claim::Marks;
use crate::fill::Fill;
use crate::limits::MOST_VARIANTS;
use crate::object::{Object, hash};
use crate::queues::{Queued, Queues, Used};
use crate::size::table;
use crate::store::Stored;
use foldhash::quality::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A table is made smaller when it has room for more than this and less than an eighth is used.
const LEAST_TABLE: usize = 1024;
/// Bytes of one URL, and of one key of it, in the table of keys that say more than their URL.
const URL_BYTES: u64 = 128;
const REST_BYTES: u64 = 32;

/// Takes a hash as it is.
#[derive(Default)]
pub(crate) struct Plain(u64);

impl Hasher for Plain {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A table by hashes.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Plain>>;

/// The variants of one key, the newest first.
#[derive(Debug)]
pub(crate) struct Variants {
    pub(crate) objects: Vec<(u32, Arc<Object>)>,
}

enum Entry {
    One(u32, Arc<Object>),
    Many(Arc<Variants>),
}

impl Entry {
    fn objects(&self) -> impl Iterator<Item = (u32, &Arc<Object>)> {
        let (one, many) = match self {
            Self::One(node, object) => (Some((*node, object)), &[][..]),
            Self::Many(variants) => (None, &variants.objects[..]),
        };
        one.into_iter().chain(many.iter().map(|(node, object)| (*node, object)))
    }

    /// Without one of them; `None`: none is left.
    fn without(&self, node: u32) -> Option<Self> {
        let rest = self.objects().filter(|(other, _)| *other != node);
        Self::of(rest.map(|(node, object)| (node, object.clone())).collect())
    }

    fn of(mut objects: Vec<(u32, Arc<Object>)>) -> Option<Self> {
        match objects.len() {
            0 => None,
            1 => objects.pop().map(|(node, object)| Self::One(node, object)),
            _ => Some(Self::Many(Arc::new(Variants { objects }))),
        }
    }
}

/// A part of the store.
pub(crate) struct Shard {
    hasher: RandomState,
    index: ByHash<Entry>,
    queues: Queues,
    /// Keys that say more than their URL, by the hash of that.
    urls: ByHash<HashSet<u64>>,
    rests: u64,
    pub(crate) fills: ByHash<Arc<Fill>>,
    pub(crate) marks: Marks,
    charged: u64,
}

impl Shard {
    pub(crate) fn new(hasher: RandomState, marks: usize) -> Self {
        Self {
            hasher,
            index: ByHash::default(),
            queues: Queues::default(),
            urls: ByHash::default(),
            rests: 0,
            fills: ByHash::default(),
            marks: Marks::new(marks),
            charged: 0,
        }
    }

    /// What is stored under a key.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Stored {
        match self.index.get(&hash) {
            Some(Entry::One(_, object)) if object.key() == key => Stored::One(object.clone()),
            Some(Entry::Many(variants)) if variants.objects[0].1.key() == key => {
                Stored::Many(crate::store::Found(variants.clone()))
            }
            _ => Stored::Nothing,
        }
    }

    /// The objects under a hash.
    pub(crate) fn objects(&self, hash: u64) -> impl Iterator<Item = &Arc<Object>> {
        self.index.get(&hash).into_iter().flat_map(Entry::objects).map(|(_, object)| object)
    }

    /// Stores an object; those that it takes the place of are left in `out`.
    pub(crate) fn insert(&mut self, hash: u64, object: Arc<Object>, out: &mut Vec<Arc<Object>>) {
        if self.index.get(&hash).is_some_and(|entry| !is_of(entry, object.key())) {
            self.take(hash, |_| true, out);
        }
        let mut all: Vec<_> = match self.index.remove(&hash) {
            Some(entry) => entry.objects().map(|(node, object)| (node, object.clone())).collect(),
            None => {
                self.note_url(hash, &object, true);
                Vec::new()
            }
        };
        let same = all.iter().position(|(_, other)| other.variant() == object.variant());
        let node = match same.map(|at| all.remove(at)) {
            Some((node, old)) => {
                object.uses().store(old.uses().load(Ordering::Relaxed), Ordering::Relaxed);
                out.push(old);
                self.queues.resize(node, object.charge());
                node
            }
            None => self.queues.insert(hash, object.id, object.charge()),
        };
        if all.len() >= MOST_VARIANTS {
            let is_unused = |(_, object): &(u32, Arc<Object>)| object.uses().load(Ordering::Relaxed) == 0;
            let (node, old) = all.remove(all.iter().rposition(is_unused).unwrap_or(all.len() - 1));
            self.queues.remove(node);
            out.push(old);
        }
        all.insert(0, (node, object));
        if let Some(entry) = Entry::of(all) {
            self.index.insert(hash, entry);
        }
    }

    /// Puts an object into the place of another one, if that is still stored.
    pub(crate) fn replace(&mut self, hash: u64, old: &Arc<Object>, new: &Arc<Object>) -> bool {
        let Some(entry) = self.index.get_mut(&hash) else { return false };
        let Some((node, _)) = entry.objects().find(|(_, object)| Arc::ptr_eq(object, old)) else {
            return false;
        };
        match entry {
            Entry::One(_, object) => *object = new.clone(),
            Entry::Many(variants) => {
                let with = |(at, object): &(u32, Arc<Object>)| {
                    (*at, if *at == node { new.clone() } else { object.clone() })
                };
                *variants = Arc::new(Variants { objects: variants.objects.iter().map(with).collect() });
            }
        }
        self.queues.resize(node, new.charge());
        true
    }

    /// Removes those of a key's objects of which `is_taken` says so.
    pub(crate) fn take(
        &mut self,
        hash: u64,
        is_taken: impl Fn(&Arc<Object>) -> bool,
        out: &mut Vec<Arc<Object>>,
    ) {
        let Some(entry) = self.index.get(&hash) else { return };
        let (gone, kept): (Vec<_>, Vec<_>) = entry
            .objects()
            .map(|(node, object)| (node, object.clone()))
            .partition(|(_, object)| is_taken(object));
        if gone.is_empty() {
            return;
        }
        match Entry::of(kept) {
            Some(entry) => drop(self.index.insert(hash, entry)),
            None => {
                self.index.remove(&hash);
                self.note_url(hash, &gone[0].1, false);
            }
        }
        for (node, object) in gone {
            self.queues.remove(node);
            out.push(object);
        }
    }

    /// Removes the object that is to go next.
    pub(crate) fn evict(&mut self) -> Option<Arc<Object>> {
        let index = &self.index;
        let object_of = |queued: Queued| {
            let entry = index.get(&queued.hash)?;
            entry.objects().find(|(node, _)| *node == queued.node).map(|(_, object)| object)
        };
        let gone = self
            .queues
            .evict(|queued| object_of(queued).map(|object| Used { uses: object.uses(), id: object.id }))?;
        let object = object_of(gone)?.clone();
        let entry = self.index.get(&gone.hash).and_then(|entry| entry.without(gone.node));
        match entry {
            Some(entry) => drop(self.index.insert(gone.hash, entry)),
            None => {
                self.index.remove(&gone.hash);
                self.note_url(gone.hash, &object, false);
            }
        }
        if self.index.capacity() > LEAST_TABLE && self.index.len() * 8 < self.index.capacity() {
            self.index.shrink_to(self.index.len() * 2);
        }
        Some(object)
    }

    /// The hashes of keys of a URL that say more than that.
    pub(crate) fn rests_of(&self, url_hash: u64) -> Vec<u64> {
        self.urls.get(&url_hash).map(|hashes| hashes.iter().copied().collect()).unwrap_or_default()
    }

    /// The object of a node, with the hash of its key.
    pub(crate) fn at(&self, node: usize) -> Option<(u64, &Arc<Object>)> {
        let Queued { hash, node } = self.queues.at(node)?;
        let (_, object) = self.index.get(&hash)?.objects().find(|(at, _)| *at == node)?;
        Some((hash, object))
    }

    /// Nodes that there are.
    pub(crate) fn nodes(&self) -> usize {
        self.queues.nodes()
    }

    /// What the tables have taken, before and now.
    pub(crate) fn recharge(&mut self) -> (u64, u64) {
        let urls = self.urls.len() as u64 * URL_BYTES + self.rests * REST_BYTES;
        let now = table(self.index.capacity(), size_of::<(u64, Entry)>())
            + table(self.fills.capacity(), size_of::<(u64, Arc<Fill>)>())
            + self.marks.charge()
            + self.queues.charge()
            + urls;
        (std::mem::replace(&mut self.charged, now), now)
    }

    /// Keeps the table of URLs: a key has come or gone.
    fn note_url(&mut self, hash_of_key: u64, object: &Object, is_there: bool) {
        if !object.name.has_rest() {
            return;
        }
        let url = hash(object.name.url(), &self.hasher);
        let known = self.urls.entry(url).or_default();
        let is_changed = if is_there { known.insert(hash_of_key) } else { known.remove(&hash_of_key) };
        if known.is_empty() {
            self.urls.remove(&url);
        }
        match (is_changed, is_there) {
            (true, true) => self.rests += 1,
            (true, false) => self.rests -= 1,
            (false, _) => {}
        }
    }
}

fn is_of(entry: &Entry, key: &[u8]) -> bool {
    entry.objects().next().is_some_and(|(_, object)| object.key() == key)
}
