//! The store: what is found, put, freshened and removed by key.

use crate::body::Body;
use crate::counters::{Counters, Counts, add, change, sub};
use crate::limits::{Limits, MOST_MARKS, MOST_VARIES};
use crate::object::{Name, Object, hash};
use crate::shard::{Shard, Variants};
use foldhash::quality::RandomState;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_cache::request::FieldLines;
use thalweg_cache::{Key, Policy, StoredHead, Vary, lookup};

/// The memory store of a cache, one for all workers. A clone is another handle of it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

pub(crate) struct Inner {
    pub(crate) limits: Limits,
    pub(crate) hasher: RandomState,
    pub(crate) shards: Box<[Locked]>,
    pub(crate) counters: Counters,
    /// Keys, stored or claimed, that say more than their URL were seen.
    pub(crate) has_rests: AtomicU64,
    /// Names of fills that nobody follows.
    pub(crate) alone: AtomicU64,
    /// Fills that have gone to a second tier and are not over.
    pub(crate) spilling: AtomicUsize,
    /// The shard that the next object goes from.
    turn: AtomicUsize,
}

/// A shard on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Locked(Mutex<Shard>);

impl Locked {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Shard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is stored under a key.
#[derive(Clone, Debug, Default)]
pub enum Stored {
    /// Nothing.
    #[default]
    Nothing,
    /// One response.
    One(Arc<Object>),
    /// Responses to different requests.
    Many(Found),
}

/// The variants that are stored under a key.
#[derive(Clone, Debug)]
pub struct Found(pub(crate) Arc<Variants>);

/// The response that fits a request.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'s> {
    /// Nothing is stored.
    Nothing,
    /// What is stored fits other requests.
    OtherVariants,
    /// This one.
    Object(&'s Arc<Object>),
}

impl<'s> Choice<'s> {
    /// In the words of [`lookup::look_up`].
    pub fn found(self) -> lookup::Found<'s> {
        match self {
            Self::Nothing => lookup::Found::Nothing,
            Self::OtherVariants => lookup::Found::OtherVariants,
            Self::Object(object) => lookup::Found::Head(object.head()),
        }
    }
}

/// A response was not stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejected {
    /// Its body is larger than an object may be.
    TooLarge,
    /// It may not be there any more.
    Outdated,
}

impl Stored {
    /// The response that fits a request, the newest if there are more; its use is noted. `variant` becomes what tells
    /// this request from others under the key, as far as what is stored tells: it goes into a claim.
    pub fn choose<'a>(
        &self,
        policy: &Policy,
        fields: impl FieldLines<'a>,
        variant: &mut Vec<u8>,
    ) -> Choice<'_> {
        variant.clear();
        let (one, many) = match self {
            Self::Nothing => return Choice::Nothing,
            Self::One(object) => (Some(object), &[][..]),
            Self::Many(found) => (None, &found.0.objects[..]),
        };
        let objects = one.into_iter().chain(many.iter().map(|(_, object)| object));
        let mut tried: [Option<&Vary>; MOST_VARIES] = [None; MOST_VARIES];
        for object in objects.clone() {
            let vary = &object.head().vary;
            let Some(place) = tried.iter_mut().find(|tried| tried.is_none_or(|tried| tried == vary)) else {
                continue;
            };
            if place.replace(vary).is_some() {
                continue;
            }
            let begins = variant.len();
            let is_known = vary.write_key(policy, fields.clone(), variant);
            let fits =
                |object: &&Arc<Object>| object.head().vary == *vary && object.variant() == &variant[begins..];
            if is_known && let Some(object) = objects.clone().find(fits) {
                object.touch();
                variant.drain(..begins);
                return Choice::Object(object);
            }
        }
        Choice::OtherVariants
    }

    /// Whether both are the same moment of one key.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::One(one), Self::One(other)) => Arc::ptr_eq(one, other),
            (Self::Many(one), Self::Many(other)) => Arc::ptr_eq(&one.0, &other.0),
            _ => false,
        }
    }
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// The limits cannot be used.
    pub fn new(limits: Limits) -> Result<Self, String> {
        limits.check()?;
        let hasher = RandomState::default();
        let shard = |_| Locked(Mutex::new(Shard::new(hasher.clone(), MOST_MARKS / limits.shards)));
        let inner = Inner {
            limits,
            shards: (0..limits.shards).map(shard).collect(),
            hasher: hasher.clone(),
            counters: Counters::default(),
            has_rests: AtomicU64::new(0),
            alone: AtomicU64::new(0),
            spilling: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What is stored under a key.
    pub fn find(&self, key: &Key) -> Stored {
        let hash = hash(key.bytes(), &self.inner.hasher);
        self.inner.shard(hash).lock().find(hash, key.bytes())
    }

    /// Stores a response that is there as a whole; `variant` is what [`Vary::write_key`] makes of its request.
    ///
    /// # Errors
    /// It is too large.
    pub fn put(
        &self,
        key: &Key,
        variant: &[u8],
        head: StoredHead,
        body: Body,
    ) -> Result<Arc<Object>, Rejected> {
        self.put_if((key, variant), head, body, || true)
    }

    /// The same for one that comes from somewhere else, and may be concerned by a purge meanwhile: `may` is asked under
    /// the lock that a purge of the key takes here. A purge that is known to `may` before it comes here misses nothing.
    ///
    /// # Errors
    /// It is too large, or may not be stored.
    pub fn put_if(
        &self,
        (key, variant): (&Key, &[u8]),
        head: StoredHead,
        body: Body,
        may: impl FnOnce() -> bool,
    ) -> Result<Arc<Object>, Rejected> {
        if body.len() > self.inner.limits.largest() {
            add(&self.inner.counters.rejected, 1);
            return Err(Rejected::TooLarge);
        }
        let object = Object::new(Name::of(key, variant), Arc::new(head), body, &self.inner.hasher);
        let object = Arc::new(object);
        let hash = hash(key.bytes(), &self.inner.hasher);
        let is_stored = self.inner.insert(hash, object.clone(), |_| may());
        if is_stored { Ok(object) } else { Err(Rejected::Outdated) }
    }

    /// The response with a new head, as a 304 gives it: the same body. It takes the place of the old one, if that is
    /// still stored and the new head fits the same requests; it can be used in any case.
    pub fn freshen(&self, old: &Arc<Object>, head: StoredHead) -> Arc<Object> {
        let inner = &self.inner;
        let new = Arc::new(old.with_head(Arc::new(head), &inner.hasher));
        let hash = hash(old.key(), &inner.hasher);
        let mut gone = Vec::new();
        if new.head().vary != old.head().vary {
            inner.change(hash, |shard| shard.take(hash, |object| Arc::ptr_eq(object, old), &mut gone));
            inner.forget(&gone);
            return new;
        }
        // Charged before it is there: another thread may take it away at once.
        add(&inner.counters.bytes, new.charge());
        let is_stored = inner.change(hash, |shard| shard.replace(hash, old, &new));
        sub(&inner.counters.bytes, if is_stored { old.charge() } else { new.charge() });
        inner.make_room();
        new
    }

    /// Removes what is stored under a key, all variants, and lets fills of it not be stored.
    pub fn remove(&self, key: &Key) -> u64 {
        let hash = hash(key.bytes(), &self.inner.hasher);
        self.inner.remove(hash, |found| found == key.bytes())
    }

    /// Removes one response, if it is still stored.
    pub fn remove_object(&self, object: &Arc<Object>) -> bool {
        let hash = hash(object.key(), &self.inner.hasher);
        let mut gone = Vec::new();
        self.inner.change(hash, |shard| shard.take(hash, |other| Arc::ptr_eq(other, object), &mut gone));
        self.inner.forget(&gone);
        add(&self.inner.counters.removed, gone.len() as u64);
        !gone.is_empty()
    }

    /// Removes what is stored for a URL, whatever else its keys say, and lets fills of it not be stored; `url` is
    /// [`Key::url`]. For invalidation (RFC 9111 §4.4): without such other keys, one lock.
    pub fn remove_url(&self, url: &[u8]) -> u64 {
        let inner = &self.inner;
        let hash = hash(url, &inner.hasher);
        let mut count = inner.remove(hash, |found| found == url);
        if inner.has_rests.load(Ordering::Acquire) > 0 {
            for number in 0..inner.shards.len() {
                count +=
                    inner.remove_in(number, |shard| shard.rests_of(hash), |found| found.starts_with(url));
            }
        }
        count
    }

    /// What it has and did.
    pub fn counts(&self) -> Counts {
        self.inner.counters.read()
    }

    /// What it may hold.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }
}

impl Inner {
    pub(crate) fn number(&self, hash: u64) -> usize {
        // Tables use the lower bits and the upper seven.
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    pub(crate) fn shard(&self, hash: u64) -> &Locked {
        &self.shards[self.number(hash)]
    }

    /// Changes a shard, and counts what its tables take.
    pub(crate) fn change<T>(&self, hash: u64, run: impl FnOnce(&mut Shard) -> T) -> T {
        self.change_in(self.number(hash), run)
    }

    pub(crate) fn change_in<T>(&self, number: usize, run: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shard = self.shards[number].lock();
        let done = run(&mut shard);
        let (was, now) = shard.recharge();
        drop(shard);
        change(&self.counters.bytes, was, now);
        done
    }

    /// Stores an object, if `may` still says so under the lock.
    pub(crate) fn insert(
        &self,
        hash: u64,
        object: Arc<Object>,
        may: impl FnOnce(&mut Shard) -> bool,
    ) -> bool {
        let charge = object.charge();
        add(&self.counters.bytes, charge);
        add(&self.counters.objects, 1);
        self.note_rest(&object.name);
        let mut gone = Vec::new();
        let is_stored = self.change(hash, |shard| {
            let may = may(shard);
            if may {
                shard.insert(hash, object, &mut gone);
            }
            may
        });
        if is_stored {
            add(&self.counters.stored, 1);
        } else {
            sub(&self.counters.bytes, charge);
            sub(&self.counters.objects, 1);
            add(&self.counters.rejected, 1);
        }
        self.forget(&gone);
        self.make_room();
        is_stored
    }

    /// Notes that some key says more than its URL.
    pub(crate) fn note_rest(&self, name: &Name) {
        if name.has_rest() && self.has_rests.load(Ordering::Relaxed) == 0 {
            self.has_rests.store(1, Ordering::Release);
        }
    }

    fn remove(&self, hash: u64, is_key: impl Fn(&[u8]) -> bool) -> u64 {
        self.remove_in(self.number(hash), |_| vec![hash], is_key)
    }

    /// Removes keys of a shard of which `is_key` says so: objects under these hashes, and fills, all under one lock: a
    /// fill that ends meanwhile is found as the one or the other.
    fn remove_in(
        &self,
        number: usize,
        hashes: impl FnOnce(&Shard) -> Vec<u64>,
        is_key: impl Fn(&[u8]) -> bool,
    ) -> u64 {
        let mut gone = Vec::new();
        self.change_in(number, |shard| {
            for hash in hashes(shard) {
                shard.take(hash, |object| is_key(object.key()), &mut gone);
            }
            shard.drop_fills(|fill| is_key(fill.name.key()));
        });
        self.forget(&gone);
        add(&self.counters.removed, gone.len() as u64);
        gone.len() as u64
    }

    /// Objects have left their shard.
    pub(crate) fn forget(&self, gone: &[Arc<Object>]) {
        sub(&self.counters.objects, gone.len() as u64);
        sub(&self.counters.bytes, gone.iter().map(|object| object.charge()).sum());
    }

    /// Lets objects go until all is within the limit, one of each shard in turn.
    pub(crate) fn make_room(&self) {
        let mut empty = 0;
        while self.counters.bytes.load(Ordering::Relaxed) > self.limits.bytes && empty < self.shards.len() {
            let number = self.turn.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            match self.change_in(number, Shard::evict) {
                Some(object) => {
                    empty = 0;
                    self.forget(std::slice::from_ref(&object));
                    add(&self.counters.evictions, 1);
                }
                None => empty += 1,
            }
        }
    }
}
