//! Traefik 2 and 3: files of the static and the dynamic configuration.
//!
//! `labels` makes the tree of such files of a compose file. `rule` takes rules apart, `condition` says what two of them
//! have in common, `order` brings routers into their order. `entry` reads entry points and certificates, `router` makes
//! routes, `middleware` their filters (with `place`, `fields` and `access`), `service` says where they go, and `whole`
//! does so for connections. `known` grades what concerns the process rather than a request, and everything that nothing
//! has read.

mod access;
mod condition;
mod entry;
mod fields;
mod known;
mod labels;
mod middleware;
mod order;
mod place;
mod router;
mod rule;
mod service;
mod whole;

use crate::document::{Content, Node, documents};
use crate::draft::Draft;
use crate::yaml::{Map, one};
use crate::{Files, Grade, ImportError, Imported, Report};
use labels::Labels;
use std::collections::HashSet;

/// What differs whatever is configured.
const ALWAYS: &[&str] = &[
    "paths are compared and sent on in their normal form: `.` and `..` resolved, ordinary escapes decoded",
    "a dot at the end of a host's name is taken away",
    "services get `X-Forwarded-For`, `-Host`, `-Proto` and `Via`; `X-Forwarded-Port`, `X-Forwarded-Server` and \
     `X-Real-Ip` of Traefik are not sent",
    "`X-Forwarded-*` of clients that `trusted_proxies` does not name: those that Thalweg does not write itself go on, where \
     Traefik takes all away",
    "errors of the proxy have pages of its own; the status is 502, 503 or 504 as the fault says",
    "endpoints that refuse connections are left out for a while, and a request that reached nobody goes to another one",
    "routers of equal priority are asked in the order of the files; Traefik does not say which goes first",
    "a port speaks TLS or it does not: Traefik's entry points do both at once",
];

/// A part by its name.
type Named = Vec<(String, Node)>;

/// What has become of a key.
type Outcome = (Grade, String);

fn exact() -> Outcome {
    (Grade::Exact, String::new())
}

fn near(about: &str) -> Outcome {
    (Grade::Near, about.to_owned())
}

fn lost(about: &str) -> Outcome {
    (Grade::Lost, about.to_owned())
}

/// The value of a key, in any case.
fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.entries().iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, node)| node)
}

/// The text of a key.
fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    get(node, key).map(Node::text).filter(|text| !text.is_empty())
}

/// Members of a list as texts.
fn texts(node: Option<&Node>) -> Vec<String> {
    node.map(Node::members).unwrap_or_default().iter().map(|member| member.text().to_owned()).collect()
}

/// Whether a switch is on.
fn is_on(node: &Node, key: &str) -> bool {
    text(node, key).is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// The name without its provider, where that is one of files or labels.
fn local(name: &str) -> &str {
    let ends = ["@file", "@docker", "@swarm"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// A name of a provider's object, found in any case of letters as it is written.
fn find<'a>(all: &'a Named, name: &str) -> Option<&'a Node> {
    all.iter().find(|(known, _)| known == local(name)).map(|(_, node)| node)
}

/// An answer in place of what cannot be said.
fn refusal(about: &str) -> Map {
    let body = format!("not taken over from Traefik: {}\n", crate::draft::literal(about));
    one("respond", one("status", 501_u64).with("body", body))
}

struct Importer {
    report: Report,
    draft: Draft,
    roots: Vec<Node>,
    routers: Named,
    services: Named,
    middlewares: Named,
    transports: Named,
    /// The transport of services that name none.
    transport: Option<Node>,
    entries: Vec<entry::Entry>,
    certificates: Vec<Map>,
    options: Named,
    resolvers: Named,
    /// Why nobody may pass through TLS.
    closed_tls: Option<String>,
    /// Lines that have a grade: file, line and key.
    noted: HashSet<(String, usize, String)>,
}

pub(crate) fn import(paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let mut roots = Vec::new();
    for path in paths {
        let text = files.read(path).map_err(ImportError::unread)?;
        match path.to_ascii_lowercase().ends_with(".toml") {
            true => roots.push(crate::toml::document(&text, path)?),
            false => roots.extend(documents(&text, path)?),
        }
    }
    let (compose, mut roots): (Vec<Node>, Vec<Node>) = roots.into_iter().partition(labels::is_compose);
    let options: Vec<Node> = compose.iter().filter_map(labels::options).collect();
    let is_exposed = labels::is_exposed_by_default(&[&*roots, &*options].concat());
    roots.extend(options);
    let found: Vec<Labels> = compose.iter().map(|root| labels::labels(root, is_exposed)).collect();
    roots.extend(found.iter().map(|labels| labels.root.clone()));
    let mut importer = Importer::new(roots);
    for (key, node, outcome) in found.into_iter().flat_map(|labels| labels.noted) {
        importer.note(&key, &node, outcome);
    }
    importer.collect();
    importer.entry_points();
    importer.certificates();
    importer.routes()?;
    importer.connections();
    importer.known();
    importer.rest();
    let Importer { mut report, mut draft, .. } = importer;
    report.finish();
    draft.head = vec![
        format!("Made by `thalweg import traefik` from {}.", paths.join(", ")),
        "What was not taken over exactly stands in the report of the import.".to_owned(),
    ];
    Ok(Imported { configuration: draft.yaml(), report })
}

impl Importer {
    fn new(roots: Vec<Node>) -> Self {
        Self {
            report: Report::new("Traefik", ALWAYS),
            draft: Draft::default(),
            roots,
            routers: Named::new(),
            services: Named::new(),
            middlewares: Named::new(),
            transports: Named::new(),
            transport: None,
            entries: Vec::new(),
            certificates: Vec::new(),
            options: Named::new(),
            resolvers: Named::new(),
            closed_tls: None,
            noted: HashSet::new(),
        }
    }

    /// Finds the parts of all files.
    fn collect(&mut self) {
        for root in self.roots.clone() {
            if let Some(http) = get(&root, "http") {
                let part = |key| get(http, key).map(|node| node.entries().to_vec()).unwrap_or_default();
                self.routers.extend(part("routers"));
                self.services.extend(part("services"));
                self.middlewares.extend(part("middlewares"));
                self.transports.extend(part("serversTransports"));
            }
            if let Some(transport) = get(&root, "serversTransport") {
                self.transport = Some(transport.clone());
            }
            if let Some(resolvers) = get(&root, "certificatesResolvers") {
                self.resolvers.extend(resolvers.entries().iter().cloned());
            }
            if let Some(options) = get(&root, "tls").and_then(|tls| get(tls, "options")) {
                self.options.extend(options.entries().iter().cloned());
            }
        }
    }

    /// Grades a key.
    fn note(&mut self, key: &str, node: &Node, outcome: Outcome) {
        self.note_for(key, node, outcome, "");
    }

    /// Grades a key, and says which requests it concerns.
    fn note_for(&mut self, key: &str, node: &Node, (grade, about): Outcome, concerns: &str) {
        let place = &node.place;
        self.noted.insert((place.file.clone(), place.line, key.to_ascii_lowercase()));
        let shown = match &node.content {
            Content::Map(_) => key.to_owned(),
            _ => format!("{key}: {}", node.shown()),
        };
        self.report.note(place, shown, grade, about, concerns);
    }

    /// Grades a key and all within it alike.
    fn note_all(&mut self, key: &str, node: &Node, outcome: &Outcome) {
        self.note(key, node, outcome.clone());
        let inner: Vec<&Node> = match &node.content {
            Content::List(list) => list.iter().collect(),
            _ => vec![node],
        };
        for node in inner {
            for (key, node) in node.entries() {
                self.note_all(key, node, outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests;
