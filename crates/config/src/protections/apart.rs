//! Pairs of services that must stay apart: endpoints that sources find later may not lead a document past a guard.

use super::documents::{Flaw, added_routes};
use super::has_guards;
use super::known::{Known, KnownPlaces};
use super::ways::{Goal, ways};
use std::collections::{BTreeMap, HashMap, HashSet};
use thalweg_proxy::Plan;

/// Services that documents reach without the guards that the file has on its ways to other services. Endpoints that
/// sources find later are compared with it: an endpoint of a guarded service may not become an endpoint of such an
/// open service. Services are numbered by their positions in the plan with the documents.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// Services of the file, with the kind of guards on the ways to them, as a number.
    guarded: HashMap<usize, usize>,
    /// Services that documents lead to, with the missing kinds and the reasons.
    open: BTreeMap<usize, Vec<(usize, String)>>,
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
            apart.guarded.insert(at, kind.unwrap_or(kinds.len()));
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
        apart
    }

    /// The services that documents reach without a guard of the file.
    pub fn open(&self) -> impl Iterator<Item = usize> {
        self.open.keys().copied()
    }

    /// The open services that must stay apart from one of the `changed` services.
    pub fn open_beside(&self, changed: &[usize]) -> Vec<usize> {
        let kinds: HashSet<usize> = changed.iter().filter_map(|at| self.guarded.get(at).copied()).collect();
        if kinds.is_empty() {
            return Vec::new();
        }
        let lacks = |lacking: &[(usize, String)]| lacking.iter().any(|(kind, _)| kinds.contains(kind));
        self.open.iter().filter(|(_, lacking)| lacks(lacking)).map(|(at, _)| *at).collect()
    }

    /// The services of the file whose endpoints may not be those of the service at `open`, and why.
    pub fn kept_from(&self, open: usize) -> impl Iterator<Item = (usize, &str)> {
        self.open.get(&open).into_iter().flatten().flat_map(move |(kind, why)| {
            self.guarded.iter().filter(move |(_, known)| *known == kind).map(move |(at, _)| (*at, &**why))
        })
    }
}
