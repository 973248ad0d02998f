//! What was found out lately, by the digest of what it was found out about: verified tokens, opened sessions, answers
//! of other services.
//!
//! Invariant: no more than a fixed number of entries. Two generations: new entries go to the young one; when that is
//! full, it becomes the old one, whose entries are forgotten unless they are asked for again. Nothing is searched for a
//! victim, and strangers who fill it push out only what nobody asks for.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// SHA-256 of something.
pub type Digest = [u8; 32];

/// The digest of these parts, each with its length before it.
pub fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

/// Locks, so that workers seldom wait for each other.
const SHARDS: usize = 16;

/// Entries that are shared by all workers.
pub struct Recent<T> {
    shards: [Mutex<Generations<T>>; SHARDS],
    /// Entries of one generation of one shard.
    share: usize,
}

struct Generations<T> {
    young: HashMap<Digest, T>,
    old: HashMap<Digest, T>,
}

impl<T: Clone> Recent<T> {
    /// At most about `entries`.
    pub fn new(entries: usize) -> Self {
        let empty = |_| Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() });
        Self { shards: std::array::from_fn(empty), share: (entries / SHARDS / 2).max(1) }
    }

    fn with<R>(&self, key: &Digest, act: impl FnOnce(&mut Generations<T>) -> R) -> R {
        let shard = &self.shards[usize::from(key[0]) % SHARDS];
        act(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is known.
    pub fn get(&self, key: &Digest) -> Option<T> {
        self.with(key, |generations| {
            if let Some(known) = generations.young.get(key) {
                return Some(known.clone());
            }
            let known = generations.old.remove(key)?;
            generations.put(*key, known.clone(), self.share);
            Some(known)
        })
    }

    /// It is known from now on.
    pub fn put(&self, key: Digest, value: T) {
        self.with(&key, |generations| {
            generations.old.remove(&key);
            generations.put(key, value, self.share);
        });
    }

    /// It is known no more.
    pub fn forget(&self, key: &Digest) {
        self.with(key, |generations| {
            generations.young.remove(key);
            generations.old.remove(key);
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let count = |shard: &Mutex<Generations<T>>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.young.len() + shard.old.len()
        };
        self.shards.iter().map(count).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Generations<T> {
    fn put(&mut self, key: Digest, value: T, share: usize) {
        if self.young.len() >= share && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

impl<T: Clone> fmt::Debug for Recent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("recent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_bounded() {
        let recent = Recent::new(1024);
        let favourite = digest(&[b"favourite"]);
        recent.put(favourite, 0);
        for number in 1..100_000_u32 {
            recent.put(digest(&[&number.to_be_bytes()]), number);
            assert_eq!(recent.get(&favourite), Some(0), "{number}");
        }
        assert!(recent.len() <= 1024 + SHARDS, "{}", recent.len());
        recent.forget(&favourite);
        assert_eq!(recent.get(&favourite), None);
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    }
}
