//! Requests in flight by key, for all workers. A key takes room only while it has some.

use crate::fingerprint::Fingerprint;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Shards.
const SHARDS: usize = 64;
/// Keys of a shard at a time; another one is refused. A process has fewer requests in flight.
const KEYS: usize = 65_536;

/// A fingerprint is as good as a hash.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.rotate_left(32) ^ number;
    }
}

type Counts = HashMap<Fingerprint, u32, BuildHasherDefault<AsItIs>>;

/// How many requests of each key are in flight.
pub struct InFlight {
    shards: Box<[Mutex<Counts>]>,
}

/// The place of a request in flight; it is free when this is dropped.
pub struct InFlightPlace {
    of: Arc<InFlight>,
    key: Fingerprint,
}

impl InFlight {
    /// None.
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Takes a place among `max` of this key; `None`: all are taken.
    pub fn enter(self: &Arc<Self>, key: Fingerprint, max: u32) -> Option<InFlightPlace> {
        let mut counts = self.shard(key).lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = counts.len() >= KEYS && !counts.contains_key(&key);
        if is_full || counts.get(&key).is_some_and(|count| *count >= max) {
            return None;
        }
        *counts.entry(key).or_insert(0) += 1;
        Some(InFlightPlace { of: self.clone(), key })
    }

    /// Keys that have requests in flight.
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    fn shard(&self, key: Fingerprint) -> &Mutex<Counts> {
        &self.shards[key.0 as usize % SHARDS]
    }
}

impl Default for InFlight {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for InFlightPlace {
    fn drop(&mut self) {
        let mut counts = self.of.shard(self.key).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.key);
                // What a flood has made it grow to is given back.
                if counts.is_empty() && counts.capacity() > 1024 {
                    counts.shrink_to_fit();
                }
            }
        }
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests in flight")
    }
}

impl fmt::Debug for InFlightPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place in flight")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::fingerprint;

    #[test]
    fn places_are_taken_and_given_back_by_key() {
        let all = Arc::new(InFlight::new());
        let [one, other] = [b"1", b"2"].map(|key| fingerprint(0, key));
        let held: Vec<_> = (0..3).filter_map(|_| all.enter(one, 2)).collect();
        assert_eq!((held.len(), all.keys()), (2, 1));
        let second = all.enter(other, 1);
        assert!(second.is_some() && all.enter(other, 1).is_none() && all.keys() == 2);
        drop(held);
        assert!(all.enter(one, 1).is_some());
        drop(second);
        assert_eq!(all.keys(), 0, "keys without requests take no room");
    }

    #[test]
    fn a_panic_gives_its_place_back() {
        let all = Arc::new(InFlight::new());
        let key = fingerprint(0, b"1");
        let result = std::panic::catch_unwind(|| {
            let _place = all.enter(key, 1);
            panic!("of a test");
        });
        assert!(result.is_err() && all.enter(key, 1).is_some());
    }
}
