//! Ways: every path by which a plan leads a request to a service, an endpoint or a stored response, with the filters
//! on it.
//!
//! Ways come from routes, from filters that send subrequests (`mirror`, `ext`, `wasm`, `auth`), from filters that
//! answer with files, and from labels of sealed routes. The way of a subrequest has the filters before the one that
//! sends it; the filters of the called service do not run. Listeners that ask the same of clients
//! ([`super::entrances`]) share a way.

use super::entrances::Entrances;
use super::guards::{Guard, Guards};
use super::paths::changes_path;
use super::places::Place;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use thalweg_filter::{Chain, Step, Written};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Route, SealedRoute, To};
use thalweg_route::{HostPattern, RouteMatch};
use thalweg_upstream::Service;

/// The kind of a way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Requests of the route go there.
    Request,
    /// A filter sends subrequests.
    Call,
    /// A sealed label may name it.
    Sealed,
}

/// The goal of a way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal<'p> {
    /// A service with its endpoints.
    Service(&'p Arc<Service>),
    /// Addresses that a label may name.
    Addresses(&'p SealedRoute),
    /// Stored responses.
    Space(&'p str),
    /// The files below a directory.
    Files(&'p Path),
}

/// A way of requests from some listeners.
#[derive(Debug)]
pub(super) struct Way<'p> {
    /// The position of the route.
    pub(super) at: usize,
    pub(super) route: &'p Route,
    /// The hosts of the route; none: all.
    pub(super) hosts: &'p [HostPattern],
    /// What the route matches.
    pub(super) matched: Option<&'p RouteMatch>,
    /// The names of the listeners.
    pub(super) listeners: Vec<&'p str>,
    /// What the listeners ask of clients.
    pub(super) entrance: Guards,
    pub(super) kind: Kind,
    pub(super) goal: Goal<'p>,
    /// The filters that refuse requests.
    pub(super) guards: Guards,
    /// The filters before the goal, the guards among them.
    pub(super) steps: &'p [Step],
    /// The filter that sends the subrequest.
    pub(super) caller: Option<Written>,
    /// The subrequest has the path of the request; others have a path of the filter.
    pub(super) copies_path: bool,
}

impl Way<'_> {
    /// The filters that change the path, as written; `None`: one cannot be compared.
    pub(super) fn path_changes(&self) -> Option<Vec<Written>> {
        self.steps.iter().filter(|step| changes_path(step)).map(|step| step.written).collect()
    }

    /// Whether it has a guard that depends on the path of the request.
    pub(super) fn judges_path(&self) -> bool {
        let names_path = |step: &Step| {
            let argument = step.filter.argument();
            step.name() == "access" && argument.contains("path") || argument.contains("signed")
        };
        let judges = |step: &Step| names_path(step) || step.when.iter().any(|when| when.is_about_path());
        self.steps.iter().any(|step| step.filter.guards() && judges(step))
    }

    /// Whether it has a guard with a condition on the host.
    pub(super) fn judges_host(&self) -> bool {
        let judges = |step: &Step| step.when.iter().any(|when| when.is_about_host());
        self.steps.iter().any(|step| step.filter.guards() && judges(step))
    }

    /// The fields that its guards set or remove, so that the service may rely on them.
    pub(super) fn verified_fields(&self) -> Guards {
        let guards = self.steps.iter().filter(|step| step.filter.guards());
        guards.flat_map(Guard::of_fields).collect()
    }

    /// The filters that may give a value to a verified field, in their order.
    pub(super) fn setters(&self, field: &Guard) -> Vec<&Step> {
        let is_it = |name: &str| field.field().is_some_and(|field| field.eq_ignore_ascii_case(name));
        let sets =
            |step: &&Step| step.filter.may_own_others() || step.filter.set_fields().into_iter().any(is_it);
        self.steps.iter().filter(sets).collect()
    }

    /// The fields that any of its filters sets or removes.
    pub(super) fn own_fields(&self) -> Guards {
        self.steps.iter().flat_map(Guard::of_fields).collect()
    }

    /// The places that it leads to; for labels, the caller searches the known addresses.
    pub(super) fn places(&self) -> Vec<Place> {
        match self.goal {
            Goal::Service(service) => {
                let endpoints = service.endpoints.iter().map(|endpoint| Place::of(&endpoint.address));
                let named = (!is_made(&service.name)).then(|| Place::Service(service.name.clone()));
                named.into_iter().chain(endpoints).collect()
            }
            Goal::Addresses(_) => Vec::new(),
            Goal::Space(name) => vec![Place::Space(name.into())],
            Goal::Files(root) => vec![Place::files(root)],
        }
    }
}

/// Whether a name was generated from a position, which means another route in another file.
pub(crate) fn is_made(name: &str) -> bool {
    let digits = name.strip_prefix("route ").map(|rest| rest.trim_end_matches('\''));
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Every way of every route.
pub(super) fn ways(plan: &Plan) -> impl Iterator<Item = Way<'_>> {
    let by_name: HashMap<&str, &Arc<Service>> =
        plan.services.iter().map(|service| (&*service.name, service)).collect();
    let entrances = Entrances::of(plan);
    plan.routes.iter().enumerate().flat_map(move |(at, route)| {
        let mut found = Vec::new();
        for side in sides(plan, &entrances, (at, route)) {
            side.requests(&mut found);
            side.calls(&by_name, &mut found);
            side.stored(&mut found);
            side.files(&mut found);
        }
        found
    })
}

/// The guards on one way of a route.
pub(super) struct Passage<'p> {
    pub(super) listeners: Vec<&'p str>,
    pub(super) entrance: Guards,
    pub(super) guards: Guards,
}

/// The guards of every way of a route, one entry for each group of listeners and service; the protected content may
/// also be files.
pub(super) fn passages<'p>(
    plan: &'p Plan,
    entrances: &Entrances<'p>,
    (at, route): (usize, &'p Route),
) -> Vec<Passage<'p>> {
    let here = matches!(route.to, To::Nowhere).then_some(None);
    let services: Vec<_> = route.all_services().map(Some).chain(here).collect();
    let mut all = Vec::new();
    for Side { number, listeners, entrance, .. } in sides(plan, entrances, (at, route)) {
        let chains = services.iter().map(|service| route.chain(number, *service));
        all.extend(chains.filter(|chain| !responds(chain)).map(|chain| {
            let (listeners, entrance) = (listeners.clone(), entrance.clone());
            Passage { listeners, entrance, guards: guards(before_files(chain.steps())) }
        }));
    }
    all
}

/// The filters before the first one that may answer with a file: a guard behind it does not protect the file. What
/// `respond` answers is fixed, so it needs none.
fn before_files(steps: &[Step]) -> &[Step] {
    &steps[..steps.iter().position(|step| step.name() == "files").unwrap_or(steps.len())]
}

/// Whether every client gets the same response.
fn responds(chain: &Chain) -> bool {
    chain.steps().iter().any(|step| step.name() == "respond" && step.when.is_empty())
}

/// Groups of listeners at which a route has the same guards.
fn sides<'p>(plan: &'p Plan, entrances: &Entrances<'p>, (at, route): (usize, &'p Route)) -> Vec<Side<'p>> {
    // Where filters differ between listeners, each is a group.
    let numbers: BTreeSet<u16> = route.filter_variants.iter().map(|variant| variant.listener).collect();
    let mut groups: BTreeMap<(Guards, u16), Vec<&'p str>> = BTreeMap::new();
    for listener in entrances.of_route(plan, at) {
        let number = if numbers.is_empty() { 0 } else { listener };
        let entrance = entrances.guards(listener, plan, at);
        groups.entry((entrance, number)).or_default().extend(entrances.name(listener));
    }
    let side = |((entrance, number), listeners)| Side { plan, at, route, number, listeners, entrance };
    groups.into_iter().map(side).collect()
}

fn guards(steps: &[Step]) -> Guards {
    steps.iter().filter_map(Guard::of).collect()
}

/// A route at one group of listeners.
struct Side<'p> {
    plan: &'p Plan,
    at: usize,
    route: &'p Route,
    number: u16,
    listeners: Vec<&'p str>,
    entrance: Guards,
}

impl<'p> Side<'p> {
    fn way(&self, kind: Kind, goal: Goal<'p>, steps: &'p [Step]) -> Way<'p> {
        let (at, route, listeners, entrance) =
            (self.at, self.route, self.listeners.clone(), self.entrance.clone());
        let (matched, guards) = (self.plan.match_of(at), guards(steps));
        let hosts = matched.map_or(&[][..], |route| &route.hosts);
        let (caller, copies_path) = (None, false);
        Way { at, route, hosts, matched, listeners, entrance, kind, goal, guards, steps, caller, copies_path }
    }

    /// The chains that requests may go through.
    fn chains(&self) -> Vec<&'p Chain> {
        let services = self.route.all_services().map(Some).chain([None]);
        let mut all: Vec<&Chain> = Vec::new();
        for chain in services.map(|service| self.route.chain(self.number, service)) {
            if !all.iter().any(|known| std::ptr::eq(*known, chain)) {
                all.push(chain);
            }
        }
        all
    }

    /// Ways to the services of the route, and to the addresses of its labels.
    fn requests(&self, found: &mut Vec<Way<'p>>) {
        let sealed = match &self.route.to {
            To::Sealed(sealed) => Some(&**sealed),
            _ => None,
        };
        let kind = if sealed.is_some() { Kind::Sealed } else { Kind::Request };
        for id in self.route.all_services() {
            let steps = self.route.chain(self.number, Some(id)).steps();
            let Some(service) = self.plan.services.get(id.0 as usize) else { continue };
            if steps.iter().any(Step::answers) {
                continue;
            }
            found.push(self.way(kind, Goal::Service(service), steps));
            if let Some(sealed) = sealed.filter(|sealed| sealed.service == id) {
                found.push(self.way(kind, Goal::Addresses(sealed), steps));
            }
        }
    }

    /// Ways to the services that filters send subrequests to.
    fn calls(&self, by_name: &HashMap<&str, &'p Arc<Service>>, found: &mut Vec<Way<'p>>) {
        for chain in self.chains() {
            for (at, step) in chain.steps().iter().enumerate() {
                for name in step.filter.calls() {
                    let Some(service) = by_name.get(&*name) else { continue };
                    let way = self.way(Kind::Call, Goal::Service(service), &chain.steps()[..at]);
                    found.push(Way { caller: step.written, copies_path: step.name() == "mirror", ..way });
                }
                if step.answers() {
                    break;
                }
            }
        }
    }

    /// Ways to stored responses: the cache lookup follows all filters.
    fn stored(&self, found: &mut Vec<Way<'p>>) {
        for chain in self.chains() {
            for rule in chain.caches() {
                found.push(self.way(Kind::Request, Goal::Space(&rule.key.space), chain.steps()));
            }
        }
    }

    /// Ways to the files that a filter answers with.
    fn files(&self, found: &mut Vec<Way<'p>>) {
        for chain in self.chains() {
            for (at, step) in chain.steps().iter().enumerate() {
                if let Some(root) = step.filter.root() {
                    found.push(self.way(Kind::Request, Goal::Files(root), &chain.steps()[..at]));
                }
                if step.answers() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::told;

    #[test]
    fn a_fixed_answer_may_stand_before_a_guard_and_a_file_may_not() {
        let of = |filters: &str| {
            format!("routes: [ {{ name: a, match: {{ host: a.test }}, filters: [ {filters} ], to: a }} ]")
        };
        let before = of("AUTH");
        assert_eq!(told(&before, &of("{ respond: 204, when: { method: OPTIONS } }, AUTH")), "");
        let files = "{ files: { root: /usr/lib, fall_through: true } }";
        assert!(told(&before, &of(&format!("{files}, AUTH"))).contains("`routes.a` has no `auth`"));
    }

    #[test]
    fn the_last_value_of_a_verified_field_is_one_of_the_file() {
        let of = |filters: &str| {
            format!("routes: [ {{ name: a, match: {{ host: a.test }}, filters: [ {filters} ], to: a }} ]")
        };
        let guard = "{ auth: { network: 10.0.0.0/8, forward: { X-User: '{user}' } } }";
        let before = of(guard);
        let lost =
            "`routes.a` has no `verified field x-user`, which every way to the service `a` has until now";
        for more in [
            "{ headers: { request: { set: { X-User: '{query.u}' } } } }",
            "{ headers: { request: { append: { x-user: '{query.u}' } } } }",
            "{ headers: { request: { rename: { X-Other: X-User } } } }",
            "{ headers: { request: { set: { X-User: a } } }, when: { method: POST } }",
            "{ request_id: { header: X-User, accept: always } }",
            "{ auth: { network: 0.0.0.0/0, forward: { X-User: '{query.u}' } } }",
            "{ ext: { service: b } }",
        ] {
            assert_eq!(told(&before, &of(&format!("{guard}, {more}"))), lost, "{more}");
            // As the file has it.
            let known = of(&format!("{guard}, {more}"));
            assert_eq!(told(&known, &known), "", "{more}");
        }
        // Nor does another filter take the place of the guard.
        let other = of("AUTH, { headers: { request: { set: { X-User: '{query.u}' } } } }");
        assert_eq!(told(&before, &other), lost);
        for filters in [
            format!("{{ headers: {{ request: {{ set: {{ X-User: a }} }} }} }}, {guard}"),
            format!("{guard}, {{ headers: {{ request: {{ set: {{ X-Other: a }}, remove: X-User }} }} }}"),
            guard.replace("10.0.0.0/8", "10.1.0.0/16"),
        ] {
            assert_eq!(told(&before, &of(&filters)), "", "{filters}");
        }
    }
}
