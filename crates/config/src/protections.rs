//! Compares two configurations and reports lost protections: filters and listeners that refuse unknown clients.
//!
//! Called for changes by API, where a loss is refused, for `plan` and reloads, which report it, and for documents of
//! sources (`documents`, `apart`). It compares compiled plans, so a filter may stand in a route, a chain, `defaults`,
//! a listener or a service. A *place* (`places`) is a service, an endpoint, a cache space or a directory of files;
//! addresses are compared in every spelling. A *way* (`ways`) is any path by which a request reaches a place: a route,
//! a subrequest of a filter, a sealed label, or the cache. A *guard* (`guards`) is a filter on a way that refuses
//! unknown clients, or what the listener of the way asks of clients (`entrances`): `access`, a client certificate.
//!
//! The argument of a filter that stays (its users, networks, requirements) is not compared; the plan's diff shows
//! changes of it. A new way needs a filter with an argument of the file, and a new pair of a listener and a place needs
//! what a listener of the file asks. Request fields that a guard sets or removes stay its own, and the path that a
//! service gets behind a guard that depends on the path stays as it is.

mod added;
mod apart;
mod by_entrance;
mod calls;
mod changed;
mod checks;
mod conditions;
mod documents;
mod entrances;
mod guards;
mod known;
mod paths;
mod places;
mod spaces;
mod stored;
mod ways;

pub use added::lost_by_added;
pub use apart::Apart;
pub(crate) use calls::GuardedPlaces;
pub(crate) use documents::{Bypass, added_routes, bypasses};
pub use places::{KeptPlaces, at_port};
pub(crate) use ways::is_made;

use entrances::{ACCESS, Entrances};
use guards::{Guard, Guards, Terms, common, lacking, lacking_entrance};
use known::{Known, KnownPlaces};
use places::Place;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Listener, Route, SealedRoute, To};
use ways::{Kind, Passage, Way, passages, ways};

/// A protection that is lost.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LostProtection {
    /// Path of what lacks it: `routes.admin`, `listeners.web`.
    pub key: String,
    /// The filter, `auth` or `access`, with its conditions; or the key of the listener, and the like.
    pub guard: String,
    /// What it has protected until now, for people.
    pub of: String,
    /// The way may have a filter of this name, but with an argument that no earlier way has.
    pub is_other: bool,
}

impl LostProtection {
    /// Whether a health check lacks it, not a way of requests from clients.
    pub fn is_of_check(&self) -> bool {
        self.key.starts_with(checks::SERVICES)
    }
}

impl fmt::Display for LostProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = if self.is_other { " with the argument" } else { "" };
        write!(f, "`{}` has no `{}`{with}, which {} has until now", self.key, self.guard, self.of)
    }
}

/// The protections of `before` that `after` lacks, each once:
///
/// - every way to a service, to one of its endpoints, to files or to stored responses had a filter, or a listener that
///   asks something of clients, and a way now lacks it;
/// - a route newly leads there, or at another listener, through a guard with an argument that no earlier way has;
/// - a route with the same match, or the same written name, lacks a guard that it had;
/// - a way leads to a cache space that comes to store what was reached through a guard alone;
/// - a health check asks there what no earlier one has asked;
/// - a guard with conditions is on the way, but these do not hold as on the earlier ways;
/// - a way leaves to clients a field that guards set or removed, or changes the path behind a guard that depends on it;
/// - a listener of the same name, or at the same address, has lost its `access` or its `redirect_https`, or a new
///   listener lacks an `access` that all listeners had.
pub fn lost(before: &Plan, after: &Plan) -> Vec<LostProtection> {
    let mut lost = BTreeSet::new();
    listeners(before, after, &mut lost);
    if has_guards(before) {
        let open = lost.iter().filter(|lost| lost.guard == "access");
        let open: HashSet<String> = open.map(|lost| lost.key.clone()).collect();
        routes((before, after), &open, &mut lost);
        places((before, after), &open, &mut lost);
    }
    lost.into_iter().collect()
}

fn has_guards(plan: &Plan) -> bool {
    plan.routes.iter().any(|route| route.all_filters().any(|filter| filter.guards()))
        || Entrances::of(plan).has_guards()
}

/// Whether the loss of a listener's `access` is told of the listeners themselves.
fn is_told(guard: &Guard, listeners: &[&str], open: &HashSet<String>) -> bool {
    guard.name == ACCESS && listeners.iter().all(|name| open.contains(&format!("listeners.{name}")))
}

fn listeners(before: &Plan, after: &Plan, lost: &mut BTreeSet<LostProtection>) {
    // What the kernel chooses is no place.
    let is_chosen = |listener: &Listener| listener.address.to_string().ends_with(":0");
    let text = |listener: &Listener| listener.access.as_ref().map(ToString::to_string);
    for listener in &after.listeners {
        let is_there = |known: &&Listener| {
            known.name == listener.name || known.address == listener.address && !is_chosen(listener)
        };
        let mut loss = |guard: &str, is_other: bool, of: String| {
            let (key, guard) = (format!("listeners.{}", listener.name), guard.to_owned());
            lost.insert(LostProtection { key, guard, of, is_other });
        };
        let known: Vec<_> = before.listeners.iter().filter(is_there).collect();
        if let Some(redirecting) = known.iter().find(|known| known.redirect_https)
            && !listener.redirect_https
            && listener.tls.is_none()
        {
            loss("redirect_https", false, format!("the listener `{}`", redirecting.name));
        }
        if let Some(guarded) = known.iter().find(|known| known.access.is_some()) {
            if listener.access.is_none() {
                loss("access", false, format!("the listener `{}`", guarded.name));
            }
            continue;
        }
        // A new listener is compared with the listeners of its protocol, whose routes it would serve.
        let mut like = before.listeners.iter().filter(|known| known.protocol == listener.protocol);
        let all: Option<Vec<String>> = like.by_ref().map(text).collect();
        let all = all.filter(|all| known.is_empty() && !all.is_empty());
        if all.is_some_and(|all| text(listener).is_none_or(|own| !all.contains(&own))) {
            loss("access", listener.access.is_some(), "every listener of this kind".into());
        }
    }
}

fn note(lost: &mut BTreeSet<LostProtection>, route: &Route, (guard, is_other): (&Guard, bool), of: String) {
    note_text(lost, route, (&guard.to_string(), is_other), of);
}

fn note_text(
    lost: &mut BTreeSet<LostProtection>,
    route: &Route,
    (guard, is_other): (&str, bool),
    of: String,
) {
    let key = format!("routes.{}", route.name);
    if !lost.iter().any(|known| known.key == key && known.guard == guard) {
        lost.insert(LostProtection { key, guard: guard.to_owned(), of, is_other });
    }
}

/// Routes that are the same, by what they match and by the names that were written.
fn routes((before, after): (&Plan, &Plan), open: &HashSet<String>, lost: &mut BTreeSet<LostProtection>) {
    let all =
        |passage: &Passage<'_>| -> Guards { passage.guards.union(&passage.entrance).cloned().collect() };
    let (of_before, of_after) = (Entrances::of(before), Entrances::of(after));
    let mut known: HashMap<(&'static str, &str), Guards> = HashMap::new();
    for (at, route) in before.routes.iter().enumerate() {
        for found in passages(before, &of_before, (at, route)).iter().map(all) {
            for identity in identities(route) {
                let entry = known.entry(identity);
                entry.and_modify(|all| *all = common(all, &found)).or_insert_with(|| found.clone());
            }
        }
    }
    for (at, route) in after.routes.iter().enumerate() {
        for passage in passages(after, &of_after, (at, route)) {
            let there = all(&passage);
            for (kind, text) in identities(route) {
                let Some(wanted) = known.get(&(kind, text)) else { continue };
                let lacks = lacking(wanted, &there, Terms::Edit);
                for guard in lacks.filter(|guard| !is_told(guard, &passage.listeners, open)) {
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
}

/// What a route is known by.
fn identities(route: &Route) -> impl Iterator<Item = (&'static str, &str)> {
    let name = (!is_made(&route.name)).then_some(("name", &*route.name));
    std::iter::once(("match", &*route.matches)).chain(name)
}

/// Finds lost guards of services, endpoints, files and stored responses.
fn places((before, after): (&Plan, &Plan), open: &HashSet<String>, lost: &mut BTreeSet<LostProtection>) {
    let known = KnownPlaces::of(before);
    let led = Led::of((before, after), &known);
    let stored = spaces::newly_stored((before, after), &known);
    for way in ways(after).filter(|way| !led.has_sealed(before, (after, way))) {
        let mut each = |place: &Place, known: &Known| way_lacks((known, &led), (&way, place), open, lost);
        known.for_each(&way, &mut each);
        spaces::for_each((&stored, &known), &way, each);
    }
    checks::lost(before, (after, &known), lost);
}

/// Finds the guards of a place that a way to it lacks.
fn way_lacks(
    (known, led): (&Known, &Led<'_>),
    (way, place): (&Way<'_>, &Place),
    open: &HashSet<String>,
    lost: &mut BTreeSet<LostProtection>,
) {
    let of = || format!("every way to {place}");
    let mut is_lost = false;
    for guard in known.lacked_by(way, Terms::Edit) {
        is_lost = true;
        note(lost, way.route, (&guard, false), of());
    }
    if !led.has(way, place) {
        let entrance = known.entrance_lacked_by(way).into_iter();
        for guard in entrance.filter(|guard| !is_told(guard, &way.listeners, open)) {
            let is_other = way.entrance.iter().any(|own| own.name == guard.name);
            note(lost, way.route, (&guard, is_other), of());
        }
        for guard in known.lacked_by(way, Terms::New) {
            is_lost = true;
            note(lost, way.route, (&guard, true), of());
        }
    }
    if is_lost {
        return;
    }
    let terms = if led.has(way, place) { Terms::Edit } else { Terms::New };
    if let Some(guard) = known.condition_lacked_by(way, terms) {
        return note_text(lost, way.route, (&format!("same requests for its `{guard}`"), false), of());
    }
    for field in known.fields_lacked_by(way) {
        note(lost, way.route, (&field, false), of());
    }
    if known.is_read_otherwise(way) {
        note_text(lost, way.route, ("refusal of encoded paths", false), of());
    }
    if known.is_path_changed(way) {
        note_text(lost, way.route, ("unchanged path behind its guard", false), of());
    }
}

/// A key that identifies a route.
type Identity<'p> = (&'static str, &'p str);

/// The places that the routes of a plan lead to, by the keys that identify the routes.
struct Led<'p> {
    /// With the guards of the listener.
    places: HashMap<(Identity<'p>, Place), Vec<(&'p str, Guards)>>,
    sealed: HashMap<Identity<'p>, (&'p SealedRoute, Vec<Guards>)>,
    /// Matches shared by more routes than before: one of these routes is new.
    more: HashSet<&'p str>,
}

impl<'p> Led<'p> {
    fn of((plan, after): (&'p Plan, &'p Plan), known: &KnownPlaces) -> Self {
        let mut counts: HashMap<&str, isize> = HashMap::new();
        after.routes.iter().for_each(|route| *counts.entry(&route.matches).or_default() += 1);
        plan.routes.iter().for_each(|route| *counts.entry(&route.matches).or_default() -= 1);
        let more = counts.into_iter().filter(|(_, count)| *count > 0).map(|(matches, _)| matches).collect();
        let mut led = Self { places: HashMap::new(), sealed: HashMap::new(), more };
        for way in ways(plan) {
            if let To::Sealed(to) = &way.route.to {
                for identity in identities(way.route) {
                    let known = led.sealed.entry(identity).or_insert_with(|| (&**to, Vec::new()));
                    known.1.push(way.entrance.clone());
                }
            }
            known.for_each(&way, |place, _| {
                for identity in identities(way.route) {
                    let known = led.places.entry((identity, place.clone())).or_default();
                    known.extend(way.listeners.iter().map(|listener| (*listener, way.entrance.clone())));
                }
            });
        }
        led
    }

    /// Whether the route already led to this place from each of its listeners, which ask no less than before.
    fn has(&self, way: &Way<'_>, place: &Place) -> bool {
        let mut identities = identities(way.route).filter(|(kind, text)| self.is_one((kind, text)));
        identities.any(|identity| {
            let Some(known) = self.places.get(&(identity, place.clone())) else { return false };
            way.listeners.iter().all(|listener| {
                let mut here = known.iter().filter(|(name, _)| name == listener);
                here.any(|(_, wanted)| lacking_entrance(wanted, &way.entrance, true).next().is_none())
            })
        })
    }

    /// Whether a sealed way is unchanged: same keys, addresses and services, and its listeners ask no less.
    fn has_sealed(&self, before: &Plan, (after, way): (&Plan, &Way<'_>)) -> bool {
        let To::Sealed(own) = &way.route.to else { return false };
        let names = |plan: &Plan, route: &SealedRoute| -> BTreeSet<String> {
            let services = route.named.iter().filter_map(|id| plan.services.get(id.0 as usize));
            services.map(|service| service.name.to_string()).collect()
        };
        let is_same = |(known, entrances): &(&SealedRoute, Vec<Guards>)| {
            let asks = |wanted| lacking_entrance(wanted, &way.entrance, true).next().is_none();
            known.keyring == own.keyring
                && known.allow == own.allow
                && entrances.iter().any(asks)
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
