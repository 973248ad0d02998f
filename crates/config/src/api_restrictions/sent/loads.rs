//! What requests of each route and service carry, where they go, and which placeholders may show them.

use super::super::path::Path;
use super::super::secrets::is_secret;
use super::super::{holds_variable, map_entries};
use super::is_showing;
use crate::endpoint_address;
use crate::parse::{Kind, Node};
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A secret in a value that is sent.
#[derive(Clone)]
pub(super) struct Carried {
    /// As written.
    pub(super) text: String,
    pub(super) is_variable: bool,
    pub(super) key: String,
    pub(super) span: Span,
}

/// A text with a placeholder that may show a secret.
#[derive(Clone)]
pub(super) struct Shows {
    /// Its keys below the entry of the list of filters.
    pub(super) place: String,
    pub(super) text: String,
    pub(super) key: String,
    pub(super) span: Span,
}

/// What filters send and call.
#[derive(Clone, Default)]
pub(super) struct Load {
    /// The secrets that they send.
    pub(super) carried: Vec<Carried>,
    /// Texts that may be names of services.
    pub(super) names: BTreeSet<String>,
    /// Addresses of a route, and its sealed destinations as a whole.
    addresses: BTreeSet<String>,
    shows: Vec<Shows>,
}

pub(super) struct Service {
    pub(super) endpoints: BTreeSet<String>,
    /// Of its filters.
    pub(super) load: Load,
    /// Secrets that the proxy itself sends there, as in health checks.
    pub(super) own: Vec<Carried>,
}

pub(super) struct File<'a> {
    pub(super) services: BTreeMap<&'a str, Service>,
    pub(super) routes: Vec<Load>,
}

impl<'a> File<'a> {
    pub(super) fn of(tree: &'a Node, names_of: Names) -> Self {
        let root = Path::default();
        let section = |name: &str| tree.entry(name).map(|node| (node, root.key(name, node)));
        let chains = Chains(section("chains"), names_of);
        let mut services = BTreeMap::new();
        if let Some((all, path)) = section("services") {
            for (name, service) in map_entries(all) {
                let path = path.key(name, service);
                let (mut load, mut own) = (Load::default(), Vec::new());
                chains.read(service, &path, &mut load);
                carried(service, &path, &mut own);
                own.retain(|own| load.carried.iter().all(|known| known.key != own.key));
                services.insert(name, Service { endpoints: endpoints_of(service), load, own });
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
                let leads = load.lead(route);
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

    /// The services with these names, and those that their filters call.
    fn services_of<'b>(&'b self, names: &'b BTreeSet<String>) -> BTreeMap<&'a str, &'b Service> {
        let mut found = BTreeMap::new();
        let mut next: Vec<&str> = names.iter().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            let Some((name, service)) = self.services.get_key_value(name) else { continue };
            if found.insert(*name, service).is_none() {
                next.extend(service.load.names.iter().map(String::as_str));
            }
        }
        found
    }

    /// The names of the services with these names and of those that their filters call.
    pub(super) fn reached(&self, names: &BTreeSet<String>) -> Vec<String> {
        self.services_of(names).into_keys().map(str::to_owned).collect()
    }

    /// Where requests with this load go: addresses of the route, and endpoints of services.
    pub(super) fn endpoints(&self, load: &Load) -> BTreeSet<String> {
        let of_services = self.services_of(&load.names).into_values().flat_map(|it| it.endpoints.iter());
        let is_service = |address: &&String| self.services.contains_key(address.as_str());
        let own = load.addresses.iter().filter(|address| !is_service(address));
        of_services.chain(own).cloned().collect()
    }

    /// The placeholders in filters of requests with this load, those of the services among them.
    pub(super) fn shows(&self, load: &Load) -> Vec<Shows> {
        let of_services = self.services_of(&load.names).into_values().flat_map(|it| it.load.shows.iter());
        load.shows.iter().chain(of_services).cloned().collect()
    }
}

impl Load {
    fn add(&mut self, other: &Self) {
        self.carried.extend(other.carried.iter().cloned());
        self.names.extend(other.names.iter().cloned());
        self.shows.extend(other.shows.iter().cloned());
    }

    /// Adds the destinations of a route that are addresses, and sealed destinations as a whole. Gives the names of
    /// its services.
    fn lead(&mut self, route: &Node) -> BTreeSet<String> {
        fn texts(node: &Node, found: &mut dyn FnMut(&str)) {
            match &node.kind {
                Kind::Map(entries) => entries.iter().for_each(|(_, child)| texts(child, found)),
                Kind::Seq(items) => items.iter().for_each(|item| texts(item, found)),
                Kind::Str(text) => found(text),
                _ => {}
            }
        }
        let mut leads = BTreeSet::new();
        let canary = route.entry("canary").and_then(|canary| canary.entry("service"));
        for place in route.entry("to").into_iter().chain(canary) {
            texts(place, &mut |text| {
                leads.insert(text.to_owned());
            });
            let sealed = place.entry("sealed");
            self.addresses.extend(sealed.map(|sealed| format!("{{sealed {}}}", whole(sealed))));
            let direct = match &place.kind {
                Kind::Seq(items) => &items[..],
                _ => std::slice::from_ref(place),
            };
            let direct = direct.iter().filter_map(|node| match &node.kind {
                Kind::Str(text) => Some(address(text)),
                _ => None,
            });
            self.addresses.extend(direct);
        }
        leads
    }
}

/// The section `chains` with its path.
struct Chains<'a>(Option<(&'a Node, Path)>, Names);

/// The texts of filters that are taken as names of services.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Names {
    /// All of them.
    All,
    /// Those below a key by which a filter calls or chooses a service.
    Called,
}

/// Keys by which filters call or choose services.
const CALLS: &[&str] = &["mirror", "split", "forward_auth", "ext", "service", "services", "upstream"];
/// Filters that neither call nor choose a service: no text in them is the name of one.
pub(in crate::api_restrictions) const NEVER_CALL: &[&str] = &[
    "access",
    "body_limit",
    "buffer",
    "cache",
    "compress",
    "concurrency",
    "cors",
    "decompress",
    "error_pages",
    "fault",
    "files",
    "forwarded",
    "grpc_web",
    "headers",
    "hsts",
    "log",
    "maintenance",
    "map_back",
    "rate_limit",
    "redirect",
    "request_id",
    "respond",
    "rewrite",
    "security_headers",
    "strip_prefix",
    "substitute",
    "throttle",
];
/// The condition of a filter, which names no service.
const WHEN: &str = "when";

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
            // A chain may be used twice.
            found.retain(|new| load.carried.iter().all(|known| known.key != new.key));
            load.carried.extend(found);
            shows(item, &path, path.to_string().len(), &mut load.shows);
            let callers = map_entries(item).filter(|(key, _)| *key != WHEN && !NEVER_CALL.contains(key));
            for (key, argument) in callers {
                let is_taken = self.1 == Names::All || CALLS.contains(&key);
                texts(argument, &path.key(key, argument), is_taken, &mut load.names);
            }
        }
    }
}

/// Whether anything in a tree sends a secret.
pub(super) fn sends_secrets(tree: &Node) -> bool {
    let mut found = Vec::new();
    carried(tree, &Path::default(), &mut found);
    !found.is_empty()
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
            let is_variable = node.span.filled || holds_variable(text);
            if is_variable || is_secret(path, node) {
                found.push(Carried {
                    text: text.clone(),
                    is_variable,
                    key: path.to_string(),
                    span: node.span,
                });
            }
        }
        // A number that was filled in.
        _ if path.marks().sent && node.span.filled => {
            let text = node.filled.clone().unwrap_or_default();
            found.push(Carried { text, is_variable: true, key: path.to_string(), span: node.span });
        }
        _ => {}
    }
}

/// Collects texts with placeholders. `above`: length of the path of the filter.
fn shows(node: &Node, path: &Path, above: usize, found: &mut Vec<Shows>) {
    match &node.kind {
        Kind::Map(entries) => {
            entries.iter().for_each(|(key, child)| shows(child, &path.key(&key.name, child), above, found));
        }
        Kind::Seq(items) => {
            items.iter().enumerate().for_each(|(at, item)| shows(item, &path.item(at, item), above, found));
        }
        Kind::Str(text) if is_showing(text) => {
            let key = path.to_string();
            let place = key.get(above..).unwrap_or_default().to_owned();
            found.push(Shows { place, text: text.clone(), key, span: node.span });
        }
        _ => {}
    }
}

/// Collects texts and keys that may be names of services. `is_taken`: also those that stand below no key of [`CALLS`].
/// Values that are sent name none.
fn texts(node: &Node, path: &Path, is_taken: bool, found: &mut BTreeSet<String>) {
    match &node.kind {
        _ if path.marks().sent => {}
        Kind::Map(entries) => entries.iter().for_each(|(key, child)| {
            if is_taken {
                found.insert(key.name.clone());
            }
            let is_taken = is_taken || CALLS.contains(&key.name.as_str());
            texts(child, &path.key(&key.name, child), is_taken, found);
        }),
        Kind::Seq(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, item)| texts(item, &path.item(at, item), is_taken, found));
        }
        Kind::Str(text) if is_taken => drop(found.insert(text.clone())),
        _ => {}
    }
}

/// The URLs of a service, and its discovery source as a whole.
fn endpoints_of(service: &Node) -> BTreeSet<String> {
    fn urls(node: &Node, found: &mut BTreeSet<String>) {
        match &node.kind {
            Kind::Str(url) => drop(found.insert(address(url))),
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

/// The normal form of an endpoint: `http://h` and `http://H:80/` are equal. A URL with a variable, or an invalid one,
/// stays as it is written.
fn address(url: &str) -> String {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    match endpoint_address(url) {
        Ok((_, address)) if !holds_variable(url) => format!("{scheme} {address:?}"),
        _ => url.strip_suffix('/').unwrap_or(url).to_owned(),
    }
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
