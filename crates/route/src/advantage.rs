//! Why one route goes before another that would take the same request: the first rule of the precedence on which they
//! differ.
//!
//! For `explain`. Reads the same [`Precedence`] that the table was sorted by.

use std::cmp::Reverse;
use std::fmt;

use crate::host::HostPattern;
use crate::precedence::{PathKind, Precedence};
use crate::table::{RouteId, RouteMatch, Table};

/// What a route has ahead of another one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Advantage {
    /// It names the host, the other one a wildcard or none.
    ExactHost,
    /// Its wildcard is the longer one.
    LongerHost,
    /// It names hosts, the other one none.
    NamesHost,
    /// Its path is exact.
    ExactPath,
    /// Its path is a prefix, the other one a pattern, a regular expression or everything.
    PrefixPath,
    /// Its path is a pattern, the other one a regular expression or everything.
    PatternPath,
    /// Its path is a regular expression, the other one everything.
    RegexPath,
    /// Its prefix is the longer one.
    LongerPrefix,
    /// More segments of its path are literal.
    MoreLiteral,
    /// Its path does not end in a rest.
    NoRest,
    /// It names methods.
    NamesMethods,
    /// It has more header conditions.
    MoreHeaders,
    /// It has more query conditions.
    MoreQuery,
    /// It stands earlier in the file.
    Earlier,
}

impl fmt::Display for Advantage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExactHost => "its host is exact",
            Self::LongerHost => "its wildcard host is longer",
            Self::NamesHost => "it names hosts",
            Self::ExactPath => "its path is exact",
            Self::PrefixPath => "a prefix goes before patterns and `/*`",
            Self::PatternPath => "a pattern goes before regular expressions and `/*`",
            Self::RegexPath => "a regular expression goes before `/*`",
            Self::LongerPrefix => "its prefix is longer",
            Self::MoreLiteral => "more segments of its path are literal",
            Self::NoRest => "its path does not end in a rest",
            Self::NamesMethods => "it names methods",
            Self::MoreHeaders => "it has more header conditions",
            Self::MoreQuery => "it has more query conditions",
            Self::Earlier => "it stands earlier in the file",
        })
    }
}

impl Table {
    /// What `better` has ahead of `worse` for a host and a path in normal form; `None` when it has nothing, or one of
    /// them is unknown.
    pub fn advantage(
        &self,
        better: RouteId,
        worse: RouteId,
        (host, path): (&[u8], &[u8]),
    ) -> Option<Advantage> {
        let place = |id: RouteId| {
            let route = self.written(id)?;
            let fitting = route.paths().filter(|pattern| pattern.is_none_or(|pattern| pattern.matches(path)));
            let all = fitting.map(|pattern| Precedence::of(route, pattern, id.0 as usize));
            Some((level(route, host)?, all.min()?))
        };
        let ((level_a, a), (level_b, b)) = (place(better)?, place(worse)?);
        if level_a != level_b {
            return (level_a < level_b).then_some(match (level_a, level_b) {
                (Level::Exact, _) => Advantage::ExactHost,
                (_, Level::Any) => Advantage::NamesHost,
                _ => Advantage::LongerHost,
            });
        }
        (a < b).then(|| first_difference(&a, &b))
    }
}

/// The host level under which a route is found first. The order of the variants is the precedence.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Level {
    Exact,
    Wildcard(Reverse<usize>),
    Any,
}

fn level(route: &RouteMatch, host: &[u8]) -> Option<Level> {
    if route.hosts.is_empty() {
        return Some(Level::Any);
    }
    let fitting = route.hosts.iter().filter(|pattern| pattern.matches(host));
    let levels = fitting.map(|pattern| match pattern {
        HostPattern::Exact(_) => Level::Exact,
        HostPattern::Wildcard(suffix) => Level::Wildcard(Reverse(suffix.len())),
        HostPattern::Any => Level::Any,
    });
    levels.min()
}

/// `a` is before `b`.
fn first_difference(a: &Precedence, b: &Precedence) -> Advantage {
    if a.path != b.path {
        return match a.path {
            PathKind::Exact => Advantage::ExactPath,
            PathKind::Prefix => Advantage::PrefixPath,
            PathKind::Pattern => Advantage::PatternPath,
            PathKind::Regex | PathKind::Everything => Advantage::RegexPath,
        };
    }
    if a.literal != b.literal {
        return match a.path {
            PathKind::Prefix => Advantage::LongerPrefix,
            _ => Advantage::MoreLiteral,
        };
    }
    if a.takes_rest != b.takes_rest {
        Advantage::NoRest
    } else if a.any_method != b.any_method {
        Advantage::NamesMethods
    } else if a.headers != b.headers {
        Advantage::MoreHeaders
    } else if a.query != b.query {
        Advantage::MoreQuery
    } else {
        Advantage::Earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathPattern;
    use crate::value::{FieldMatch, ValueMatch};

    fn route(host: &str, path: &str) -> RouteMatch {
        RouteMatch {
            hosts: host.split_whitespace().map(|text| HostPattern::parse(text).unwrap()).collect(),
            path: match path.strip_prefix('~') {
                Some(regex) => Some(PathPattern::regex(regex).unwrap()),
                None => Some(PathPattern::parse(path).unwrap()),
            },
            ..RouteMatch::default()
        }
    }

    #[test]
    fn names_the_rule_that_decides() {
        // One that both take.
        let path = |why: Advantage| -> &[u8] {
            match why {
                Advantage::LongerPrefix => b"/a/b",
                Advantage::MoreLiteral | Advantage::NoRest => b"/a/x",
                _ => b"/a",
            }
        };
        let condition = || FieldMatch { name: "x".into(), value: ValueMatch::Present };
        let method = RouteMatch { methods: vec!["GET".into()], ..route("", "/a") };
        let header = RouteMatch { headers: vec![condition()], ..route("", "/a") };
        let query = RouteMatch { query: vec![condition()], ..route("", "/a") };
        for (better, worse, why) in [
            (route("a.b.c", "/*"), route("*.b.c", "/a"), Advantage::ExactHost),
            (route("*.b.c a.b.c", "/*"), route("*.b.c", "/a"), Advantage::ExactHost),
            (route("*.b.c", "/*"), route("*.c", "/a"), Advantage::LongerHost),
            (route("*.c", "/*"), route("", "/a"), Advantage::NamesHost),
            (route("", "/a"), route("", "/a/*"), Advantage::ExactPath),
            (route("", "/a/*"), route("", "/{x}"), Advantage::PrefixPath),
            (route("", "/{x}"), route("", "~/.*"), Advantage::PatternPath),
            (route("", "~/.*"), route("", "/*"), Advantage::RegexPath),
            (route("", "/a/b/*"), route("", "/a/*"), Advantage::LongerPrefix),
            (route("", "/a/{x}"), route("", "/{x}/{y}"), Advantage::MoreLiteral),
            (route("", "/a/{x}"), route("", "/a/{x*}"), Advantage::NoRest),
            (method, route("", "/a"), Advantage::NamesMethods),
            (header, route("", "/a"), Advantage::MoreHeaders),
            (query, route("", "/a"), Advantage::MoreQuery),
        ] {
            let table = Table::build(&[worse, better]).unwrap();
            assert_eq!(table.advantage(RouteId(1), RouteId(0), (b"a.b.c", path(why))), Some(why));
            assert_eq!(table.advantage(RouteId(0), RouteId(1), (b"a.b.c", path(why))), None, "{why:?}");
        }
        let table = Table::build(&[route("", "/a"), route("", "/a")]).unwrap();
        assert_eq!(table.advantage(RouteId(0), RouteId(1), (b"h", b"/a")), Some(Advantage::Earlier));
        assert_eq!(table.advantage(RouteId(0), RouteId(9), (b"h", b"/a")), None);
    }
}
