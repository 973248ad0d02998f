//! Keys of the process, and all that nothing else has read: each gets its grade here.

use super::{Importer, Outcome, exact, get, lost, near};
use crate::document::{Content, Node};
use std::path::Path;

/// Providers, and what stands in the place of each.
const PROVIDERS: &[(&str, &str)] = &[
    (
        "docker",
        "write `route_sources: [ { docker: … } ]`, which reads labels of containers, or `discover: { docker: … }`",
    ),
    ("swarm", "write `discover: { docker: … }` at the services"),
    (
        "kubernetesIngress",
        "write `route_sources: [ { kubernetes: … } ]`, or `discover: { kubernetes: … }` at the services",
    ),
    (
        "kubernetesCRD",
        "write `route_sources: [ { kubernetes: … } ]`, or `discover: { kubernetes: … }` at the services",
    ),
    (
        "kubernetesGateway",
        "write `route_sources: [ { kubernetes: … } ]`, or `discover: { kubernetes: … }` at the services",
    ),
    ("consul", "write `route_sources: [ { consul: … } ]`: its keys hold Thalweg's documents"),
    ("consulCatalog", "write `discover: { consul: … }` at the services"),
    ("nomad", "no source asks Nomad: register with Consul and write `discover: { consul: … }`"),
    ("etcd", "write `route_sources: [ { etcd: … } ]`: its keys hold Thalweg's documents"),
    ("redis", "write `route_sources: [ { redis: … } ]`: its keys hold Thalweg's documents"),
    ("zooKeeper", "write `route_sources: [ { zookeeper: … } ]`: its nodes hold Thalweg's documents"),
    ("http", "write `route_sources: [ { http: … } ]`: the server gives Thalweg's documents"),
    ("rest", "the admin API changes the configuration while the proxy runs"),
    ("ecs", "no source asks ECS: write `discover: { http: … }` or `{ dns: … }` at the services"),
];

impl Importer {
    /// What concerns the process.
    pub(super) fn known(&mut self) {
        for root in self.roots.clone() {
            for (key, node) in root.entries() {
                match key.to_ascii_lowercase().as_str() {
                    "providers" => self.providers(key, node),
                    "accesslog" => self.access_log(key, node),
                    "metrics" => self.metrics(key, node),
                    "log" => self.note_all(
                        key,
                        node,
                        &near("the level is set by `THALWEG_LOG`; logs go to stderr"),
                    ),
                    "global" => self.note_all(key, node, &exact()),
                    "api" | "ping" => {
                        let about = "the admin API, its dashboard and its health checks are on a socket of their own: \
                                     write `admin: { address: … }`";
                        self.note_all(key, node, &lost(about));
                    }
                    "tracing" => self.note_all(key, node, &lost("write `tracing: { endpoint: … }`")),
                    "experimental" => self.note_all(key, node, &lost("plugins of Traefik do not run here")),
                    "core" => self.note_all(key, node, &exact()),
                    _ => {}
                }
            }
        }
    }

    fn providers(&mut self, key: &str, node: &Node) {
        self.note(key, node, exact());
        for (name, inner) in node.entries() {
            if name.eq_ignore_ascii_case("file") {
                self.note(name, inner, exact());
                for (key, value) in inner.entries() {
                    let outcome = self.provided(key, value.text());
                    self.note(key, value, outcome);
                }
                continue;
            }
            let known = PROVIDERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let about = known.map_or("no source stands in its place", |(_, about)| *about);
            self.note_all(name, inner, &lost(about));
        }
    }

    /// The provider of files: those that it names must be among the given ones.
    fn provided(&self, key: &str, value: &str) -> Outcome {
        let is_given =
            |path: &Path| self.roots.iter().any(|root| Path::new(&root.place.file).ends_with(path));
        let bare = Path::new(value.trim_start_matches("./"));
        match key.to_ascii_lowercase().as_str() {
            "filename" if is_given(bare.file_name().map_or(bare, Path::new)) => exact(),
            "filename" | "directory" => near("give the files that it names to `thalweg import` too"),
            "watch" if value != "true" => exact(),
            "watch" => near("the configuration is read again by `thalweg reload`, or by the source `file`"),
            _ => exact(),
        }
    }

    fn access_log(&mut self, key: &str, node: &Node) {
        self.note(key, node, near("lines are JSON with fields of Thalweg's own, or `combined`"));
        let mut log = crate::yaml::Map::default();
        for (name, inner) in node.entries() {
            match name.to_ascii_lowercase().as_str() {
                "filepath" => {
                    log.put("path", inner.text());
                    self.note(name, inner, exact());
                }
                "format" => {
                    log.put("format", if inner.text() == "json" { "json" } else { "combined" });
                    self.note(name, inner, near("the fields of a line have names of their own"));
                }
                "bufferingsize" => self.note(name, inner, exact()),
                _ => self.note_all(name, inner, &lost("write `access_log.sample` or the filter `log`")),
            }
        }
        self.draft
            .top
            .put("access_log", if log.is_empty() { crate::yaml::one("format", "combined") } else { log });
    }

    fn metrics(&mut self, key: &str, node: &Node) {
        self.note(key, node, exact());
        for (name, inner) in node.entries() {
            let outcome: Outcome = if name.eq_ignore_ascii_case("prometheus") {
                lost("write `metrics: { address: … }`; metrics have names of their own")
            } else {
                lost("metrics are read in Prometheus' format: write `metrics: { address: … }`")
            };
            self.note_all(name, inner, &outcome);
        }
    }

    /// Grades what nothing has read.
    pub(super) fn rest(&mut self) {
        for root in self.roots.clone() {
            for (key, node) in root.entries() {
                self.rest_of(key, node);
            }
        }
    }

    fn rest_of(&mut self, key: &str, node: &Node) {
        let inner: Vec<&Node> = match &node.content {
            Content::List(list) => list.iter().collect(),
            _ => vec![node],
        };
        if !self.is_noted(key, node) {
            let has_known = inner.iter().any(|node| self.has_noted(node));
            let outcome =
                if has_known { exact() } else { lost("this key has no counterpart, or nothing uses it") };
            self.note(key, node, outcome);
        }
        for node in inner {
            for (key, node) in node.entries() {
                self.rest_of(key, node);
            }
        }
    }

    fn is_noted(&self, key: &str, node: &Node) -> bool {
        self.noted.contains(&(node.place.file.clone(), node.place.line, key.to_ascii_lowercase()))
    }

    fn has_noted(&self, node: &Node) -> bool {
        node.entries().iter().any(|(key, inner)| {
            let in_list =
                matches!(&inner.content, Content::List(list) if list.iter().any(|it| self.has_noted(it)));
            self.is_noted(key, inner) || self.has_noted(inner) || in_list
        })
    }
}

/// A number of milliseconds: `10s`, `1m30s`, or seconds alone.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000);
    }
    let (mut total, mut rest) = (0.0_f64, text);
    while !rest.is_empty() {
        let at = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, behind) = rest.split_at(at);
        let end = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let factor = match &behind[..end] {
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = &behind[end..];
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations are small and positive"
    )]
    (total > 0.0 && total < 1e15).then_some(total as u64)
}

/// The value of a key with a duration.
pub(super) fn time(node: &Node, key: &str) -> Option<u64> {
    get(node, key).and_then(|node| milliseconds(node.text()))
}
