//! The keys of the design whose features have not landed: refused by name, never ignored and
//! never called unknown.
//!
//! One table. A feature that lands removes its rows and adds fields to the specs. It is consulted
//! before the specs are read, on the tree itself, so that the specs need not know these keys.

use crate::diagnose::{Class, Problems, SpecError};
use crate::parse::{Key, Kind, Node};
use std::collections::HashSet;

/// A path of keys (`*`: any key or any element of a list) and, for some, the values meant.
struct Row {
    path: &'static [&'static str],
    values: &'static [&'static str],
    /// How far above the value the node to leave out is: a choice without its key has no meaning.
    above: usize,
}

macro_rules! rows {
    ($( $($key:literal).+ $(= $($value:literal)|+)? $(, above $above:literal)?; )*) => {
        &[ $( Row { path: &[$($key),+], values: &[$($($value),+)?], above: 0 $(+ $above)? }, )* ]
    };
}

const ROWS: &[Row] = rows! {
    "route_sources";
    "listeners"."*"."http3";
    "routes"."*"."retry";
    "routes"."*"."filters"."*"."rate_limit", above 1;
    "routes"."*"."filters"."*"."cache", above 1;
    "routes"."*"."filters"."*"."request_id", above 1;
    "chains"."*"."*"."rate_limit", above 1;
    "chains"."*"."*"."cache", above 1;
    "chains"."*"."*"."request_id", above 1;
    "services"."*"."discover";
    "tests"."*"."expect"."headers_added";
    "tests"."*"."expect"."headers_removed";
    "tests"."*"."expect"."redirect";
};

/// Reports every such key and adds what cannot be read without it to `pruned`.
pub(super) fn refuse(root: &Node, pruned: &mut HashSet<u32>, problems: &mut Problems) {
    for row in ROWS {
        let mut search = Search { row, above: Vec::new(), pruned, problems };
        search.walk(root, None, row.path);
    }
}

struct Search<'a> {
    row: &'static Row,
    /// The numbers of the nodes between the root and this one.
    above: Vec<u32>,
    pruned: &'a mut HashSet<u32>,
    problems: &'a mut Problems,
}

impl Search<'_> {
    fn walk(&mut self, node: &Node, key: Option<&Key>, path: &[&str]) {
        let Some((part, rest)) = path.split_first() else { return self.found(node, key) };
        self.above.push(node.id);
        match &node.kind {
            Kind::Map(entries) => {
                for (key, child) in entries.iter().filter(|(key, _)| *part == "*" || key.name == *part) {
                    self.walk(child, Some(key), rest);
                }
            }
            Kind::Seq(items) if *part == "*" => items.iter().for_each(|item| self.walk(item, None, rest)),
            _ => {}
        }
        self.above.pop();
    }

    fn found(&mut self, node: &Node, key: Option<&Key>) {
        let name = self.row.path.iter().rev().find(|part| **part != "*").copied().unwrap_or("this");
        let (span, name) = match &node.kind {
            _ if self.row.values.is_empty() => (key.map_or(node.span, |key| key.span), name.to_owned()),
            Kind::Str(value) if self.row.values.contains(&value.as_str()) => {
                (node.span, format!("{name}: {value}"))
            }
            _ => return,
        };
        if has_landed(self.row.path) {
            return;
        }
        let message = format!("`{name}` is not available in this version");
        self.problems.push(SpecError::new(Class::Unavailable, span, message));
        let above = self.above.len().checked_sub(self.row.above).and_then(|at| self.above.get(at));
        self.pruned.insert(above.copied().unwrap_or(node.id));
    }
}

/// Filters land by a line in their own list.
fn has_landed(path: &[&str]) -> bool {
    match path {
        [.., "filters", "*", name] | ["chains", "*", "*", name] => {
            thalweg_filter::ALL.iter().any(|filter| filter.name == *name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_path_without_repetition() {
        for (i, row) in ROWS.iter().enumerate() {
            assert!(!row.path.is_empty());
            assert!(ROWS[i + 1..].iter().all(|other| other.path != row.path), "{:?}", row.path);
        }
    }
}
