//! Secrets that are sent to services: in request fields set by filters, and in those of health checks.
//!
//! `Authorization: "${TOKEN}"` belongs to the endpoints that the file on disk sends it to. A configuration that
//! arrives may send it to fewer of them, but to no others: not by new endpoints of the service, by another service of
//! the route, or by a filter that calls one. Nor may it show the fields of such requests by placeholders that the
//! file does not have there. Works on the trees of all files, before `${…}` is filled in. In the configuration that
//! arrives every text of a filter that may call services counts as the name of one; in the file only texts below keys
//! by which filters call services count ([`loads`]).

mod loads;

use super::path::Path;
use super::{Breach, map_entries};
use crate::parse::{Kind, Node};
use crate::source::Span;
#[cfg(test)]
pub(super) use loads::NEVER_CALL;
use loads::{Carried, File, Names, Shows, sends_secrets};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A secret, its destinations, and the placeholders that may show it.
struct Flow {
    /// The route or service that sends it.
    by: Span,
    secret: Carried,
    to: BTreeSet<String>,
    shows: Vec<Shows>,
}

/// What the file does with a secret.
#[derive(Default)]
struct Known {
    to: BTreeSet<String>,
    shows: BTreeSet<(String, String)>,
}

/// What a file does with its secrets, by their texts.
fn known(file: &Node) -> BTreeMap<String, Known> {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for Flow { secret, to, shows, .. } in flows(file, Names::Called) {
        let known = known.entry(secret.text).or_default();
        known.to.extend(to);
        known.shows.extend(shows.into_iter().map(|it| (it.place, it.text)));
    }
    known
}

/// Finds secrets of the file on disk that would be sent to new destinations, or shown.
pub(super) fn astray(on_disk: &Node, arrived: &Node, breaches: &mut Vec<Breach>) {
    let known = known(on_disk);
    let mut breach = |key: &str, span: Span| {
        if breaches.iter().all(|breach| breach.key != key) {
            breaches.push(Breach { key: key.to_owned(), span });
        }
    };
    if !known.is_empty() {
        elsewhere(on_disk, arrived, &mut breach);
    }
    for Flow { secret, to, shows, .. } in flows(arrived, Names::All) {
        match known.get(&secret.text) {
            Some(before) => {
                if !to.is_subset(&before.to) {
                    breach(&secret.key, secret.span);
                }
                let is_new = |it: &&Shows| !before.shows.contains(&(it.place.clone(), it.text.clone()));
                shows.iter().filter(is_new).for_each(|it| breach(&it.key, it.span));
            }
            // A text that the file does not have is not a secret of the file.
            None if secret.is_variable => breach(&secret.key, secret.span),
            None => {}
        }
    }
}

/// Sections whose filters run before those of every route of a document.
const OF_ALL: &[&str] = &["defaults", "listeners"];

/// Finds routes and services of documents that show a secret of the file `alone`, or send it to a destination to which
/// the file does not send it. `is_added` tells whether a span is part of a document. A secret of `defaults` may go to
/// every service of the file. A secret of a chain that no route of the file uses goes nowhere.
pub(crate) fn astray_by_documents(
    alone: &Node,
    joined: &Node,
    is_added: &dyn Fn(Span) -> bool,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    if !sends_secrets(alone) {
        return breaches;
    }
    let known = known(alone);
    let services = File::of(alone, Names::Called).services;
    let of_file: BTreeSet<&String> = services.values().flat_map(|service| &service.endpoints).collect();
    for Flow { by, secret, to, shows } in flows(joined, Names::All) {
        if !is_added(by) || is_added(secret.span) {
            continue;
        }
        let before = known.get(&secret.text);
        let is_of_all = || OF_ALL.iter().any(|section| secret.key.starts_with(section));
        let may_go = |place: &String| {
            before.is_some_and(|before| before.to.contains(place))
                || (before.is_none() || is_of_all()) && of_file.contains(place)
        };
        if !to.iter().all(may_go) {
            breaches.push(Breach { key: secret.key.clone(), span: by });
        }
        let is_known = |it: &Shows| {
            before.is_some_and(|before| before.shows.contains(&(it.place.clone(), it.text.clone())))
        };
        let shown = shows.iter().filter(|it| is_added(it.span) && !is_known(it));
        breaches.extend(shown.map(|it| Breach { key: secret.key.clone(), span: it.span }));
    }
    breaches
}

/// Placeholders that may show a field, a path or a parameter that a filter has set.
const SHOWING: &[&str] = &["{header.", "{cookie", "{upstream", "{query."];
/// Sections whose filters are compared for each secret.
const OF_REQUESTS: &[&str] = &["chains", "defaults", "listeners", "routes", "services"];

fn is_showing(text: &str) -> bool {
    SHOWING.iter().any(|part| text.contains(part))
}

/// Finds texts with placeholders that the file does not have and that hold for requests of every route, as in the
/// access log.
fn elsewhere(on_disk: &Node, arrived: &Node, breach: &mut dyn FnMut(&str, Span)) {
    fn all<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node, &'a str)) {
        match &node.kind {
            Kind::Map(entries) => {
                entries.iter().for_each(|(key, child)| all(child, &path.key(&key.name, child), found));
            }
            Kind::Seq(items) => {
                items.iter().enumerate().for_each(|(at, item)| all(item, &path.item(at, item), found));
            }
            Kind::Str(text) if is_showing(text) => found(path, node, text),
            _ => {}
        }
    }
    let visit = |root, found: &mut dyn FnMut(&Path, &Node, &str)| {
        let sections = map_entries(root).filter(|(name, _)| !OF_REQUESTS.contains(name));
        sections.for_each(|(name, section)| all(section, &Path::default().key(name, section), found));
    };
    let mut known = BTreeSet::new();
    visit(on_disk, &mut |_, _, text| {
        known.insert(text.to_owned());
    });
    visit(arrived, &mut |path, node, text| {
        if !known.contains(text) {
            breach(&path.to_string(), node.span);
        }
    });
}

/// Services and routes whose requests carry secrets: only the file may define their endpoints.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Carriers {
    /// Names of services in the section `services`.
    pub(crate) services: BTreeSet<String>,
    /// Positions of routes.
    pub(crate) routes: Vec<usize>,
}

/// Finds them in a tree, before or after `${…}` is filled in.
pub(crate) fn carriers(tree: &Node) -> Carriers {
    let file = File::of(tree, Names::All);
    let mut found = Carriers::default();
    for (name, service) in &file.services {
        if !service.own.is_empty() || !service.load.carried.is_empty() {
            found.services.insert((*name).to_owned());
        }
        if !service.load.carried.is_empty() {
            found.services.extend(file.reached(&service.load.names));
        }
    }
    for (at, load) in file.routes.iter().enumerate().filter(|(_, load)| !load.carried.is_empty()) {
        found.services.extend(file.reached(&load.names));
        found.routes.push(at);
    }
    found
}

fn flows(tree: &Node, names: Names) -> Vec<Flow> {
    let file = File::of(tree, names);
    let mut flows = Vec::new();
    let services = tree.entry("services").into_iter().flat_map(map_entries);
    let places: HashMap<&str, Span> = services.map(|(name, service)| (name, service.span)).collect();
    for (name, service) in &file.services {
        let by = places.get(name).copied().unwrap_or_default();
        let own = |secret: &Carried| Flow {
            by,
            secret: secret.clone(),
            to: service.endpoints.clone(),
            shows: Vec::new(),
        };
        flows.extend(service.own.iter().map(own));
        let mut to = service.endpoints.clone();
        to.extend(file.endpoints(&service.load));
        let shows = file.shows(&service.load);
        let flow =
            |secret: &Carried| Flow { by, secret: secret.clone(), to: to.clone(), shows: shows.clone() };
        flows.extend(service.load.carried.iter().map(flow));
    }
    let routes = match tree.entry("routes").map(|routes| &routes.kind) {
        Some(Kind::Seq(routes)) => &routes[..],
        _ => &[],
    };
    for (load, route) in file.routes.iter().zip(routes).filter(|(load, _)| !load.carried.is_empty()) {
        let (by, to, shows) = (route.span, file.endpoints(load), file.shows(load));
        let flow =
            |secret: &Carried| Flow { by, secret: secret.clone(), to: to.clone(), shows: shows.clone() };
        flows.extend(load.carried.iter().map(flow));
    }
    flows
}
