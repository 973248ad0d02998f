//! Restrictions on a configuration that arrives by API: keys that it may not introduce or remove, and redaction of
//! secrets.
//!
//! Called with trees as they were parsed, before `${…}` is filled in: a reference to the environment is itself
//! restricted. The order for a text that arrived is [`restore`], parse again, [`check_arrived`], and only then the
//! stages of `load`. Marks on the fields of Specs (`schema/marks.rs`) define which keys are restricted, kept, secret
//! or destinations of secrets; the tree is walked in parallel with them. Invariant: a restricted value is allowed
//! only if the file on disk has it at the same place. A new key that names a file, a variable, a program, an address,
//! a secret or a degree of trust needs a mark; the suite in `marks/tests.rs` fails for a key with such a name and no
//! mark.

mod concealed;
mod path;
mod redacted;
mod same_routes;
mod secrets;
mod sent;

use crate::include::unfilled;
use crate::interpolate::Environment;
use crate::parse::{Kind, Node};
use crate::source::Span;
use path::{Path, scalar};
use same_routes::paired;

pub(crate) use concealed::concealed;
pub use redacted::{redact, restore};
pub use secrets::REDACTED;
pub(crate) use secrets::{secret_places, secret_places_in};
pub(crate) use sent::{Carriers, astray_by_documents, carriers};

/// Keys that a port must keep even under another listener's name.
const OF_PORTS: &[&str] = &["tls", "proxy_protocol"];
const LISTENERS: &str = "listeners";

/// Something that only the file on disk may introduce.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Breach {
    /// Path of the key, as in `webhooks[0].secret.file`.
    pub key: String,
    /// Where it stands in the text that arrived.
    pub span: Span,
}

/// Compares a configuration that arrived with the one on disk. Elements of lists are the same when
/// `name`, `id`, `url`, `address`, `server` and `cert` are, as far as they have them, else when their positions
/// are; values of `trusted_proxies` and the like when they are equal. What belongs to one `url`,
/// `address` or `server` does not belong to another: a token must not be sent somewhere else.
///
/// # Errors
/// Restricted values that the file on disk does not have at the same place; keys that must be kept, such as `tls` and
/// `client_auth`, and are missing at the same place or port; and secrets in request fields that would go to other
/// endpoints than before.
pub fn check_arrived(on_disk: &Node, arrived: &Node) -> Result<(), Vec<Breach>> {
    check((on_disk, arrived), (on_disk, arrived))
}

/// [`check_arrived`] for texts of the file `name`, with all files that they include: a secret of an included file
/// stays with its destination, and a listener of one keeps its protections.
///
/// # Errors
/// As there. `None`: one of the texts, or a file that the one on disk includes, cannot be read.
pub fn check_arrived_text(
    (name, on_disk): (&str, &str),
    arrived: &str,
    environment: Environment<'_>,
) -> Option<Result<(), Vec<Breach>>> {
    let (known, new) = (unfilled(name, on_disk, environment)?, unfilled(name, arrived, environment)?);
    // What the arriving text includes besides is itself a breach.
    let whole = (known.whole.as_ref()?, new.whole.as_ref().unwrap_or(&new.main));
    Some(check((&known.main, &new.main), whole))
}

/// The main files, and the same with what they include.
fn check(
    (on_disk, arrived): (&Node, &Node),
    (all_on_disk, all_arrived): (&Node, &Node),
) -> Result<(), Vec<Breach>> {
    let mut breaches = Vec::new();
    {
        let (on_disk, arrived) = paired(on_disk, arrived);
        let mut allowed = Vec::new();
        walk(&on_disk, &Path::default(), &mut |path, node| allowed.push((path.clone(), node)));
        walk(&arrived, &Path::default(), &mut |path, node| {
            if !allowed.iter().any(|(known, value)| known == path && same(value, node)) {
                breaches.push(Breach { key: path.to_string(), span: node.span });
            }
        });
    }
    let (known, new) = paired(all_on_disk, all_arrived);
    dropped(&known, &new, &mut breaches);
    sent::astray(all_on_disk, all_arrived, &mut breaches);
    if breaches.is_empty() { Ok(()) } else { Err(breaches) }
}

/// Everything that only the file on disk may say.
pub(crate) fn forbidden(tree: &Node) -> Vec<Breach> {
    let mut breaches = Vec::new();
    walk(tree, &Path::default(), &mut |path, node| {
        breaches.push(Breach { key: path.to_string(), span: node.span });
    });
    breaches
}

/// Finds keys removed from an object that stays, and that must be kept: without them traffic would be readable,
/// clients would need no certificate, or could impersonate others. A listener is identified by its name, and a port
/// by its number under any listener.
fn dropped(on_disk: &Node, arrived: &Node, breaches: &mut Vec<Breach>) {
    let kept = |node: &'_ Node, key: &str| node.entry(key).is_some_and(|value| value.kind != Kind::Null);
    let mut breach = |path: &Path, key: &str, map: &Node| {
        let key = path.key(key, map).to_string();
        if breaches.iter().all(|known| known.key != key) {
            breaches.push(Breach { key, span: map.span });
        }
    };
    let mut guarded = Vec::new();
    nodes(on_disk, &Path::default(), &mut |path, map| {
        for (key, value) in map_entries(map).filter(|(_, value)| value.kind != Kind::Null) {
            if path.key(key, value).marks().kept {
                guarded.push((path.clone(), key, value));
            }
        }
    });
    // A map has short forms, such as a listener that is only an address.
    nodes(arrived, &Path::default(), &mut |path, map| {
        for (_, key, value) in guarded.iter().filter(|(known, ..)| known == path) {
            if !map.entry(key).is_some_and(|now| has_all(now, value)) {
                breach(path, key, map);
            }
        }
    });
    for guard in OF_PORTS {
        let guarded: Vec<_> = listeners(on_disk).filter(|(_, listener)| kept(listener, guard)).collect();
        let without = |node: &Node, port: &str| {
            let mut all = listeners(node);
            all.any(|(_, listener)| !kept(listener, guard) && port_of(listener) == Some(port))
        };
        for (name, listener) in listeners(arrived).filter(|(_, listener)| !kept(listener, guard)) {
            let Some(port) = port_of(listener) else { continue };
            // Two addresses may share this port number, one of them without the key before.
            if guarded.iter().any(|(_, known)| port_of(known) == Some(port)) && !without(on_disk, port) {
                let path = Path::default().key(LISTENERS, arrived).key(name, listener);
                breach(&path, guard, listener);
            }
        }
    }
}

/// Whether a value that must be kept still exists: a list with all its former entries, any other value in any form.
fn has_all(now: &Node, before: &Node) -> bool {
    match (&now.kind, &before.kind) {
        (Kind::Null, _) => false,
        (Kind::Seq(now), Kind::Seq(before)) => {
            before.iter().all(|item| now.iter().any(|known| same(known, item)))
        }
        (_, Kind::Seq(before)) => before.iter().all(|item| same(now, item)),
        _ => true,
    }
}

/// Calls `found` for every node.
fn nodes<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    if node.kind != Kind::Null {
        found(path, node);
    }
    match &node.kind {
        Kind::Map(entries) => {
            entries.iter().for_each(|(key, child)| nodes(child, &path.key(&key.name, child), found));
        }
        Kind::Seq(items) => {
            items.iter().enumerate().for_each(|(at, item)| nodes(item, &path.item(at, item), found));
        }
        _ => {}
    }
}

fn map_entries(node: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match &node.kind {
        Kind::Map(entries) => &entries[..],
        _ => &[],
    };
    entries.iter().map(|(key, value)| (key.name.as_str(), value))
}

fn listeners(root: &Node) -> impl Iterator<Item = (&str, &Node)> {
    root.entry(LISTENERS).into_iter().flat_map(map_entries)
}

/// The text after the last colon of its address: a port, a variable, or a path. A listener may be written as its
/// address alone.
fn port_of(listener: &Node) -> Option<&str> {
    match &listener.entry("address").unwrap_or(listener).kind {
        // Ports are compared as numbers: `080` is port 80.
        Kind::Str(address) => address.rsplit(':').next().map(|port| port.trim_start_matches('0')),
        _ => None,
    }
}

/// Finds all restricted values: scalars, empty nodes, and whole sections with the mark `whole`.
fn walk<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    match &node.kind {
        _ if path.marks().whole => found(path, node),
        Kind::Map(entries) if !entries.is_empty() => {
            entries.iter().for_each(|(key, child)| walk(child, &path.key(&key.name, child), found));
        }
        Kind::Seq(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(at, item)| walk(item, &path.item(at, item), found));
        }
        _ if is_restricted(path, node) || is_reference(node) => found(path, node),
        _ => {}
    }
}

fn is_restricted(path: &Path, value: &Node) -> bool {
    // `stdout` and `stderr` are not files.
    let is_stream = || matches!(&value.kind, Kind::Str(text) if matches!(text.as_str(), "stdout" | "stderr"));
    path.marks().restricted && !(path.is("access_log.path") && is_stream())
}

/// A scalar that is a reference whatever its key: to the environment, or to a socket in the file system.
fn is_reference(node: &Node) -> bool {
    let Kind::Str(text) = &node.kind else { return false };
    holds_variable(text) || text.starts_with("unix:") || text.starts_with("file:")
}

/// Whether the text contains a `${…}` reference. `$$` is a literal `$`.
fn holds_variable(text: &str) -> bool {
    text.replace("$$", "").contains("${")
}

fn same(a: &Node, b: &Node) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Seq(a), Kind::Seq(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Kind::Map(entries), Kind::Map(others)) => {
            let is_there = |key: &str, value: &Node| b.entry(key).is_some_and(|other| same(value, other));
            entries.len() == others.len() && entries.iter().all(|(key, value)| is_there(&key.name, value))
        }
        _ => match (scalar(a), scalar(b)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        },
    }
}

#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod every_secret;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trust_tests;
