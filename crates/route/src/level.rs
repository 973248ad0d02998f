//! The routes of one host level, filed by their path.

use crate::edges::{Filed, NONE};
use crate::path::PathPattern;
use crate::shapes::Shapes;
use crate::tree::Tree;
use crate::value::Regex;

/// The trees of all levels.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    pub tree: Tree,
    pub shapes: Shapes,
}

/// Everything filed under one exact host, one wildcard or any host. Routes are numbers: smaller is better.
#[derive(Debug)]
pub(crate) struct Level {
    /// The root of this level in the tree of exact paths and prefixes, if it has any.
    pub tree: u32,
    /// The root of this level in the tree of patterns, if it has any.
    pub shapes: u32,
    pub regexes: Vec<(Regex, u32)>,
    pub everything: Filed,
}

impl Default for Level {
    fn default() -> Self {
        Self { tree: NONE, shapes: NONE, regexes: Vec::new(), everything: Filed::None }
    }
}

impl Level {
    /// Files a route. Better routes come first.
    pub(crate) fn insert(&mut self, paths: &mut Paths, path: Option<&PathPattern>, route: u32) {
        match path {
            None => self.everything.push(route),
            Some(PathPattern::Exact(path)) => paths.tree.insert_exact(&mut self.tree, path, route),
            Some(PathPattern::Prefix(prefix)) => match prefix.trim_end_matches('/') {
                "" => self.everything.push(route),
                prefix => paths.tree.insert_prefix(&mut self.tree, prefix, route),
            },
            Some(PathPattern::Pattern(pattern)) => paths.shapes.insert(&mut self.shapes, pattern, route),
            Some(PathPattern::Regex(regex)) => {
                if self.regexes.last().is_none_or(|(_, last)| *last != route) {
                    self.regexes.push((regex.clone(), route));
                }
            }
        }
    }
}
