//! `${NAME}` and `${NAME:-default}` in scalars, quoted or not, after parsing.
//!
//! Because it runs on the tree, a value can never change the structure of the file. `$$` is a
//! literal `$`; a `$` before anything else stands for itself (regular expressions end in it).
//! Nodes that were filled carry [`Span::filled`], so that no message shows what they hold.

use crate::diagnose::{Class, Problems, SpecError};
use crate::parse::{Kind, Node, TEXT, core_schema};
use crate::source::Span;

/// Where variables come from: the process's environment, or a test's table.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Longest name of a variable, in bytes.
const NAME: usize = 128;

/// Fills in every scalar below `node`. Mistakes mark the node as broken.
pub fn interpolate(node: &mut Node, environment: Environment<'_>, problems: &mut Problems) {
    let mut filler = Filler { environment, problems, text: 0 };
    filler.walk(node);
}

struct Filler<'a> {
    environment: Environment<'a>,
    problems: &'a mut Problems,
    text: usize,
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
                    node.span.filled = filled;
                    node.kind =
                        if filled && node.plain { core_schema(&text) } else { Kind::Str(text.clone()) };
                    node.filled = filled.then_some(text);
                }
                Err(error) => {
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
                self.text = self.text.saturating_add(value.len());
                if self.text > TEXT {
                    let message = "the environment's values are too large";
                    return Err(Box::new(SpecError::new(Class::Invalid, span, message)));
                }
                out.push_str(&value);
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

    fn variable(&self, inside: &str, span: Span) -> Result<String, Box<SpecError>> {
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let mut letters = name.bytes();
        let starts_well = letters.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !starts_well || !letters.all(|b| b.is_ascii_alphanumeric() || b == b'_') || name.len() > NAME {
            return Err(malformed(span, "this is not a variable"));
        }
        match ((self.environment)(name), default) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(_)) if !value.is_empty() => Ok(value),
            (_, Some(default)) => Ok(default.to_owned()),
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
        interpolate(&mut node, &environment, &mut problems);
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
    fn refuses_unset_and_malformed_variables() {
        assert!(fill("${NONE}", true).unwrap_err().contains("`NONE` is not set"));
        for text in ["${", "${}", "${1A}", "${A B}", "${A?x}", "${A"] {
            assert!(fill(text, true).is_err(), "{text}");
        }
    }
}
