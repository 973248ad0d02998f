//! What the static configuration says of the process: providers, logs, metrics, the dashboard.

use super::ledger::{At, Ledger};
use crate::draft::Draft;
use crate::yaml::one;

/// Keys at the top that say nothing of requests, with what stands in their place.
const NEAR: &[(&str, &str)] = &[
    ("log", "the process logs to stderr; `THALWEG_LOG` sets the level"),
    ("api", "the dashboard and the API are those of `admin`; nothing is served at an entry point"),
    ("ping", "`/livez` and `/readyz` are served at `metrics.address`"),
    ("tracing", "see `tracing`"),
    ("global", "nothing is sent anywhere"),
    ("core", "rules are read in the syntax that they are written in"),
    ("experimental", "see the middlewares and providers that it names"),
    ("hostResolver", "names of hosts are taken as clients send them"),
    ("spiffe", "see `tls` of services"),
];

/// Sources of services that stand in the place of a provider.
const SOURCES: &[(&str, &str)] = &[
    (
        "docker",
        "give the compose file with its labels to this importer; `discover: { docker: … }` finds containers",
    ),
    ("swarm", "`discover: { docker: … }` finds containers, routes are written"),
    ("kubernetesIngress", "`discover: { kubernetes: … }` finds endpoints, routes are written"),
    ("kubernetesCRD", "`discover: { kubernetes: … }` finds endpoints, routes are written"),
    ("kubernetesGateway", "`discover: { kubernetes: … }` finds endpoints, routes are written"),
    ("consulCatalog", "`discover: { consul: … }` finds instances, routes are written"),
    ("nomad", "write routes, and endpoints of services"),
    ("ecs", "write routes, and endpoints of services"),
    ("consul", "`route_sources` takes documents of Thalweg's own form"),
    ("etcd", "`discover: { etcd: … }` finds instances, routes are written"),
    ("redis", "`discover: { redis: … }` finds instances, routes are written"),
    ("zooKeeper", "`discover: { zookeeper: … }` finds instances, routes are written"),
    ("http", "`route_sources` takes documents of Thalweg's own form"),
    ("rest", "routes are changed by the admin API"),
];

/// Grades what is there, and writes the access log and metrics.
pub(super) fn read(at: &At<'_>, ledger: &mut Ledger, draft: &mut Draft) {
    for (key, about) in NEAR {
        if let Some(inner) = at.get(key) {
            ledger.near(&inner, *about);
        }
    }
    if let Some(providers) = at.get("providers") {
        for (name, provider) in providers.entries() {
            if name.eq_ignore_ascii_case("file") {
                ledger.exact(&provider);
                continue;
            }
            let known = SOURCES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            ledger.lost(&provider, known.map_or("there is no such source", |(_, about)| about));
        }
    }
    if let Some(log) = at.get("accessLog") {
        ledger.near(
            &log,
            "lines have the fields of Thalweg's own log; filters and fields of its own are left out",
        );
        let format = match log.get("format").map(|it| it.text()) {
            Some("json") => "json",
            _ => "combined",
        };
        let path = log.get("filePath").map_or("stdout", |it| it.text());
        draft.top.put("access_log", one("path", path).with("format", format));
    }
    if let Some(metrics) = at.get("metrics") {
        for (name, inner) in metrics.entries() {
            if name.eq_ignore_ascii_case("prometheus") {
                ledger.near(&inner, "metrics have Thalweg's own names, at an address of their own");
                draft.top.put("metrics", one("address", "127.0.0.1:9901"));
            } else {
                ledger.lost(&inner, "metrics are served in the form of Prometheus");
            }
        }
    }
}
