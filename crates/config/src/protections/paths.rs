//! Which paths routes lead to one place, as far as that can be compared: what a document may ask for without a guard
//! where the file has a guard for other paths of the same service.

use super::ways::Way;
use std::collections::BTreeSet;
use thalweg_filter::Moves;
use thalweg_route::PathPattern;

/// What of the paths below a prefix is meant.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Extent {
    /// The prefix alone.
    Exact,
    /// All of them.
    Below,
    /// Some.
    Within,
}

/// Paths of routes, each a prefix of whole segments without a slash at its end.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Paths(BTreeSet<(String, Extent)>);

impl Paths {
    /// Those that the service of a way is asked for; `None`: a filter changes them.
    pub(super) fn of(way: &Way<'_>) -> Option<Self> {
        if way.steps.iter().any(|step| step.filter.moves() == Moves::Request) {
            return None;
        }
        let all = way.route.patterns.iter().map(|pattern| match pattern {
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
        Some(if all.is_empty() { Self::all() } else { Self(all) })
    }

    /// Every path.
    pub(super) fn all() -> Self {
        Self([(String::new(), Extent::Below)].into())
    }

    pub(super) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether a path may be one of both.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        self.0.iter().any(|(one, _)| other.0.iter().any(|(two, _)| is_below(one, two) || is_below(two, one)))
    }

    /// Whether all of the other ones are among these.
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

/// Whether a path is this prefix, or stands below it.
fn is_below(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
