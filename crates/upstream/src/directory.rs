//! The standings of endpoints that no configuration lists, for all workers.

use crate::endpoint_state::EndpointState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Parts of the directory, each with a lock of its own.
const SHARDS: usize = 16;

/// An endpoint that an exchange names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Aim {
    /// Where it is.
    pub address: SocketAddr,
    /// Whether it is reached through TLS.
    pub secure: bool,
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.address)
    }
}

/// The standings of endpoints in use, for all workers. A lock is taken when a worker's first attempt begins and when
/// its last one ends.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Keyed, so that nobody can choose addresses that meet in one place.
    keys: RandomState,
    shards: [Shard; SHARDS],
}

#[derive(Debug, Default)]
struct Shard(Mutex<HashMap<Aim, Weak<EndpointState>>>);

impl Directory {
    /// That of this endpoint; made where nobody uses it yet.
    pub(crate) fn find(&self, aim: Aim, make: impl FnOnce() -> EndpointState) -> Arc<EndpointState> {
        let mut shard = self.shard(aim);
        if shard.len() == shard.capacity() {
            // Some were let go of by somebody who could not say so here.
            shard.retain(|_, known| known.strong_count() > 0);
        }
        match shard.entry(aim) {
            Entry::Occupied(mut known) => known.get().upgrade().unwrap_or_else(|| {
                let standing = Arc::new(make());
                known.insert(Arc::downgrade(&standing));
                standing
            }),
            Entry::Vacant(place) => {
                let standing = Arc::new(make());
                place.insert(Arc::downgrade(&standing));
                standing
            }
        }
    }

    /// Whoever held it has let go of it.
    pub(crate) fn forget(&self, aim: Aim) {
        let mut shard = self.shard(aim);
        if shard.get(&aim).is_some_and(|known| known.strong_count() == 0) {
            shard.remove(&aim);
            if shard.len() * 4 < shard.capacity() {
                shard.shrink_to_fit();
            }
        }
    }

    /// Entries, living or not.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().unwrap().len()).sum()
    }

    fn shard(&self, aim: Aim) -> MutexGuard<'_, HashMap<Aim, Weak<EndpointState>>> {
        let shard = self.keys.hash_one(aim) as usize % SHARDS;
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
