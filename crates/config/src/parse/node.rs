//! The one tree that YAML, JSON and TOML become.

use crate::source::Span;

/// One value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands; a block's end is that of its last child.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
    /// A scalar without quotes, or one of a format that cannot leave them out: typed again after
    /// interpolation.
    pub plain: bool,
    /// The text after interpolation, when it differs from what was written.
    pub filled: Option<String>,
    /// The value could not be filled in: it is not looked at any more.
    pub broken: bool,
    /// The node's number in its tree, given when it is read; 0 before.
    pub id: u32,
}

/// The key of an entry: always text, `80:` and `true:` included.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Where it stands.
    pub span: Span,
    /// Its text.
    pub name: String,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction, or one too large for [`Kind::Int`].
    Float(f64),
    /// Text.
    Str(String),
    /// A list.
    Seq(Vec<Node>),
    /// A map in file order; keys are unique.
    Map(Vec<(Key, Node)>),
}

impl Node {
    /// A node that has not been numbered.
    pub fn new(span: Span, kind: Kind) -> Self {
        Self { span, kind, plain: false, filled: None, broken: false, id: 0 }
    }

    /// The value of an entry of a map.
    pub fn entry(&self, name: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// How many nodes the tree has and how many bytes of text.
    pub(crate) fn weight(&self) -> (usize, usize) {
        match &self.kind {
            Kind::Str(text) => (1, text.len()),
            Kind::Seq(items) => items.iter().map(Self::weight).fold((1, 0), sum),
            Kind::Map(entries) => {
                entries.iter().map(|(key, node)| sum((1, key.name.len()), node.weight())).fold((1, 0), sum)
            }
            _ => (1, 0),
        }
    }

    /// How many levels the tree has; 1 for a scalar.
    pub(crate) fn depth(&self) -> usize {
        let below = match &self.kind {
            Kind::Seq(items) => items.iter().map(Self::depth).max(),
            Kind::Map(entries) => entries.iter().map(|(_, node)| node.depth()).max(),
            _ => None,
        };
        1 + below.unwrap_or(0)
    }

    /// The numbers of the nodes that could not be filled in.
    pub(crate) fn broken(&self, found: &mut dyn FnMut(u32)) {
        match &self.kind {
            _ if self.broken => found(self.id),
            Kind::Seq(items) => items.iter().for_each(|node| node.broken(found)),
            Kind::Map(entries) => entries.iter().for_each(|(_, node)| node.broken(found)),
            _ => {}
        }
    }

    /// Gives every node its number, in file order, from `next` on; returns the next free one.
    pub(crate) fn number(&mut self, next: u32) -> u32 {
        self.id = next;
        let mut next = next.saturating_add(1);
        match &mut self.kind {
            Kind::Seq(items) => items.iter_mut().for_each(|node| next = node.number(next)),
            Kind::Map(entries) => entries.iter_mut().for_each(|(_, node)| next = node.number(next)),
            _ => {}
        }
        next
    }
}

fn sum(a: (usize, usize), b: (usize, usize)) -> (usize, usize) {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

/// Types an unquoted scalar by the YAML 1.2 core schema (§10.3.2): `yes`, `no`, `on` and `off` are text.
pub(crate) fn core_schema(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Kind::Null,
        "true" | "True" | "TRUE" => return Kind::Bool(true),
        "false" | "False" | "FALSE" => return Kind::Bool(false),
        _ => {}
    }
    if let Some(kind) = number(text) { kind } else { Kind::Str(text.to_owned()) }
}

fn number(text: &str) -> Option<Kind> {
    let radix = |digits: &str, radix| match i64::from_str_radix(digits, radix) {
        Ok(n) if !digits.starts_with(['+', '-']) => Some(Kind::Int(n)),
        _ => None,
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Kind::Int).ok().or_else(|| text.parse().map(Kind::Float).ok());
    }
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Some(Kind::Float(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        ".nan" | ".NaN" | ".NAN" if text == unsigned => return Some(Kind::Float(f64::NAN)),
        _ => {}
    }
    let first = unsigned.strip_prefix('.').unwrap_or(unsigned);
    let looks_like_one = first.starts_with(|c: char| c.is_ascii_digit())
        && unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    if looks_like_one { text.parse().map(Kind::Float).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_the_core_schema() {
        for text in
            ["yes", "no", "on", "off", "y", "1h", ":8080", "1:30", "0x", "0xg", "0x-1", "1.2.3", "-", "."]
        {
            assert_eq!(core_schema(text), Kind::Str(text.into()), "{text}");
        }
        assert_eq!(core_schema("007"), Kind::Int(7));
        assert_eq!(core_schema("-12"), Kind::Int(-12));
        assert_eq!(core_schema("0x1F"), Kind::Int(31));
        assert_eq!(core_schema("0o17"), Kind::Int(15));
        assert_eq!(core_schema("1e3"), Kind::Float(1000.0));
        assert_eq!(core_schema(".5"), Kind::Float(0.5));
        assert!(matches!(core_schema("99999999999999999999"), Kind::Float(_)));
        assert_eq!(core_schema("~"), Kind::Null);
        assert_eq!(core_schema("True"), Kind::Bool(true));
    }
}
