//! Who is in a session: by key, and for each listener in the order in which sessions spoke last. Pure.
//!
//! A session that is worked on is out of its place meanwhile, and keeps it.

use slab::Slab;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::Hash;

const NONE: u32 = u32::MAX;
/// Connections looked at, from the ones on that have been silent longest, to find one to end.
const LOOKED_AT: usize = 16;
/// And of each group at least.
const LEAST_LOOKS: usize = 4;

#[derive(Debug)]
struct Place<K, S> {
    key: K,
    /// Whose order it stands in.
    group: u32,
    /// `None` while it is worked on.
    session: Option<S>,
    older: u32,
    newer: u32,
    /// When it spoke last, in milliseconds of the worker's clock.
    spoke: u64,
    /// It stands in line for its share.
    is_queued: bool,
}

/// The ends of an order.
#[derive(Clone, Copy, Debug)]
struct Order {
    oldest: u32,
    newest: u32,
}

/// Connections by key, and by age within groups, which have small numbers.
#[derive(Debug)]
pub(super) struct Table<K, S> {
    places: Slab<Place<K, S>>,
    /// Hashed with a key of its own, so that nobody can choose addresses that meet in one place.
    by_key: HashMap<K, u32, RandomState>,
    orders: Vec<Order>,
}

impl<K, S> Default for Table<K, S> {
    fn default() -> Self {
        Self { places: Slab::new(), by_key: HashMap::default(), orders: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash, S> Table<K, S> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The place of a key.
    pub(super) fn find(&self, key: &K) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// Makes a place for a key that has none, as the newest of its group; its session is put there later.
    pub(super) fn add(&mut self, (key, group): (K, u32), now_ms: u64) -> u32 {
        debug_assert!(!self.by_key.contains_key(&key), "one session for a key");
        let (older, newer) = (NONE, NONE);
        let place = Place { key, group, session: None, older, newer, spoke: now_ms, is_queued: false };
        let index = self.places.insert(place) as u32;
        self.by_key.insert(key, index);
        self.append(index);
        index
    }

    /// Takes a session out, to work on it.
    pub(super) fn take(&mut self, index: u32) -> Option<S> {
        self.places.get_mut(index as usize)?.session.take()
    }

    /// Puts a session back, or into its new place.
    pub(super) fn put(&mut self, index: u32, session: S) {
        if let Some(place) = self.places.get_mut(index as usize) {
            place.session = Some(session);
        }
    }

    /// It has spoken: it is the newest.
    pub(super) fn touch(&mut self, index: u32, now_ms: u64) {
        self.detach(index);
        self.append(index);
        if let Some(place) = self.places.get_mut(index as usize) {
            place.spoke = now_ms;
        }
    }

    /// Notes whether it stands in line; says whether that is news.
    pub(super) fn queue(&mut self, index: u32, is_queued: bool) -> bool {
        let place = self.places.get_mut(index as usize);
        place.is_some_and(|place| std::mem::replace(&mut place.is_queued, is_queued) != is_queued)
    }

    /// Gives up a place, and what is there.
    pub(super) fn remove(&mut self, index: u32) -> Option<S> {
        self.detach(index);
        let place = self.places.try_remove(index as usize)?;
        self.by_key.remove(&place.key);
        place.session
    }

    /// The place of one that may end: of this group, or of any. Looked at are the first few of a group, those that have
    /// been silent longest; of what groups offer, the longest silence wins. The test is told for how many milliseconds
    /// it has been silent.
    pub(super) fn evictable(
        &self,
        group: Option<u32>,
        now_ms: u64,
        test: impl Fn(&S, u64) -> bool,
    ) -> Option<u32> {
        let orders = match group {
            Some(group) => self.orders.get(group as usize..)?.get(..1)?,
            None => &self.orders,
        };
        let groups = orders.iter().filter(|order| order.oldest != NONE).count();
        let looks = (LOOKED_AT / groups.max(1)).max(LEAST_LOOKS);
        let offers = orders.iter().filter_map(|order| self.first(order.oldest, looks, now_ms, &test));
        offers.min_by_key(|offer| self.places.get(*offer as usize).map(|place| place.spoke))
    }

    /// The first of a few, from one on, that passes the test.
    fn first(&self, from: u32, looks: usize, now_ms: u64, test: &impl Fn(&S, u64) -> bool) -> Option<u32> {
        let mut index = from;
        for _ in 0..looks {
            let place = self.places.get(index as usize)?;
            let silent = now_ms.saturating_sub(place.spoke);
            if place.session.as_ref().is_some_and(|session| test(session, silent)) {
                return Some(index);
            }
            index = place.newer;
        }
        None
    }

    /// The places of all.
    pub(super) fn all(&self) -> Vec<u32> {
        self.places.iter().map(|(index, _)| index as u32).collect()
    }

    /// All sessions that are not worked on.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &S> {
        self.places.iter().filter_map(|(_, place)| place.session.as_ref())
    }

    /// Takes a place out of its order.
    fn detach(&mut self, index: u32) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        let (older, newer) =
            (std::mem::replace(&mut place.older, NONE), std::mem::replace(&mut place.newer, NONE));
        let order = &mut self.orders[place.group as usize];
        match self.places.get_mut(older as usize) {
            Some(place) => place.newer = newer,
            None => order.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(place) => place.older = older,
            None => order.newest = older,
        }
    }

    /// Puts a place that is out of its order at the end.
    fn append(&mut self, index: u32) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        let group = place.group as usize;
        if self.orders.len() <= group {
            self.orders.resize(group + 1, Order { oldest: NONE, newest: NONE });
        }
        let order = &mut self.orders[group];
        place.older = order.newest;
        match self.places.get_mut(order.newest as usize) {
            Some(last) => last.newer = index,
            None => order.oldest = index,
        }
        order.newest = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the table is compared with: keys with their numbers and the times at which they spoke, the oldest first.
    #[derive(Default)]
    struct Model(Vec<(u8, u32, u64)>);

    /// Groups of keys.
    const GROUPS: u32 = 3;

    fn group(key: u8) -> u32 {
        u32::from(key) % 7 % GROUPS
    }

    impl Model {
        fn position(&self, key: u8) -> Option<usize> {
            self.0.iter().position(|(known, _, _)| *known == key)
        }
    }

    #[test]
    fn it_does_what_a_plain_list_does() {
        let mut random = fastrand::Rng::with_seed(61);
        for _ in 0..200 {
            let (mut table, mut model) = (Table::<u8, u8>::default(), Model::default());
            let mut now = 0;
            for _ in 0..200 {
                now += random.u64(..3);
                let key = random.u8(..24);
                match (table.find(&key), random.u8(..4)) {
                    (None, _) => {
                        assert_eq!(model.position(key), None);
                        let index = table.add((key, group(key)), now);
                        table.put(index, key);
                        model.0.push((key, index, now));
                    }
                    (Some(index), 0) => {
                        assert_eq!(table.remove(index), Some(key));
                        let at = model.position(key).unwrap();
                        model.0.remove(at);
                    }
                    (Some(index), _) => {
                        assert_eq!(table.take(index), Some(key));
                        table.touch(index, now);
                        table.put(index, key);
                        let at = model.position(key).unwrap();
                        let (_, known, _) = model.0.remove(at);
                        assert_eq!(known, index, "a key keeps its place");
                        model.0.push((key, known, now));
                    }
                }
                assert_eq!(table.len(), model.0.len());
                let of = |one, looks| {
                    let all = model.0.iter().filter(move |(key, _, _)| group(*key) == one);
                    all.take(looks).find(|(key, _, spoke)| key % 3 == 0 && now - spoke > 5)
                };
                let test = |key: &u8, silent| key.is_multiple_of(3) && silent > 5;
                for one in 0..GROUPS {
                    let wanted = of(one, LOOKED_AT).map(|(_, index, _)| *index);
                    assert_eq!(table.evictable(Some(one), now, test), wanted);
                }
                let known = (0..GROUPS).filter(|one| model.0.iter().any(|(key, _, _)| group(*key) == *one));
                let looks = LOOKED_AT / known.count().max(1);
                let offers = (0..GROUPS).filter_map(|one| of(one, looks));
                let wanted = offers.min_by_key(|(_, _, spoke)| *spoke).map(|(_, _, spoke)| *spoke);
                let found = table.evictable(None, now, test);
                let spoke = |index| model.0.iter().find(|(_, known, _)| *known == index).unwrap().2;
                assert_eq!(found.map(spoke), wanted);
            }
            let mut all = table.all();
            all.sort_unstable();
            let mut known: Vec<_> = model.0.iter().map(|(_, index, _)| *index).collect();
            known.sort_unstable();
            assert_eq!(all, known);
        }
    }

    #[test]
    fn one_that_is_worked_on_is_never_ended_for_another() {
        let mut table = Table::<u8, u8>::default();
        let (one, other) = (table.add((1, 0), 0), table.add((2, 0), 0));
        table.put(one, 1);
        table.put(other, 2);
        assert_eq!(table.take(one), Some(1));
        assert_eq!(table.evictable(None, 9, |_, _| true), Some(other));
        assert_eq!(table.take(one), None, "it is out already");
        assert_eq!(table.remove(one), None);
        table.put(one, 1);
        assert_eq!((table.len(), table.find(&1)), (1, None), "who has lost its place meanwhile is gone");
    }
}
