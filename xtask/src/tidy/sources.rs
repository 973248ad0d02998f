//! Sources: length of files, `forbid(unsafe_code)` in every crate but one, and serde on `*Spec` types alone.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, TargetKind};

use crate::command::root;

/// A file with more lines fails; what is long should be two things.
const LINES: usize = 800;
/// Files that are tables or were generated, and may be longer.
const LONG: &[&str] = &[];
/// Folders with sources of ours, from the root.
const FOLDERS: &[&str] = &["crates", "tests", "xtask", "bench", "fuzz"];
/// Folders inside those that hold what was built or found.
const SKIPPED: &[&str] = &["target", "corpus", "artifacts", "node_modules"];
/// Crates that may hold `unsafe`: the one that talks to the kernel, and the tests (an allocator hook).
const MAY_BE_UNSAFE: &[&str] = &["thalweg-net", "thalweg-tests"];

/// Reports findings in the sources.
pub(crate) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    for folder in FOLDERS.iter().map(|folder| root().join(folder)).filter(|folder| folder.is_dir()) {
        let mut files = Vec::new();
        collect(&folder, &mut files)?;
        for path in files {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            let lines = text.lines().count();
            if lines > LINES && !LONG.contains(&name.as_str()) {
                findings.push(format!("{name} has {lines} lines; {LINES} is the most"));
            }
            if name.starts_with("crates/") {
                let types = deserialized(&text).into_iter().filter(|name| !name.ends_with("Spec"));
                findings.extend(types.map(|ty| format!("{name}: {ty} derives Deserialize but is no *Spec")));
            }
        }
    }
    let packages = metadata.workspace_packages().into_iter();
    for package in packages.filter(|package| !MAY_BE_UNSAFE.contains(&package.name.as_str())) {
        for target in package.targets.iter().filter(|target| is_root(&target.kind)) {
            let text = fs::read_to_string(&target.src_path)?;
            if !text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]") {
                let path = target.src_path.strip_prefix(&metadata.workspace_root).unwrap_or(&target.src_path);
                findings.push(format!("{path} lacks #![forbid(unsafe_code)]"));
            }
        }
    }
    Ok(())
}

fn is_root(kinds: &[TargetKind]) -> bool {
    kinds.iter().any(|kind| matches!(kind, TargetKind::Lib | TargetKind::Bin | TargetKind::ProcMacro))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_ref()) {
                collect(&path, files)?;
            }
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The names of types that derive `Deserialize`.
fn deserialized(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("#[derive(") {
        rest = &rest[at..];
        let end = rest.find(")]").unwrap_or(rest.len());
        let (derive, after) = rest.split_at(end);
        rest = after;
        if derive.contains("Deserialize") {
            let mut words = after.split(|c: char| !c.is_alphanumeric() && c != '_');
            let keyword = words.by_ref().find(|word| matches!(*word, "struct" | "enum"));
            // Empty: a macro says it (`enum $name`).
            names.extend(keyword.and_then(|_| words.next()).filter(|name| !name.is_empty()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_derive_deserialize_are_named() {
        let text = "#[derive(Debug)]\nstruct A;\n#[derive(Debug, serde::Deserialize)]\n#[serde(deny_unknown_fields)]\n\
                    pub struct BSpec { }\n#[derive(\n Deserialize,\n)]\npub(crate) enum C<T> {}\n\
                    #[derive(Deserialize)]\nenum $made {}";
        assert_eq!(deserialized(text), ["BSpec", "C"]);
    }
}
