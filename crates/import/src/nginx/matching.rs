//! Which location nginx gives a request, and in which order routes give the same.
//!
//! nginx: an exact location; else the longest prefix, unless a regular expression matches first, which is not asked
//! where the longest prefix says `^~`. A prefix ends anywhere, not at a segment. Here: exact paths, then the longest
//! prefix of whole segments, then regular expressions in file order, then everything. So a prefix becomes `/a/*` only
//! where nothing that goes before it is a regular expression; else it becomes one itself.

use crate::draft::Paths;
use crate::pattern::{Whole, escaped, plain};

/// How a location is chosen.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// `=`
    Exact,
    /// A prefix; `true`: `^~`.
    Prefix(bool),
    /// `~` and `~*`.
    Regex(Whole),
    /// What rewrites of the server lead to, before any location.
    Before(Whole),
}

/// What a location is chosen by.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) kind: Kind,
    pub(super) path: String,
}

impl Pattern {
    /// Whether a shorter prefix with `^~` goes before expressions.
    pub(super) fn is_behind_first(&self, patterns: &[Self]) -> bool {
        let is_shorter = |it: &&Self| it.path.len() < self.path.len() && self.path.starts_with(&it.path);
        matches!(self.kind, Kind::Prefix(false))
            && patterns.iter().filter(is_shorter).any(|it| matches!(it.kind, Kind::Prefix(true)))
    }
}

/// A location by its number, with the paths of a route.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arranged {
    pub(super) location: usize,
    pub(super) paths: Paths,
}

/// The location that nginx gives a path.
pub(super) fn find(patterns: &[Pattern], path: &str) -> Option<usize> {
    let exact = patterns.iter().position(|it| matches!(it.kind, Kind::Exact) && it.path == path);
    if exact.is_some() {
        return exact;
    }
    let prefixes = patterns.iter().enumerate().filter_map(|(at, it)| match it.kind {
        Kind::Prefix(first) if path.starts_with(&it.path) => Some((it.path.len(), first, at)),
        _ => None,
    });
    let longest = prefixes.max_by_key(|(length, ..)| *length);
    if let Some((_, true, at)) = longest {
        return Some(at);
    }
    let regex = patterns.iter().position(|it| match &it.kind {
        Kind::Regex(regex) => regex.compiled.is_match(path),
        _ => false,
    });
    regex.or(longest.map(|(.., at)| at))
}

/// A pattern that is to be written as a regular expression.
struct Shaped<'a> {
    prefix: &'a str,
    is_regex: bool,
}

impl Shaped<'_> {
    /// Whether it may match something below a prefix of whole segments.
    fn meets(&self, other: &str) -> bool {
        self.prefix.is_empty() || self.prefix.starts_with(other) || other.starts_with(self.prefix)
    }
}

/// Locations in nginx's order of precedence, but for exact ones and `/`.
fn ordered(patterns: &[Pattern]) -> Vec<usize> {
    let rank = |at: &usize| {
        let it = &patterns[*at];
        let length = usize::MAX - it.path.len();
        match it.kind {
            Kind::Before(_) => (0, 0, *at),
            Kind::Prefix(true) => (1, length, *at),
            Kind::Prefix(false) if it.is_behind_first(patterns) => (1, length, *at),
            Kind::Regex(_) => (2, 0, *at),
            _ => (3, length, *at),
        }
    };
    let mut order: Vec<usize> = (0..patterns.len())
        .filter(|at| !matches!(patterns[*at].kind, Kind::Exact) && !is_root(&patterns[*at]))
        .collect();
    order.sort_by_key(rank);
    order
}

fn is_root(pattern: &Pattern) -> bool {
    matches!(pattern.kind, Kind::Prefix(_)) && pattern.path == "/"
}

/// The routes of a server, in the order in which they must stand.
pub(super) fn arrange(patterns: &[Pattern]) -> Vec<Arranged> {
    let order = ordered(patterns);
    let mut shaped: Vec<Shaped<'_>> = Vec::new();
    let mut paths: Vec<(usize, Paths)> = Vec::new();
    for at in &order {
        let pattern = &patterns[*at];
        let (made, is_regex) = match &pattern.kind {
            Kind::Regex(regex) | Kind::Before(regex) => (Paths::Regex(regex.text.clone()), true),
            _ => prefix(pattern, patterns, &shaped),
        };
        let begin = match &pattern.kind {
            Kind::Regex(regex) | Kind::Before(regex) => regex.prefix.as_str(),
            _ => pattern.path.as_str(),
        };
        shaped.push(Shaped { prefix: begin, is_regex });
        paths.push((*at, made));
    }
    let mut out: Vec<Arranged> = Vec::new();
    for (at, pattern) in patterns.iter().enumerate() {
        let taken = || {
            patterns.iter().any(|it| match &it.kind {
                Kind::Before(regex) => regex.compiled.is_match(&pattern.path),
                _ => false,
            })
        };
        if matches!(pattern.kind, Kind::Exact) && !taken() {
            out.push(Arranged { location: at, paths: Paths::Patterns(vec![plain(&pattern.path)]) });
        }
    }
    out.extend(paths.into_iter().map(|(location, paths)| Arranged { location, paths }));
    if let Some(location) = patterns.iter().position(is_root) {
        out.push(Arranged { location, paths: Paths::All });
    }
    out
}

/// The paths of a prefix: whole segments where that is the same, else a regular expression.
fn prefix(pattern: &Pattern, patterns: &[Pattern], before: &[Shaped<'_>]) -> (Paths, bool) {
    let text = &pattern.path;
    let ends = text.ends_with('/') && !text.contains("//");
    let hidden = before.iter().any(|it| it.is_regex && it.meets(text));
    // A shorter one that goes first (`^~`) would hide behind this one if it were a regular expression.
    let hides = patterns.iter().any(|it| {
        it.path.len() < text.len() && text.starts_with(&it.path) && matches!(it.kind, Kind::Prefix(true))
    });
    if ends && (!hidden || hides) {
        (Paths::Patterns(vec![format!("{}/*", plain(text.trim_end_matches('/')))]), false)
    } else {
        (Paths::Regex(format!("{}.*", escaped(&plain(text)))), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::whole;

    fn pattern(text: &str) -> Pattern {
        let (modifier, path) = text.split_once(' ').unwrap_or(("", text));
        let kind = match modifier {
            "=" => Kind::Exact,
            "^~" => Kind::Prefix(true),
            "~" => Kind::Regex(whole(path, false).unwrap()),
            "~*" => Kind::Regex(whole(path, true).unwrap()),
            _ => Kind::Prefix(false),
        };
        Pattern { kind, path: path.to_owned() }
    }

    fn routes(locations: &[&str]) -> Vec<String> {
        let patterns: Vec<_> = locations.iter().map(|text| pattern(text)).collect();
        arrange(&patterns)
            .into_iter()
            .map(|it| match it.paths {
                Paths::All => "all".to_owned(),
                Paths::Patterns(list) => list.join(" "),
                Paths::Regex(regex) => format!("~{regex}"),
            })
            .collect()
    }

    #[test]
    fn prefixes_stay_prefixes_where_no_expression_goes_before_them() {
        assert_eq!(routes(&["/", "/a/", "= /x", "^~ /s/"]), ["/x", "/s/*", "/a/*", "all"]);
        assert_eq!(routes(&["/", "/a/", r"~ \.php$", "^~ /s/"]), ["/s/*", r"~.*?\.php", "~/a/.*", "all"]);
        assert_eq!(routes(&["/", "/a/", "~ ^/img/"]), ["~/img/.*", "/a/*", "all"]);
        assert_eq!(routes(&["/foo/", "/foo/ba"]), ["~/foo/ba.*", "~/foo/.*"]);
        assert_eq!(routes(&["/api"]), ["~/api.*"]);
    }

    #[test]
    fn a_path_finds_its_location() {
        let patterns: Vec<_> =
            ["/", "/a", "/a/b/", "^~ /s/", r"~* \.png$", "= /a"].iter().map(|text| pattern(text)).collect();
        for (path, expected) in
            [("/a", 5), ("/ax", 1), ("/a/b/c", 2), ("/s/x.png", 3), ("/a/x.PNG", 4), ("/z", 0)]
        {
            assert_eq!(find(&patterns, path), Some(expected), "{path}");
        }
    }
}
