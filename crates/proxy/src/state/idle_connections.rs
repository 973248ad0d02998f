//! Client connections between exchanges: nothing is kept of them but the socket and the peer.
//!
//! They stand in two queues, in the order in which they were idle connections: those that have been served,
//! and fresh ones whose first request has not come. When every place is taken, the connection that
//! has been silent longest makes room for a new one: first a served one; a fresh one only when it
//! has had a second to speak. One that has spoken, and only waits for its turn, is never sent away.

use crate::state::exchange::Client;
use crate::state::listener_sockets::ListenerId;
use slab::Slab;
use thalweg_net::prefetch;

const NONE: u32 = u32::MAX;
/// Time in which a fresh connection may begin to speak before it can be sent away, in milliseconds.
const FRESH_MS: u64 = 1000;
/// Connections looked at, from the oldest on, to find one to send away.
const LOOKED_AT: usize = 16;

#[derive(Debug)]
struct Place {
    client: Client,
    older: u32,
    newer: u32,
    /// When it was idle connections, in milliseconds of the worker's clock.
    since: u64,
}

impl Place {
    /// Whether it has been idle connections for as long as a fresh connection may be silent.
    fn has_had_time(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since) >= FRESH_MS
    }
}

/// The ends of a queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    oldest: u32,
    newest: u32,
}

/// The idle connections connections of a worker.
#[derive(Debug)]
pub(crate) struct IdleConnections {
    places: Slab<Place>,
    served: Queue,
    fresh: Queue,
    /// Those in the second queue.
    fresh_len: usize,
}

impl IdleConnections {
    pub(crate) fn new() -> Self {
        let empty = Queue { oldest: NONE, newest: NONE };
        Self { places: Slab::new(), served: empty, fresh: empty, fresh_len: 0 }
    }

    /// Parks a connection as the newest and says where.
    pub(crate) fn insert(&mut self, client: Client, now_ms: u64) -> u32 {
        let Self { places, served, fresh, fresh_len } = self;
        *fresh_len += usize::from(client.requests == 0);
        let queue = if client.requests == 0 { fresh } else { served };
        let place = Place { client, older: queue.newest, newer: NONE, since: now_ms };
        let index = places.insert(place) as u32;
        match places.get_mut(queue.newest as usize) {
            Some(newest) => newest.newer = index,
            None => queue.oldest = index,
        }
        queue.newest = index;
        index
    }

    /// The connection at a place, still idle connections.
    pub(crate) fn peek(&self, index: u32) -> Option<&Client> {
        self.places.get(index as usize).map(|place| &place.client)
    }

    /// Asks for the memory of a place that is taken soon.
    pub(crate) fn expect_soon(&self, index: u32) {
        self.places.get(index as usize).inspect(|place| prefetch(*place));
    }

    /// Asks for the memory of the neighbours of a place that is taken next.
    pub(crate) fn expect_next(&self, index: u32) {
        if let Some(place) = self.places.get(index as usize) {
            self.expect_soon(place.older);
            self.expect_soon(place.newer);
        }
    }

    /// Takes the connection at a place.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Client> {
        let Self { places, served, fresh, fresh_len } = self;
        let Place { client, older, newer, .. } = places.try_remove(index as usize)?;
        *fresh_len -= usize::from(client.requests == 0);
        let queue = if client.requests == 0 { fresh } else { served };
        match places.get_mut(older as usize) {
            Some(place) => place.newer = newer,
            None => queue.oldest = newer,
        }
        match places.get_mut(newer as usize) {
            Some(place) => place.older = older,
            None => queue.newest = older,
        }
        Some(client)
    }

    /// The place of the connection that can best be sent away, of any listener or of one, if there is one.
    pub(crate) fn evictable(&self, now_ms: u64, listener: Option<ListenerId>) -> Option<u32> {
        let of_listener =
            |place: &Place| listener.is_none_or(|wanted| place.client.listener().state.id == wanted);
        let old = |place: &Place| place.has_had_time(now_ms);
        let served = self.silent(self.served, of_listener);
        served.or_else(|| self.silent(self.fresh, |place| of_listener(place) && old(place)))
    }

    /// The place of the fresh connection that has been silent longest, and long enough, if there is one.
    pub(crate) fn never_spoke(&self, now_ms: u64) -> Option<u32> {
        self.silent(self.fresh, |place| place.has_had_time(now_ms))
    }

    /// The place of the served connection that has been silent longest, if there is one.
    pub(crate) fn idle(&self) -> Option<u32> {
        self.silent(self.served, |_| true)
    }

    /// Takes the oldest of the served connections.
    pub(crate) fn remove_served(&mut self) -> Option<Client> {
        self.remove(self.served.oldest)
    }

    /// The places of the fresh connections.
    pub(crate) fn fresh_places(&self) -> Vec<u32> {
        let mut places = Vec::new();
        let mut index = self.fresh.oldest;
        while let Some(place) = self.places.get(index as usize) {
            places.push(index);
            index = place.newer;
        }
        places
    }

    /// The places of a listener's connections.
    pub(crate) fn places_of(&self, listener: ListenerId) -> Vec<u32> {
        let of_listener = |place: &Place| place.client.listener().state.id == listener;
        let places = self.places.iter().filter(|(_, place)| of_listener(place));
        places.map(|(index, _)| index as u32).collect()
    }

    /// Connections idle connections now.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Those of them that have not spoken yet.
    pub(crate) fn fresh(&self) -> usize {
        self.fresh_len
    }

    /// The oldest of a queue that has not spoken and passes the test; only so many are looked at.
    fn silent(&self, queue: Queue, test: impl Fn(&Place) -> bool) -> Option<u32> {
        let mut index = queue.oldest;
        for _ in 0..LOOKED_AT {
            let place = self.places.get(index as usize)?;
            if !place.client.socket.is_readable() && test(place) {
                return Some(index);
            }
            index = place.newer;
        }
        None
    }
}
