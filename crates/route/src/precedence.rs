//! Which of two routes is tried first within one host level: the order that the crate's page states.
//!
//! [`crate::Table::build`] sorts all routes by it once; from then on a smaller number is a better route.

use std::cmp::Reverse;

use crate::path::PathPattern;
use crate::table::RouteMatch;

/// The kind of a route's path condition. The order of the variants is the precedence.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum PathKind {
    Exact,
    Prefix,
    Pattern,
    Regex,
    /// `/*` or none. Last, or else a catch-all would shadow every pattern and regex of its host.
    Everything,
}

/// The place of a route; the order of the fields is the order of the rules.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Precedence {
    pub path: PathKind,
    /// Bytes of a prefix, literal segments of a pattern.
    pub literal: Reverse<usize>,
    pub takes_rest: bool,
    pub any_method: bool,
    pub headers: Reverse<usize>,
    pub query: Reverse<usize>,
    pub position: usize,
}

impl Precedence {
    /// The place of the route at `position` in the file, for one of its paths.
    pub(crate) fn of(route: &RouteMatch, path: Option<&PathPattern>, position: usize) -> Self {
        let (path, literal, takes_rest) = match path {
            Some(PathPattern::Exact(_)) => (PathKind::Exact, 0, false),
            Some(PathPattern::Prefix(prefix)) => match prefix.trim_end_matches('/').len() {
                0 => (PathKind::Everything, 0, false),
                length => (PathKind::Prefix, length, false),
            },
            Some(PathPattern::Pattern(pattern)) => {
                (PathKind::Pattern, pattern.literals(), pattern.rest().is_some())
            }
            Some(PathPattern::Regex(_)) => (PathKind::Regex, 0, false),
            None => (PathKind::Everything, 0, false),
        };
        Self {
            path,
            literal: Reverse(literal),
            takes_rest,
            any_method: route.methods.is_empty(),
            headers: Reverse(route.headers.len()),
            query: Reverse(route.query.len()),
            position,
        }
    }
}

/// What decides between routes of one host before their order in the file does. Where two routes have the same
/// rank and a host in common, a request that both take goes to the one that stands first.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Rank {
    precedence: Precedence,
    /// Of an exact path and a prefix: another one of the same rank takes other requests.
    path: Option<String>,
}

impl Rank {
    /// The ranks of a route: one for each of its paths.
    pub fn all(route: &RouteMatch) -> Vec<Self> {
        route.paths().map(|path| Self::of(route, path)).collect()
    }

    fn of(route: &RouteMatch, pattern: Option<&PathPattern>) -> Self {
        let path = match pattern {
            Some(PathPattern::Exact(path)) => Some(path.clone()),
            Some(PathPattern::Prefix(path)) => Some(path.trim_end_matches('/').to_owned()),
            Some(PathPattern::Pattern(_) | PathPattern::Regex(_)) | None => None,
        };
        // No path at all is the same as every path.
        let path = path.filter(|path| !path.is_empty());
        Self { precedence: Precedence::of(route, pattern, 0), path }
    }
}
