//! Manifests: every version is chosen in one place, the root's `workspace.dependencies`.

use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::Metadata;
use toml::{Table, Value};

/// Tables of a manifest that name dependencies.
const SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Reports dependencies that a member does not inherit from the root, and lints that it does not inherit.
pub(crate) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    for package in metadata.workspace_packages() {
        let path = &package.manifest_path;
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        let manifest: Table = text.parse().with_context(|| format!("cannot parse {path}"))?;
        let shown = path.strip_prefix(&metadata.workspace_root).unwrap_or(path);
        for finding in of_manifest(&manifest) {
            findings.push(format!("{shown}: {finding}"));
        }
    }
    Ok(())
}

fn of_manifest(manifest: &Table) -> Vec<String> {
    let mut findings = Vec::new();
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = targets.filter_map(|(_, target)| target.as_table()).chain([manifest]);
    for table in tables {
        for section in SECTIONS {
            let entries = table.get(*section).and_then(Value::as_table).into_iter().flatten();
            for (name, _) in entries.filter(|(_, entry)| !inherits(entry)) {
                findings.push(format!("{name} is not taken from the root's workspace.dependencies"));
            }
        }
    }
    if !manifest.get("lints").is_some_and(inherits) {
        findings.push("lints are not inherited; help: add `[lints] workspace = true`".to_owned());
    }
    findings
}

fn inherits(entry: &Value) -> bool {
    entry.get("workspace").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_in_a_member_is_found_and_an_inherited_one_is_not() {
        let bad = "[dependencies]\nserde = \"1\"\n[lints]\nworkspace = true";
        assert_eq!(of_manifest(&bad.parse().unwrap()).len(), 1);
        let good =
            "[dependencies]\nserde = { workspace = true, features = [\"rc\"] }\n[lints]\nworkspace = true";
        assert!(of_manifest(&good.parse().unwrap()).is_empty());
    }
}
