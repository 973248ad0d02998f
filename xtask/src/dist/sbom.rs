//! What the binary is made of (CycloneDX 1.5), from cargo's own metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, Package, PackageId};
use serde_json::{Value, json};

use super::Job;
use super::oci::timestamp;
use crate::command::root;

/// A package that the product needs, with those that it needs itself.
pub(super) struct Part<'a> {
    pub(super) package: &'a Package,
    needs: BTreeSet<&'a PackageId>,
}

/// Everything that the binary is built from, by name: what only tests and build scripts need is left out.
pub(super) fn parts(metadata: &Metadata) -> Result<Vec<Part<'_>>> {
    let graph = metadata.resolve.as_ref().context("cargo metadata has no graph")?;
    let nodes: BTreeMap<_, _> = graph.nodes.iter().map(|node| (&node.id, node)).collect();
    let packages: BTreeMap<_, _> = metadata.packages.iter().map(|package| (&package.id, package)).collect();
    let first = metadata.packages.iter().find(|package| package.name.as_str() == "thalweg");
    let mut open = vec![&first.context("no package `thalweg`")?.id];
    let mut found = BTreeMap::new();
    while let Some(id) = open.pop() {
        let (Some(node), Some(package)) = (nodes.get(id), packages.get(id)) else { continue };
        if found.contains_key(id) {
            continue;
        }
        let needed = node
            .deps
            .iter()
            .filter(|dependency| dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        let needs: BTreeSet<_> = needed.map(|dependency| &dependency.pkg).collect();
        open.extend(&needs);
        found.insert(id, Part { package, needs });
    }
    let mut parts: Vec<_> = found.into_values().collect();
    parts.sort_by_key(|part| (part.package.name.to_string(), part.package.version.clone()));
    Ok(parts)
}

/// The document.
pub(super) fn document(job: &Job, parts: &[Part<'_>]) -> Result<String> {
    let sums = sums()?;
    let names: BTreeMap<_, _> =
        parts.iter().map(|part| (&part.package.id, reference(part.package))).collect();
    let (product, libraries): (Vec<_>, Vec<_>) =
        parts.iter().partition(|part| part.package.name.as_str() == "thalweg");
    let dependencies: Vec<_> = parts
        .iter()
        .map(|part| {
            let needs: Vec<_> = part.needs.iter().filter_map(|id| names.get(*id)).collect();
            json!({ "ref": reference(part.package), "dependsOn": needs })
        })
        .collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(job.epoch),
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist" }] },
            "component": product.first().map(|part| component(part.package, &sums, "application")),
        },
        "components": libraries.iter().map(|part| component(part.package, &sums, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    Ok(format!("{document:#}\n"))
}

fn component(package: &Package, sums: &BTreeMap<String, String>, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version.to_string(),
        "purl": reference(package),
        "scope": "required",
    });
    if let Some(licence) = &package.license {
        // `/` is the old spelling of OR.
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if let Some(description) = &package.description {
        component["description"] = description.split_whitespace().collect::<Vec<_>>().join(" ").into();
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    if let Some(sum) = sums.get(&reference(package)) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

/// The name by which scanners know a package.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

/// The sums that stand in the lock.
fn sums() -> Result<BTreeMap<String, String>> {
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock"))?.parse()?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let text =
        |package: &toml::Value, key: &str| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let sum = |package: &toml::Value| {
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        Some((format!("pkg:cargo/{name}@{version}"), text(package, "checksum")?))
    };
    Ok(packages.iter().filter_map(sum).collect())
}
