//! What a configuration takes away of the protections that another one has: filters that refuse those whom they do not
//! know, and `access` of listeners.
//!
//! Called for what arrives by API, where a loss is a refusal, and for `plan` and reloads, which tell of it. Compared
//! are compiled plans: it does not matter whether a filter stands in a route, a chain, `defaults`, a listener or a
//! service. What a filter asks for (its users, networks, requirements) is not weighed; the differences of the plan show
//! it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use thalweg_filter::Step;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Listener, Route, ServiceId, To};
use thalweg_upstream::Service;

/// A protection that is lost.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LostProtection {
    /// Path of what lacks it: `routes.admin`, `listeners.web`.
    pub key: String,
    /// The filter, `auth` or `access`, with its conditions.
    pub guard: String,
    /// What it has protected until now, for people.
    pub of: String,
}

impl fmt::Display for LostProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` has no `{}`, which {} has until now", self.key, self.guard, self.of)
    }
}

/// A filter that refuses those whom it does not know, and when it is called.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Guard {
    name: &'static str,
    /// Conditions; none: always.
    when: Vec<String>,
}

impl Guard {
    fn of(step: &Step) -> Option<Self> {
        let when = || step.when.iter().map(ToString::to_string).collect();
        step.filter.guards().then(|| Self { name: step.name(), when: when() })
    }

    /// Whether this is there whenever `other` is.
    fn covers(&self, other: &Self) -> bool {
        self.name == other.name && (self.when.is_empty() || self.when == other.when)
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.when.is_empty() {
            true => Ok(()),
            false => write!(f, " when {}", self.when.join(" and ")),
        }
    }
}

/// What stands on every way.
type Guards = BTreeSet<Guard>;

/// What of the protections of `before` is not there in `after`, and each only once:
///
/// - all ways to a service, or to one of its endpoints, have led through a filter, and a route leads there without;
/// - a route with the same match, or the same written name, lacks a filter that it had;
/// - a listener of the same name, or at the same place, has no `access` any more.
pub fn lost(before: &Plan, after: &Plan) -> Vec<LostProtection> {
    let mut lost = BTreeSet::new();
    listeners(before, after, &mut lost);
    let guarded = before.routes.iter().any(|route| route.all_filters().any(|filter| filter.guards()));
    if guarded {
        routes(before, after, &mut lost);
        places(before, after, &mut lost);
    }
    lost.into_iter().collect()
}

fn listeners(before: &Plan, after: &Plan, lost: &mut BTreeSet<LostProtection>) {
    // What the kernel chooses is no place.
    let is_chosen = |listener: &Listener| listener.address.to_string().ends_with(":0");
    for open in after.listeners.iter().filter(|listener| listener.access.is_none()) {
        let is_there = |known: &Listener| known.address == open.address && !is_chosen(open);
        let mut guarded = before.listeners.iter().filter(|known| known.access.is_some());
        let was = guarded.find(|known| known.name == open.name || is_there(known));
        if let Some(known) = was {
            lost.insert(LostProtection {
                key: format!("listeners.{}", open.name),
                guard: "access".into(),
                of: format!("the listener `{}`", known.name),
            });
        }
    }
}

/// What stands on every way of a route to one of its services, or to the filter that answers, whichever listener a
/// request comes in at; `None`: the route says the same to everybody, and there is no way.
fn guards(plan: &Plan, route: &Route, service: Option<ServiceId>) -> Option<Guards> {
    let of = |listener: u16| {
        let steps = route.chain(listener, service).steps();
        let answers = |step: &Step| step.name() == "respond" && step.when.is_empty();
        (!steps.iter().any(answers)).then(|| steps.iter().filter_map(Guard::of).collect::<Guards>())
    };
    if route.filter_variants.is_empty() {
        return of(0);
    }
    let each = (0..plan.listeners.len() as u16).filter_map(of);
    each.reduce(|all, own| common(&all, &own))
}

/// Those that are on both ways.
fn common(one: &Guards, other: &Guards) -> Guards {
    let covered = |guard: &&Guard, by: &Guards| by.iter().any(|known| known.covers(guard));
    let both = one.iter().filter(|guard| covered(guard, other));
    both.chain(other.iter().filter(|guard| covered(guard, one))).cloned().collect()
}

/// What stands on every way that a route leads anywhere.
fn guards_of(plan: &Plan, route: &Route) -> Option<Guards> {
    // Files may be what is protected.
    let here = matches!(route.to, To::Nowhere).then_some(None);
    let ways = route.all_services().map(Some).chain(here);
    ways.filter_map(|service| guards(plan, route, service)).reduce(|all, own| common(&all, &own))
}

/// Whether a name was made from a position: another file has something else there.
pub(crate) fn is_made(name: &str) -> bool {
    let digits = name.strip_prefix("route ").map(|rest| rest.trim_end_matches('\''));
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn lacking<'a>(wanted: &'a Guards, there: &'a Guards) -> impl Iterator<Item = &'a Guard> {
    wanted.iter().filter(|guard| !there.iter().any(|known| known.covers(guard)))
}

fn note(lost: &mut BTreeSet<LostProtection>, route: &Route, guard: &Guard, of: String) {
    let key = format!("routes.{}", route.name);
    if !lost.iter().any(|known| known.key == key && known.guard == guard.to_string()) {
        lost.insert(LostProtection { key, guard: guard.to_string(), of });
    }
}

/// Routes that are the same, by what they match and by the names that were written.
fn routes(before: &Plan, after: &Plan, lost: &mut BTreeSet<LostProtection>) {
    let mut known: HashMap<(&'static str, &str), Guards> = HashMap::new();
    for route in &before.routes {
        let Some(found) = guards_of(before, route) else { continue };
        for way in identities(route) {
            known.entry(way).and_modify(|all| *all = common(all, &found)).or_insert_with(|| found.clone());
        }
    }
    for route in &after.routes {
        let Some(there) = guards_of(after, route) else { continue };
        for (kind, text) in identities(route) {
            let Some(wanted) = known.get(&(kind, text)) else { continue };
            for guard in lacking(wanted, &there) {
                let of = match kind {
                    "match" if route.matches.is_empty() => "the route without a match".to_owned(),
                    "match" => format!("the route of `{}`", route.matches),
                    _ => "it".to_owned(),
                };
                note(lost, route, guard, of);
            }
        }
    }
}

/// What a route is known by.
fn identities(route: &Route) -> impl Iterator<Item = (&'static str, &str)> {
    let name = (!is_made(&route.name)).then_some(("name", &*route.name));
    std::iter::once(("match", &*route.matches)).chain(name)
}

/// Services and endpoints that are reached.
fn places(before: &Plan, after: &Plan, lost: &mut BTreeSet<LostProtection>) {
    let mut known: HashMap<String, Guards> = HashMap::new();
    for_each_way(before, |_, place, found| {
        known.entry(place).and_modify(|all| *all = common(all, found)).or_insert_with(|| found.clone());
    });
    known.retain(|_, guards| !guards.is_empty());
    for_each_way(after, |route, place, there| {
        let Some(wanted) = known.get(&place) else { return };
        for guard in lacking(wanted, there) {
            note(lost, route, guard, format!("every way to {place}"));
        }
    });
}

fn for_each_way(plan: &Plan, mut each: impl FnMut(&Route, String, &Guards)) {
    for (route, service, found) in ways(plan) {
        if !is_made(&service.name) {
            each(route, format!("the service `{}`", service.name), &found);
        }
        for endpoint in &service.endpoints {
            each(route, format!("the endpoint {}", endpoint.address), &found);
        }
    }
}

/// Which services documents lead to without what stands on every way to services of the file. What sources find for
/// these services later is compared by it: an endpoint of the latter is none of the former. Services by their positions
/// in the plan with the documents.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// Services of the file, with what stands on every way to them: a number for each kind.
    guarded: HashMap<usize, usize>,
    /// Services that documents lead to, with the kinds that they lack and why.
    open: BTreeMap<usize, Vec<(usize, String)>>,
}

impl Apart {
    /// Compares a plan with documents with that of the file `alone`.
    pub(crate) fn of(alone: &Plan, with: &Plan) -> Self {
        let mut common_of: HashMap<&str, Guards> = HashMap::new();
        for (_, service, found) in ways(alone) {
            let all = common_of.entry(&*service.name);
            all.and_modify(|all| *all = common(all, &found)).or_insert(found);
        }
        common_of.retain(|_, guards| !guards.is_empty());
        if common_of.is_empty() {
            return Self::default();
        }
        let mut apart = Self::default();
        let mut kinds: Vec<Guards> = Vec::new();
        for (at, guards) in with
            .services
            .iter()
            .enumerate()
            .filter_map(|(at, service)| Some((at, common_of.get(&*service.name)?)))
        {
            let kind = kinds.iter().position(|known| known == guards);
            apart.guarded.insert(at, kind.unwrap_or(kinds.len()));
            kinds.extend(kind.is_none().then(|| guards.clone()));
        }
        let positions: HashMap<&str, usize> =
            with.services.iter().enumerate().map(|(at, service)| (&*service.name, at)).collect();
        let of_file: HashSet<&str> = alone.routes.iter().map(|route| &*route.name).collect();
        for (route, service, there) in ways(with).filter(|(route, ..)| !of_file.contains(&*route.name)) {
            let Some(at) = positions.get(&*service.name) else { continue };
            for (kind, wanted) in kinds.iter().enumerate() {
                let Some(guard) = lacking(wanted, &there).next() else { continue };
                let known = apart.open.entry(*at).or_default();
                if known.iter().all(|(known, _)| *known != kind) {
                    known.push((kind, format!("the route `{}` has no `{guard}`", route.name)));
                }
            }
        }
        apart
    }

    /// The services that documents lead to without something.
    pub fn open(&self) -> impl Iterator<Item = usize> {
        self.open.keys().copied()
    }

    /// Those of them that are kept from one of these.
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

/// Every way of every route to a service, with what stands on it.
fn ways(plan: &Plan) -> impl Iterator<Item = (&Route, &Arc<Service>, Guards)> {
    plan.routes.iter().flat_map(move |route| {
        route.all_services().filter_map(move |id| {
            let service = plan.services.get(id.0 as usize)?;
            Some((route, service, guards(plan, route, Some(id))?))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_text;

    const AUTH: &str = "{ auth: { network: 10.0.0.0/8 } }";
    const ACCESS: &str = "{ access: { deny: [ 192.0.2.0/24 ] } }";

    fn plan(text: &str) -> Plan {
        let text = text.replace("AUTH", AUTH).replace("ACCESS", ACCESS);
        let around = match text.contains("listeners:") {
            true => text,
            false => format!("listeners: {{ web: {{ address: ':8080' }} }}\n{text}"),
        };
        let services = match around.contains("services:") {
            true => around,
            false => format!(
                "{around}\nservices: {{ a: {{ endpoints: 'http://10.0.0.1:1' }}, b: {{ endpoints: 'http://10.0.0.2:1' }} }}"
            ),
        };
        check_text("t.yaml", &services, &|_| None)
            .unwrap_or_else(|report| panic!("{}\n{services}", report.lines()))
            .plan
    }

    fn told(before: &str, after: &str) -> String {
        let lost = lost(&plan(before), &plan(after));
        lost.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn ordinary_edits_lose_nothing() {
        let before =
            "routes: [ { name: admin, match: { path: /admin/* }, filters: [ AUTH ], to: a }, { to: b } ]";
        for after in [
            before,
            "routes: [ { to: b } ]",
            // Other arguments, another place, other routes, a route that answers by itself.
            "routes: [ { name: admin, match: { path: /admin/* }, filters: [ { auth: { network: 10.9.0.0/16 } } ], to: a } ]",
            "routes: [ { to: b }, { match: { path: /x }, to: b }, { name: admin, match: { path: /admin/* }, filters: [ AUTH ], to: a } ]",
            "chains: { safe: [ AUTH ] }\nroutes: [ { name: admin, match: { path: /admin/* }, filters: [ { chain: safe } ], to: a } ]",
            "defaults: { filters: [ AUTH ] }\nroutes: [ { name: admin, match: { path: /admin/* }, to: a }, { to: a } ]",
            "routes: [ { match: { path: /health }, filters: [ { respond: 200 } ], to: a }, { name: admin, match: { path: /admin/* }, filters: [ AUTH ], to: a } ]",
            "services: { a: { endpoints: 'http://10.0.0.9:1', filters: [ AUTH ] } }\nroutes: [ { name: admin, match: { path: /admin/* }, to: a } ]",
        ] {
            assert_eq!(told(before, after), "", "{after}");
        }
        assert_eq!(told("routes: [ { to: a } ]", "routes: [ { to: b } ]"), "");
    }

    #[test]
    fn a_route_that_lacks_what_it_had_is_named() {
        let before = "routes: [ { name: admin, match: { path: /admin/* }, filters: [ AUTH, ACCESS ], to: a }, { to: a } ]";
        for (after, expected) in [
            (
                "routes: [ { name: admin, match: { path: /admin/* }, filters: [ ACCESS ], to: a }, { to: a } ]",
                "`routes.admin` has no `auth`, which the route of `/admin/*` has until now",
            ),
            // Another name, or another match.
            (
                "routes: [ { name: x, match: { path: /admin/* }, filters: [ AUTH ], to: a }, { to: a } ]",
                "`routes.x` has no `access`, which the route of `/admin/*` has until now",
            ),
            (
                "routes: [ { name: admin, match: { path: /ad/* }, filters: [ AUTH ], to: a }, { to: a } ]",
                "`routes.admin` has no `access`, which it has until now",
            ),
            // It is there at times, or for show.
            (
                "routes: [ { name: admin, match: { path: /admin/* }, filters: [ { auth: { network: 10.0.0.0/8 }, when: { path: /admin/x } }, ACCESS ], to: a }, { to: a } ]",
                "`routes.admin` has no `auth`, which the route of `/admin/*` has until now",
            ),
            (
                "routes: [ { name: admin, match: { path: /admin/* }, filters: [ { auth: { network: 10.0.0.0/8, dry_run: true } }, ACCESS ], to: a }, { to: a } ]",
                "`routes.admin` has no `auth`, which the route of `/admin/*` has until now",
            ),
        ] {
            assert_eq!(told(before, after), expected);
        }
        let conditional = "routes: [ { name: admin, filters: [ { auth: { network: 10.0.0.0/8 }, when: { path: /x } } ], to: a } ]";
        assert_eq!(told(conditional, conditional), "");
        assert_eq!(told(conditional, "routes: [ { name: admin, filters: [ AUTH ], to: a } ]"), "");
        assert!(told(conditional, "routes: [ { name: admin, to: a } ]").contains("has no `auth when "));
    }

    #[test]
    fn no_new_way_leads_to_what_was_reached_through_a_filter_alone() {
        let before = "routes: [ { match: { path: /a/* }, filters: [ AUTH ], to: a }, { match: { path: /b/* }, to: b } ]";
        for (after, expected) in [
            (
                "routes: [ { match: { path: /x }, to: a } ]",
                "`routes.route 1` has no `auth`, which every way to the service `a` has until now",
            ),
            // The same endpoint under another name, or by a split.
            (
                "routes: [ { match: { path: /x }, to: [ 'http://10.0.0.1:1' ] } ]",
                "`routes.route 1` has no `auth`, which every way to the endpoint 10.0.0.1:1 has until now",
            ),
            (
                "routes: [ { name: s, match: { path: /x }, to: [ { service: a, weight: 1 }, { service: b, weight: 99 } ] } ]",
                "`routes.s` has no `auth`, which every way to the service `a` has until now",
            ),
            // At one listener of two.
            (
                "listeners: { web: { address: ':8080', filters: [ AUTH ] }, more: { address: ':8081' } }\nroutes: [ { name: s, match: { path: /x }, to: a } ]",
                "`routes.s` has no `auth`, which every way to the service `a` has until now",
            ),
        ] {
            assert_eq!(told(before, after), expected);
        }
        let everywhere = "listeners: { web: { address: ':8080', filters: [ AUTH ] } }\nroutes: [ { name: s, match: { path: /x }, to: a } ]";
        assert_eq!(told(before, everywhere), "");
    }

    #[test]
    fn a_listener_keeps_its_access() {
        let of = |listeners: &str| format!("listeners: {{ {listeners} }}\nroutes: [ {{ to: a }} ]");
        let before = of("web: { address: ':8080', access: { allow: [ 10.0.0.0/8 ] } }");
        assert_eq!(told(&before, &before), "");
        for after in ["web: { address: ':8081' }", "other: { address: ':8080' }"] {
            assert!(
                told(&before, &of(after)).contains("has no `access`, which the listener `web` has"),
                "{after}"
            );
        }
        assert_eq!(told(&before, &of("other: { address: ':8081' }")), "");
    }
}
