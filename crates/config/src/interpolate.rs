//! `${NAME}` and `${NAME:-default}` in scalars, quoted or not, after parsing.
//!
//! Because it runs on the tree, a value can never change the structure of the file. `$$` is a
//! literal `$`; a `$` before anything else stands for itself (regular expressions end in it).
//! What a variable holds is not looked at again: a `${` in it stays as it is.
//! Nodes that were filled carry [`Span::filled`], so that no message shows what they hold.

use crate::diagnose::{Class, Problems, SpecError};
use crate::parse::{Kind, Node, TEXT, core_schema};
use crate::source::Span;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where variables come from: the process's environment, or a test's table.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Longest name of a variable, in bytes.
const NAME: usize = 128;

/// Which variables stand in which scalars, of all files together: names only, never what they hold.
#[derive(Debug, Default)]
pub struct Filled {
    /// By the scalar's place: file and first byte.
    variables: HashMap<(u16, u32), Vec<Variable>>,
    /// Bytes that came from the environment so far; at most [`TEXT`].
    text: usize,
    /// What the environment holds: to be taken out of messages.
    values: Values,
    /// What was filled in, defaults among it, by the scalar's place.
    held: Held,
}

/// Values by the scalars that they were filled into.
#[derive(Default)]
struct Held(HashMap<(u16, u32), Vec<String>>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Values of the environment, each once.
#[derive(Default)]
struct Values(HashSet<String>);

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A variable that a scalar mentions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: Arc<str>,
    /// It is not set, or empty: its default stands there.
    pub by_default: bool,
}

impl Filled {
    /// What the environment holds of the variables that are mentioned, for messages to leave out.
    pub(crate) fn take_values(&mut self) -> Vec<String> {
        let mut values: Vec<String> = std::mem::take(&mut self.values.0).into_iter().collect();
        // The longest first: one may hold another.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values
    }

    /// Whether nothing was filled in.
    pub(crate) fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// The values that were filled into the scalar at this place: not to be displayed.
    pub(crate) fn held_at(&self, span: Span) -> &[String] {
        self.held.0.get(&(span.file, span.start)).map_or(&[], Vec::as_slice)
    }

    /// Those of the scalar at this place, in the order of its text.
    pub(crate) fn at(&self, span: Span) -> &[Variable] {
        self.variables.get(&(span.file, span.start)).map_or(&[], Vec::as_slice)
    }
}

/// Fills in every scalar below `node`. Mistakes mark the node as broken.
pub fn interpolate(
    node: &mut Node,
    environment: Environment<'_>,
    filled: &mut Filled,
    problems: &mut Problems,
) {
    let mut filler = Filler { environment, problems, filled, names: Vec::new(), held: Vec::new() };
    filler.walk(node);
}

struct Filler<'a> {
    environment: Environment<'a>,
    problems: &'a mut Problems,
    filled: &'a mut Filled,
    /// Those of the scalar that is being filled in.
    names: Vec<Variable>,
    /// What they hold.
    held: Vec<String>,
}

impl Filler<'_> {
    fn walk(&mut self, node: &mut Node) {
        match &mut node.kind {
            // What holds a value that was filled in is not shown either: messages about the whole may quote it.
            Kind::Seq(items) => {
                items.iter_mut().for_each(|item| self.walk(item));
                node.span.filled = items.iter().any(|item| item.span.filled);
            }
            Kind::Map(entries) => {
                entries.iter_mut().for_each(|(_, value)| self.walk(value));
                node.span.filled = entries.iter().any(|(_, value)| value.span.filled);
            }
            Kind::Str(text) if text.contains('$') => match self.fill(text, node.span) {
                Ok((text, filled)) => {
                    let (names, held) = (std::mem::take(&mut self.names), std::mem::take(&mut self.held));
                    if filled {
                        let place = (node.span.file, node.span.start);
                        self.filled.variables.insert(place, names);
                        self.filled.held.0.insert(place, held);
                    }
                    node.span.filled = filled;
                    node.kind =
                        if filled && node.plain { core_schema(&text) } else { Kind::Str(text.clone()) };
                    node.filled = filled.then_some(text);
                }
                Err(error) => {
                    self.names.clear();
                    self.held.clear();
                    node.broken = true;
                    self.problems.push(*error);
                }
            },
            _ => {}
        }
    }

    /// The text with its variables, and whether there were any.
    fn fill(&mut self, text: &str, span: Span) -> Result<(String, bool), Box<SpecError>> {
        let (mut out, mut filled, mut rest) = (String::new(), false, text);
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(tail) = after.strip_prefix('$') {
                out.push('$');
                rest = tail;
            } else if let Some(inner) = after.strip_prefix('{') {
                let Some(end) = inner.find('}') else {
                    return Err(malformed(span, "`${` without a closing `}`"));
                };
                let value = self.variable(&inner[..end], span)?;
                self.filled.text = self.filled.text.saturating_add(value.len());
                if self.filled.text > TEXT {
                    let message = "the environment's values are too large";
                    return Err(Box::new(SpecError::new(Class::Invalid, span, message)));
                }
                out.push_str(&value);
                if !value.is_empty() {
                    self.held.push(value);
                }
                filled = true;
                rest = &inner[end + 1..];
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
        Ok((out, filled))
    }

    fn variable(&mut self, inside: &str, span: Span) -> Result<String, Box<SpecError>> {
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if inside.contains("${") {
            return Err(malformed(span, "a variable stands inside another one"));
        }
        let mut letters = name.bytes();
        let starts_well = letters.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !starts_well || !letters.all(|b| b.is_ascii_alphanumeric() || b == b'_') || name.len() > NAME {
            return Err(malformed(span, "this is not a variable"));
        }
        let value = (self.environment)(name).filter(|value| default.is_none() || !value.is_empty());
        self.names.push(Variable { name: name.into(), by_default: value.is_none() });
        match (value, default) {
            (Some(value), _) => {
                self.filled.values.0.insert(value.clone());
                Ok(value)
            }
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) => {
                let error = SpecError::new(Class::Invalid, span, format!("the variable `{name}` is not set"))
                    .help(format!("set it, or give a default: `${{{name}:-default}}`"));
                Err(Box::new(error))
            }
        }
    }
}

fn malformed(span: Span, message: &str) -> Box<SpecError> {
    let help = "the forms are `${NAME}` and `${NAME:-default}`; `$$` is a literal `$`";
    Box::new(SpecError::new(Class::Syntax, span, message).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str, plain: bool) -> Result<Node, String> {
        let kind = Kind::Str(text.into());
        let mut node = Node { plain, ..Node::new(Span::default(), kind) };
        let mut problems = Problems::default();
        let environment = |name: &str| match name {
            "PORT" => Some("8080".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        interpolate(&mut node, &environment, &mut Filled::default(), &mut problems);
        let report = problems.into_report(crate::Sources::default()).lines();
        if report.is_empty() { Ok(node) } else { Err(report) }
    }

    #[test]
    fn fills_in_variables_and_defaults() {
        for (text, expected) in [
            ("a${PORT}b", "a8080b"),
            ("${NONE:-x}${PORT:-y}", "x8080"),
            ("${EMPTY:-x}", "x"),
            ("a${EMPTY}", "a"),
            ("a${NONE:-}", "a"),
            ("^/x$", "^/x$"),
            ("$$${PORT}$$", "$8080$"),
            ("$${PORT}", "${PORT}"),
        ] {
            assert_eq!(fill(text, false).unwrap().kind, Kind::Str(expected.into()), "{text}");
        }
    }

    #[test]
    fn types_unquoted_values_again() {
        assert_eq!(fill("${PORT}", true).unwrap().kind, Kind::Int(8080));
        assert_eq!(fill("${PORT}", false).unwrap().kind, Kind::Str("8080".into()));
        assert!(fill("${PORT}", true).unwrap().span.filled);
        assert!(!fill("$$5", true).unwrap().span.filled);
    }

    #[test]
    fn what_a_variable_holds_is_not_filled_again() {
        let mut node = Node::new(Span::default(), Kind::Str("${A} ${C:-x}".into()));
        let (mut filled, mut problems) = (Filled::default(), Problems::default());
        let environment = |name: &str| (name == "A").then(|| "${B} $$".to_owned());
        interpolate(&mut node, &environment, &mut filled, &mut problems);
        assert_eq!(node.kind, Kind::Str("${B} $$ x".into()));
        assert!(problems.is_clean());
    }

    #[test]
    fn names_are_remembered_and_values_are_not() {
        let mut node = Node::new(Span::new(3, 7..20), Kind::Str("${PORT}${NONE:-x}".into()));
        let mut filled = Filled::default();
        let environment = |name: &str| (name == "PORT").then(|| "8080".to_owned());
        interpolate(&mut node, &environment, &mut filled, &mut Problems::default());
        let found: Vec<_> = filled.at(node.span).iter().map(|v| (&*v.name, v.by_default)).collect();
        assert_eq!(found, [("PORT", false), ("NONE", true)]);
        assert!(filled.at(Span::new(3, 8..20)).is_empty() && !format!("{filled:?}").contains("8080"));
    }

    #[test]
    fn refuses_unset_and_malformed_variables() {
        assert!(fill("${NONE}", true).unwrap_err().contains("`NONE` is not set"));
        for text in ["${", "${}", "${1A}", "${A B}", "${A?x}", "${A", "${A:-${PORT}}"] {
            assert!(fill(text, true).is_err(), "{text}");
        }
    }
}
