//! The routes whose host and path match a request, best first.
//!
//! The one way through the table: `find` takes the first that passes its other conditions, `explain`
//! looks at all. Lazy and without allocation.

use crate::conditions::{Miss, Route};
use crate::edges::NONE;
use crate::hosts::Levels;
use crate::level::{Level, Paths};
use crate::table::RouteId;
use crate::value::Regex;

/// A route whose host and path match, as `explain` shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// The route.
    pub id: RouteId,
    /// Whether it takes the request, or why it does not.
    pub outcome: Result<(), Miss>,
}

/// Iterates over the candidates. A route that names several hosts may come up once for each.
pub(crate) struct Candidates<'t> {
    routes: &'t [Route],
    paths: &'t Paths,
    path: &'t [u8],
    levels: Levels<'t>,
    level: Option<&'t Level>,
    /// Found and not yet given out.
    ready: &'t [u32],
    stage: Stage<'t>,
}

/// What comes next within a level.
enum Stage<'t> {
    /// The prefix that ends at this node of the tree, or shorter ones.
    Prefix(u32),
    /// Patterns from this route number on.
    Shapes(u32),
    /// These regexes.
    Regexes(&'t [(Regex, u32)]),
    /// The next level.
    Done,
}

impl<'t> Candidates<'t> {
    pub(crate) fn new(routes: &'t [Route], paths: &'t Paths, levels: Levels<'t>, path: &'t [u8]) -> Self {
        Self { routes, paths, path, levels, level: None, ready: &[], stage: Stage::Done }
    }

    /// Goes to the next host level.
    fn enter(&mut self) -> Option<()> {
        let level = self.levels.next()?;
        let found = self.paths.tree.walk(level.tree, self.path);
        self.level = Some(level);
        self.ready = found.exact;
        self.stage = Stage::Prefix(found.prefix);
        Some(())
    }

    /// Finds more routes, or goes one stage on.
    fn advance(&mut self, level: &'t Level) {
        match self.stage {
            Stage::Prefix(NONE) => self.stage = Stage::Shapes(0),
            Stage::Prefix(node) => {
                let (routes, above) = self.paths.tree.prefix(node).unwrap_or((&[], NONE));
                self.ready = routes;
                self.stage = Stage::Prefix(above);
            }
            Stage::Shapes(from) => match self.paths.shapes.next(level.shapes, self.path, from) {
                Some(route) => {
                    self.ready = std::slice::from_ref(route);
                    self.stage = Stage::Shapes(route + 1);
                }
                None => self.stage = Stage::Regexes(&level.regexes),
            },
            Stage::Regexes(regexes) => match regexes.iter().position(|(regex, _)| regex.matches(self.path)) {
                Some(at) => {
                    self.ready = std::slice::from_ref(&regexes[at].1);
                    self.stage = Stage::Regexes(&regexes[at + 1..]);
                }
                None => {
                    self.ready = level.everything.as_slice();
                    self.stage = Stage::Done;
                }
            },
            Stage::Done => self.level = None,
        }
    }
}

impl<'t> Iterator for Candidates<'t> {
    type Item = &'t Route;

    fn next(&mut self) -> Option<&'t Route> {
        loop {
            if let Some((first, rest)) = self.ready.split_first() {
                self.ready = rest;
                return self.routes.get(*first as usize);
            }
            match self.level {
                Some(level) => self.advance(level),
                None => self.enter()?,
            }
        }
    }
}
