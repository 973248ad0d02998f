//! Endpoints that the admin API adds to services of a plan: the guards that a way to such an endpoint lacks.
//!
//! Called when an endpoint arrives, and each time a plan takes over: a later plan may lead to a service that no way
//! led to when the endpoint arrived.

use super::checks;
use super::known::KnownPlaces;
use super::places::Place;
use super::ways::{Goal, ways};
use super::{Led, LostProtection, has_guards, way_lacks};
use std::collections::{BTreeSet, HashMap, HashSet};
use thalweg_proxy::Plan;
use thalweg_upstream::{Address, Service};

/// The protections of `before` that a service of `with` loses with an added endpoint, for each pair of a service's
/// position and an address. The endpoints that a service has in `with` are exempt.
pub fn lost_by_added(before: &Plan, with: &Plan, added: &[(usize, &Address)]) -> Vec<Vec<LostProtection>> {
    let mut lost: Vec<BTreeSet<LostProtection>> = vec![BTreeSet::new(); added.len()];
    let mut by_service: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, (at, address)) in added.iter().enumerate() {
        let service = with.services.get(*at);
        let has = |service: &Service| service.endpoints.iter().any(|known| known.address == **address);
        if let Some(service) = service.filter(|service| !has(service)) {
            by_service.entry(&*service.name).or_default().push(number);
        }
    }
    if by_service.is_empty() || !has_guards(before) {
        return lost.into_iter().map(Vec::from_iter).collect();
    }
    let known = KnownPlaces::of(before);
    let led = Led::of((before, with), &known);
    for way in ways(with) {
        let Goal::Service(service) = way.goal else { continue };
        for number in by_service.get(&*service.name).into_iter().flatten() {
            for (place, of) in known.at(&Place::of(added[*number].1)) {
                way_lacks((of, &led), (&way, place), &HashSet::new(), &mut lost[*number]);
            }
        }
    }
    for number in by_service.values().flatten() {
        let (at, address) = added[*number];
        let service = with.services.get(at);
        let by_check = service.and_then(|service| checks::lost_by_added((before, &known), service, address));
        lost[*number].extend(by_check);
    }
    lost.into_iter().map(Vec::from_iter).collect()
}
