//! Pairs of services that must stay apart: endpoints that sources find later may not lead a document, or a change by
//! API (`changed`), past a guard.

use super::documents::{Flaw, added_routes};
use super::has_guards;
use super::known::{Known, KnownPlaces};
use super::ways::{Goal, ways};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use thalweg_proxy::Plan;
use thalweg_upstream::Address;

/// Services that documents or changes by API reach without the guards on the ways to other services. Endpoints that
/// sources find later are compared with it: an endpoint of a guarded service may not become an endpoint of such an
/// open service. Services are numbered by their positions in the plan with the documents.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// Guarded services, with the kinds of guards on the ways to them, as numbers.
    pub(super) guarded: HashMap<usize, Vec<usize>>,
    /// Endpoints of guarded services that the plan has no more, with the kind and the service's name.
    pub(super) gone: Vec<(usize, Address, Arc<str>)>,
    /// Services that are reached without a guard, with the missing kinds and the reasons.
    pub(super) open: BTreeMap<usize, Vec<(usize, String)>>,
    /// The open services that documents lead to.
    pub(super) of_documents: BTreeSet<usize>,
}

impl Apart {
    /// Compares a plan with documents with that of the file `alone`.
    pub(crate) fn of(alone: &Plan, with: &Plan) -> Self {
        let mut apart = Self::default();
        if !has_guards(alone) {
            return apart;
        }
        let known = KnownPlaces::of(alone);
        let mut kinds: Vec<&Known> = Vec::new();
        for (at, service) in with.services.iter().enumerate() {
            let Some(of) = known.service(&service.name).filter(|known| known.is_guarded()) else { continue };
            let kind = kinds.iter().position(|known| *known == of);
            apart.guarded.insert(at, vec![kind.unwrap_or(kinds.len())]);
            kinds.extend(kind.is_none().then_some(of));
        }
        if kinds.is_empty() {
            return apart;
        }
        let positions: HashMap<&str, usize> =
            with.services.iter().enumerate().map(|(at, service)| (&*service.name, at)).collect();
        let added = added_routes(alone, with);
        for way in ways(with).filter(|way| added.contains(&way.at)) {
            let Goal::Service(service) = way.goal else { continue };
            let Some(at) = positions.get(&*service.name) else { continue };
            for (kind, known) in kinds.iter().enumerate() {
                let is_noted = |all: &Vec<(usize, String)>| all.iter().any(|(known, _)| *known == kind);
                if apart.open.get(at).is_some_and(is_noted) {
                    continue;
                }
                if let Some(flaw) = Flaw::of(&way, known) {
                    apart.open.entry(*at).or_default().push((kind, flaw.of_route(&way.route.name)));
                }
            }
        }
        // Health checks are requests, too.
        let of_file: HashSet<&str> = alone.services.iter().map(|service| &*service.name).collect();
        let checked = with.services.iter().enumerate().filter(|(_, service)| service.health.is_some());
        for (at, service) in checked.filter(|(_, service)| !of_file.contains(&*service.name)) {
            let open = apart.open.entry(at).or_default();
            for (kind, _) in kinds.iter().enumerate().filter(|(_, known)| !known.is_free()) {
                if open.iter().all(|(known, _)| *known != kind) {
                    open.push((
                        kind,
                        format!("nothing stands before health checks of the service `{}`", service.name),
                    ));
                }
            }
        }
        apart.open.retain(|_, kinds| !kinds.is_empty());
        apart.of_documents = apart.open.keys().copied().collect();
        apart
    }

    /// The services that are reached without a guard.
    pub fn open(&self) -> impl Iterator<Item = usize> {
        self.open.keys().copied()
    }

    /// Whether a document leads to the service at `open`.
    pub fn is_of_document(&self, open: usize) -> bool {
        self.of_documents.contains(&open)
    }

    /// The open services that must stay apart from one of the `changed` services.
    pub fn open_beside(&self, changed: &[usize]) -> Vec<usize> {
        let kinds: HashSet<usize> =
            changed.iter().filter_map(|at| self.guarded.get(at)).flatten().copied().collect();
        if kinds.is_empty() {
            return Vec::new();
        }
        let lacks = |lacking: &[(usize, String)]| lacking.iter().any(|(kind, _)| kinds.contains(kind));
        self.open.iter().filter(|(_, lacking)| lacks(lacking)).map(|(at, _)| *at).collect()
    }

    /// The services whose endpoints may not be those of the service at `open`, and why.
    pub fn kept_from(&self, open: usize) -> impl Iterator<Item = (usize, &str)> {
        self.open.get(&open).into_iter().flatten().flat_map(move |(kind, why)| {
            self.guarded
                .iter()
                .filter(move |(_, known)| known.contains(kind))
                .map(move |(at, _)| (*at, &**why))
        })
    }

    /// The endpoints of services that are gone which the service at `open` may not have, with the names of these
    /// services, and why.
    pub fn kept_from_gone(&self, open: usize) -> impl Iterator<Item = (&Address, &Arc<str>, &str)> {
        self.open.get(&open).into_iter().flatten().flat_map(move |(kind, why)| {
            let of_kind = self.gone.iter().filter(move |(known, ..)| known == kind);
            of_kind.map(move |(_, address, service)| (address, service, &**why))
        })
    }
}
