//! Where a node stands, in a way that survives another order of lists and other filters beside it.

use std::fmt;

use super::secrets::{Keys, REDACTED};
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
                a == b
                    && (x == y
                        || is_hidden(x)
                        || is_hidden(y)
                        || x.as_deref().zip(y.as_deref()).is_some_and(|(x, y)| is_same(x, y)))
            }
            (Self::Item { at: a, identity: x }, Self::Item { at: b, identity: y }) => match (x, y) {
                (Some(_), Some(_)) if is_hidden(x) || is_hidden(y) => a == b,
                (Some(x), Some(y)) => is_same(x, y),
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

/// Whether two identities are equal. A URL of which only scheme and host are shown is equal to each URL of that host:
/// `restore` compares the host with the file on disk.
fn is_same(a: &str, b: &str) -> bool {
    let is_site_of = |shown: &str, url: &str| {
        shown.strip_suffix(REDACTED).is_some_and(|site| site.contains("://") && url.starts_with(site))
    };
    a == b
        || a.lines().count() == b.lines().count()
            && a.lines().zip(b.lines()).all(|(a, b)| a == b || is_site_of(a, b) || is_site_of(b, a))
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
        let identity = match self.is_list_of_filters() {
            true => filter_of(item),
            false => identity(item, tells).or_else(|| scalar(item)),
        };
        self.with(Step::Item { at, identity }, place)
    }

    fn is_list_of_filters(&self) -> bool {
        match &self.steps[..] {
            [Step::Key { name, .. }, Step::Key { .. }] if name == "chains" => true,
            [.., Step::Key { name, .. }] => name == "filters",
            _ => false,
        }
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

    /// Its last keys.
    pub(super) fn keys(&self) -> Keys<'_> {
        Keys::new(self.steps.iter().map(|step| match step {
            Step::Key { name, .. } => Some(name.as_str()),
            Step::Item { .. } => None,
        }))
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

/// The name of a filter: it stays the same when another filter is put before it. Several filters of one name in a
/// list have equal paths.
fn filter_of(item: &Node) -> Option<String> {
    let Kind::Map(entries) = &item.kind else { return scalar(item) };
    let filter = entries.iter().find(|(key, _)| key.name != "when");
    filter.map(|(key, _)| format!("filter {}", key.name))
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
