//! Secrets that are sent to services: in request fields set by filters, and in those of health checks.
//!
//! `Authorization: "${TOKEN}"` belongs to the endpoints that the file on disk sends it to. A configuration that
//! arrives may send it to fewer of them, but to no others: not by new endpoints of the service, by another service of
//! the route, or by a filter that calls one. Works on trees before `${…}` is filled in. Every text in a filter is
//! taken as a possible service name in the configuration that arrives, which overestimates the destinations. In the
//! file only texts count by which filters call services.

use super::path::Path;
use super::secrets::is_secret;
use super::{Breach, holds_variable, map_entries};
use crate::parse::{Kind, Node};
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A secret and its destinations.
struct Flow {
    secret: Carried,
    to: BTreeSet<String>,
}

/// A secret in a value that is sent.
#[derive(Clone)]
struct Carried {
    /// As written.
    text: String,
    is_variable: bool,
    key: String,
    span: Span,
}

/// Finds secrets of the file on disk that would be sent to new destinations.
pub(super) fn astray(on_disk: &Node, arrived: &Node, breaches: &mut Vec<Breach>) {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Flow { secret, to } in flows(on_disk, Names::Called) {
        known.entry(secret.text).or_default().extend(to);
    }
    if !known.is_empty() {
        templates(on_disk, arrived, breaches);
    }
    for Flow { secret, to } in flows(arrived, Names::All) {
        let stays = match known.get(&secret.text) {
            Some(before) => to.is_subset(before),
            // A text that the file does not have is not a secret of the file.
            None => !secret.is_variable,
        };
        if !stays && breaches.iter().all(|breach| breach.key != secret.key) {
            breaches.push(Breach { key: secret.key, span: secret.span });
        }
    }
}

/// Placeholders that may show a field, a path or a parameter that a filter has set.
const SHOWING: &[&str] = &["{header.", "{cookie", "{upstream", "{query."];

/// Finds texts with placeholders that the file does not have: they could show a secret to clients.
fn templates(on_disk: &Node, arrived: &Node, breaches: &mut Vec<Breach>) {
    fn all<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node, &'a str)) {
        match &node.kind {
            Kind::Map(entries) => {
                entries.iter().for_each(|(key, child)| all(child, &path.key(&key.name, child), found));
            }
            Kind::Seq(items) => {
                items.iter().enumerate().for_each(|(at, item)| all(item, &path.item(at, item), found));
            }
            Kind::Str(text) if SHOWING.iter().any(|part| text.contains(part)) => found(path, node, text),
            _ => {}
        }
    }
    let mut known = BTreeSet::new();
    all(on_disk, &Path::default(), &mut |_, _, text| {
        known.insert(text);
    });
    all(arrived, &Path::default(), &mut |path, node, text| {
        if !known.contains(text) {
            breaches.push(Breach { key: path.to_string(), span: node.span });
        }
    });
}

/// The names of services that receive secrets in request fields: only the file may define their endpoints.
pub fn services(tree: &Node) -> BTreeSet<String> {
    let file = File::of(tree, Names::All);
    let mut names = BTreeSet::new();
    for (name, service) in &file.services {
        if !service.load.carried.is_empty() {
            names.insert((*name).to_owned());
            names.extend(service.load.names.iter().filter(|name| file.is_service(name)).cloned());
        }
    }
    for load in file.routes.iter().filter(|load| !load.carried.is_empty()) {
        names.extend(load.names.iter().filter(|name| file.is_service(name)).cloned());
    }
    names
}

fn flows(tree: &Node, names: Names) -> Vec<Flow> {
    let file = File::of(tree, names);
    let mut flows = Vec::new();
    for service in file.services.values() {
        let mut to = service.endpoints.clone();
        to.extend(file.endpoints(&service.load.names));
        flows.extend(
            service.load.carried.iter().map(|secret| Flow { secret: secret.clone(), to: to.clone() }),
        );
    }
    for load in &file.routes {
        let to = file.endpoints(&load.names);
        flows.extend(load.carried.iter().map(|secret| Flow { secret: secret.clone(), to: to.clone() }));
    }
    flows
}

/// The secrets that filters send, and the texts that may be service names.
#[derive(Clone, Default)]
struct Load {
    carried: Vec<Carried>,
    names: BTreeSet<String>,
}

struct Service {
    endpoints: BTreeSet<String>,
    load: Load,
}

struct File<'a> {
    services: BTreeMap<&'a str, Service>,
    /// For each route: the secrets that its filters send, and its destinations.
    routes: Vec<Load>,
}

impl<'a> File<'a> {
    fn of(tree: &'a Node, names_of: Names) -> Self {
        let root = Path::default();
        let section = |name: &str| tree.entry(name).map(|node| (node, root.key(name, node)));
        let chains = Chains(section("chains"), names_of);
        let mut services = BTreeMap::new();
        if let Some((all, path)) = section("services") {
            for (name, service) in map_entries(all) {
                let path = path.key(name, service);
                let mut load = Load::default();
                carried(service, &path, &mut load.carried);
                chains.read(service, &path, &mut load);
                services.insert(name, Service { endpoints: endpoints_of(service), load });
            }
        }
        let mut file = Self { services, routes: Vec::new() };
        let mut defaults = Load::default();
        if let Some((node, path)) = section("defaults") {
            chains.read(node, &path, &mut defaults);
        }
        let listeners: Vec<(&str, Load)> = section("listeners").map_or(Vec::new(), |(all, path)| {
            let read = |(name, node): (&'a str, &'a Node)| {
                let mut load = Load::default();
                chains.read(node, &path.key(name, node), &mut load);
                (name, load)
            };
            map_entries(all).map(read).collect()
        });
        if let Some((Node { kind: Kind::Seq(routes), .. }, path)) = section("routes") {
            for (at, route) in routes.iter().enumerate() {
                let mut load = Load::default();
                chains.read(route, &path.item(at, route), &mut load);
                if route.entry("inherit").is_none_or(|inherit| inherit.kind != Kind::Bool(false)) {
                    load.add(&defaults);
                    let own = route.entry("listeners");
                    let listeners = listeners
                        .iter()
                        .filter(|(name, _)| own.is_none_or(|own| is_empty(own) || names(own, name)));
                    listeners.for_each(|(_, inherited)| load.add(inherited));
                }
                let mut leads = BTreeSet::new();
                leads_to(route, &mut leads);
                // Filters of the route run behind those of its services, and may send on the fields that these set.
                for service in leads.iter().filter_map(|name| file.services.get(name.as_str())) {
                    load.carried.extend(service.load.carried.iter().cloned());
                }
                load.names.extend(leads);
                file.routes.push(load);
            }
        }
        file
    }

    fn is_service(&self, name: &str) -> bool {
        self.services.contains_key(name)
    }

    /// The endpoints of the services with these names and of the services that their filters call, and URLs among the
    /// names.
    fn endpoints(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let mut to = BTreeSet::new();
        for name in names {
            match self.services.get(name.as_str()) {
                Some(service) => {
                    to.extend(service.endpoints.iter().cloned());
                    let called =
                        service.load.names.iter().filter_map(|name| self.services.get(name.as_str()));
                    called.for_each(|called| to.extend(called.endpoints.iter().cloned()));
                }
                None if name.contains("://") || name.starts_with('{') => drop(to.insert(name.clone())),
                None => {}
            }
        }
        to
    }
}

impl Load {
    fn add(&mut self, other: &Self) {
        self.carried.extend(other.carried.iter().cloned());
        self.names.extend(other.names.iter().cloned());
    }
}

/// The section `chains` with its path.
struct Chains<'a>(Option<(&'a Node, Path)>, Names);

/// The texts of filters that are taken as names of services.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Names {
    /// All of them.
    All,
    /// Those below a key by which a filter calls or chooses a service.
    Called,
}

/// Keys by which filters call or choose services.
const CALLS: &[&str] = &["mirror", "split", "forward_auth", "ext", "service", "services", "upstream"];

impl Chains<'_> {
    /// Reads the filters of a route, a listener, a service or the defaults.
    fn read(&self, owner: &Node, path: &Path, load: &mut Load) {
        if let Some(filters) = owner.entry("filters") {
            self.list(filters, &path.key("filters", filters), (&mut BTreeSet::new(), load));
        }
    }

    fn list(&self, filters: &Node, path: &Path, (seen, load): (&mut BTreeSet<String>, &mut Load)) {
        let Kind::Seq(items) = &filters.kind else { return };
        for (at, item) in items.iter().enumerate() {
            if let Some(Node { kind: Kind::Str(name), .. }) = item.entry("chain") {
                let chain = self.0.as_ref().and_then(|(all, path)| Some((all.entry(name)?, path)));
                if let Some((chain, path)) = chain.filter(|_| seen.insert(name.clone())) {
                    self.list(chain, &path.key(name, chain), (seen, load));
                }
                continue;
            }
            let path = path.item(at, item);
            let mut found = Vec::new();
            carried(item, &path, &mut found);
            // Secrets of a service's own filters are already included.
            found.retain(|new| load.carried.iter().all(|known| known.key != new.key));
            load.carried.extend(found);
            texts(item, self.1 == Names::All, &mut load.names);
        }
    }
}

/// Collects secrets in values that are sent.
fn carried(node: &Node, path: &Path, found: &mut Vec<Carried>) {
    match &node.kind {
        Kind::Map(entries) => {
            entries.iter().for_each(|(key, child)| carried(child, &path.key(&key.name, child), found));
        }
        Kind::Seq(items) => {
            items.iter().enumerate().for_each(|(at, item)| carried(item, &path.item(at, item), found));
        }
        Kind::Str(text) if path.marks().sent => {
            let is_variable = holds_variable(text);
            if is_variable || is_secret(path, node) {
                found.push(Carried {
                    text: text.clone(),
                    is_variable,
                    key: path.to_string(),
                    span: node.span,
                });
            }
        }
        _ => {}
    }
}

/// Collects texts and keys: both may be names of services. `is_taken`: also those that stand below no key of [`CALLS`].
fn texts(node: &Node, is_taken: bool, found: &mut BTreeSet<String>) {
    match &node.kind {
        Kind::Map(entries) => entries.iter().for_each(|(key, child)| {
            if is_taken {
                found.insert(key.name.clone());
            }
            texts(child, is_taken || CALLS.contains(&key.name.as_str()), found);
        }),
        Kind::Seq(items) => items.iter().for_each(|item| texts(item, is_taken, found)),
        Kind::Str(text) if is_taken && !text.contains("://") => drop(found.insert(text.clone())),
        _ => {}
    }
}

/// The destinations of a route: services, URLs, and sealed destinations as a whole.
fn leads_to(route: &Node, found: &mut BTreeSet<String>) {
    fn all(node: &Node, found: &mut BTreeSet<String>) {
        match &node.kind {
            Kind::Map(entries) => entries.iter().for_each(|(_, child)| all(child, found)),
            Kind::Seq(items) => items.iter().for_each(|item| all(item, found)),
            Kind::Str(text) => drop(found.insert(text.clone())),
            _ => {}
        }
    }
    for place in ["to", "canary"].iter().filter_map(|key| route.entry(key)) {
        all(place, found);
        found.extend(place.entry("sealed").map(|sealed| format!("{{sealed {}}}", whole(sealed))));
    }
}

/// The URLs of a service, and its discovery source as a whole.
fn endpoints_of(service: &Node) -> BTreeSet<String> {
    fn urls(node: &Node, found: &mut BTreeSet<String>) {
        match &node.kind {
            Kind::Str(url) => drop(found.insert(url.clone())),
            Kind::Seq(items) => items.iter().for_each(|item| urls(item, found)),
            Kind::Map(_) => node.entry("url").into_iter().for_each(|url| urls(url, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    service.entry("endpoints").into_iter().for_each(|node| urls(node, &mut found));
    found.extend(service.entry("discover").map(|source| format!("{{discover {}}}", whole(source))));
    let port = service.entry("health").and_then(|health| health.entry("port"));
    found.extend(port.map(|port| format!("{{health port {}}}", whole(port))));
    found
}

/// A value as one text, independent of key order.
fn whole(node: &Node) -> String {
    match &node.kind {
        Kind::Map(entries) => {
            let mut all: Vec<_> =
                entries.iter().map(|(key, child)| format!("{:?}: {}", key.name, whole(child))).collect();
            all.sort();
            format!("{{{}}}", all.join(", "))
        }
        Kind::Seq(items) => format!("[{}]", items.iter().map(whole).collect::<Vec<_>>().join(", ")),
        kind => format!("{kind:?}"),
    }
}

/// Whether a list names nothing: such a route is served at all listeners.
fn is_empty(listeners: &Node) -> bool {
    matches!(&listeners.kind, Kind::Null) || matches!(&listeners.kind, Kind::Seq(items) if items.is_empty())
}

/// Whether `listeners` of a route (a name or a list) contains this name.
fn names(listeners: &Node, name: &str) -> bool {
    match &listeners.kind {
        Kind::Str(text) => text == name,
        Kind::Seq(items) => items.iter().any(|item| names(item, name)),
        _ => false,
    }
}
