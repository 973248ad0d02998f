//! Finds a service of the configuration by an opened label.

use std::collections::HashMap;
use std::fmt;

use crate::destination::{ServiceDigest, To};
use crate::keyring::Opened;

/// Services by the digests of their names, under every key of a [`Keyring`](crate::Keyring), which makes this.
///
/// A lookup costs one hash, however many services there are. Digests that reach it were sealed by the holder of a
/// key, so its time need not be constant.
#[derive(Default)]
pub struct Services(HashMap<(u8, ServiceDigest), usize>);

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Services({})", self.0.len())
    }
}

impl Services {
    /// The place of the service in the list that was given. None when the label names an address or no service of
    /// the list.
    pub fn find(&self, opened: &Opened) -> Option<usize> {
        match opened.destination().to {
            To::Service(digest) => self.0.get(&(opened.key(), digest)).copied(),
            To::Address(_) => None,
        }
    }

    pub(crate) fn insert(&mut self, key: u8, digest: ServiceDigest, place: usize) {
        self.0.entry((key, digest)).or_insert(place);
    }
}
