//! What has been spent by key, for all workers: of fixed size, exact, and fair when it is full.
//!
//! Shards, each with a mutex that is held for the look at two sets of 16 places, in which a key may be. When both are
//! full, a new key takes the place of one whose allowance is whole again; else of the one that is nearest to that and
//! is not limited. Keys that are limited keep their places: a flood of new keys frees none of them. Where all 32 are
//! limited, new keys share one allowance of the shard until one is free.
//!
//! A table has twice as many places as keys are expected, so that sets fill evenly: 64 bytes for each expected key,
//! which the kernel gives as they are used.

use crate::fingerprint::Fingerprint;
use crate::gcra::{Cost, Decision, Rate};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Places of a set.
const WAYS: usize = 16;
/// Shards of a large table.
const SHARDS: usize = 64;
/// Expected keys for which a shard of its own pays.
const KEYS_OF_SHARD: usize = 256;

/// Fingerprint, arrival time, and the time from which a unit is there again. An arrival time of 0 is a free place.
type Place = [u64; 4];

const ARRIVAL: usize = 2;
const FREE_AT: usize = 3;

/// What keys have spent.
pub struct KeyTable {
    shards: Box<[Mutex<Shard>]>,
    keys: usize,
    sets: usize,
}

struct Shard {
    places: Vec<Place>,
    /// What new keys share while their sets are full of limited ones.
    shared: Place,
}

impl KeyTable {
    /// For about this many keys at a time.
    pub fn new(keys: usize) -> Self {
        let keys = keys.max(1);
        let shards = (keys / KEYS_OF_SHARD).clamp(1, SHARDS).next_power_of_two();
        let sets = (keys * 2).div_ceil(shards * WAYS).max(1);
        // Of zeros: the kernel gives pages when they are written.
        let shard = |_| Mutex::new(Shard { places: vec![[0; 4]; sets * WAYS], shared: [0; 4] });
        Self { shards: (0..shards).map(shard).collect(), keys, sets }
    }

    /// About how many keys it is for.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Its size in bytes when every place is used.
    pub fn bytes(&self) -> usize {
        self.shards.len() * self.sets * WAYS * size_of::<Place>()
    }

    /// Decides about a request of this key. `now` is nanoseconds since any moment, above 0.
    pub fn decide(&self, key: Fingerprint, rate: &Rate, (now, cost): (u64, Cost)) -> Decision {
        self.at(key, now, |place| {
            let (arrival, decision) = rate.decide(place[ARRIVAL], now, cost);
            place[ARRIVAL] = arrival;
            place[FREE_AT] = rate.free_at(arrival);
            decision
        })
    }

    /// Spends more for a request that was admitted; it may become a debt.
    pub fn charge(&self, key: Fingerprint, rate: &Rate, (now, units): (u64, u64)) {
        self.at(key, now, |place| {
            place[ARRIVAL] = rate.charge(place[ARRIVAL], now, units);
            place[FREE_AT] = rate.free_at(place[ARRIVAL]);
        });
    }

    /// Gives back what a request has spent that another limit has refused.
    pub fn give_back(&self, key: Fingerprint, rate: &Rate, (now, units): (u64, u64)) {
        self.at(key, now, |place| {
            place[ARRIVAL] = rate.give_back(place[ARRIVAL], units).max(1);
            place[FREE_AT] = rate.free_at(place[ARRIVAL]);
        });
    }

    /// Remembers that a key has to wait until this time.
    pub fn block(&self, key: Fingerprint, (now, until): (u64, u64)) {
        self.at(key, now, |place| {
            place[ARRIVAL] = until.max(place[ARRIVAL]);
            place[FREE_AT] = place[ARRIVAL];
        });
    }

    /// How long a key has to wait that was blocked, in nanoseconds.
    pub fn blocked_for(&self, key: Fingerprint, now: u64) -> Option<u64> {
        let (shard, sets) = self.place_of(key);
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let place = shard.places[shard.find(key, sets)?];
        place[FREE_AT].checked_sub(now).filter(|wait| *wait > 0)
    }

    /// A table of another size with what is in this one.
    pub fn resized(&self, keys: usize, now: u64) -> Self {
        let other = Self::new(keys);
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for known in shard.places.iter().filter(|place| place[ARRIVAL] > now) {
                other.at(Fingerprint(known[0], known[1]), now, |place| {
                    place[ARRIVAL] = known[ARRIVAL].max(place[ARRIVAL]);
                    place[FREE_AT] = known[FREE_AT].max(place[FREE_AT]);
                });
            }
        }
        other
    }

    /// The shard of a key, and where its two sets begin.
    fn place_of(&self, key: Fingerprint) -> (&Mutex<Shard>, [usize; 2]) {
        let shard = key.0 as usize & (self.shards.len() - 1);
        let set = |part: u64| ((u128::from(part) * self.sets as u128) >> 64) as usize * WAYS;
        (&self.shards[shard], [set(key.1), set(key.1.rotate_left(32) ^ key.0)])
    }

    fn at<T>(&self, key: Fingerprint, now: u64, change: impl FnOnce(&mut Place) -> T) -> T {
        let (shard, sets) = self.place_of(key);
        // Nothing in here panics half-way: what a poisoned shard has is whole.
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let found = shard.find(key, sets).or_else(|| {
            let at = shard.take(sets, now)?;
            shard.places[at] = [key.0, key.1, 0, 0];
            Some(at)
        });
        match found {
            Some(at) => change(&mut shard.places[at]),
            None => change(&mut shard.shared),
        }
    }
}

impl Shard {
    /// The place of a key.
    fn find(&self, key: Fingerprint, sets: [usize; 2]) -> Option<usize> {
        let in_set = |set: usize| {
            let is_it = |place: &Place| place[0] == key.0 && place[1] == key.1;
            self.places[set..set + WAYS].iter().position(is_it).map(|at| set + at)
        };
        sets.into_iter().find_map(in_set)
    }

    /// The place that a new key takes: one that is free, or else the one of which least is lost. `None`: all keys are
    /// limited.
    fn take(&self, sets: [usize; 2], now: u64) -> Option<usize> {
        let all = sets.into_iter().flat_map(|set| set..set + WAYS);
        let may_go = |at: &usize| self.places[*at][ARRIVAL] <= now || self.places[*at][FREE_AT] <= now;
        all.filter(may_go).min_by_key(|at| self.places[*at][ARRIVAL])
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a table for {} keys", self.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::fingerprint;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    fn rate(units: u64, seconds: u64, burst: u64) -> Rate {
        Rate::new(units, Duration::from_secs(seconds), burst).unwrap()
    }

    fn key(number: u64) -> Fingerprint {
        fingerprint(0, &number.to_le_bytes())
    }

    fn admits(table: &KeyTable, number: u64, rate: &Rate, now: u64) -> bool {
        table.decide(key(number), rate, (now, Cost::Whole(1))).admits()
    }

    #[test]
    fn keys_are_counted_apart() {
        let (table, two) = (KeyTable::new(1000), rate(2, 60, 2));
        for number in 0..1000 {
            let admitted = (0..5).filter(|_| admits(&table, number, &two, SECOND)).count();
            assert_eq!(admitted, 2, "{number}");
        }
        assert!((0..1000).all(|number| !admits(&table, number, &two, SECOND)));
        assert!((0..1000).all(|number| admits(&table, number, &two, 60 * SECOND)));
    }

    #[test]
    fn a_million_keys_take_no_more_room_and_free_none_that_is_limited() {
        let (table, hourly) = (KeyTable::new(10_000), rate(10, 3600, 10));
        assert!(table.bytes() < 10_000 * 80, "{}", table.bytes());
        for number in 0..1000 {
            (0..10).for_each(|_| assert!(admits(&table, number, &hourly, SECOND)));
        }
        for number in 1000..1_001_000 {
            admits(&table, number, &hourly, SECOND + number);
        }
        let freed = (0..1000).filter(|number| admits(&table, *number, &hourly, 2 * SECOND)).count();
        assert_eq!(freed, 0);
    }

    #[test]
    fn keys_that_have_used_more_outlive_those_that_have_used_less() {
        let (table, hourly) = (KeyTable::new(1000), rate(10, 3600, 10));
        for number in 0..100 {
            (0..9).for_each(|_| assert!(admits(&table, number, &hourly, SECOND)));
        }
        (100..100_000).for_each(|number| assert!(admits(&table, number, &hourly, SECOND + number)));
        for number in 0..100 {
            let more = (0..10).filter(|_| admits(&table, number, &hourly, 2 * SECOND)).count();
            assert_eq!(more, 1, "{number}");
        }
    }

    #[test]
    fn new_keys_share_an_allowance_while_all_places_are_limited() {
        let (table, hourly) = (KeyTable::new(8), rate(1, 3600, 1));
        let admitted = (0..1000).filter(|number| admits(&table, *number, &hourly, SECOND)).count();
        assert_eq!(admitted, WAYS + 1, "every place (here both sets are the same one), and what is shared");
        // An hour later there is room again.
        assert!(admits(&table, 5000, &hourly, SECOND * 3602));
    }

    #[test]
    fn threads_spend_no_more_than_there_is() {
        let (table, hourly) = (KeyTable::new(100), rate(1000, 3600, 1000));
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let own = (0..1000).filter(|_| admits(&table, 7, &hourly, SECOND)).count();
                    admitted.fetch_add(own as u64, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1000);
    }

    #[test]
    fn a_table_of_another_size_goes_on() {
        let (table, hourly) = (KeyTable::new(100), rate(1, 3600, 1));
        assert!(admits(&table, 7, &hourly, SECOND));
        let larger = table.resized(10_000, SECOND);
        assert!(!admits(&larger, 7, &hourly, SECOND) && admits(&larger, 8, &hourly, SECOND));
    }

    #[test]
    fn what_is_given_back_can_be_spent_again() {
        let (table, one) = (KeyTable::new(10), rate(1, 60, 1));
        assert!(admits(&table, 1, &one, SECOND) && !admits(&table, 1, &one, SECOND));
        table.give_back(key(1), &one, (SECOND, 1));
        assert!(admits(&table, 1, &one, SECOND));
        table.charge(key(1), &one, (SECOND, 1));
        assert!(!admits(&table, 1, &one, 61 * SECOND) && admits(&table, 1, &one, 121 * SECOND));
    }

    #[test]
    fn keys_are_blocked_for_their_time() {
        let table = KeyTable::new(10);
        assert_eq!(table.blocked_for(key(1), SECOND), None);
        table.block(key(1), (SECOND, 3 * SECOND));
        table.block(key(1), (SECOND, 2 * SECOND));
        assert_eq!(table.blocked_for(key(1), SECOND), Some(2 * SECOND));
        assert_eq!(table.blocked_for(key(1), 3 * SECOND), None);
        assert_eq!(table.blocked_for(key(2), SECOND), None);
    }

    /// Figures for decision 0076; `cargo test --release -p thalweg-access -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    fn what_a_decision_costs() {
        for (keys, threads) in [(1_u64, 1), (100_000, 1), (1, 2), (100_000, 2)] {
            let (table, fast) = (KeyTable::new(100_000), rate(1_000_000, 1, 1_000_000));
            let begin = std::time::Instant::now();
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (table, fast) = (&table, &fast);
                    scope.spawn(move || {
                        for at in 0..2_000_000_u64 {
                            let number = (at * 7919 + thread) % keys;
                            std::hint::black_box(admits(table, number, fast, SECOND + at * 1000));
                        }
                    });
                }
            });
            let each = begin.elapsed().as_nanos() / 2_000_000;
            println!("{keys} keys, {threads} threads: {each} ns for hash and decision");
        }
    }
}
