//! The direction of the crates: which one may name which, and what the pure ones may not reach at all.

use std::collections::{HashMap, HashSet};

use cargo_metadata::{DependencyKind, Metadata, Package, PackageId};

/// Every edge that may exist between crates of the product. A new one is a decision: write it down in
/// `docs/decisions/`, then here.
const EDGES: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("net", &["core"]),
    ("http", &["core"]),
    ("tls", &["core", "http"]),
    ("client", &["core", "http", "tls"]),
    ("acme", &["core", "http", "tls", "client"]),
    ("access", &["core", "http", "tls", "client"]),
    ("route", &["core"]),
    ("sealed", &[]),
    ("cache", &["core", "http"]),
    ("store", &["core", "http", "cache"]),
    ("disk", &["core", "http", "cache", "store"]),
    ("balance", &["core"]),
    ("observe", &["core", "http"]),
    ("wasm", &[]),
    ("filter", &["core", "http", "route", "access", "cache", "wasm"]),
    ("upstream", &["core", "net", "tls", "balance"]),
    ("stream", &["core", "net"]),
    (
        "proxy",
        &[
            "core", "net", "tls", "http", "route", "sealed", "access", "filter", "balance", "upstream",
            "observe", "cache", "store", "disk",
        ],
    ),
    (
        "config",
        &[
            "core",
            "http",
            "tls",
            "client",
            "route",
            "sealed",
            "access",
            "filter",
            "balance",
            "upstream",
            "observe",
            "proxy",
            "discovery",
        ],
    ),
    ("discovery", &["core", "http", "tls", "client", "filter", "upstream"]),
    ("health", &["core", "tls", "client", "upstream"]),
    ("admin", &["core", "http", "tls", "client", "access", "observe", "proxy"]),
    ("import", &["core"]),
    ("har", &[]),
    (
        "thalweg",
        &[
            "core",
            "net",
            "tls",
            "client",
            "http",
            "acme",
            "access",
            "filter",
            "balance",
            "upstream",
            "observe",
            "proxy",
            "config",
            "discovery",
            "health",
            "admin",
            "import",
            "har",
        ],
    ),
];

/// The layers, lowest first: an edge of the table above goes from a higher layer to a lower one.
#[cfg(test)]
const LAYERS: &[&[&str]] = &[
    &["core"],
    &["net", "http", "route", "sealed", "balance", "import", "har", "wasm"],
    &["tls", "observe", "cache"],
    &["upstream", "stream", "client", "store"],
    &["acme", "access", "disk"],
    &["filter"],
    &["proxy"],
    &["discovery", "health"],
    &["config"],
    &["admin"],
    &["thalweg"],
];

/// Crates that hold no socket and no clock.
const PURE: &[&str] = &["core", "http", "route", "sealed", "balance", "cache", "store"];
/// What a pure crate may not depend on, directly or through others.
const IMPURE: &[&str] =
    &["tokio", "mio", "rustix", "socket2", "nix", "polling", "async-io", "smol", "hyper", "hickory-resolver"];

/// Reports edges that the table does not have, and pure crates that reach a socket.
pub(crate) fn check(metadata: &Metadata, findings: &mut Vec<String>) {
    for package in metadata.workspace_packages() {
        let Some(from) = folder(package) else { continue };
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == from) else {
            findings.push(format!("crates/{from} is not in the table of xtask/src/tidy/edges.rs"));
            continue;
        };
        let normal = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        for dependency in normal {
            let Some(to) = dependency.name.strip_prefix("thalweg-") else { continue };
            if !allowed.contains(&to) {
                findings.push(format!(
                    "crates/{from} may not depend on crates/{to}; help: a new edge is a decision, see \
                     xtask/src/tidy/edges.rs"
                ));
            }
        }
        if PURE.contains(&from) {
            for name in reached(metadata, &package.id).iter().filter(|name| IMPURE.contains(&name.as_str())) {
                findings.push(format!("crates/{from} holds no socket and no clock, but reaches {name}"));
            }
        }
    }
}

/// The folder of a crate of the product under `crates/`.
fn folder(package: &Package) -> Option<&str> {
    let folder = package.manifest_path.parent()?;
    (folder.parent()?.file_name()? == "crates").then(|| folder.file_name())?
}

/// The names of all packages that are built into `start`.
fn reached(metadata: &Metadata, start: &PackageId) -> HashSet<String> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes: HashMap<_, _> = nodes.map(|node| (&node.id, node)).collect();
    let (mut seen, mut open) = (HashSet::new(), vec![start]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let deps = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let normal = deps.filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        open.extend(normal.map(|dep| &dep.pkg));
    }
    let packages = metadata.packages.iter().filter(|package| seen.contains(&package.id));
    packages.map(|package| package.name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &str) -> usize {
        LAYERS.iter().position(|layer| layer.contains(&name)).unwrap()
    }

    #[test]
    fn every_allowed_edge_goes_down() {
        for (from, allowed) in EDGES {
            for to in *allowed {
                assert!(layer(from) > layer(to), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn the_data_plane_never_names_config() {
        let above = layer("config");
        for (from, allowed) in EDGES.iter().filter(|(from, _)| layer(from) < above) {
            assert!(!allowed.contains(&"config"), "{from}");
        }
    }
}
