//! Stored responses that a document could take from others, or put in their place: cache spaces that it shares with
//! the file, or with its own routes behind a guard of the file.

use super::documents::{Bypass, added_routes, may_change};
use super::guards::{Guards, Terms, lacking};
use super::paths::changes_path;
use super::ways::{Goal, ways};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use thalweg_filter::{Chain, Step, Written};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::Route;

/// What the file keeps in a space.
#[derive(Default)]
struct Space {
    /// The services whose responses it holds.
    services: BTreeSet<Arc<str>>,
    /// The filters of requests whose responses are kept there.
    steps: BTreeSet<Written>,
}

impl Space {
    /// Whether another chain keeps the same there: responses of the same services to requests that no other filter
    /// has changed, with the text of the file.
    fn has(&self, service: Option<&Arc<str>>, chain: &Chain) -> bool {
        let is_known = |step: &Step| step.written.is_some_and(|written| self.steps.contains(&written));
        let may_be = |step: &Step| step.name() != "cache" && !may_change(step) && !changes_path(step);
        service.is_some_and(|service| self.services.contains(service))
            && chain.steps().iter().all(|step| is_known(step) || may_be(step))
    }
}

/// Adds the routes of documents that use a space of the file with another text, or for another service, and those that
/// use a space of a document without the guards of the file that other ways to it have.
pub(super) fn bypasses(alone: &Plan, with: &Plan, found: &mut Vec<Bypass>) {
    let mut known: HashMap<&str, Space> = HashMap::new();
    for (service, chain) in chains(alone, 0..alone.routes.len()).map(|(_, service, chain)| (service, chain)) {
        for rule in chain.caches() {
            let space = known.entry(&*rule.key.space).or_default();
            space.services.extend(service.cloned());
            space.steps.extend(chain.steps().iter().filter_map(|step| step.written));
        }
    }
    let mut bypass = |route: &Route, why: String| {
        found.push(Bypass { key: format!("routes.{}", route.name), why });
    };
    for (route, service, chain) in chains(with, added_routes(alone, with)) {
        for rule in chain.caches() {
            let space = &*rule.key.space;
            if known.get(space).is_some_and(|known| !known.has(service, chain)) {
                let space = space.escape_debug();
                let why = format!(
                    "the route `{}` keeps responses in the cache space `{space}` of the file; write a `key.space` of \
                     its own, or name a chain of the file",
                    route.name
                );
                bypass(route, why);
            }
        }
    }
    let of_file: Guards = ways(alone).flat_map(|way| way.guards).collect();
    let added = added_routes(alone, with);
    let mut own: BTreeMap<&str, Vec<(&Route, Guards)>> = BTreeMap::new();
    for way in ways(with).filter(|way| added.contains(&way.at)) {
        if let Goal::Space(space) = way.goal
            && !known.contains_key(space)
        {
            own.entry(space).or_default().push((way.route, way.guards));
        }
    }
    for (space, all) in own {
        let wanted: Guards =
            all.iter().flat_map(|(_, guards)| guards.intersection(&of_file)).cloned().collect();
        for (route, guards) in &all {
            if let Some(guard) = lacking(&wanted, guards, Terms::New).next() {
                let (name, space) = (&route.name, space.escape_debug());
                let why = format!(
                    "the route `{name}` has no `{guard}` of the file, and takes responses from the cache space \
                     `{space}` of a route that has it; write another `key.space`"
                );
                bypass(route, why);
            }
        }
    }
}

/// The chains of some routes, with the service that requests of each go to.
fn chains(plan: &Plan, routes: Range<usize>) -> impl Iterator<Item = (&Route, Option<&Arc<str>>, &Chain)> {
    plan.routes.get(routes).unwrap_or_default().iter().flat_map(move |route| {
        let first = route.all_services().next();
        let variants = route.filter_variants.iter().map(|variant| (variant.service, &variant.chain));
        std::iter::once((None, &route.filters)).chain(variants).map(move |(service, chain)| {
            let service = service.or(first).and_then(|id| plan.services.get(id.0 as usize));
            (route, service.map(|service| &service.name), chain)
        })
    })
}
