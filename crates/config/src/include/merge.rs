//! Several trees become one: lists follow each other, maps by name are joined, everything else is written once.

use crate::diagnose::{Class, Problems, SpecError};
use crate::parse::{Key, Kind, Node, duplicate};
use crate::source::{Sources, Span};
use std::collections::HashMap;

/// Sections whose elements follow each other.
const LISTS: &[&str] = &["include", "routes", "webhooks", "tests", "route_sources", "registrations"];
/// Sections whose entries have names of their own.
const MAPS: &[&str] = &["listeners", "services", "chains", "slos"];

/// The tree so far.
#[derive(Default)]
pub(super) struct Merge {
    root: Option<Node>,
    /// Positions of the sections, once there is more than one file: a hostile file may have a great many.
    sections: HashMap<String, usize>,
    /// Where the entries of the sections by name stand. Filled when a second file has such a section.
    names: HashMap<&'static str, HashMap<String, Span>>,
}

impl Merge {
    /// The whole tree.
    pub(super) fn into_root(self) -> Option<Node> {
        self.root
    }

    /// Adds a file. The first one may be anything; the others are maps or nothing.
    pub(super) fn take(&mut self, file: Node, sources: &Sources, problems: &mut Problems) {
        let Some(root) = &mut self.root else {
            self.root = Some(file);
            return;
        };
        let Kind::Map(entries) = file.kind else { return };
        if root.kind == Kind::Null {
            root.kind = Kind::Map(Vec::new());
        }
        let Kind::Map(known) = &mut root.kind else { return };
        if self.sections.is_empty() {
            self.sections = known.iter().enumerate().map(|(at, (key, _))| (key.name.clone(), at)).collect();
        }
        for (key, node) in entries {
            let at = self.sections.get(&key.name).copied();
            let Some((first, into)) = at.and_then(|at| known.get_mut(at)) else {
                self.sections.insert(key.name.clone(), known.len());
                known.push((key, node));
                continue;
            };
            if LISTS.contains(&key.name.as_str()) {
                join_lists(&key, into, node, problems);
            } else if let Some(section) = MAPS.iter().find(|name| **name == key.name) {
                let names = self.names.entry(*section).or_default();
                join_maps(section, (into, node), names, (sources, problems));
            } else {
                let help = "such a section stands in one file only";
                problems.push(twice(&key, first.span, sources).help(help));
            }
        }
    }
}

fn join_lists(key: &Key, into: &mut Node, from: Node, problems: &mut Problems) {
    match (&mut into.kind, from.kind) {
        (Kind::Seq(items), Kind::Seq(more)) => items.extend(more),
        (_, Kind::Null) => {}
        (Kind::Null, kind) => *into = Node { kind, ..from },
        (Kind::Seq(_), _) => wrong(&key.name, "list", from.span, problems),
        (..) => wrong(&key.name, "list", into.span, problems),
    }
}

fn join_maps(
    section: &str,
    (into, from): (&mut Node, Node),
    names: &mut HashMap<String, Span>,
    (sources, problems): (&Sources, &mut Problems),
) {
    match (&mut into.kind, from.kind) {
        (Kind::Map(entries), Kind::Map(more)) => {
            if names.is_empty() {
                names.extend(entries.iter().map(|(key, _)| (key.name.clone(), key.span)));
            }
            for (key, node) in more {
                if let Some(first) = names.get(&key.name) {
                    let help = "remove or rename one of the two; entries are not merged";
                    problems.push(twice(&key, *first, sources).help(help));
                } else {
                    names.insert(key.name.clone(), key.span);
                    entries.push((key, node));
                }
            }
        }
        (_, Kind::Null) => {}
        (Kind::Null, kind) => *into = Node { kind, ..from },
        (Kind::Map(_), _) => wrong(section, "map", from.span, problems),
        (..) => wrong(section, "map", into.span, problems),
    }
}

/// The error of a key in two files. The one-line form names both places too.
fn twice(key: &Key, first: Span, sources: &Sources) -> SpecError {
    let name = sources.get(first.file).map_or("?", |source| source.name());
    let mut error = duplicate(key, first);
    error.message = format!("{}, first in {name}:{}", error.message, sources.position(first).line);
    error
}

fn wrong(what: &str, shape: &str, span: Span, problems: &mut Problems) {
    let message = format!("`{what}` must be a {shape}");
    problems.push(SpecError::new(Class::Invalid, span, message));
}
