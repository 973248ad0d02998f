//! Where objects stand on the disk, by the hash of their keys.
//!
//! An entry has neither key nor head: 24 bytes, and what a table adds. What it finds is compared with the key when it
//! is read. Locks are short, and nothing is read or written under one.

use crate::record::ALIGN;
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_cache::request::FieldLines;
use thalweg_cache::{Policy, Vary};
use thalweg_store::limits::{MOST_VARIANTS, MOST_VARIES};

/// Parts with a lock each.
const SHARDS: usize = 64;
/// Different values of `Vary` that are told apart; an object with another one is not stored.
const MOST_KNOWN_VARIES: usize = 1024;
/// What uses are counted to.
const MOST_USES: u8 = 3;

/// Takes a hash as it is.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Plain>>;

/// Where an object stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Slot {
    pub(crate) segment: u32,
    /// In units of [`ALIGN`].
    offset: u32,
    /// In units of [`ALIGN`].
    length: u32,
    /// Which variant of its key it is: a part of its hash.
    variant: u32,
    /// What it varies by, as a number; 0: nothing.
    vary: u16,
    pub(crate) uses: u8,
}

/// Another number than that of the key alone.
fn same(of_key: u64, variant: u32) -> u64 {
    of_key.rotate_left(32) ^ (u64::from(variant) << 1 | 1)
}

impl Slot {
    pub(crate) fn offset(&self) -> u64 {
        u64::from(self.offset) * ALIGN
    }

    pub(crate) fn length(&self) -> u64 {
        u64::from(self.length) * ALIGN
    }

    /// A hash of its key and its variant: what takes its place has the same.
    pub(crate) fn same(&self, of_key: u64) -> u64 {
        same(of_key, self.variant)
    }

    /// The same object at another place.
    pub(crate) fn moved(self, segment: u32, offset: u64) -> Self {
        Self { segment, offset: (offset / ALIGN) as u32, uses: self.uses.saturating_sub(1), ..self }
    }

    fn is_at(&self, other: &Self) -> bool {
        (self.segment, self.offset) == (other.segment, other.offset)
    }
}

/// What an object is found by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashes {
    pub(crate) key: u64,
    pub(crate) url: u64,
}

impl Hashes {
    /// Whether the key says more than the URL.
    fn has_rest(self) -> bool {
        self.key != self.url
    }

    pub(crate) fn both(self) -> [u64; 2] {
        [self.key, self.url]
    }
}

enum Entry {
    One(Slot),
    Many(Box<Many>),
}

/// Variants, the newest first, or one response whose key says more than its URL.
struct Many {
    url: u64,
    slots: Vec<Slot>,
}

impl Entry {
    fn slots(&self) -> &[Slot] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Many(many) => &many.slots,
        }
    }

    fn slots_mut(&mut self) -> &mut [Slot] {
        match self {
            Self::One(slot) => std::slice::from_mut(slot),
            Self::Many(many) => &mut many.slots,
        }
    }

    fn of(hashes: Hashes, slots: Vec<Slot>) -> Self {
        match slots[..] {
            [slot] if !hashes.has_rest() => Self::One(slot),
            _ => Self::Many(Box::new(Many { url: hashes.url, slots })),
        }
    }
}

#[derive(Default)]
struct Shard {
    entries: ByHash<Entry>,
    /// Keys that say more than their URL, by the hash of that.
    urls: ByHash<Vec<u64>>,
}

#[derive(Default)]
struct Varies {
    known: Vec<Arc<Vary>>,
}

/// The index.
pub(crate) struct Index {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    varies: Mutex<Varies>,
    has_rests: AtomicBool,
    objects: AtomicU64,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            varies: Mutex::default(),
            has_rests: AtomicBool::new(false),
            objects: AtomicU64::new(0),
        }
    }

    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut state = self.hasher.build_hasher();
        state.write(bytes);
        state.finish()
    }

    pub(crate) fn hashes(&self, key: &[u8], url: &[u8]) -> Hashes {
        let of_key = self.hash(key);
        Hashes { key: of_key, url: if key.len() == url.len() { of_key } else { self.hash(url) } }
    }

    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// A slot; `None`: there are too many different `Vary`, or the record cannot be told of.
    pub(crate) fn slot(
        &self,
        (segment, offset, length): (u32, u64, u64),
        vary: &Vary,
        variant: &[u8],
    ) -> Option<Slot> {
        Some(Slot {
            segment,
            offset: u32::try_from(offset / ALIGN).ok()?,
            length: u32::try_from(length / ALIGN).ok()?,
            variant: self.variant(variant),
            vary: self.vary(vary)?,
            uses: 0,
        })
    }

    /// The object that fits a request, the newest if there are more; its use is noted. `variant` becomes what tells the
    /// request from others under its key.
    pub(crate) fn find<'a>(
        &self,
        of_key: u64,
        (policy, fields): (&Policy, impl FieldLines<'a>),
        variant: &mut Vec<u8>,
    ) -> Option<Slot> {
        variant.clear();
        let mut varies: [Option<u16>; MOST_VARIES] = [None; MOST_VARIES];
        {
            let mut shard = self.shard(of_key);
            let entry = shard.entries.get_mut(&of_key)?;
            if let [slot] = entry.slots_mut()
                && slot.vary == 0
            {
                slot.uses = (slot.uses + 1).min(MOST_USES);
                return Some(*slot);
            }
            for slot in entry.slots() {
                let place = varies.iter_mut().find(|known| known.is_none_or(|known| known == slot.vary));
                place.map(|place| place.replace(slot.vary));
            }
        }
        for vary in varies.into_iter().flatten() {
            variant.clear();
            if !self.known(vary)?.write_key(policy, fields.clone(), variant) {
                continue;
            }
            let wanted = self.variant(variant);
            let mut shard = self.shard(of_key);
            let slots = shard.entries.get_mut(&of_key)?.slots_mut();
            if let Some(slot) = slots.iter_mut().find(|slot| slot.vary == vary && slot.variant == wanted) {
                slot.uses = (slot.uses + 1).min(MOST_USES);
                return Some(*slot);
            }
        }
        None
    }

    /// Adds an object that has just been stored; gives what it takes the place of.
    pub(crate) fn insert(&self, hashes: Hashes, slot: Slot) -> Vec<Slot> {
        let mut shard = self.shard(hashes.key);
        let known = shard.entries.remove(&hashes.key);
        self.note_url(&mut shard, hashes);
        let is_same = |other: &Slot| (other.vary, other.variant) == (slot.vary, slot.variant);
        let known = known.as_ref().map_or(&[][..], Entry::slots).iter().copied();
        let (mut gone, mut slots): (Vec<_>, Vec<_>) = known.partition(is_same);
        if slots.len() >= MOST_VARIANTS {
            let unused = slots.iter().rposition(|slot| slot.uses == 0).unwrap_or(slots.len() - 1);
            gone.push(slots.remove(unused));
        }
        slots.insert(0, slot);
        shard.entries.insert(hashes.key, Entry::of(hashes, slots));
        drop(shard);
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.objects.fetch_sub(gone.len() as u64, Ordering::Relaxed);
        gone
    }

    /// Adds an object that was stored before all that are there; false: a newer one has its place.
    pub(crate) fn insert_older(&self, hashes: Hashes, slot: Slot) -> bool {
        let mut shard = self.shard(hashes.key);
        match shard.entries.entry(hashes.key) {
            Place::Vacant(place) => drop(place.insert(Entry::of(hashes, vec![slot]))),
            Place::Occupied(mut place) => {
                let slots = place.get().slots();
                let is_same = |other: &Slot| (other.vary, other.variant) == (slot.vary, slot.variant);
                if slots.len() >= MOST_VARIANTS || slots.iter().any(is_same) {
                    return false;
                }
                let slots = slots.iter().copied().chain([slot]).collect();
                place.insert(Entry::of(hashes, slots));
            }
        }
        self.note_url(&mut shard, hashes);
        drop(shard);
        self.objects.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes those of a key's objects of which `is_taken` says so.
    pub(crate) fn take(&self, of_key: u64, is_taken: impl Fn(&Slot) -> bool) -> Vec<Slot> {
        let mut shard = self.shard(of_key);
        let Some(entry) = shard.entries.get(&of_key) else { return Vec::new() };
        let (gone, kept): (Vec<_>, Vec<_>) = entry.slots().iter().copied().partition(is_taken);
        if gone.is_empty() {
            return gone;
        }
        let url = match entry {
            Entry::One(_) => of_key,
            Entry::Many(many) => many.url,
        };
        if kept.is_empty() {
            shard.entries.remove(&of_key);
            shard.forget_url(of_key, url);
        } else {
            shard.entries.insert(of_key, Entry::of(Hashes { key: of_key, url }, kept));
        }
        drop(shard);
        self.objects.fetch_sub(gone.len() as u64, Ordering::Relaxed);
        gone
    }

    /// Removes the object with this key and variant.
    pub(crate) fn take_same(&self, of_key: u64, vary: &Vary, variant: &[u8]) -> Vec<Slot> {
        let Some(vary) = self.vary(vary) else { return Vec::new() };
        let variant = self.variant(variant);
        self.take(of_key, |slot| (slot.vary, slot.variant) == (vary, variant))
    }

    /// As [`Slot::same`], before there is a slot.
    pub(crate) fn same(&self, of_key: u64, variant: &[u8]) -> u64 {
        same(of_key, self.variant(variant))
    }

    /// Removes the object at a place.
    pub(crate) fn take_at(&self, of_key: u64, slot: &Slot) -> bool {
        !self.take(of_key, |other| other.is_at(slot)).is_empty()
    }

    /// Removes all of a URL, whatever else their keys say.
    pub(crate) fn take_url(&self, of_url: u64) -> Vec<Slot> {
        let mut gone = self.take(of_url, |_| true);
        if self.has_rests.load(Ordering::Acquire) {
            for shard in &self.shards {
                let keys = lock(shard).urls.get(&of_url).cloned().unwrap_or_default();
                keys.into_iter().for_each(|key| gone.extend(self.take(key, |_| true)));
            }
        }
        gone
    }

    /// The objects of a key in a segment.
    pub(crate) fn in_segment(&self, of_key: u64, segment: u32) -> Vec<Slot> {
        let shard = self.shard(of_key);
        let slots = shard.entries.get(&of_key).map_or(&[][..], Entry::slots);
        slots.iter().filter(|slot| slot.segment == segment).copied().collect()
    }

    /// An object has moved; false: it is not there any more.
    pub(crate) fn replace(&self, of_key: u64, old: &Slot, new: Slot) -> bool {
        let mut shard = self.shard(of_key);
        let slots = shard.entries.get_mut(&of_key).map_or(&mut [][..], Entry::slots_mut);
        let Some(slot) = slots.iter_mut().find(|slot| slot.is_at(old)) else { return false };
        *slot = new;
        true
    }

    /// Its memory in bytes, as tables have it.
    pub(crate) fn memory(&self) -> u64 {
        let of_shard = |shard: &Mutex<Shard>| {
            let shard = lock(shard);
            let many = |entry: &Entry| match entry {
                Entry::One(_) => 0,
                Entry::Many(many) => size_of::<Many>() + many.slots.capacity() * size_of::<Slot>(),
            };
            let buckets = |capacity: usize, entry: usize| match capacity {
                0 => 0,
                some => (some * 8 / 7).next_power_of_two() * (entry + 1),
            };
            let keys = shard.urls.values().map(|keys| keys.capacity() * 8).sum::<usize>();
            buckets(shard.entries.capacity(), size_of::<(u64, Entry)>())
                + buckets(shard.urls.capacity(), size_of::<(u64, Vec<u64>)>())
                + shard.entries.values().map(many).sum::<usize>()
                + keys
        };
        self.shards.iter().map(of_shard).sum::<usize>() as u64
    }

    fn shard(&self, of_key: u64) -> MutexGuard<'_, Shard> {
        // Tables use the lower bits and the upper seven.
        lock(&self.shards[(of_key >> 40) as usize % SHARDS])
    }

    fn variant(&self, variant: &[u8]) -> u32 {
        if variant.is_empty() { 0 } else { self.hash(variant) as u32 }
    }

    fn vary(&self, vary: &Vary) -> Option<u16> {
        match vary {
            Vary::Nothing => return Some(0),
            Vary::Everything => return None,
            Vary::Names(_) => {}
        }
        let known = &mut self.varies.lock().unwrap_or_else(PoisonError::into_inner).known;
        let at = known.iter().position(|other| **other == *vary);
        if at.is_none() && known.len() < MOST_KNOWN_VARIES {
            known.push(Arc::new(vary.clone()));
            return Some(known.len() as u16);
        }
        at.map(|at| at as u16 + 1)
    }

    fn known(&self, vary: u16) -> Option<Arc<Vary>> {
        let varies = self.varies.lock().unwrap_or_else(PoisonError::into_inner);
        match vary.checked_sub(1) {
            None => Some(Arc::new(Vary::Nothing)),
            Some(at) => varies.known.get(usize::from(at)).cloned(),
        }
    }

    fn note_url(&self, shard: &mut Shard, hashes: Hashes) {
        if hashes.has_rest() {
            self.has_rests.store(true, Ordering::Release);
            let keys = shard.urls.entry(hashes.url).or_default();
            if !keys.contains(&hashes.key) {
                keys.push(hashes.key);
            }
        }
    }
}

impl Shard {
    fn forget_url(&mut self, of_key: u64, of_url: u64) {
        if of_key == of_url {
            return;
        }
        if let Place::Occupied(mut keys) = self.urls.entry(of_url) {
            keys.get_mut().retain(|key| *key != of_key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lines;

    fn plain(index: &Index, segment: u32, offset: u64) -> Slot {
        index.slot((segment, offset, 160), &Vary::Nothing, b"").unwrap()
    }

    fn find(index: &Index, key: u64, fields: &str) -> Option<(u32, u64)> {
        let found = index.find(key, (&Policy::default(), lines(fields)), &mut Vec::new())?;
        Some((found.segment, found.offset()))
    }

    #[test]
    fn entries_are_small() {
        assert!(size_of::<(u64, Entry)>() <= 32, "{}", size_of::<(u64, Entry)>());
    }

    #[test]
    fn the_newest_of_a_key_is_found() {
        let index = Index::new();
        let hashes = index.hashes(b"key", b"key");
        assert!(index.insert(hashes, plain(&index, 1, 32)).is_empty());
        assert!(!index.insert_older(hashes, plain(&index, 0, 64)));
        let gone = index.insert(hashes, plain(&index, 2, 32));
        assert_eq!((gone.len(), gone[0].segment, gone[0].length()), (1, 1, 160));
        assert_eq!((find(&index, hashes.key, ""), index.objects()), (Some((2, 32)), 1));
        assert!(!index.take_at(hashes.key, &gone[0]));
        assert!(index.replace(hashes.key, &plain(&index, 2, 32), plain(&index, 5, 16)));
        assert!(!index.replace(hashes.key, &plain(&index, 2, 32), plain(&index, 6, 16)));
        assert_eq!(index.in_segment(hashes.key, 5).len(), 1);
        assert_eq!(index.take_url(hashes.url).len(), 1);
        assert_eq!((find(&index, hashes.key, ""), index.objects()), (None, 0));
    }

    #[test]
    fn variants_are_told_apart() {
        let (index, policy) = (Index::new(), Policy::default());
        let hashes = index.hashes(b"url and more", b"url");
        let vary = Vary::read(lines("vary: accept-language"));
        for (segment, language) in ["de", "en"].into_iter().enumerate() {
            let (mut variant, fields) = (Vec::new(), format!("accept-language: {language}"));
            assert!(vary.write_key(&policy, lines(&fields), &mut variant));
            let slot = index.slot((segment as u32, 0, 16), &vary, &variant).unwrap();
            index.insert(hashes, slot);
        }
        assert_eq!(find(&index, hashes.key, "accept-language: de"), Some((0, 0)));
        assert_eq!(find(&index, hashes.key, "accept-language: en"), Some((1, 0)));
        assert_eq!(find(&index, hashes.key, "accept-language: fr"), None);
        assert!(index.insert_older(hashes, plain(&index, 7, 0)));
        assert_eq!(find(&index, hashes.key, "accept-language: fr"), Some((7, 0)));
        assert_eq!(index.take_url(hashes.url).len(), 3);
        assert!(index.shards.iter().all(|shard| lock(shard).urls.is_empty()));
    }

    #[test]
    fn kinds_of_vary_and_variants_are_bounded() {
        let index = Index::new();
        let vary = |number: usize| Vary::Names([format!("x{number}").into()].into());
        for number in 0..MOST_KNOWN_VARIES {
            assert_eq!(index.vary(&vary(number)), Some(number as u16 + 1));
        }
        assert_eq!((index.vary(&vary(5000)), index.vary(&vary(3))), (None, Some(4)));
        assert_eq!(index.vary(&Vary::Everything), None);
        let hashes = index.hashes(b"key", b"key");
        let gone = (0..100_u32).map(|number| {
            let slot = index.slot((number, 0, 16), &vary(0), &number.to_le_bytes()).unwrap();
            index.insert(hashes, slot).len()
        });
        assert_eq!(
            (gone.sum::<usize>() as u64 + index.objects(), index.objects()),
            (100, MOST_VARIANTS as u64)
        );
    }
}
