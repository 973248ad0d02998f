//! Claims: who fetches what is not stored, and who waits for that.

use crate::counters::add;
use crate::fill::Fill;
use crate::lead::Lead;
use crate::object::{Name, hash};
use crate::reader::Reader;
use crate::shard::{ByHash, Shard};
use crate::size::table;
use crate::store::{Store, Stored};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_cache::{Key, UnixMillis};

/// What one does who has claimed a key.
#[derive(Debug)]
pub enum Claim {
    /// Fetches the response and gives it to the others.
    Lead(Lead),
    /// Waits for the response that another one fetches.
    Follow(Reader),
    /// Looks into the store again: it has changed since.
    Look,
    /// Fetches the response for itself.
    Pass(Pass),
}

/// Why a response is fetched for one request only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pass {
    /// What came under this key lately was not to be stored.
    NotStored,
    /// Too many wait for it.
    Crowded,
    /// There are too many fills.
    Busy,
}

/// Names that are not to be stored until some time, in the order in which they were marked; bounded.
pub(crate) struct Marks {
    until: ByHash<UnixMillis>,
    made: VecDeque<(u64, UnixMillis)>,
    most: usize,
}

impl Marks {
    pub(crate) fn new(most: usize) -> Self {
        Self { until: ByHash::default(), made: VecDeque::new(), most: most.max(1) }
    }

    /// Marks a name.
    pub(crate) fn add(&mut self, id: u64, until: UnixMillis) {
        if self.made.len() >= self.most
            && let Some((old, until)) = self.made.pop_front()
            && self.until.get(&old) == Some(&until)
        {
            self.until.remove(&old);
        }
        self.made.push_back((id, until));
        self.until.insert(id, until);
    }

    fn remove(&mut self, id: u64) {
        self.until.remove(&id);
    }

    fn has(&self, id: u64, now: UnixMillis) -> bool {
        self.until.get(&id).is_some_and(|until| now < *until)
    }

    pub(crate) fn charge(&self) -> u64 {
        (self.made.capacity() * size_of::<(u64, UnixMillis)>()) as u64
            + table(self.until.capacity(), size_of::<(u64, UnixMillis)>())
    }
}

impl Shard {
    /// Fills of which `is_dropped` says so are not stored when they end, and nobody new follows them.
    pub(crate) fn drop_fills(&mut self, is_dropped: impl Fn(&Arc<Fill>) -> bool) {
        self.fills.retain(|_, fill| !is_dropped(fill));
    }

    /// Takes a fill off the list; false where it was taken off before.
    pub(crate) fn end_fill(&mut self, fill: &Arc<Fill>) -> bool {
        let is_there = self.has_fill(fill);
        if is_there {
            self.fills.remove(&fill.id);
        }
        is_there
    }

    /// Whether a fill is still to be stored.
    pub(crate) fn has_fill(&self, fill: &Arc<Fill>) -> bool {
        self.fills.get(&fill.id).is_some_and(|other| Arc::ptr_eq(fill, other))
    }
}

/// What was found among the claims.
enum Place {
    Look,
    Follow(Arc<Fill>),
    Pass(Pass),
    Lead(Arc<Fill>),
}

impl Store {
    /// Claims a key for which `seen` was found; `variant` is what [`Stored::choose`] has made of the request, or, after
    /// a fill that turned out to be for others, what [`thalweg_cache::Vary::write_key`] makes of it and the head there.
    pub fn claim(&self, key: &Key, variant: &[u8], seen: &Stored, now: UnixMillis) -> Claim {
        let inner = &self.inner;
        let name = Name::of(key, variant);
        let of_key = hash(key.bytes(), &inner.hasher);
        let id = if variant.is_empty() { of_key } else { hash(name.all(), &inner.hasher) };
        inner.note_rest(&name);
        let place = inner.change(of_key, |shard| {
            if shard.marks.has(id, now) {
                return Place::Pass(Pass::NotStored);
            }
            match shard.fills.get(&id) {
                // Another name with the same hash has no place beside it.
                Some(fill) if fill.name != name => return Place::Pass(Pass::Busy),
                Some(fill) => return Place::Follow(fill.clone()),
                None => {}
            }
            if !shard.find(of_key, key.bytes()).is(seen) {
                return Place::Look;
            }
            match Fill::begin(inner, name, (of_key, id, id)) {
                Some(fill) => {
                    shard.fills.insert(id, fill.clone());
                    Place::Lead(fill)
                }
                None => Place::Pass(Pass::Busy),
            }
        });
        let claim = match place {
            Place::Look => Claim::Look,
            Place::Lead(fill) => Claim::Lead(Lead::new(fill)),
            Place::Follow(fill) => Reader::new(fill).map_or(Claim::Pass(Pass::Crowded), Claim::Follow),
            Place::Pass(why) => Claim::Pass(why),
        };
        if matches!(claim, Claim::Pass(_)) {
            add(&inner.counters.passed, 1);
        }
        claim
    }

    /// What came under this name may be stored after all: the next request fetches it for all.
    pub fn unmark(&self, key: &Key, variant: &[u8]) {
        let inner = &self.inner;
        let of_key = hash(key.bytes(), &inner.hasher);
        let name = Name::of(key, variant);
        let id = if variant.is_empty() { of_key } else { hash(name.all(), &inner.hasher) };
        inner.change(of_key, |shard| shard.marks.remove(id));
    }

    /// A fill that nobody follows: for one who has waited long enough, or has passed a mark and finds that the response
    /// may be stored. `None`: there are too many fills.
    pub fn lead_alone(&self, key: &Key) -> Option<Lead> {
        let inner = &self.inner;
        let name = Name::of(key, b"");
        let of_key = hash(key.bytes(), &inner.hasher);
        inner.note_rest(&name);
        let number = inner.alone.fetch_add(1, Ordering::Relaxed);
        let id = hash(&number.to_le_bytes(), &inner.hasher);
        let fill = inner.change(of_key, |shard| {
            if shard.fills.contains_key(&id) {
                return None;
            }
            let fill = Fill::begin(inner, name, (of_key, id, of_key))?;
            shard.fills.insert(id, fill.clone());
            Some(fill)
        });
        fill.map(Lead::new)
    }
}
