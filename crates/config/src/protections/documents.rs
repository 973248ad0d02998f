//! Finds routes and services in documents that bypass protections of the file.
//!
//! The author of a document is trusted with its own routes, but not with places that the file protects. So a
//! document's way to such a place needs a guard that the file has on a way there, with the same argument and without
//! conditions, unless a way of the file takes all of its requests. It may have no filter of the document's own that
//! could change fields that the guard has verified, and no listener that asks less of clients than those of the file.

use super::entrances::Entrances;
use super::guards::{Guard, Guards, Terms, lacking};
use super::has_guards;
use super::known::{Known, KnownPlaces};
use super::paths::changes_path;
use super::places::{Place, at_port};
use super::stored;
use super::ways::{Goal, Kind, Way, passages, ways};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use thalweg_filter::{Hooks, Step};
use thalweg_proxy::Plan;
use thalweg_upstream::Check;

/// Filters that change no request field: a document may use them even on a way with verified fields.
const HARMLESS: &[&str] = &[
    "access",
    "body_limit",
    "buffer",
    "compress",
    "concurrency",
    "cors",
    "decompress",
    "error_pages",
    "fault",
    "hsts",
    "log",
    "maintenance",
    "map_back",
    "mirror",
    "rate_limit",
    "redirect",
    "respond",
    "rewrite",
    "security_headers",
    "split",
    "strip_prefix",
    "substitute",
    "throttle",
];

/// The remedy in messages: how a document gets a guard.
const REMEDY: &str = "name a chain of the file that has it, without a condition";

/// An entry of a document that bypasses a protection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Bypass {
    /// `routes.NAME` or `services.NAME`.
    pub(crate) key: String,
    /// A sentence.
    pub(crate) why: String,
}

/// The entries of documents in a plan that bypass protections of the file `alone`.
pub(crate) fn bypasses(alone: &Plan, with: &Plan) -> Vec<Bypass> {
    let mut found = Vec::new();
    if has_guards(alone) {
        of_guarded(alone, with, &mut found);
    }
    stored::bypasses(alone, with, &mut found);
    found
}

fn of_guarded(alone: &Plan, with: &Plan, found: &mut Vec<Bypass>) {
    let known = KnownPlaces::of(alone);
    let added = added_routes(alone, with);
    for way in ways(with).filter(|way| added.contains(&way.at)) {
        let key = format!("routes.{}", way.route.name);
        known.for_each(&way, |place, known| {
            let flaw = Flaw::of(&way, known);
            found.extend(flaw.map(|flaw| Bypass { key: key.clone(), why: flaw.of_way(&way, place) }));
        });
    }
    matches(alone, with, found);
    health_checks(alone, with, &known, found);
}

/// The positions of the routes of documents: after the file's routes and before the routes of L4 listeners.
pub(crate) fn added_routes(alone: &Plan, with: &Plan) -> Range<usize> {
    alone.table.len()..with.table.len()
}

/// The flaw in a document's way to a protected place.
#[derive(Debug)]
pub(super) enum Flaw {
    /// It lacks this guard.
    Lacks(Guard),
    /// This listener of it lacks this guard.
    Enters(String, Guard),
    /// It has this filter, which may change fields that guards have verified.
    Changes(&'static str),
    /// It keeps responses that the service gives to clients whom guards have verified.
    Keeps,
    /// It allows these escapes (`allow_encoded`) in paths, and no way of the file does.
    Decodes(String),
}

/// Whether a filter may change request fields.
pub(super) fn may_change(step: &Step) -> bool {
    !HARMLESS.contains(&step.name()) && step.filter.hooks().contains(Hooks::REQUEST)
}

impl Flaw {
    pub(super) fn of(way: &Way<'_>, known: &Known) -> Option<Self> {
        let lacks = match way.goal {
            Goal::Space(_) => known.lacked_by(way, Terms::Document).into_iter().next(),
            Goal::Service(_) | Goal::Addresses(_) | Goal::Files(_) => known.lacked_by_document(way),
        };
        if let Some(guard) = lacks {
            return Some(Self::Lacks(guard));
        }
        if let Some(guard) = known.entrance_lacked_by_document(way) {
            let listener = way.listeners.first().copied().unwrap_or_default();
            return Some(Self::Enters(listener.to_owned(), guard));
        }
        if let Some(step) = path_change(way).filter(|step| !known.has_step(step.written)) {
            return Some(Self::Changes(step.name()));
        }
        // Stored responses were requested by routes of the file.
        if matches!(way.goal, Goal::Space(_)) {
            return None;
        }
        if !known.allows_encoded(way) {
            let names: Vec<&str> = way.route.allow_encoded.names().collect();
            return Some(Self::Decodes(names.join(", ")));
        }
        let is_guard = |step: &Step| step.filter.guards() && known.has_argument(step.written);
        let is_own = |step: &&Step| !known.has_step_beside(way, step.written);
        let is_asked = known.is_asked(way);
        let mut own = way.steps.iter().filter(is_own);
        if let Some(step) = own.clone().find(|step| may_change(step) && !is_guard(step)).filter(|_| is_asked)
        {
            return Some(Self::Changes(step.name()));
        }
        let is_verified = is_asked || !way.entrance.is_empty();
        own.find(|step| step.filter.cache().is_some()).filter(|_| is_verified).map(|_| Self::Keeps)
    }

    /// A sentence about the route with this flaw.
    pub(super) fn of_route(&self, name: &str) -> String {
        match self {
            Self::Lacks(guard) => format!("the route `{name}` has no `{guard}` of the file"),
            Self::Enters(listener, guard) => {
                let key = guard.key();
                format!("the listener `{listener}` of the route `{name}` has no `{key}` of the file")
            }
            Self::Changes(filter) => {
                format!("`{filter}` of the route `{name}` may change what filters of the file have verified")
            }
            Self::Decodes(names) => {
                format!(
                    "`allow_encoded` of the route `{name}` has more than a route of the file allows: {names}"
                )
            }
            Self::Keeps => {
                format!("`cache` of the route `{name}` may give responses for a verified client to others")
            }
        }
    }

    /// The same with the place that the route leads to, and the remedy.
    fn of_way(&self, way: &Way<'_>, place: &Place) -> String {
        let call = if way.kind == Kind::Call { " by a request of a filter" } else { "" };
        let remedy = match self {
            Self::Enters(listener, guard) => {
                return format!(
                    "the route `{}` leads to {place}{call} at the listener `{listener}`, which has no `{}` of those \
                     where the file leads there; name these under the `listeners` of the route",
                    way.route.name,
                    guard.key()
                );
            }
            Self::Lacks(_) => REMEDY,
            Self::Changes(_) | Self::Keeps | Self::Decodes(_) => "write the route in the file",
        };
        format!("{}, and leads to {place}{call}; {remedy}", self.of_route(&way.route.name))
    }
}

/// A filter that changes the path of requests to a service behind a guard that decides by the path.
fn path_change<'p>(way: &Way<'p>) -> Option<&'p Step> {
    let judges = |step: &Step| {
        let argument = step.filter.argument();
        let names_path = argument.contains("path") || argument.contains("signed");
        matches!(step.name(), "ext" | "wasm") || names_path || !step.filter.calls().is_empty()
    };
    let at = way.steps.iter().position(|step| step.filter.guards() && judges(step))?;
    way.steps[at + 1..].iter().find(|step| changes_path(step)).filter(|_| !matches!(way.goal, Goal::Space(_)))
}

/// Routes with the same match as a protected route of the file.
fn matches(alone: &Plan, with: &Plan, found: &mut Vec<Bypass>) {
    let mut known: HashMap<&str, Vec<Guards>> = HashMap::new();
    let (of_file, of_both) = (Entrances::of(alone), Entrances::of(with));
    for (at, route) in alone.routes.iter().enumerate() {
        let all = passages(alone, &of_file, (at, route)).into_iter().map(|passage| passage.guards);
        known.entry(&route.matches).or_default().extend(all);
    }
    for at in added_routes(alone, with) {
        let Some(route) = with.routes.get(at) else { continue };
        let Some(wanted) = known.get(&*route.matches) else { continue };
        let lacks = |own: &Guards| {
            // They have the same requests, so conditions fit alike.
            let lacks = wanted.iter().map(|wanted| lacking(wanted, own, Terms::New).next().cloned());
            lacks.reduce(|one, other| one.and(other)).flatten()
        };
        let passages = passages(with, &of_both, (at, route));
        if let Some(guard) = passages.iter().find_map(|passage| lacks(&passage.guards)) {
            let lacks = Flaw::Lacks(guard).of_route(&route.name);
            let why = format!("{lacks}, and matches what a route there does: `{}`; {REMEDY}", route.matches);
            found.push(Bypass { key: format!("routes.{}", route.name), why });
        }
    }
}

/// Health checks are requests too, and no filter runs before them.
fn health_checks(alone: &Plan, with: &Plan, known: &KnownPlaces, found: &mut Vec<Bypass>) {
    let of_file: HashSet<&str> = alone.services.iter().map(|service| &*service.name).collect();
    let added = with.services.iter().filter(|service| !of_file.contains(&*service.name));
    for (service, health) in added.filter_map(|service| Some((service, service.health.as_ref()?))) {
        for endpoint in &service.endpoints {
            let place = Place::of(&at_port(&endpoint.address, health.port));
            let is_closed = |known: &Known| match &health.check {
                Check::Http { path, .. } => !known.leaves_open(path),
                Check::Tcp | Check::Grpc { .. } => !known.is_free(),
            };
            let guarded = known.at(&place).into_iter().find(|(_, known)| is_closed(known));
            if let Some((place, _)) = guarded {
                let why = format!(
                    "health checks of the service `{}` ask {place}, which the file reaches through guards alone",
                    service.name
                );
                found.push(Bypass { key: format!("services.{}", service.name), why });
            }
        }
    }
}
