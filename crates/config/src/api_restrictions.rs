//! What a configuration that arrives by API may not bring along, and what is not shown of one.
//!
//! Called with trees as they were parsed, before `${…}` is filled in: a reference to the environment
//! is one of the things looked for. Nor may it take `tls` away from what stays. The order for a text that arrived is
//! [`restore`], parse again, [`check_arrived`], and only then the stages of `load`. Invariant: what stands in the file
//! on disk at the same place is allowed, and nothing else of what the tables below name. A key that comes to the
//! configuration and names a file, a variable, a program or a degree of trust needs a row there.

mod path;
mod secrets;

use crate::parse::{Kind, Node};
use crate::source::Span;
use path::{Path, scalar};

pub use secrets::{REDACTED, redact, restore};
pub(crate) use secrets::{secret_places, secret_places_in};

/// Settings that only the file on disk may introduce, with everything below them.
const SETTINGS: &[&str] = &[
    "admin",
    "state",
    "user",
    "trusted_proxies",
    "include",
    "route_sources",
    "cache.disk",
    "cache.purge",
    "access_log.path",
    "access_log.syslog",
    "access_log.rotate",
];
/// Keys whose value names a file, a variable or a program, wherever they stand.
const REFERENCES: &[&str] = &[
    "file",
    "env",
    "exec",
    "command",
    "program",
    "script",
    "cert",
    "ca",
    "crl",
    "ca_file",
    "client_ca",
    "kubeconfig",
    "socket",
    "directory",
    "directory_ca",
    "root",
    "hidden",
    "follow_symlinks",
];
/// Ends of keys that say the same.
const REFERENCE_ENDS: &[&str] = &["_file", "_env", "_command"];
/// Sources of endpoints that are asked at a place, or with an account, of the proxy's own where none is written: the
/// socket of Docker, the account of the pod. They are the same only with everything that stands below.
const OWN_ACCESS: &[&str] = &["docker", "kubernetes"];
const DISCOVER: &str = "discover";
/// Keys that decide who is believed, wherever they stand.
const TRUST: &[&str] = &[
    "insecure",
    "verify",
    "skip_verify",
    "insecure_skip_verify",
    "allow_http",
    "trusted",
    "trust",
    "client_auth",
    "ask",
    "crl_unknown",
    "server_name",
    "min_version",
    "suites",
];
/// Keys that may not be taken away from what stays.
const GUARDS: &[&str] = &[TLS, "client_auth"];
const TLS: &str = "tls";
const LISTENERS: &str = "listeners";
/// Maps whose keys are chosen by the user: their keys have no meaning of their own.
const NAMED: &[&str] = &[
    "services",
    "listeners",
    "chains",
    "lists",
    "bans",
    "slos",
    "headers",
    "labels",
    "query",
    "sni",
    "weights",
    "attributes",
];

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
/// Everything that the one on disk does not have at the same place with the same value, and `tls` and `client_auth`
/// that the one on disk has and this one lacks at the same place or port.
pub fn check_arrived(on_disk: &Node, arrived: &Node) -> Result<(), Vec<Breach>> {
    let mut allowed = Vec::new();
    walk(on_disk, &Path::default(), false, &mut |path, node| allowed.push((path.clone(), node)));
    let mut breaches = Vec::new();
    walk(arrived, &Path::default(), false, &mut |path, node| {
        if !allowed.iter().any(|(known, value)| known == path && same(value, node)) {
            breaches.push(Breach { key: path.to_string(), span: node.span });
        }
    });
    dropped(on_disk, arrived, &mut breaches);
    if breaches.is_empty() { Ok(()) } else { Err(breaches) }
}

/// Everything that only the file on disk may say.
pub(crate) fn forbidden(tree: &Node) -> Vec<Breach> {
    let mut breaches = Vec::new();
    walk(tree, &Path::default(), false, &mut |path, node| {
        breaches.push(Breach { key: path.to_string(), span: node.span });
    });
    breaches
}

/// Finds what may not be taken away from something that stays: without it everybody could read what is said there, or
/// come in without a certificate. A listener is known by its name, and a port by its number, whatever listener has it.
fn dropped(on_disk: &Node, arrived: &Node, breaches: &mut Vec<Breach>) {
    let kept = |node: &'_ Node, key: &str| node.entry(key).is_some_and(|value| value.kind != Kind::Null);
    let mut breach = |path: &Path, key: &str, map: &Node| {
        let key = path.key(key, map).to_string();
        if breaches.iter().all(|known| known.key != key) {
            breaches.push(Breach { key, span: map.span });
        }
    };
    let mut guarded = Vec::new();
    maps(on_disk, &Path::default(), &mut |path, map| {
        if GUARDS.iter().any(|key| kept(map, key)) {
            guarded.push((path.clone(), map));
        }
    });
    maps(arrived, &Path::default(), &mut |path, map| {
        let same = guarded.iter().filter(|(known, _)| known == path);
        for (_, before) in same {
            for key in GUARDS.iter().filter(|key| kept(before, key) && !kept(map, key)) {
                breach(path, key, map);
            }
        }
    });
    let secured: Vec<_> = listeners(on_disk).filter(|(_, listener)| kept(listener, TLS)).collect();
    let plain = |node: &Node, port: &str| {
        let mut all = listeners(node);
        all.any(|(_, listener)| !kept(listener, TLS) && port_of(listener) == Some(port))
    };
    for (name, listener) in listeners(arrived).filter(|(_, listener)| !kept(listener, TLS)) {
        let Some(port) = port_of(listener) else { continue };
        // The same number may stand for two addresses, one of which was plain before.
        if secured.iter().any(|(_, known)| port_of(known) == Some(port)) && !plain(on_disk, port) {
            let path = Path::default().key(LISTENERS, arrived).key(name, listener);
            breach(&path, TLS, listener);
        }
    }
}

/// Every map with something in it.
fn maps<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    match &node.kind {
        Kind::Map(entries) => {
            if !path.ends_with(NAMED) {
                found(path, node);
            }
            entries.iter().for_each(|(key, child)| maps(child, &path.key(&key.name, child), found));
        }
        Kind::Seq(items) => {
            items.iter().enumerate().for_each(|(at, item)| maps(item, &path.item(at, item), found));
        }
        _ => {}
    }
}

fn listeners(root: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match root.entry(LISTENERS).map(|listeners| &listeners.kind) {
        Some(Kind::Map(entries)) => &entries[..],
        _ => &[],
    };
    entries.iter().map(|(key, listener)| (key.name.as_str(), listener))
}

/// What stands behind the last colon of its address: the port, a variable, or a path.
fn port_of(listener: &Node) -> Option<&str> {
    match listener.entry("address").map(|address| &address.kind) {
        Some(Kind::Str(address)) => address.rsplit(':').next(),
        _ => None,
    }
}

/// Finds everything that may not be introduced: scalars, what is empty, and [`OWN_ACCESS`] as a whole.
fn walk<'a>(node: &'a Node, path: &Path, forbidden: bool, found: &mut dyn FnMut(&Path, &'a Node)) {
    match &node.kind {
        Kind::Map(entries) if !entries.is_empty() => {
            for (key, child) in entries {
                let below = path.key(&key.name, child);
                if path.ends_with(&[DISCOVER]) && OWN_ACCESS.contains(&key.name.as_str()) {
                    found(&below, child);
                    continue;
                }
                let forbidden = forbidden || is_forbidden(path, &below, &key.name, node, child);
                walk(child, &below, forbidden, found);
            }
        }
        Kind::Seq(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                walk(item, &path.item(at, item), forbidden, found);
            }
        }
        _ if forbidden || is_reference(node) => found(path, node),
        _ => {}
    }
}

fn is_forbidden(above: &Path, below: &Path, key: &str, map: &Node, value: &Node) -> bool {
    if SETTINGS.iter().any(|setting| below.is(setting)) {
        // `stdout` and `stderr` are no files.
        let stream = matches!(&value.kind, Kind::Str(text) if matches!(text.as_str(), "stdout" | "stderr"));
        return !(below.is("access_log.path") && stream);
    }
    if above.ends_with(NAMED) {
        return false;
    }
    // Only beside a certificate is a key a file.
    let private_key = key == "key" && map.entry("cert").is_some();
    // `files: ./public` is short for a map with `root`.
    let served = key == "files" && matches!(value.kind, Kind::Str(_));
    let refers = REFERENCES.contains(&key) || REFERENCE_ENDS.iter().any(|end| key.ends_with(end));
    private_key || served || refers || TRUST.contains(&key)
}

/// A scalar that is a reference whatever its key: to the environment, or to a socket in the file system.
fn is_reference(node: &Node) -> bool {
    let Kind::Str(text) = &node.kind else { return false };
    // `$$` is a literal `$`.
    let environment = text.replace("$$", "").contains("${");
    environment || text.starts_with("unix:") || text.starts_with("file:")
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
mod tests;
