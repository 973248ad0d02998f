//! What serde reports while a spec is read, until it becomes a [`SpecError`].
//!
//! The place is filled in on the way out: by the entry, the element or the key that was being
//! read. `prune` names the node to leave out of the next reading.

use crate::diagnose::{Class, SpecError, did_you_mean};
use crate::parse::{Key, Node};
use crate::source::Span;
use serde::de::{Error, Expected, Unexpected};
use std::fmt;

/// The help for an entry without the space that makes it one.
const SPACE: &str = "put a space behind the colon: `key: value`";

/// A mistake on its way from the value to the root.
#[derive(Debug)]
pub(crate) struct Mistake {
    what: What,
    span: Option<Span>,
    /// The key whose value is wrong.
    owner: Option<String>,
    /// The node to leave out of the next reading.
    pub(super) prune: Option<u32>,
    /// A consequence of an earlier mistake: not worth a message.
    pub(super) quiet: bool,
}

#[derive(Debug)]
enum What {
    Type { expected: String, found: &'static str, help: Option<&'static str> },
    UnknownKey { name: String, known: &'static [&'static str] },
    UnknownWord { name: String, known: &'static [&'static str] },
    Missing(&'static str),
    Other(String),
}

impl What {
    /// Whether it may be a consequence of an entry that was left out.
    fn may_follow(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Other(_))
    }
}

impl Mistake {
    fn new(what: What) -> Self {
        Self { what, span: None, owner: None, prune: None, quiet: false }
    }

    /// What cannot be read because the value of its choice was left out.
    pub(super) fn consequence(value: &Node) -> Self {
        Self { span: Some(value.span), quiet: true, ..Self::new(What::Other(String::new())) }
    }

    /// A mistake in `node`, an element of a list (or the root).
    pub(super) fn at(mut self, node: &Node, tainted: bool) -> Self {
        if self.span.is_none() {
            self.quiet = tainted && self.what.may_follow();
            self.span = Some(node.span);
        }
        self.prune = self.prune.or(Some(node.id));
        self
    }

    /// A mistake in the value of a variant. Its node cannot be left out alone: that of the whole
    /// choice is pruned, by the caller.
    pub(super) fn in_choice(self, key: &Key, node: &Node, tainted: bool) -> Self {
        let prune = self.prune;
        Self { prune, ..self.at_entry(key, node, tainted) }
    }

    /// A mistake in the value of an entry.
    pub(super) fn at_entry(mut self, key: &Key, node: &Node, tainted: bool) -> Self {
        if self.span.is_none() {
            let missing = matches!(self.what, What::Missing(_));
            self.owner = Some(key.name.clone());
            self.quiet = tainted && self.what.may_follow();
            self.span = Some(if missing { key.span } else { node.span });
        }
        self.at(node, tainted)
    }

    /// A mistake in the key of an entry, whose value is pruned with it.
    pub(super) fn at_key(self, key: &Key, node: &Node) -> Self {
        Self { prune: self.prune.or(Some(node.id)), ..self.in_key(key) }
    }

    /// A mistake in the key of a choice, of which nothing remains without it.
    pub(super) fn in_key(mut self, key: &Key) -> Self {
        self.span = self.span.or(Some(key.span));
        if let What::UnknownWord { name, known } = self.what {
            self.what = What::UnknownKey { name, known };
        }
        self
    }

    /// Puts the mistake somewhere else than where it was noticed.
    pub(super) fn with_span(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// The message for the user.
    pub(super) fn into_error(self, fallback: Span) -> SpecError {
        let span = self.span.unwrap_or(fallback);
        match self.what {
            What::Type { expected, found, help } => {
                let help = help.map(str::to_owned).or_else(|| help_with_type(&expected, found));
                let message = match self.owner {
                    Some(owner) => format!("`{owner}` must be {expected}, found {found}"),
                    None => format!("expected {expected}, found {found}"),
                };
                SpecError::new(Class::Invalid, span, message).maybe_help(help)
            }
            What::UnknownKey { name, known } => {
                if is_glued(&name) {
                    return SpecError::new(Class::Unknown, span, format!("unknown key `{name}`")).help(SPACE);
                }
                let list = if known.is_empty() { "none".into() } else { quoted(known) };
                SpecError::new(Class::Unknown, span, format!("unknown key `{name}`")).help(
                    did_you_mean(&name, known.iter().copied()).unwrap_or(format!("the keys here are {list}")),
                )
            }
            What::UnknownWord { name, known } => {
                let help = did_you_mean(&name, known.iter().copied());
                SpecError::value(span, "choice", format!("unknown value `{name}`"))
                    .class(Class::Unknown)
                    .help(help.unwrap_or(format!("write {}", quoted(known))))
            }
            What::Missing(name) => {
                let owner = self.owner.map(|owner| format!(" in `{owner}`")).unwrap_or_default();
                SpecError::new(Class::Invalid, span, format!("the key `{name}` is missing{owner}"))
            }
            What::Other(message) => SpecError::value(span, "value", message),
        }
    }
}

/// A list of names for a sentence.
pub(super) fn quoted(known: &[&str]) -> String {
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn help_with_type(expected: &str, found: &str) -> Option<String> {
    let help = match (expected, found) {
        (_, "nothing") => "give it a value or remove the key",
        (text, "a number" | "true or false") if text.starts_with("a string") => "put it in quotes",
        ("a list", "a string" | "a number") => "put it in brackets: `[ … ]`",
        ("true or false", "a string") => "write `true` or `false`; `yes`, `no`, `on` and `off` are text",
        _ => return None,
    };
    Some(help.into())
}

/// Whether a text looks like an entry of a map without its space: `attempts:3`.
fn is_glued(text: &str) -> bool {
    text.split_once(':').is_some_and(|(key, value)| {
        let name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        name && !value.is_empty() && !value.starts_with("//") && key != "unix"
    })
}

/// serde's words for Rust types, in the words of people who write YAML.
fn expected(exp: &dyn Expected) -> String {
    let text = exp.to_string();
    match text.as_str() {
        "a sequence" => "a list".into(),
        "a boolean" => "true or false".into(),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number, 0 or more".into(),
        _ => text,
    }
}

fn found(unexpected: &Unexpected<'_>) -> &'static str {
    match unexpected {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Char(_) | Unexpected::Str(_) | Unexpected::Bytes(_) => "a string",
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Seq => "a list",
        _ => "a map",
    }
}

impl Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(What::Other(message.to_string()))
    }

    fn invalid_type(unexpected: Unexpected<'_>, exp: &dyn Expected) -> Self {
        // A choice of which nothing is left: serde's own word for it is none of users.
        if matches!(unexpected, Unexpected::Map) && exp.to_string() == "enum" {
            return Self::new(What::Other("one of its keys is needed here, with a value".into()));
        }
        let help = match unexpected {
            Unexpected::Str(text) if is_glued(text) => Some(SPACE),
            _ => None,
        };
        Self::new(What::Type { expected: expected(exp), found: found(&unexpected), help })
    }

    fn invalid_value(unexpected: Unexpected<'_>, exp: &dyn Expected) -> Self {
        let found = match unexpected {
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "another number",
            other => found(&other),
        };
        Self::new(What::Type { expected: expected(exp), found, help: None })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(What::UnknownKey { name: field.to_owned(), known: expected })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(What::UnknownWord { name: variant.to_owned(), known: expected })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(What::Missing(field))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.what)
    }
}

impl std::error::Error for Mistake {}
