//! Sets of paths that routes send to one place, as far as they can be compared. They decide which paths a document
//! may request without a guard where the file guards other paths of the same service.

use super::ways::Way;
use std::collections::BTreeSet;
use thalweg_filter::{Moves, Step};
use thalweg_route::PathPattern;

/// Filters that may change the path of a request. All of `rewrite` counts, since its parts are not told apart here.
const CHANGE_PATH: &[&str] = &["ext", "rewrite", "strip_prefix", "wasm"];

/// Whether a filter may change the path of a request.
pub(super) fn changes_path(step: &Step) -> bool {
    CHANGE_PATH.contains(&step.name()) || step.filter.moves() == Moves::Request
}

/// The part of the paths at and below a prefix.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Extent {
    /// The prefix alone.
    Exact,
    /// All paths below it, and the prefix.
    Below,
    /// Some.
    Within,
}

/// Paths of routes, each a prefix of whole segments without a slash at its end.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Paths(BTreeSet<(String, Extent)>);

impl Paths {
    /// The paths of the requests to the service of a way; `None`: a filter changes them.
    pub(super) fn of(way: &Way<'_>) -> Option<Self> {
        if way.steps.iter().any(changes_path) {
            return None;
        }
        // An endpoint may cut a parameter, or read an encoded slash as a slash (decision 0005).
        let has_readings = |text: &str| [";", "%2F", "%5C"].iter().any(|part| text.contains(part));
        if way.route.patterns.iter().any(|pattern| has_readings(&pattern.to_string())) {
            return None;
        }
        Some(Self::asked(way))
    }

    /// The paths of the requests that clients send on a way.
    pub(super) fn asked(way: &Way<'_>) -> Self {
        Self::matching(&way.route.patterns)
    }

    /// The paths that one of these patterns matches; none: every path.
    pub(super) fn matching(patterns: &[PathPattern]) -> Self {
        let all = patterns.iter().map(|pattern| match pattern {
            PathPattern::Exact(path) => (path.clone(), Extent::Exact),
            PathPattern::Prefix(path) => (path.trim_end_matches('/').to_owned(), Extent::Below),
            PathPattern::Pattern(pattern) => {
                let text = pattern.to_string();
                let literal = text.split(['{', '*']).next().unwrap_or_default();
                (literal.rsplit_once('/').map_or("", |(path, _)| path).to_owned(), Extent::Within)
            }
            PathPattern::Regex(_) => (String::new(), Extent::Within),
        });
        let all: BTreeSet<_> = all.collect();
        if all.is_empty() { Self::all() } else { Self(all) }
    }

    /// One path, without its query; `None`: a server may read it as another one.
    pub(super) fn exact(path: &str) -> Option<Self> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let is_doubtful = path.contains(['%', ';', '\\'])
            || path.contains("//")
            || path.split('/').any(|segment| matches!(segment, "." | ".."));
        let path = path.trim_end_matches('/').to_owned();
        (!is_doubtful).then(|| Self([(path, Extent::Exact)].into()))
    }

    /// Every path.
    pub(super) fn all() -> Self {
        Self([(String::new(), Extent::Below)].into())
    }

    pub(super) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether a path may be in both sets.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        self.0.iter().any(|(one, _)| other.0.iter().any(|(two, _)| is_below(one, two) || is_below(two, one)))
    }

    /// Whether every path of `other` is in this set.
    pub(super) fn cover(&self, other: &Self) -> bool {
        let covered = |(path, extent): &(String, Extent)| {
            self.0.iter().any(|(known, of)| match of {
                Extent::Exact => *extent == Extent::Exact && known == path,
                Extent::Below => is_below(known, path),
                Extent::Within => false,
            })
        };
        other.0.iter().all(covered)
    }
}

/// Whether a path equals this prefix or is below it.
fn is_below(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
