//! Keys that do not exist here but that people write: refused by name, never ignored.
//!
//! Three kinds, all in one table ([`words`]): features of the design that have not landed, keys that were renamed, and
//! the words of other proxies. The tree itself is looked through before the specs are read, so that the specs need not
//! know these keys. A feature that lands removes its rows and adds fields to the specs; a test fails where a row stands
//! for a key that exists.

mod page;
mod words;

pub use page::page;

use crate::diagnose::{Class, Problems, SpecError};
use crate::parse::{Key, Kind, Node};
use crate::source::Span;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use words::WORDS;

/// The page that lists these words, and what there is instead.
const PAGE: &str = "docs/reference/other-proxies.md";

/// Longest key that is looked up, in bytes.
const LONGEST: usize = 64;

/// A map of the configuration in which somebody may write such a key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Place {
    Top,
    Admin,
    AccessLog,
    Listener,
    ListenerTls,
    Route,
    Match,
    Filter,
    Service,
    ServiceTls,
    Endpoint,
    Health,
    Retry,
    Timeouts,
    Limits,
    TestExpect,
}

/// Where the places are: paths of keys (`*`: any key or any element of a list).
const PLACES: &[(Place, &[&[&str]])] = &[
    (Place::Top, &[&[]]),
    (Place::Admin, &[&["admin"]]),
    (Place::AccessLog, &[&["access_log"]]),
    (Place::Listener, &[&["listeners", "*"]]),
    (Place::ListenerTls, &[&["listeners", "*", "tls"], &["listeners", "*", "tls", "certificates", "*"]]),
    (Place::Route, &[&["routes", "*"]]),
    (Place::Match, &[&["routes", "*", "match"]]),
    (Place::Filter, FILTERS),
    (Place::Service, &[&["services", "*"]]),
    (Place::ServiceTls, &[&["services", "*", "tls"]]),
    (Place::Endpoint, &[&["services", "*", "endpoints", "*"]]),
    (Place::Health, &[&["services", "*", "health"]]),
    (Place::Retry, &[&["services", "*", "retry"], &["defaults", "retry"]]),
    (
        Place::Timeouts,
        &[&["services", "*", "timeouts"], &["routes", "*", "timeouts"], &["defaults", "timeouts"]],
    ),
    (
        Place::Limits,
        &[&["limits"], &["services", "*", "limits"], &["routes", "*", "limits"], &["defaults", "limits"]],
    ),
    (Place::TestExpect, &[&["tests", "*", "expect"]]),
];

/// Where filters are listed.
const FILTERS: &[&[&str]] = &[
    &["routes", "*", "filters", "*"],
    &["chains", "*", "*"],
    &["defaults", "filters", "*"],
    &["listeners", "*", "filters", "*"],
    &["services", "*", "filters", "*"],
];

/// Words that mean the same, and what is said of them.
struct Row {
    at: &'static [Place],
    /// In lower case with `_`: a key is compared in that form.
    words: &'static [&'static str],
    means: Means,
}

/// What a word stands for here.
#[derive(Clone, Copy, Debug)]
enum Means {
    /// A feature that is to come; what may be done until then.
    Later(Option<&'static str>),
    /// A feature with another name: what to write, and the page about it.
    Called(&'static str, &'static str),
    /// A key that had this name before: what to write now.
    Renamed(&'static str),
}

/// By place and word.
static TABLE: LazyLock<HashMap<(Place, &str), &Row>> = LazyLock::new(|| {
    let rows = WORDS.iter().flat_map(|row| row.at.iter().map(move |place| (*place, row)));
    rows.flat_map(|(place, row)| row.words.iter().map(move |word| ((place, *word), row))).collect()
});

/// Reports every such key and adds what cannot be read without it to `pruned`.
pub(super) fn refuse(root: &Node, pruned: &mut HashSet<u32>, problems: &mut Problems) {
    for (place, paths) in PLACES {
        for path in *paths {
            Search { place: *place, pruned, problems }.walk(root, path);
        }
    }
}

/// The section of this version that a key of the top stands for: what refers to it is not reported on top.
pub(super) fn section(key: &str) -> Option<&'static str> {
    match lookup(Place::Top, key)?.means {
        Means::Called(instead, _) => instead.split('`').nth(1),
        Means::Later(_) | Means::Renamed(_) => None,
    }
}

/// The row of a key, whatever its spelling: `entryPoints`, `basic-auth`.
fn lookup(place: Place, key: &str) -> Option<&'static Row> {
    if key.len() > LONGEST {
        return None;
    }
    if let Some(row) = TABLE.get(&(place, key)) {
        return Some(row);
    }
    let mut plain = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() && !plain.is_empty() && !plain.ends_with('_') {
            plain.push('_');
        }
        plain.push(if c == '-' { '_' } else { c.to_ascii_lowercase() });
    }
    TABLE.get(&(place, plain.as_str())).copied()
}

struct Search<'a> {
    place: Place,
    pruned: &'a mut HashSet<u32>,
    problems: &'a mut Problems,
}

impl Search<'_> {
    fn walk(&mut self, node: &Node, path: &[&str]) {
        let Some((part, rest)) = path.split_first() else { return self.at(node) };
        match &node.kind {
            Kind::Map(entries) => {
                for (_, child) in entries.iter().filter(|(key, _)| *part == "*" || key.name == *part) {
                    self.walk(child, rest);
                }
            }
            Kind::Seq(items) if *part == "*" => items.iter().for_each(|item| self.walk(item, rest)),
            _ => {}
        }
    }

    /// Looks at the keys of a map of this place; a filter may also stand there as a word.
    fn at(&mut self, node: &Node) {
        match &node.kind {
            Kind::Map(entries) => entries.iter().for_each(|(key, child)| self.key(key, child, node)),
            Kind::Str(word) if self.place == Place::Filter => {
                if let Some(row) = lookup(self.place, word) {
                    self.report(row, word, node.span);
                    self.pruned.insert(node.id);
                }
            }
            _ => {}
        }
    }

    fn key(&mut self, key: &Key, child: &Node, map: &Node) {
        let Some(row) = lookup(self.place, &key.name) else { return };
        if self.place == Place::Filter && thalweg_filter::ALL.iter().any(|filter| filter.name == key.name) {
            return;
        }
        self.report(row, &key.name, key.span);
        // A choice without its key has no meaning.
        self.pruned.insert(if self.place == Place::Filter { map.id } else { child.id });
    }

    fn report(&mut self, row: &Row, word: &str, span: Span) {
        let error = match row.means {
            Means::Later(instead) => {
                let error = SpecError::new(
                    Class::Unavailable,
                    span,
                    format!("`{word}` is not available in this version"),
                );
                let instead = instead.map(|text| format!("{text}; ")).unwrap_or_default();
                error.help(format!("{instead}see {PAGE} for what this version has"))
            }
            Means::Called(instead, page) => {
                let error = SpecError::new(Class::Unknown, span, format!("unknown key `{word}`"));
                error.help(format!("write {instead}; see {page}"))
            }
            Means::Renamed(instead) => {
                let error = SpecError::new(Class::Unknown, span, format!("the key `{word}` has a new name"));
                error.help(format!("write {instead}"))
            }
        };
        self.problems.push(error);
    }
}

#[cfg(test)]
mod tests;
