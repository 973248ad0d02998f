//! Secrets that stand in a configuration by value: shown as `<redacted>`, and put back.

use super::Breach;
use super::path::{Path, scalar};
use crate::diagnose::Problems;
use crate::parse::{Format, Kind, Node, parse};
use crate::source::{Sources, Span};

/// What stands in the place of a secret.
pub const REDACTED: &str = "<redacted>";
/// Keys whose value, or whose `value:`, is a secret.
const SECRETS: &[&str] = &[
    "token",
    "read_token",
    "secret",
    "password",
    "passphrase",
    "private_key",
    "api_key",
    "client_secret",
    "hmac",
    "secrets",
];

/// The text with every secret by value replaced. References (`{ file: … }`, `{ env: … }`, `${…}`) stay, and
/// so do comments.
/// `None` when a secret is written in a way that cannot be replaced (a block of lines, an alias): such
/// a text is not to be shown.
pub fn redact(text: &str, format: Format, root: &Node) -> Option<String> {
    let mut places = Vec::new();
    walk(root, &Path::default(), &mut |_, node| places.push(node.span.range()));
    let out = replace(text, places.into_iter().map(|range| (range, format!("\"{REDACTED}\""))).collect())?;
    // Read again: what is left must be the same tree with every secret redacted.
    let again = read(&out, format)?;
    let (mut before, mut after, mut clean) = (0usize, 0usize, true);
    every(root, &Path::default(), &mut |path, node| {
        before += usize::from(is_secret(path, node) || is_redacted(node));
    });
    every(&again, &Path::default(), &mut |path, node| {
        after += usize::from(is_redacted(node));
        clean &= is_redacted(node) || !is_secret(path, node);
    });
    (clean && before == after).then_some(out)
}

/// The opposite: each `<redacted>` of the text that arrived becomes what the text on disk has there.
///
/// # Errors
/// Places where the text on disk has no secret.
pub fn restore(arrived: (&str, &Node), on_disk: (&str, &Node)) -> Result<String, Vec<Breach>> {
    let mut kept = Vec::new();
    walk(on_disk.1, &Path::default(), &mut |path, node| kept.push((path.clone(), node)));
    let (mut places, mut breaches) = (Vec::new(), Vec::new());
    every(arrived.1, &Path::default(), &mut |path, node| {
        if !is_redacted(node) {
            return;
        }
        let known = kept.iter().find(|(known, _)| known == path);
        // Written as YAML and JSON both read it, whatever it looked like on disk.
        match known.and_then(|(_, node)| quoted(node)) {
            Some(value) => places.push((node.span.range(), value)),
            None => breaches.push(Breach { key: path.to_string(), span: node.span }),
        }
    });
    if !breaches.is_empty() {
        return Err(breaches);
    }
    replace(arrived.0, places).ok_or_else(Vec::new)
}

/// A scalar in double quotes, with the escapes that YAML, JSON and TOML share.
fn quoted(node: &Node) -> Option<String> {
    let Kind::Str(text) = &node.kind else { return scalar(node)?.split_once(' ').map(|(_, v)| v.to_owned()) };
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    Some(out)
}

fn replace(text: &str, mut places: Vec<(std::ops::Range<usize>, String)>) -> Option<String> {
    places.sort_by_key(|(range, _)| range.start);
    // An alias of YAML leads to one place from two.
    places.dedup();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, value) in places {
        out.push_str(text.get(at..range.start)?);
        out.push_str(&value);
        at = range.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

fn read(text: &str, format: Format) -> Option<Node> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add("arrived", text);
    parse(file, format, &sources, &mut problems)
}

fn is_redacted(node: &Node) -> bool {
    matches!(&node.kind, Kind::Str(text) if text == REDACTED)
}

/// Where secrets stand by value in one file, as it was parsed. It costs little: every file is looked through.
pub(crate) fn secret_places(root: &Node) -> Vec<Span> {
    fn look(node: &Node, [above, last]: [&str; 2], places: &mut Vec<Span>) {
        match &node.kind {
            Kind::Map(entries) => {
                entries.iter().for_each(|(key, child)| look(child, [last, &key.name], places));
            }
            Kind::Seq(items) => items.iter().for_each(|item| look(item, [above, last], places)),
            _ => {
                let by_key = SECRETS.contains(&last) || (last == "value" && SECRETS.contains(&above));
                if holds_secret(by_key, node) {
                    places.push(node.span);
                }
            }
        }
    }
    let mut places = Vec::new();
    look(root, ["", ""], &mut places);
    places
}

/// Finds every secret by value.
fn walk<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    every(node, path, &mut |path, node| {
        if is_secret(path, node) {
            found(path, node);
        }
    });
}

fn is_secret(path: &Path, node: &Node) -> bool {
    let by_key = path.last_key_is(SECRETS) || (path.ends_with(&["value"]) && path.is_at_or_below(SECRETS));
    holds_secret(by_key, node)
}

fn holds_secret(by_key: bool, node: &Node) -> bool {
    match &node.kind {
        Kind::Null => false,
        Kind::Str(text) if is_variable(text) => false,
        Kind::Str(text) => by_key || has_credentials(text) || holds_private_key(text),
        _ => by_key,
    }
}

/// `${NAME}` and nothing else: the name says nothing of the value. A default does.
fn is_variable(text: &str) -> bool {
    let inside = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|inside| {
        !inside.contains('}') && inside.split_once(":-").is_none_or(|(_, default)| default.is_empty())
    })
}

/// `scheme://user:password@host`
fn has_credentials(text: &str) -> bool {
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains('@'))
}

/// A PEM block with a private key (RFC 7468 §10 and its older forms), in whose place a path belongs.
fn holds_private_key(text: &str) -> bool {
    text.split("-----BEGIN ").skip(1).any(|rest| {
        let label = rest.split("-----").next().unwrap_or(rest);
        label.ends_with("PRIVATE KEY")
    })
}

/// Every scalar.
fn every<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    match &node.kind {
        Kind::Map(entries) => {
            entries.iter().for_each(|(key, child)| every(child, &path.key(&key.name, child), found))
        }
        Kind::Seq(items) => {
            items.iter().enumerate().for_each(|(at, item)| every(item, &path.item(at, item), found));
        }
        _ => found(path, node),
    }
}
