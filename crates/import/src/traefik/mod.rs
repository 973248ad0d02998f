//! Traefik, versions 2 and 3: static and dynamic files in YAML or TOML, and labels of compose files.
//!
//! `ledger` keeps what becomes of each value, `labels` makes a tree of labels, `entry_points` and `process` read the
//! static configuration, `rule` and `matching` bring rules into the order in which routes must stand, `middlewares`,
//! `headers` and `redirects` make filters, `services` services, `routers` routes of them all, `connections` listeners
//! for TCP and UDP.

mod connections;
mod entry_points;
mod headers;
mod labels;
mod ledger;
mod matching;
mod middlewares;
mod process;
mod redirects;
mod routers;
mod rule;
mod services;
#[cfg(test)]
mod tests;

use crate::draft::Draft;
use crate::node::{self, Node};
use crate::report::Report;
use crate::yaml::{Map, Value, one};
use crate::{Files, ImportError, Imported, Place};
use entry_points::{EntryPoint, Tls};
use ledger::{At, File, Ledger};
use middlewares::Middlewares;
use services::Services;

/// What differs whatever is configured.
const ALWAYS: &[&str] = &[
    "paths go upstream in normal form: escapes of ordinary characters decoded, `.` and `..` resolved",
    "a path that begins with `//` and escapes that hide a slash, backslash or control character are refused with 400",
    "requests have `Via` and `X-Request-Id`, and no `X-Forwarded-Port`, `X-Forwarded-Server` and `X-Real-Ip`; what a client has sent in `X-Forwarded-*` is kept from `trusted_proxies` alone",
    "prefixes of rules are regular expressions in the order of priorities, which end anywhere as Traefik's do",
    "the proxy's own errors have a body of their own: where no router takes a request, and of redirects",
    "a service without servers that are well is 503; one that refuses connections is 502 or 503",
    "endpoints that fail five times in a row are left out for a while, and requests that may be repeated are sent again once",
    "a response must begin within 60 seconds (`timeouts.first_byte`); Traefik waits without end",
    "challenges of `basicAuth` name `charset=\"UTF-8\"`",
];

/// What is collected of all files.
#[derive(Default)]
struct Model<'a> {
    routers: Vec<(String, At<'a>)>,
    middlewares: Middlewares<'a>,
    services: Services<'a>,
    tls: Tls,
    points: Vec<EntryPoint>,
    default_v2: bool,
    tcp: connections::Connections<'a>,
}

/// Reads configurations of Traefik.
///
/// # Errors
/// A file cannot be read, or is neither YAML nor TOML.
pub(crate) fn import(paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let mut read = Vec::new();
    for path in paths {
        of_file(path, files, &mut read)?;
    }
    for path in provided(&read, paths, files) {
        of_file(&path, files, &mut read)?;
    }
    let mut report = Report::new("Traefik", ALWAYS);
    let (mut ledger, mut draft) = (Ledger::default(), Draft::default());
    let mut model = Model::default();
    let mut timeouts = one("connect", "30s");
    for (number, file) in read.iter().enumerate() {
        model.take(&At::root(number, &file.root), &mut ledger, &mut draft, &mut timeouts);
    }
    draft.top.put("defaults", one("timeouts", timeouts));
    model.usual_points();
    trusted(&model.points, &mut draft);
    model.routes(&mut ledger, &mut draft);
    model.tcp.listeners(&model.points, &mut ledger, &mut draft);
    ledger.write(&read, &mut report);
    report.finish();
    draft.head = vec![
        format!("Made by `thalweg import traefik {}`.", paths.join(" ")),
        "What was not taken over stands in the report that came with it.".to_owned(),
    ];
    Ok(Imported { configuration: draft.yaml(), report })
}

fn of_file(path: &str, files: &dyn Files, read: &mut Vec<File>) -> Result<(), ImportError> {
    let error = |line, message: String| ImportError::new(&Place { file: path.to_owned(), line }, message);
    let text = files.read(path).map_err(|message| error(1, message))?;
    for root in node::read(path, &text).map_err(|(line, message)| error(line, message))? {
        let file = match labels::is_compose(&root) {
            true => File { name: path.to_owned(), root: labels::tree(&root), prefix: "traefik." },
            false => File { name: path.to_owned(), root, prefix: "" },
        };
        read.push(file);
    }
    Ok(())
}

/// Files that the provider `file` of the static configuration names, and that are not given already.
fn provided(read: &[File], paths: &[String], files: &dyn Files) -> Vec<String> {
    let mut found = Vec::new();
    for file in read {
        let Some(provider) = file.root.get("providers").and_then(|it| it.get("file")) else { continue };
        let base = file.name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        for key in ["filename", "directory"] {
            let Some(named) = provider.get(key).map(Node::text).filter(|named| !named.is_empty()) else {
                continue;
            };
            let patterns = match key {
                "filename" => vec![named.to_owned()],
                _ => ["yml", "yaml", "toml"]
                    .iter()
                    .map(|end| format!("{}/*.{end}", named.trim_end_matches('/')))
                    .collect(),
            };
            for pattern in patterns {
                // A path of the original's machine may stand beside the static file here.
                let beside = format!("{base}{}", pattern.trim_start_matches('/'));
                for pattern in [pattern.as_str(), beside.as_str()] {
                    found.extend(files.glob(pattern).unwrap_or_default());
                }
            }
        }
    }
    found.retain(|path| !paths.contains(path));
    found.dedup();
    found
}

/// Peers whose forwarded fields are believed.
fn trusted(points: &[EntryPoint], draft: &mut Draft) {
    let mut nets: Vec<String> = Vec::new();
    for text in points.iter().flat_map(|point| &point.trusted) {
        if let Some(net) = crate::networks::network(text).map(|net| net.to_string()) {
            if !nets.contains(&net) {
                nets.push(net);
            }
        }
    }
    if !nets.is_empty() {
        draft.top.put("trusted_proxies", Value::from(nets));
    }
}

impl<'a> Model<'a> {
    fn take(&mut self, at: &At<'a>, ledger: &mut Ledger, draft: &mut Draft, timeouts: &mut Map) {
        if let Some(points) = at.get("entryPoints") {
            self.points.extend(entry_points::read(&points, ledger));
            entry_points::timeouts(&points, ledger, timeouts);
        }
        process::read(at, ledger, draft);
        let syntax = at.find(&["core", "defaultRuleSyntax"]);
        self.default_v2 |= syntax.is_some_and(|it| it.text() == "v2");
        for (name, resolver) in at.get("certificatesResolvers").map(|it| it.entries()).unwrap_or_default() {
            self.tls.resolver(name, &resolver, ledger);
        }
        if let Some(transport) = at.get("serversTransport") {
            ledger
                .near(&transport, "write it at the services: it holds for those alone that name a transport");
        }
        if let Some(tls) = at.get("tls") {
            self.tls.read(&tls, ledger);
        }
        // A container without `traefik.enable=false` is taken.
        ledger.exact_keys(at, &["enable"]);
        if let Some(docker) = at.get("docker") {
            ledger.near(&docker, "endpoints are reached by the name of their compose service");
        }
        let Some(http) = at.get("http") else { return self.tcp.take(at, ledger) };
        for (name, router) in http.get("routers").map(|it| it.entries()).unwrap_or_default() {
            self.routers.push((name.to_owned(), router));
        }
        for (name, middleware) in http.get("middlewares").map(|it| it.entries()).unwrap_or_default() {
            self.middlewares.insert(name.to_owned(), middleware);
        }
        for (name, service) in http.get("services").map(|it| it.entries()).unwrap_or_default() {
            // What labels say of a server stands in `servers` too.
            if let Some(balancer) = service.get("loadBalancer") {
                ledger.exact_keys(&balancer, &["server"]);
            }
            self.services.all.insert(name.to_owned(), service);
        }
        for (name, transport) in http.get("serversTransports").map(|it| it.entries()).unwrap_or_default() {
            self.services.transports.insert(name.to_owned(), transport);
        }
        self.tcp.take(at, ledger);
    }

    /// Entry points that routers name and no static file was given of.
    fn usual_points(&mut self) {
        let named = |at: &At<'_>| at.get("entryPoints").map(|it| it.texts()).unwrap_or_default();
        let mut names: Vec<String> = self.routers.iter().flat_map(|(_, at)| named(at)).collect();
        if self.points.is_empty() && names.is_empty() {
            names.push("http".to_owned());
        }
        if !self.points.is_empty() {
            return;
        }
        for name in names {
            if self.points.iter().any(|point| point.name == name) {
                continue;
            }
            let is_tls = name.contains("secure") || name.contains("https");
            let address = match name.as_str() {
                "web" | "http" | "websecure" | "https" => {
                    if is_tls {
                        ":443"
                    } else {
                        ":80"
                    }
                }
                _ => continue,
            };
            let point = EntryPoint { name, address: address.to_owned(), ..EntryPoint::default() };
            self.points.push(point);
        }
    }
}
