//! Compares two configurations and reports lost protections: filters that refuse unknown clients, and `access` of
//! listeners.
//!
//! Called for changes by API, where a loss is refused, for `plan` and reloads, which report it, and for documents of
//! sources (`documents`, `apart`). It compares compiled plans, so a filter may stand in a route, a chain, `defaults`,
//! a listener or a service. A *place* (`places`) is a service, an endpoint or a cache space; addresses are compared
//! in every spelling. A *way* (`ways`) is any path by which a request reaches a place: a route, a subrequest of a
//! filter, a sealed label, or the cache. A *guard* (`guards`) is a filter on a way that refuses unknown clients.
//!
//! The argument of a filter that stays (its users, networks, requirements) is not compared; the plan's diff shows
//! changes of it. A new way needs a filter with an argument of the file.

mod apart;
mod documents;
mod guards;
mod known;
mod paths;
mod places;
mod ways;

pub use apart::Apart;
pub(crate) use documents::{Bypass, added_routes, bypasses};
pub use places::KeptPlaces;
pub(crate) use ways::is_made;

use guards::{Guard, Guards, Terms, common, lacking};
use known::KnownPlaces;
use places::Place;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Listener, Route, SealedRoute, To};
use ways::{Kind, Way, all_guards, ways};

/// A protection that is lost.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LostProtection {
    /// Path of what lacks it: `routes.admin`, `listeners.web`.
    pub key: String,
    /// The filter, `auth` or `access`, with its conditions.
    pub guard: String,
    /// What it has protected until now, for people.
    pub of: String,
    /// The way may have a filter of this name, but with an argument that no earlier way has.
    pub is_other: bool,
}

impl fmt::Display for LostProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = if self.is_other { " with the argument" } else { "" };
        write!(f, "`{}` has no `{}`{with}, which {} has until now", self.key, self.guard, self.of)
    }
}

/// The protections of `before` that `after` lacks, each once:
///
/// - every way to a service, to one of its endpoints or to stored responses had a filter, and a way now lacks it;
/// - a route newly leads there, through a filter with an argument that no earlier way has;
/// - a route with the same match, or the same written name, lacks a filter that it had;
/// - a listener of the same name, or at the same address, has lost its `access`, or a new listener lacks an `access`
///   that all listeners had.
pub fn lost(before: &Plan, after: &Plan) -> Vec<LostProtection> {
    let mut lost = BTreeSet::new();
    listeners(before, after, &mut lost);
    if has_guards(before) {
        routes(before, after, &mut lost);
        places(before, after, &mut lost);
    }
    lost.into_iter().collect()
}

fn has_guards(plan: &Plan) -> bool {
    plan.routes.iter().any(|route| route.all_filters().any(|filter| filter.guards()))
}

fn listeners(before: &Plan, after: &Plan, lost: &mut BTreeSet<LostProtection>) {
    // What the kernel chooses is no place.
    let is_chosen = |listener: &Listener| listener.address.to_string().ends_with(":0");
    let text = |listener: &Listener| listener.access.as_ref().map(ToString::to_string);
    for listener in &after.listeners {
        let is_there = |known: &&Listener| {
            known.name == listener.name || known.address == listener.address && !is_chosen(listener)
        };
        let mut loss = |is_other: bool, of: String| {
            let (key, guard) = (format!("listeners.{}", listener.name), "access".to_owned());
            lost.insert(LostProtection { key, guard, of, is_other });
        };
        let known: Vec<_> = before.listeners.iter().filter(is_there).collect();
        if let Some(guarded) = known.iter().find(|known| known.access.is_some()) {
            if listener.access.is_none() {
                loss(false, format!("the listener `{}`", guarded.name));
            }
            continue;
        }
        // A new listener is compared with the listeners of its protocol, whose routes it would serve.
        let mut like = before.listeners.iter().filter(|known| known.protocol == listener.protocol);
        let all: Option<Vec<String>> = like.by_ref().map(text).collect();
        let all = all.filter(|all| known.is_empty() && !all.is_empty());
        if all.is_some_and(|all| text(listener).is_none_or(|own| !all.contains(&own))) {
            loss(listener.access.is_some(), "every listener of this kind".into());
        }
    }
}

/// The guards common to every way of a route; `None`: the route leads nowhere.
fn guards_of(plan: &Plan, (at, route): (usize, &Route)) -> Option<Guards> {
    all_guards(plan, (at, route)).into_iter().reduce(|all, own| common(&all, &own))
}

fn note(lost: &mut BTreeSet<LostProtection>, route: &Route, (guard, is_other): (&Guard, bool), of: String) {
    let key = format!("routes.{}", route.name);
    if !lost.iter().any(|known| known.key == key && known.guard == guard.to_string()) {
        lost.insert(LostProtection { key, guard: guard.to_string(), of, is_other });
    }
}

/// Routes that are the same, by what they match and by the names that were written.
fn routes(before: &Plan, after: &Plan, lost: &mut BTreeSet<LostProtection>) {
    let mut known: HashMap<(&'static str, &str), Guards> = HashMap::new();
    for (at, route) in before.routes.iter().enumerate() {
        let Some(found) = guards_of(before, (at, route)) else { continue };
        for way in identities(route) {
            known.entry(way).and_modify(|all| *all = common(all, &found)).or_insert_with(|| found.clone());
        }
    }
    for (at, route) in after.routes.iter().enumerate() {
        let Some(there) = guards_of(after, (at, route)) else { continue };
        for (kind, text) in identities(route) {
            let Some(wanted) = known.get(&(kind, text)) else { continue };
            for guard in lacking(wanted, &there, Terms::Edit) {
                let of = match kind {
                    "match" if route.matches.is_empty() => "the route without a match".to_owned(),
                    "match" => format!("the route of `{}`", route.matches),
                    _ => "it".to_owned(),
                };
                note(lost, route, (guard, false), of);
            }
        }
    }
}

/// What a route is known by.
fn identities(route: &Route) -> impl Iterator<Item = (&'static str, &str)> {
    let name = (!is_made(&route.name)).then_some(("name", &*route.name));
    std::iter::once(("match", &*route.matches)).chain(name)
}

/// Finds lost guards of services, endpoints and stored responses.
fn places(before: &Plan, after: &Plan, lost: &mut BTreeSet<LostProtection>) {
    let known = KnownPlaces::of(before);
    let led = Led::of((before, after), &known);
    for way in ways(after).filter(|way| !led.has_sealed(before, (after, way))) {
        known.for_each(&way, |place, known| {
            let of = || format!("every way to {place}");
            for guard in known.lacked_by(&way, Terms::Edit) {
                note(lost, way.route, (&guard, false), of());
            }
            if !led.has(&way, place) {
                for guard in known.lacked_by(&way, Terms::New) {
                    note(lost, way.route, (&guard, true), of());
                }
            }
        });
    }
}

/// The places that the routes of a plan lead to, by the keys that identify the routes.
struct Led<'p> {
    places: HashSet<((&'static str, &'p str), Place)>,
    sealed: HashMap<(&'static str, &'p str), &'p SealedRoute>,
    /// Matches shared by more routes than before: one of these routes is new.
    more: HashSet<&'p str>,
}

impl<'p> Led<'p> {
    fn of((plan, after): (&'p Plan, &'p Plan), known: &KnownPlaces) -> Self {
        let mut counts: HashMap<&str, isize> = HashMap::new();
        after.routes.iter().for_each(|route| *counts.entry(&route.matches).or_default() += 1);
        plan.routes.iter().for_each(|route| *counts.entry(&route.matches).or_default() -= 1);
        let more = counts.into_iter().filter(|(_, count)| *count > 0).map(|(matches, _)| matches).collect();
        let mut places = HashSet::new();
        for way in ways(plan) {
            known.for_each(&way, |place, _| {
                places.extend(identities(way.route).map(|identity| (identity, place.clone())));
            });
        }
        let mut sealed = HashMap::new();
        for route in &plan.routes {
            if let To::Sealed(to) = &route.to {
                sealed.extend(identities(route).map(|identity| (identity, &**to)));
            }
        }
        Self { places, sealed, more }
    }

    /// Whether the route already led to this place.
    fn has(&self, way: &Way<'_>, place: &Place) -> bool {
        let mut identities = identities(way.route).filter(|(kind, text)| self.is_one((kind, text)));
        identities.any(|identity| self.places.contains(&(identity, place.clone())))
    }

    /// Whether a sealed way is unchanged: same keys, addresses and services.
    fn has_sealed(&self, before: &Plan, (after, way): (&Plan, &Way<'_>)) -> bool {
        let To::Sealed(own) = &way.route.to else { return false };
        let names = |plan: &Plan, route: &SealedRoute| -> BTreeSet<String> {
            let services = route.named.iter().filter_map(|id| plan.services.get(id.0 as usize));
            services.map(|service| service.name.to_string()).collect()
        };
        let is_same = |known: &&SealedRoute| {
            known.keyring == own.keyring
                && known.allow == own.allow
                && names(after, own).is_subset(&names(before, known))
        };
        way.kind == Kind::Sealed
            && identities(way.route)
                .filter(|(kind, text)| self.is_one((kind, text)))
                .any(|identity| self.sealed.get(&identity).is_some_and(is_same))
    }

    /// Whether this key identifies one route.
    fn is_one(&self, (kind, text): (&str, &str)) -> bool {
        kind != "match" || !self.more.contains(text)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
