//! Services that a change by API has brought or changed, and the guarded services that they must stay apart from.
//!
//! The change itself is compared when it arrives (`lost`). Sources find endpoints later: an endpoint behind a guard of
//! the operator's configuration may not become one of a service that is reached without that guard.

use super::apart::Apart;
use super::guards::Terms;
use super::has_guards;
use super::known::{Known, KnownPlaces};
use super::ways::{Goal, ways};
use std::collections::HashMap;
use thalweg_proxy::Plan;

impl Apart {
    /// Compares a plan that was changed by API with the operator's plan `before`. Services for which `is_changed` is
    /// true, by name, and those that no way of the operator leads to, need the guards of the operator's ways to an
    /// endpoint before they may have it. Other services have what the operator has given them.
    pub fn of_change(before: &Plan, with: &Plan, is_changed: &dyn Fn(&str) -> bool) -> Self {
        let mut apart = Self::default();
        if !has_guards(before) {
            return apart;
        }
        let known = KnownPlaces::of(before);
        let positions: HashMap<&str, usize> =
            with.services.iter().enumerate().map(|(at, service)| (&*service.name, at)).collect();
        let mut kinds: Vec<&Known> = Vec::new();
        for service in &before.services {
            let Some(of) = known.service(&service.name).filter(|known| known.is_guarded()) else { continue };
            let kind = kinds.iter().position(|known| *known == of).unwrap_or(kinds.len());
            kinds.extend((kind == kinds.len()).then_some(of));
            match positions.get(&*service.name) {
                Some(at) => apart.guarded.entry(*at).or_default().push(kind),
                None => {
                    let addresses = service.endpoints.iter().map(|endpoint| endpoint.address.clone());
                    apart.gone.extend(addresses.map(|address| (kind, address, service.name.clone())));
                }
            }
        }
        let has_way = |name: &str| known.service(name).is_some();
        for way in ways(with) {
            let Goal::Service(service) = way.goal else { continue };
            let Some(at) = positions.get(&*service.name) else { continue };
            if !is_changed(&service.name) && has_way(&service.name) {
                continue;
            }
            for (kind, known) in kinds.iter().enumerate() {
                let Some(guard) = known.lacked_by(&way, Terms::New).into_iter().next() else { continue };
                let open = apart.open.entry(*at).or_default();
                if open.iter().all(|(noted, _)| *noted != kind) {
                    open.push((
                        kind,
                        format!("the route `{}` has no `{guard}` of the operator", way.route.name),
                    ));
                }
            }
        }
        apart
    }

    /// Adds the pairs of another comparison of the same plan.
    pub fn join(&mut self, other: Self) {
        let kinds = |apart: &Self| {
            let guarded = apart.guarded.values().flatten().chain(apart.gone.iter().map(|(kind, ..)| kind));
            guarded.max().map_or(0, |last| last + 1)
        };
        let first = kinds(self);
        for (at, of) in other.guarded {
            self.guarded.entry(at).or_default().extend(of.into_iter().map(|kind| first + kind));
        }
        self.gone.extend(other.gone.into_iter().map(|(kind, address, name)| (first + kind, address, name)));
        for (at, of) in other.open {
            self.open.entry(at).or_default().extend(of.into_iter().map(|(kind, why)| (first + kind, why)));
        }
        self.of_documents.extend(other.of_documents);
    }
}
