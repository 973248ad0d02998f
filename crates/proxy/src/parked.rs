//! Client connections between exchanges: nothing is kept of them but the socket and the peer.
//!
//! They stand in the order in which they were parked, so that the one that has been silent longest
//! can make room for a new connection.

use crate::exchange::Client;
use slab::Slab;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Place {
    client: Client,
    older: u32,
    newer: u32,
}

/// The parked connections of a worker.
#[derive(Debug)]
pub(crate) struct Parked {
    places: Slab<Place>,
    oldest: u32,
    newest: u32,
}

impl Parked {
    pub(crate) fn new() -> Self {
        Self { places: Slab::new(), oldest: NONE, newest: NONE }
    }

    /// Parks a connection as the newest and says where.
    pub(crate) fn insert(&mut self, client: Client) -> u32 {
        let index = self.places.insert(Place { client, older: self.newest, newer: NONE }) as u32;
        match self.places.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = index,
            None => self.oldest = index,
        }
        self.newest = index;
        index
    }

    /// The connection at a place, still parked.
    pub(crate) fn peek(&self, index: u32) -> Option<&Client> {
        self.places.get(index as usize).map(|place| &place.client)
    }

    /// Takes the connection at a place.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Client> {
        let Place { client, older, newer } = self.places.try_remove(index as usize)?;
        match self.places.get_mut(older as usize) {
            Some(place) => place.newer = newer,
            None => self.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(place) => place.older = older,
            None => self.newest = older,
        }
        Some(client)
    }

    /// Takes the connection that has been parked longest.
    pub(crate) fn remove_oldest(&mut self) -> Option<Client> {
        self.remove(self.oldest)
    }

    /// Connections parked now.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}
