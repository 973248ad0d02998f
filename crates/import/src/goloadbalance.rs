//! GoLoadBalance: its YAML file, which says the same as its command line.
//!
//! It listens on :8080, goes round its servers, asks each for `/ping`, and takes those away that do not answer.

use crate::document::{Node, documents};
use crate::draft::{Draft, Route, To, duration};
use crate::report::Report;
use crate::yaml::{Map, Value, one};
use crate::{Files, Grade, ImportError, Imported, Place, networks};

/// What differs whatever is configured.
const ALWAYS: &[&str] = &[
    "status, fields and cookies of a response come through: there every answer is 200 with two of its fields",
    "who is blocked gets 403, not 401",
    "a server that was taken away comes back when it is well again, and the last one that fails does not end the process: clients get 503",
    "servers are added and taken away at the admin API, and not at the public address; `/goloadbalance` goes to the servers like any path (`thalweg status` says how they are)",
    "what is cached follows RFC 9111: private responses, and those that say `no-store`, are not given to others",
    "redirects of servers go to the client, and are not followed",
    "requests go upstream with `Via`, `X-Request-Id` and `X-Forwarded-*`",
];

/// Reads files of GoLoadBalance.
///
/// # Errors
/// A file cannot be read, or is no YAML.
pub(crate) fn import(paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let mut report = Report::new("GoLoadBalance", ALWAYS);
    let mut draft = Draft::default();
    let mut read = Read::default();
    for path in paths {
        let text = files.read(path).map_err(ImportError::unread)?;
        for document in documents(&text, path)? {
            for (key, node) in document.entries() {
                let (grade, about) = read.take(key, node);
                report.note(&node.place, format!("{key}: {}", node.shown()), grade, about, "");
            }
        }
    }
    if read.servers.is_empty() {
        let place = Place { file: paths.first().cloned().unwrap_or_default(), line: 1 };
        return Err(ImportError::new(&place, "it has no `servers`"));
    }
    draft.listeners.put("web", one("address", ":8080"));
    if let Some(url) = &read.webhook {
        let events = vec!["endpoint_down"];
        draft.top.put("webhooks", vec![one("url", url.as_str()).with("events", events)]);
    }
    let mut filters: Vec<Map> = Vec::new();
    if !read.blocked.is_empty() {
        filters.push(one("access", one("deny", read.blocked.clone())));
    }
    if let Some(seconds) = read.cached() {
        filters.push(one("cache", one("default_ttl", duration(seconds * 1000))));
    }
    let service = draft.service("servers", &read.service());
    draft.push(Route { name: "all".into(), filters, to: To::Service(service), ..Route::default() });
    draft.head = vec![
        format!("Made by `thalweg import goloadbalance {}`.", paths.join(" ")),
        "What was not taken over stands in the report that came with it.".to_owned(),
    ];
    report.finish();
    Ok(Imported { configuration: draft.yaml(), report })
}

/// What the file says.
#[derive(Debug, Default)]
struct Read {
    servers: Vec<String>,
    blocked: Vec<String>,
    webhook: Option<String>,
    is_cached: bool,
    ttl: Option<u64>,
    interval: Option<u64>,
    retries: Option<u64>,
}

impl Read {
    fn take(&mut self, key: &str, node: &Node) -> (Grade, &'static str) {
        let number = node.text().parse::<u64>().ok().filter(|number| *number > 0);
        match key {
            "servers" => {
                let mut told = (Grade::Exact, "");
                for member in node.members() {
                    let url = member.text().trim_end_matches('/');
                    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
                    let host = rest.split('/').next().unwrap_or_default();
                    if host != rest {
                        told = (
                            Grade::Near,
                            "paths of servers are asked for by health checks alone, and are left out",
                        );
                    }
                    if scheme == "https" {
                        told = (
                            Grade::Near,
                            "as there, certificates are not verified; remove `insecure_skip_verify`",
                        );
                    }
                    self.servers.push(format!("{scheme}://{host}"));
                }
                return told;
            }
            "algorithm" if matches!(node.text(), "" | "round_robin") => {}
            "algorithm" => {
                return (Grade::Exact, "it knows `round_robin` alone, and goes round all the same");
            }
            "blacklisted_ips" => {
                for member in node.members() {
                    match networks::network(member.text()) {
                        Some(network) => self.blocked.push(network.to_string()),
                        None => return (Grade::Lost, "one of them is no address"),
                    }
                }
            }
            "on_dead_server_webhook" => {
                self.webhook = Some(node.text().to_owned());
                return (
                    Grade::Near,
                    "the document is Thalweg's own, about one endpoint, and is sent when it fails",
                );
            }
            "cache_enabled" => self.is_cached = node.text() == "true",
            "cache_timeout_in_seconds" => {
                self.ttl = number;
                return (Grade::Near, "it is the lifetime of responses that say none of their own");
            }
            "health_check_frequency_in_seconds" => self.interval = number,
            "health_check_max_retries" => self.retries = number,
            _ => return (Grade::Lost, "it is not known"),
        }
        (Grade::Exact, "")
    }

    /// How long responses are kept.
    fn cached(&self) -> Option<u64> {
        self.is_cached.then(|| self.ttl.unwrap_or(10))
    }

    fn service(&self) -> Map {
        let interval = duration(self.interval.unwrap_or(10).min(3600) * 1000);
        let health = one("path", "/ping")
            .with("interval", interval)
            // Whatever it answers, it is there.
            .with("expect", vec!["200-599"])
            // The first attempt and those that follow it.
            .with("unhealthy_after", (self.retries.unwrap_or(10) + 1).min(100))
            .with("healthy_after", 1_u64);
        let endpoints: Vec<Value> = self.servers.iter().map(|url| Value::from(url.as_str())).collect();
        let service = one("endpoints", endpoints).with("health", health);
        match self.servers.iter().any(|url| url.starts_with("https://")) {
            true => service.with("tls", one("insecure_skip_verify", true)),
            false => service,
        }
    }
}
