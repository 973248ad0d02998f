//! Spring Cloud Gateway: `application.yml` with `spring.cloud.gateway`, in the versions before and after
//! `server.webflux` came into the name.
//!
//! `predicates` says which requests a route takes, `filters` what is done to them, `service` where they go. Routes are
//! asked in their `order`, and `arrange` keeps it.

mod filters;
mod predicates;
mod service;

use crate::arrange::arrange;
use crate::branch::Branch;
use crate::document::{Content, Node, documents};
use crate::draft::{Draft, Route, To, duration, literal};
use crate::report::Report;
use crate::yaml::{Map, one};
use crate::{Files, Grade, ImportError, Imported, Place};

/// What differs whatever is configured.
const ALWAYS: &[&str] = &[
    "paths are matched and go upstream in normal form: escapes of ordinary characters decoded, `.` and `..` resolved",
    "requests go upstream with `Via` and `X-Request-Id` beside `X-Forwarded-For`, `-Proto` and `-Host`, and without `Forwarded`, `X-Forwarded-Port` and `-Prefix`",
    "what clients write in `X-Forwarded-*` goes on from `trusted_proxies` alone",
    "errors have a body of Thalweg's own, and when no endpoint is well the status is 503",
    "filters and routes that are beans of the program are not in its configuration: look for `RouteLocator` and `GlobalFilter`",
];

/// What is collected while the configuration is read.
struct Importer {
    report: Report,
    draft: Draft,
    /// Where `lb://` looks services up.
    registry: Registry,
    insecure: bool,
    branches: Vec<Branch>,
    /// Where the routes of the branches stand.
    places: Vec<Place>,
    /// Filters of all routes.
    shared: Vec<Node>,
    cors: Vec<Map>,
    /// Of the first route of a group of `Weight`: where the parts go.
    splits: Vec<(Place, Vec<(String, u64)>)>,
}

#[derive(Debug, Default)]
enum Registry {
    #[default]
    Unknown,
    Eureka(Vec<String>),
    Consul(String),
}

/// Whether two keys are the same to Spring: dashes, underscores and case do not count.
fn same(one: &str, other: &str) -> bool {
    let plain = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    plain(one) == plain(other)
}

/// The value below a key, as Spring binds it.
fn find<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.entries().iter().find(|(known, _)| same(known, key)).map(|(_, node)| node)
}

/// The value below keys within each other.
fn at<'a>(node: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.').try_fold(node, |node, key| find(node, key))
}

/// `a.b: c` as `a: { b: c }`, merged.
fn nested(node: Node) -> Node {
    let Content::Map(entries) = node.content else { return node };
    let mut out = Node { place: node.place.clone(), content: Content::Map(Vec::new()) };
    for (key, value) in entries {
        let (first, rest) = match key.split_once('.') {
            Some((first, rest)) if !key.starts_with('[') => (first.to_owned(), Some(rest.to_owned())),
            _ => (key, None),
        };
        let value = match rest {
            Some(rest) => {
                let place = value.place.clone();
                Node { place, content: Content::Map(vec![(rest, value)]) }
            }
            None => value,
        };
        merge(&mut out, first, nested(value));
    }
    out
}

fn merge(into: &mut Node, key: String, value: Node) {
    let Content::Map(entries) = &mut into.content else { return };
    match entries.iter_mut().find(|(known, _)| same(known, &key)) {
        Some((_, known))
            if matches!((&known.content, &value.content), (Content::Map(_), Content::Map(_))) =>
        {
            if let Content::Map(more) = value.content {
                more.into_iter().for_each(|(key, value)| merge(known, key, value));
            }
        }
        Some((_, known)) => *known = value,
        None => entries.push((key, value)),
    }
}

/// `${NAME:default}` becomes a variable of the configuration that is written.
fn variables(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inner, after)) = behind.split_once('}') else {
            out.push_str("${");
            rest = behind;
            continue;
        };
        let (name, default) = inner.split_once(':').unwrap_or((inner, ""));
        out.push_str(&crate::yaml::variable(&name.replace(['.', '-'], "_").to_ascii_uppercase(), default));
        rest = after;
    }
    out + rest
}

/// Reads configurations of Spring Cloud Gateway.
///
/// # Errors
/// A file cannot be read, or is no YAML.
pub(crate) fn import(paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let mut importer = Importer {
        report: Report::new("Spring Cloud Gateway", ALWAYS),
        draft: Draft::default(),
        registry: Registry::default(),
        insecure: false,
        branches: Vec::new(),
        places: Vec::new(),
        shared: Vec::new(),
        cors: Vec::new(),
        splits: Vec::new(),
    };
    let mut whole = Node { place: Place::default(), content: Content::Map(Vec::new()) };
    for path in paths {
        let text = files.read(path).map_err(ImportError::unread)?;
        for document in documents(&variables(&text), path)? {
            let document = nested(document);
            if let Some(profile) = at(&document, "spring.config.activate.on-profile") {
                let about = "the document of a profile is left out; give its routes in a file of their own";
                let what = format!("on-profile: {}", profile.shown());
                importer.report.note(&profile.place, what, Grade::Lost, about, "what it would say");
                continue;
            }
            if let Content::Map(entries) = document.content {
                entries.into_iter().for_each(|(key, value)| merge(&mut whole, key, value));
            }
        }
    }
    importer.main(&whole);
    importer.report.finish();
    importer.draft.head = vec![
        format!("Made by `thalweg import spring-cloud-gateway {}`.", paths.join(" ")),
        "What was not taken over stands in the report that came with it.".to_owned(),
    ];
    Ok(Imported { configuration: importer.draft.yaml(), report: importer.report })
}

impl Importer {
    fn main(&mut self, whole: &Node) {
        let port = at(whole, "server.port").map_or("8080", |node| node.text()).to_owned();
        let address = at(whole, "server.address").map_or("", |node| node.text()).to_owned();
        for (key, node) in find(whole, "server").map_or(&[][..], Node::entries) {
            let told = match key.as_str() {
                "port" | "address" => (Grade::Exact, ""),
                "ssl" => (Grade::Lost, "write `tls` at the listener, with certificate and key as PEM"),
                "shutdown" => (Grade::Near, "see `shutdown`"),
                _ => (Grade::Lost, "it has no counterpart"),
            };
            self.note(key, node, told.0, told.1);
        }
        self.draft.listeners.put("web", one("address", format!("{address}:{port}")));
        self.registry(whole);
        let gateway = ["spring.cloud.gateway.server.webflux", "spring.cloud.gateway"];
        for gateway in gateway.iter().filter_map(|path| at(whole, path)) {
            self.gateway(gateway);
        }
        for (key, node) in whole.entries() {
            if !matches!(key.as_str(), "spring" | "server" | "eureka") {
                self.note(key, node, Grade::Lost, "it is not about the gateway, and is left out");
            }
        }
        self.routes();
    }

    fn note(&mut self, key: &str, node: &Node, grade: Grade, about: &str) {
        self.report.note(&node.place, format!("{key}: {}", node.shown()), grade, about, "");
    }

    fn registry(&mut self, whole: &Node) {
        if let Some(consul) = at(whole, "spring.cloud.consul") {
            let host = find(consul, "host").map_or("localhost", |node| node.text());
            let port = find(consul, "port").map_or("8500", |node| node.text());
            self.registry = Registry::Consul(format!("http://{host}:{port}"));
            self.note("consul", consul, Grade::Exact, "");
        }
        if let Some(eureka) = find(whole, "eureka") {
            let urls = at(eureka, "client.service-url.defaultZone").map(Node::members).unwrap_or_default();
            let urls = urls.iter().map(|url| url.text().trim_end_matches('/').to_owned()).collect();
            self.registry = Registry::Eureka(urls);
            self.note("eureka", eureka, Grade::Exact, "");
        }
    }

    fn gateway(&mut self, gateway: &Node) {
        let mut timeouts = one("connect", "45s").with("first_byte", "1d").with("idle", "1d");
        self.shared = find(gateway, "default-filters").map(items).unwrap_or_default();
        for (key, node) in gateway.entries() {
            let told = match key.replace('-', "").to_ascii_lowercase().as_str() {
                "routes" | "server" => continue,
                "defaultfilters" => (Grade::Exact, ""),
                "globalcors" => self.globalcors(node),
                "httpclient" => self.httpclient(node, &mut timeouts),
                "discovery" => {
                    (Grade::Lost, "routes are not made of the registry; write each, or `route_sources`")
                }
                "enabled" | "metrics" => (Grade::Near, "metrics are there in any case"),
                _ => (Grade::Lost, "it has no counterpart"),
            };
            self.note(key, node, told.0, told.1);
        }
        let defaults = one("timeouts", timeouts).with("retry", one("attempts", 1_u64));
        self.draft.top.put("defaults", defaults);
        let mut routes: Vec<Node> = find(gateway, "routes").map(items).unwrap_or_default();
        let order =
            |node: &Node| find(node, "order").and_then(|it| it.text().parse::<i64>().ok()).unwrap_or(0);
        routes.sort_by_key(order);
        self.weighted(&mut routes);
        for route in &routes {
            self.route(route);
        }
    }

    fn httpclient(&mut self, node: &Node, timeouts: &mut Map) -> (Grade, &'static str) {
        let mut told = (Grade::Exact, "");
        for (key, value) in node.entries() {
            let time = service::milliseconds(value.text());
            let one = match (key.replace('-', "").to_ascii_lowercase().as_str(), time) {
                ("connecttimeout", Some(time)) => {
                    timeouts.put("connect", duration(time.max(1)));
                    (Grade::Exact, "")
                }
                ("responsetimeout", Some(time)) => {
                    timeouts.put("first_byte", duration(time.max(1)));
                    (Grade::Exact, "")
                }
                ("ssl", _) => {
                    let trusts =
                        find(value, "use-insecure-trust-manager").is_some_and(|it| it.text() == "true");
                    self.insecure |= trusts;
                    match trusts && value.entries().len() == 1 {
                        true => (Grade::Exact, ""),
                        false => (Grade::Lost, "write `tls` at the services"),
                    }
                }
                ("pool", _) => (Grade::Near, "pools size themselves"),
                _ => (Grade::Lost, "it has no counterpart"),
            };
            self.note(key, value, one.0, one.1);
            told.0 = told.0.max(Grade::Exact);
        }
        told
    }

    fn globalcors(&mut self, node: &Node) -> (Grade, &'static str) {
        let mut told = (Grade::Exact, "");
        for (key, value) in node.entries() {
            if !same(key, "cors-configurations") {
                let about = "preflights of all routes are answered";
                self.note(key, value, Grade::Near, about);
                continue;
            }
            for (path, rules) in value.entries() {
                match filters::cors(path.trim_matches(['[', ']']), rules) {
                    Ok(filter) => self.cors.push(filter),
                    Err(why) => {
                        told = (Grade::Lost, "pages of other origins are told nothing");
                        self.note(path, rules, Grade::Lost, &why);
                    }
                }
            }
        }
        told
    }

    /// Routes of all branches, in their order.
    fn routes(&mut self) {
        let branches = std::mem::take(&mut self.branches);
        for placed in arrange(&branches, false) {
            let branch = &branches[placed.branch];
            let mut route = Route {
                name: branch.content.notes.first().cloned().unwrap_or_default(),
                notes: branch.content.notes[1..].to_vec(),
                paths: placed.paths,
                conditions: placed.rest,
                filters: branch.content.filters.clone(),
                to: branch.content.to.clone(),
                timeouts: branch.content.timeouts.clone(),
                limits: branch.content.limits.clone(),
                ..Route::default()
            };
            if placed.is_refused {
                let about = "the order of its predicates cannot be kept; requests are answered 501";
                self.report.note(&self.places[placed.branch], route.name.as_str(), Grade::Lost, about, "");
                let body = "501 Not Implemented: the order of routes cannot be kept\n";
                route.filters = vec![one("respond", one("status", 501_u16).with("body", literal(body)))];
                route.to = To::Nowhere;
            }
            self.draft.push(route);
        }
    }
}

/// The members of a list, also of one that is written as a map of numbers.
fn items(node: &Node) -> Vec<Node> {
    match &node.content {
        Content::List(list) => list.clone(),
        Content::Map(entries) => entries.iter().map(|(_, node)| node.clone()).collect(),
        Content::Text(_) => Vec::new(),
    }
}

/// A predicate or a filter: its name, and its arguments by their number or name.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) args: Vec<(String, Node)>,
    pub(super) place: Place,
    pub(super) text: String,
}

impl Call {
    /// `Path=/a,/b`, or `name` and `args`.
    pub(super) fn parse(node: &Node) -> Self {
        let text =
            |text: &str| Node { place: node.place.clone(), content: Content::Text(text.trim().to_owned()) };
        if let Content::Map(_) = node.content {
            let name = find(node, "name").map_or("", |it| it.text()).to_owned();
            let args = find(node, "args").map(|it| it.entries().to_vec()).unwrap_or_default();
            let shown = args.iter().map(|(key, value)| format!("{key}: {}", value.shown()));
            let shown = format!("{name} {}", shown.collect::<Vec<_>>().join(", "));
            return Self { name, args, place: node.place.clone(), text: shown };
        }
        let (name, rest) = node.text().split_once('=').unwrap_or((node.text(), ""));
        let parts = rest.split(',').filter(|_| !rest.is_empty());
        let args = parts.enumerate().map(|(at, part)| (at.to_string(), text(part))).collect();
        Self { name: name.trim().to_owned(), args, place: node.place.clone(), text: node.text().to_owned() }
    }

    /// An argument by its name, or its number in the short form.
    pub(super) fn arg(&self, name: &str, number: usize) -> Option<&Node> {
        let by_number = || self.args.iter().find(|(key, _)| *key == number.to_string());
        self.args.iter().find(|(key, _)| same(key, name)).or_else(by_number).map(|(_, node)| node)
    }

    /// All arguments of a list.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let texts = |node: &Node| node.members().iter().map(|it| it.text().to_owned()).collect::<Vec<_>>();
        match self.args.iter().find(|(key, _)| same(key, name)) {
            Some((_, node)) => match &node.content {
                Content::Map(entries) => entries.iter().map(|(_, it)| it.text().to_owned()).collect(),
                _ => texts(node),
            },
            None => self
                .args
                .iter()
                .filter(|(_, it)| !it.text().is_empty())
                .map(|(_, it)| it.text().to_owned())
                .collect(),
        }
    }
}
