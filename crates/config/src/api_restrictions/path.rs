//! Where a node stands, in a way that survives another order of lists.

use std::fmt;

use super::secrets::REDACTED;
use crate::parse::{Key, Kind, Node};
use crate::schema::{Marks, Place};

/// Keys that tell elements of a list apart.
const IDENTITIES: &[&str] = &["name", "id", "url", "address", "server", "servers", "cert"];
/// A path of keys and elements. Equality is by identity, the text by position.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    steps: Vec<Step>,
    place: Place,
}

#[derive(Clone, Debug)]
enum Step {
    Key { name: String, destination: Option<String> },
    Item { at: usize, identity: Option<String> },
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key { name: a, destination: x }, Self::Key { name: b, destination: y }) => {
                a == b && (x == y || is_hidden(x) || is_hidden(y))
            }
            (Self::Item { at: a, identity: x }, Self::Item { at: b, identity: y }) => match (x, y) {
                (Some(_), Some(_)) if is_hidden(x) || is_hidden(y) => a == b,
                (Some(x), Some(y)) => x == y,
                (None, None) => a == b,
                _ => false,
            },
            _ => false,
        }
    }
}

/// What was redacted says nothing about who it is. It is safe to go on by position: `restore` refuses
/// the text unless the redacted value itself is a secret of the same place on disk.
fn is_hidden(identity: &Option<String>) -> bool {
    let is_it = |value: &str| value.strip_prefix("text ") == Some(REDACTED);
    identity.as_ref().is_some_and(|identity| {
        identity
            .lines()
            .any(|line| is_it(line) || line.split_once('=').is_some_and(|(_, value)| is_it(value)))
    })
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps
    }
}

impl Path {
    /// An entry of the map here.
    pub(super) fn key(&self, name: &str, value: &Node) -> Self {
        let place = self.place.key(name, value);
        // A secret is identified with its destination: under another one it is a different secret.
        let destination = identity(value, |key, value| place.key(key, value).marks.destination);
        self.with(Step::Key { name: name.to_owned(), destination }, place)
    }

    /// An element of the list here. A scalar is its own identity; a map is known by some of its keys,
    /// all of them together.
    pub(super) fn item(&self, at: usize, item: &Node) -> Self {
        let place = self.place.item(item);
        let tells =
            |key: &str, value: &Node| IDENTITIES.contains(&key) || place.key(key, value).marks.destination;
        let identity = identity(item, tells).or_else(|| scalar(item));
        self.with(Step::Item { at, identity }, place)
    }

    fn with(&self, step: Step, place: Place) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { steps, place }
    }

    /// The schema's marks for this place.
    pub(super) fn marks(&self) -> Marks {
        self.place.marks
    }

    /// Whether this is the path `a.b` of keys.
    pub(super) fn is(&self, dotted: &str) -> bool {
        let mut keys = dotted.split('.');
        let fits = |step: &Step| matches!(step, Step::Key { name, .. } if keys.next() == Some(name.as_str()));
        self.steps.len() == dotted.split('.').count() && self.steps.iter().all(fits)
    }

    /// Whether the last step is one of these keys.
    pub(super) fn ends_with(&self, keys: &[&str]) -> bool {
        matches!(self.steps.last(), Some(Step::Key { name, .. }) if keys.contains(&name.as_str()))
    }

    /// Whether the last key, elements of lists aside, is one of these.
    pub(super) fn last_key_is(&self, keys: &[&str]) -> bool {
        let last = self.steps.iter().rev().find_map(|step| match step {
            Step::Key { name, .. } => Some(name),
            Step::Item { .. } => None,
        });
        last.is_some_and(|name| keys.contains(&name.as_str()))
    }

    /// Whether one of the last two keys, elements of lists aside, is one of these.
    pub(super) fn is_at_or_below(&self, keys: &[&str]) -> bool {
        let names = self.steps.iter().rev().filter_map(|step| match step {
            Step::Key { name, .. } => Some(name.as_str()),
            Step::Item { .. } => None,
        });
        names.take(2).any(|name| keys.contains(&name))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Key { name, .. } if at == 0 => f.write_str(name)?,
                Step::Key { name, .. } => write!(f, ".{name}")?,
                Step::Item { at, .. } => write!(f, "[{at}]")?,
            }
        }
        Ok(())
    }
}

/// The values of a map's identifying keys, in the order of their names.
fn identity(node: &Node, tells: impl Fn(&str, &Node) -> bool) -> Option<String> {
    let Kind::Map(entries) = &node.kind else { return None };
    let telling = entries.iter().filter(|(key, value)| tells(&key.name, value));
    let value = |(key, value): &(Key, Node)| written(value).map(|value| format!("{}={value}", key.name));
    let mut values = telling.filter_map(value).collect::<Vec<_>>();
    values.sort();
    (!values.is_empty()).then(|| values.join("\n"))
}

/// The value of a scalar, or the values of a list of scalars: several servers that know the same.
fn written(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Seq(items) => items.iter().map(scalar).collect::<Option<Vec<_>>>().map(|all| all.join(", ")),
        _ => scalar(node),
    }
}

/// The value of a scalar as a text that tells kinds apart; `None` for lists and maps.
pub(super) fn scalar(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Null => Some("null".into()),
        Kind::Bool(value) => Some(format!("bool {value}")),
        Kind::Int(value) => Some(format!("int {value}")),
        Kind::Float(value) => Some(format!("float {value:?}")),
        // On one line: each line of an identity is one key.
        Kind::Str(value) => Some(format!("text {}", value.replace('\n', "\\n"))),
        Kind::Seq(_) | Kind::Map(_) => None,
    }
}
