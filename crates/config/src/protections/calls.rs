//! Requests that the process itself sends for a document: to a registry, for keys, for a list. No filter runs before
//! them, so they may not go where the file leads only through filters.

use super::has_guards;
use super::known::KnownPlaces;
use super::places::Place;
use thalweg_proxy::Plan;
use thalweg_upstream::Address;

/// The guarded places of a file.
pub(crate) struct GuardedPlaces(Option<KnownPlaces>);

impl GuardedPlaces {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self(has_guards(plan).then(|| KnownPlaces::of(plan)))
    }

    /// The guarded place at this address, for people, unless every client may request this path of it.
    pub(crate) fn at(&self, address: &Address, path: &str) -> Option<String> {
        let known = self.0.as_ref()?.at(&Place::of(address));
        let guarded = known.into_iter().find(|(_, known)| !known.leaves_open(path));
        guarded.map(|(place, _)| place.to_string())
    }
}
