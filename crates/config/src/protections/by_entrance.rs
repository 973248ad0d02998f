//! The ways to one place by what their listeners ask of clients, and what another way's listeners do not ask.

use super::guards::{Guard, Guards, lacking_entrance};
use super::paths::Paths;
use super::ways::Way;
use std::collections::BTreeMap;

/// The paths of requests, by the guards of the listeners through which they come.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ByEntrance(BTreeMap<Guards, Paths>);

impl ByEntrance {
    pub(super) fn add(&mut self, way: &Way<'_>) {
        let paths = self.0.entry(way.entrance.clone()).or_default();
        // Paths that a filter changes are not known.
        Paths::of(way).into_iter().for_each(|own| paths.add(own));
    }

    /// The union of both.
    pub(super) fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (entrance, paths) in &other.0 {
            both.0.entry(entrance.clone()).or_default().add(paths.clone());
        }
        both
    }

    /// Whether a listener asks something.
    pub(super) fn is_guarded(&self) -> bool {
        self.0.keys().any(|entrance| !entrance.is_empty())
    }

    /// What one of the listeners asks.
    pub(super) fn first_guard(&self) -> Option<&Guard> {
        self.0.keys().flatten().next()
    }

    /// The guards of the closest listener that another one lacks. `is_known`: it leads to the place already.
    pub(super) fn lacked_by(&self, own: &Guards, is_known: bool) -> Vec<Guard> {
        let lacks = self.0.keys().map(|wanted| lacking_entrance(wanted, own, is_known).cloned());
        lacks.map(Vec::from_iter).min_by_key(Vec::len).unwrap_or_default()
    }

    /// A guard that the listeners of a document's way lack. They must ask what all listeners of the file ask, unless
    /// the file leads all of these paths there through listeners that ask no more.
    pub(super) fn lacked_by_document(&self, own: &Guards, paths: &Paths) -> Option<Guard> {
        let mut covered = Paths::default();
        let mut lacked = None;
        for (wanted, known) in &self.0 {
            match lacking_entrance(wanted, own, false).next() {
                Some(guard) => lacked = lacked.or_else(|| Some(guard.clone())),
                None => covered.add(known.clone()),
            }
        }
        lacked.filter(|_| !covered.cover(paths))
    }
}
