//! Folders of a crate stand in the order in which they may build on each other: a module imports from its own folder
//! and from those below it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command::root;

/// The crate whose folders are ordered.
const CRATE: &str = "crates/proxy/src";
/// Its folders and single files, from the bottom up.
const ORDER: &[&str] = &[
    "plan",
    "purge",
    "buffers",
    "budget",
    "relay",
    "state",
    "overload",
    "tls",
    "records",
    "h2",
    "exchange",
    "serve",
    "listener",
    "l4",
    "connection",
    "worker",
    "explain",
];
/// Upward imports that are borne: module, folder, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("state/worker.rs", "h2", "the worker owns the table of its HTTP/2 connections"),
    ("state/worker.rs", "l4", "the worker owns the tables of its tunnels and of its UDP sessions"),
    ("state/worker.rs", "records", "the worker owns its records"),
    ("state/shared.rs", "records", "a query for records is a message to a worker"),
    ("relay/stream.rs", "h2", "a socket that is a stream of HTTP/2 is known by its type"),
    ("tls/layer.rs", "h2", "a stream of HTTP/2 has the TLS facts of its connection"),
];
/// More exceptions than this are a wrong order.
const MOST_EXCEPTIONS: usize = 10;

/// Reports imports that run upward, folders without a place in the order, and exceptions that nothing needs.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let mut used = vec![false; EXCEPTIONS.len()];
    let base = root().join(CRATE);
    visit(&base, &base, &mut |module, text| {
        let folder = folder_of(module);
        let Some(rank) = ORDER.iter().position(|name| *name == folder) else {
            findings.push(format!(
                "{CRATE}/{module}: `{folder}` has no place in ORDER (xtask/src/tidy/folders.rs)"
            ));
            return;
        };
        for (line, target) in imports(text) {
            let Some(of) = ORDER.iter().position(|name| *name == target).filter(|of| *of > rank) else {
                continue;
            };
            let known = EXCEPTIONS.iter().position(|(from, to, _)| *from == module && *to == ORDER[of]);
            match known {
                Some(at) => used[at] = true,
                None => findings.push(format!(
                    "{CRATE}/{module}:{line}: imports `{target}`, which stands above `{folder}`; help: move what is \
                     shared down"
                )),
            }
        }
    })?;
    let unused = EXCEPTIONS.iter().zip(&used).filter(|(_, used)| !**used);
    findings.extend(unused.map(|((from, to, _), _)| {
        format!(
            "{CRATE}/{from}: the exception for `{to}` in xtask/src/tidy/folders.rs is not needed any more"
        )
    }));
    if EXCEPTIONS.len() > MOST_EXCEPTIONS {
        findings.push(format!("xtask/src/tidy/folders.rs has more than {MOST_EXCEPTIONS} exceptions"));
    }
    Ok(())
}

/// The first component of a module's path, without `.rs`.
fn folder_of(module: &str) -> &str {
    let first = module.split('/').next().unwrap_or(module);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// What a module names behind `crate::`, with the line; tests and comments do not count.
fn imports(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(code_of(text).lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.flat_map(|(at, line)| {
        line.split("crate::").skip(1).map(move |rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (at, &rest[..end])
        })
    })
}

/// A module without its tests.
pub(super) fn code_of(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// Calls `see` with the name and the text of every module below a folder; the root and files of tests are left out.
pub(super) fn visit(base: &Path, folder: &Path, see: &mut impl FnMut(&str, &str)) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.strip_prefix(base).unwrap_or(&path).display().to_string();
        let is_test = name.ends_with("tests.rs") || name.ends_with("simulation.rs");
        if path.is_dir() {
            visit(base, &path, see)?;
        } else if name.ends_with(".rs") && name != "lib.rs" && !is_test {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            see(&name, &text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_where_code_names_them() {
        let text = "use crate::relay::Flow;\n// crate::worker\nfn f() { crate::h2::call() }\n\n#[cfg(test)]\nmod tests {\n    use crate::explain::x;\n}";
        assert_eq!(imports(text).collect::<Vec<_>>(), [(1, "relay"), (3, "h2")]);
        assert_eq!(folder_of("exchange/upstream/pick.rs"), "exchange");
        assert_eq!(folder_of("serve.rs"), "serve");
    }
}
