//! How many connections each client has open, for `limits.max_connections_per_client`.
//!
//! `listener/acceptors.rs` counts a connection when it is accepted and the connection's place takes it off when it
//! closes; exchanges never come here. All workers share the counts, because the kernel spreads one
//! client's connections over them. Nothing is counted where there is no bound. Bounded by the
//! connections that are open: a client without one has no entry.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of the map, each with a lock of its own.
const SHARDS: usize = 32;

/// What is one client: an IPv4 address, or the /64 of an IPv6 address, of which a single host has all.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Prefix {
    V4(u32),
    V6(u64),
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// Open connections by client.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    /// Keyed, so that nobody can choose addresses that meet in one place.
    keys: RandomState,
    shards: [CountShard; SHARDS],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct CountShard(Mutex<HashMap<Prefix, u32>>);

impl ClientCounts {
    /// Counts a connection of the client, unless it has `most` open already.
    pub(crate) fn take(&self, client: Prefix, most: u32) -> bool {
        let mut shard = self.shard(client);
        let count = shard.entry(client).or_default();
        let has_room = *count < most;
        *count += u32::from(has_room);
        if *count == 0 {
            shard.remove(&client);
        }
        has_room
    }

    /// A connection that was counted has closed.
    pub(crate) fn give_back(&self, client: Prefix) {
        let mut shard = self.shard(client);
        match shard.get_mut(&client) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => drop(shard.remove(&client)),
            None => debug_assert!(false, "a connection that was not counted is taken off"),
        }
    }

    fn shard(&self, client: Prefix) -> MutexGuard<'_, HashMap<Prefix, u32>> {
        let shard = &self.shards[self.keys.hash_one(client) as usize % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn entries(counts: &ClientCounts) -> usize {
        counts.shards.iter().map(|shard| shard.0.lock().unwrap().len()).sum()
    }

    #[test]
    fn a_client_has_as_many_as_it_may_and_a_closed_one_makes_room() {
        let (counts, one, other) = (ClientCounts::default(), prefix("192.0.2.1"), prefix("192.0.2.2"));
        assert!(counts.take(one, 2) && counts.take(one, 2));
        assert!(!counts.take(one, 2));
        assert!(counts.take(other, 2), "another client has its own count");
        counts.give_back(one);
        assert!(counts.take(one, 2));
        assert!(!counts.take(one, 2));
    }

    #[test]
    fn a_client_without_connections_leaves_nothing_behind() {
        let counts = ClientCounts::default();
        for host in 0..1000_u32 {
            let client = Prefix::V4(host);
            assert!(counts.take(client, 1) && !counts.take(client, 1));
            counts.give_back(client);
            assert!(!counts.take(client, 0));
        }
        assert_eq!(entries(&counts), 0);
    }

    #[test]
    fn ipv6_is_counted_by_its_64() {
        assert_eq!(prefix("2001:db8:0:1::1"), prefix("2001:db8:0:1:ffff::2"));
        assert_ne!(prefix("2001:db8:0:1::1"), prefix("2001:db8:0:2::1"));
        assert_eq!(prefix("::ffff:192.0.2.7"), prefix("192.0.2.7"));
        assert_ne!(prefix("192.0.2.7"), prefix("192.0.2.8"));
    }
}
