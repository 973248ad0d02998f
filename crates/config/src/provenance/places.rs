//! The places of a tree without its values: a few bytes for each node.

use super::Place;
use crate::interpolate::{Filled, Variable};
use crate::parse::{Kind, Node};
use crate::source::{Sources, Span};
use std::collections::HashMap;
use std::sync::Arc;

/// A node of the tree, as a position in [`Places`].
pub(super) type Row = usize;

/// Every node in the order of the tree, each followed by what is below it.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    rows: Vec<Entry>,
    /// Names of keys, each once.
    names: Vec<Box<str>>,
    files: Vec<File>,
    /// Of the nodes that were filled in.
    variables: HashMap<Row, Vec<Variable>>,
    /// Elements of lists by where they are written.
    elements: HashMap<(u16, u32), Row>,
}

#[derive(Clone, Debug)]
struct Entry {
    step: Step,
    /// Rows below it.
    below: u32,
    /// From 1.
    line: u32,
    file: u16,
}

/// How a node is reached from the one above it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// The root.
    Top,
    /// By a key: its position in `names`.
    Key(u32),
    /// By its position in a list.
    At(u32),
}

#[derive(Clone, Debug)]
struct File {
    name: Arc<str>,
    /// Where another file names it: file and line.
    included: Option<(u16, u32)>,
}

impl Places {
    pub(super) fn new(root: &Node, sources: &Sources, filled: &Filled) -> Self {
        let mut places = Self::default();
        for file in 0..=u16::MAX {
            let Some(source) = sources.get(file) else { break };
            let included = sources.included_at(file).map(|span| (span.file, sources.line(span)));
            places.files.push(File { name: source.name().into(), included });
        }
        let mut builder = Builder { places, sources, filled, names: HashMap::new() };
        builder.add(root, Step::Top, root.span);
        builder.places
    }

    /// The whole file.
    pub(super) fn root(&self) -> Option<Row> {
        (!self.rows.is_empty()).then_some(0)
    }

    /// The entries of the section with this key.
    pub(super) fn section(&self, key: &str) -> impl Iterator<Item = Row> {
        let row = self.root().and_then(|root| self.descend(root, &[key]));
        row.into_iter().flat_map(|row| self.children(row))
    }

    /// What stands under these keys, or positions of elements, below a node.
    pub(super) fn descend(&self, row: Row, path: &[&str]) -> Option<Row> {
        path.iter().try_fold(row, |row, step| {
            self.children(row).find(|child| match self.rows.get(*child).map(|entry| entry.step) {
                Some(Step::At(at)) => step.parse() == Ok(at),
                _ => self.key(*child) == Some(step),
            })
        })
    }

    /// The elements of a list.
    pub(super) fn elements(&self, row: Row) -> impl Iterator<Item = Row> {
        self.children(row)
            .filter(|child| matches!(self.rows.get(*child), Some(Entry { step: Step::At(_), .. })))
    }

    /// The key of a node, if it has one.
    pub(super) fn key(&self, row: Row) -> Option<&str> {
        match self.rows.get(row)?.step {
            Step::Key(name) => self.names.get(name as usize).map(|name| &**name),
            Step::Top | Step::At(_) => None,
        }
    }

    /// The element of a list that is written here.
    pub(super) fn element(&self, span: Span) -> Option<Row> {
        self.elements.get(&(span.file, span.start)).copied()
    }

    /// Where a node is written, and where its file is included.
    pub(super) fn place(&self, row: Row) -> Option<(Place, Option<Place>)> {
        let entry = self.rows.get(row)?;
        let place = |file: u16, line: u32| {
            Some(Place { file: self.files.get(usize::from(file))?.name.clone(), line })
        };
        let included = self.files.get(usize::from(entry.file))?.included;
        Some((place(entry.file, entry.line)?, included.and_then(|(file, line)| place(file, line))))
    }

    /// The variables in a node and below it, each once.
    pub(super) fn variables(&self, row: Row) -> Vec<Variable> {
        let below = self.rows.get(row).map_or(0, |entry| entry.below as usize);
        let mut found = Vec::new();
        if self.variables.is_empty() {
            return found;
        }
        for variable in (row..=row + below).filter_map(|row| self.variables.get(&row)).flatten() {
            if !found.contains(variable) {
                found.push(variable.clone());
            }
        }
        found
    }

    /// The nodes one level below.
    fn children(&self, row: Row) -> impl Iterator<Item = Row> {
        let behind = |row: Row| self.rows.get(row).map_or(row, |entry| row + entry.below as usize + 1);
        let end = behind(row);
        let first = Some(row + 1).filter(|first| *first < end);
        std::iter::successors(first, move |child| Some(behind(*child)).filter(|next| *next < end))
    }
}

struct Builder<'a> {
    places: Places,
    sources: &'a Sources,
    filled: &'a Filled,
    names: HashMap<&'a str, u32>,
}

impl<'a> Builder<'a> {
    /// Adds a node and what is below it; `span` is that of its key, if it has one.
    fn add(&mut self, node: &'a Node, step: Step, span: Span) {
        let row = self.places.rows.len();
        let variables = self.filled.at(node.span);
        if !variables.is_empty() && !matches!(node.kind, Kind::Seq(_) | Kind::Map(_)) {
            self.places.variables.insert(row, variables.to_vec());
        }
        let line = self.sources.line(span);
        self.places.rows.push(Entry { step, below: 0, line, file: span.file });
        match &node.kind {
            Kind::Seq(items) => {
                for (at, item) in (0u32..).zip(items) {
                    self.places.elements.insert((item.span.file, item.span.start), self.places.rows.len());
                    self.add(item, Step::At(at), item.span);
                }
            }
            Kind::Map(entries) => {
                for (key, child) in entries {
                    let name = self.name(&key.name);
                    self.add(child, Step::Key(name), key.span);
                }
            }
            _ => {}
        }
        let below = self.places.rows.len() - row - 1;
        if let Some(entry) = self.places.rows.get_mut(row) {
            entry.below = u32::try_from(below).unwrap_or(u32::MAX);
        }
    }

    fn name(&mut self, name: &'a str) -> u32 {
        let next = u32::try_from(self.places.names.len()).unwrap_or(u32::MAX);
        let known = *self.names.entry(name).or_insert(next);
        if known == next {
            self.places.names.push(name.into());
        }
        known
    }
}
