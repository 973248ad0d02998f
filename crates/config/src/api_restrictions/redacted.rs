//! A configuration without its secrets, shown as `<redacted>`, and the secrets put back into what arrives.

use super::Breach;
use super::path::{Path, scalar};
use super::same_routes::paired;
use super::secrets::{REDACTED, every, is_redacted, is_secret, is_webhook, walk, without_path};
use crate::diagnose::Problems;
use crate::parse::{Format, Key, Kind, Node, parse};
use crate::source::{Sources, Span};
use std::collections::BTreeMap;

/// The text with every secret by value replaced. References (`{ file: … }`, `{ env: … }`, `${…}`) stay, and
/// so do comments. A YAML or JSON text in which a secret is written in a way that cannot be replaced is shown as JSON.
/// `None`: a TOML text with such a secret, which is not to be shown.
pub fn redact(text: &str, format: Format, root: &Node) -> Option<String> {
    let hidden = hidden_places(root);
    let places = hidden.iter().map(|(span, shown)| (span.range(), format!("\"{shown}\""))).collect();
    let is_clean = |out: &String| {
        // Read again, the text must be the same tree with every secret redacted.
        let Some(again) = read(out, format) else { return false };
        let mut is_clean = same_with(root, &again, &hidden);
        every(&again, &Path::default(), &mut |path, node| {
            is_clean &= is_redacted(node) || !is_secret(path, node);
        });
        is_clean
    };
    let whole = || match format {
        Format::Yaml | Format::Json => Some(shown(root, &hidden, "")),
        Format::Toml => None,
    };
    replace(text, places).filter(is_clean).or_else(|| whole().filter(is_clean))
}

/// Where secrets stand by value, each with the text that is shown there. An alias stands where its anchor does.
type Hidden = BTreeMap<Span, String>;

fn hidden_places(root: &Node) -> Hidden {
    let mut places = Hidden::new();
    walk(root, &Path::default(), &mut |path, node| {
        let shown = match &node.kind {
            Kind::Str(text) if is_webhook(path.keys()) => without_path(text).unwrap_or(REDACTED.into()),
            _ => REDACTED.into(),
        };
        // An alias may stand at a place where more is secret.
        let known = places.entry(node.span).or_insert_with(|| shown.clone());
        if shown == REDACTED {
            *known = shown;
        }
    });
    places
}

/// Whether a tree is the same as before, with `<redacted>` at the hidden places.
fn same_with(before: &Node, after: &Node, hidden: &Hidden) -> bool {
    match (&before.kind, &after.kind) {
        (Kind::Map(before), Kind::Map(after)) => {
            let same =
                |((a, x), (b, y)): (&(Key, Node), &(Key, Node))| a.name == b.name && same_with(x, y, hidden);
            before.len() == after.len() && before.iter().zip(after).all(same)
        }
        (Kind::Seq(before), Kind::Seq(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(x, y)| same_with(x, y, hidden))
        }
        _ if hidden.contains_key(&before.span) => is_redacted(after),
        _ => before.kind == after.kind,
    }
}

/// A tree with `<redacted>` at the hidden places, as JSON. Keys keep their order.
fn shown(node: &Node, hidden: &Hidden, indent: &str) -> String {
    let below = format!("{indent}  ");
    let joined = |(open, close): (&str, &str), items: Vec<String>| match items.is_empty() {
        true => format!("{open}{close}"),
        false => format!("{open}\n{below}{}\n{indent}{close}", items.join(&format!(",\n{below}"))),
    };
    match &node.kind {
        Kind::Map(entries) => {
            let entry = |(key, child): &(Key, Node)| {
                format!("{}: {}", serde_json::Value::from(key.name.as_str()), shown(child, hidden, &below))
            };
            joined(("{", "}"), entries.iter().map(entry).collect())
        }
        Kind::Seq(items) => {
            joined(("[", "]"), items.iter().map(|item| shown(item, hidden, &below)).collect())
        }
        _ if hidden.contains_key(&node.span) => serde_json::Value::from(REDACTED).to_string(),
        Kind::Null => "null".into(),
        Kind::Bool(value) => value.to_string(),
        Kind::Int(value) => value.to_string(),
        Kind::Float(value) => serde_json::Value::from(*value).to_string(),
        Kind::Str(text) => serde_json::Value::from(text.as_str()).to_string(),
    }
}

/// The opposite: each `<redacted>` of the text that arrived becomes what the text on disk has there.
///
/// # Errors
/// Places where the text on disk has no secret, and places where several secrets may be meant.
pub fn restore(arrived: (&str, &Node), on_disk: (&str, &Node)) -> Result<String, Vec<Breach>> {
    let (known, new) = paired(on_disk.1, arrived.1);
    let (known, new) = (Scalars::of(&known), Scalars::of(&new));
    let hidden = hidden_places(on_disk.1);
    let (mut places, mut breaches) = (Vec::new(), Vec::new());
    for (path, node) in new.0.iter().filter(|(_, node)| is_redacted(node)) {
        let is_same = |value: &&Node| match (hidden.get(&value.span), &node.kind) {
            (Some(shown), Kind::Str(text)) => text == REDACTED || text == shown,
            _ => false,
        };
        let value = known.beside(path, node, &new).filter(is_same);
        // YAML and JSON both read this form.
        match value.and_then(quoted) {
            Some(value) => places.push((node.span.range(), value)),
            None => breaches.push(Breach { key: path.to_string(), span: node.span }),
        }
    }
    if !breaches.is_empty() {
        return Err(breaches);
    }
    replace(arrived.0, places).ok_or_else(Vec::new)
}

/// Every scalar of a tree.
struct Scalars<'a>(Vec<(Path, &'a Node)>);

impl<'a> Scalars<'a> {
    fn of(root: &'a Node) -> Self {
        let mut all = Vec::new();
        every(root, &Path::default(), &mut |path, node| all.push((path.clone(), node)));
        Self(all)
    }

    fn at(&self, path: &Path) -> Vec<&'a Node> {
        self.0.iter().filter(|(known, _)| known == path).map(|(_, node)| *node).collect()
    }

    /// The scalar that a node of `new` stands for. Where filters of one name have equal paths, their order decides if
    /// there are as many as before; if not, they must have one value.
    fn beside(&self, path: &Path, node: &Node, new: &Scalars<'_>) -> Option<&'a Node> {
        let known = self.at(path);
        let first = known.first().copied()?;
        if known.len() == 1 || known.iter().all(|other| other.kind == first.kind) {
            return Some(first);
        }
        let now = new.at(path);
        let at = now.iter().position(|other| std::ptr::eq(*other, node))?;
        known.get(at).copied().filter(|_| now.len() == known.len())
    }
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

pub(super) fn read(text: &str, format: Format) -> Option<Node> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add("arrived", text);
    parse(file, format, &sources, &mut problems)
}
