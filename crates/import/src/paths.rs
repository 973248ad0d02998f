//! Paths as originals name them, and what two of them have in common. Those of Caddy:
//!
//! `/a/*` takes what begins with `/a/`, and not `/a`; `/a*` takes `/ab`; `*.php` goes by the end. The case of letters
//! does not count to Caddy, and counts to others ([`Case`]).

use crate::draft::Paths;
use crate::pattern::{Whole, escaped};

/// Whether `/A` is `/a` to the original.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Case {
    #[default]
    Ignored,
    Counts,
}

impl Case {
    fn is_same(self, one: &str, other: &str) -> bool {
        match self {
            Self::Ignored => one.eq_ignore_ascii_case(other),
            Self::Counts => one == other,
        }
    }

    /// Whether a text begins so.
    fn begins(self, text: &str, begin: &str) -> bool {
        text.get(..begin.len()).is_some_and(|front| self.is_same(front, begin))
    }

    /// Whether a text ends so.
    fn ends(self, text: &str, end: &str) -> bool {
        let at = text.len().checked_sub(end.len());
        at.and_then(|at| text.get(at..)).is_some_and(|back| self.is_same(back, end))
    }
}

/// One path of a matcher.
#[derive(Clone, Debug)]
pub(crate) enum Atom {
    Exact(String),
    /// What begins so.
    Begins(String),
    /// This path and what is below it, by whole segments.
    Within(String),
    /// What begins and ends so.
    Between(String, String),
    Regex {
        whole: Whole,
        /// The name by which placeholders take its groups.
        name: String,
    },
}

impl Atom {
    /// Whether both take the same.
    pub(crate) fn is_same(&self, other: &Self, case: Case) -> bool {
        case.is_same(&self.regex(), &other.regex()) && self.is_exact() == other.is_exact()
    }

    /// A path of `path`.
    ///
    /// # Errors
    /// A sentence: it has `*` where it cannot be taken over.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let stars = text.matches('*').count();
        let found = match (stars, text.strip_suffix('*'), text.strip_prefix('*')) {
            _ if matches!(text, "*" | "/*") => None,
            (0, ..) => Some(Self::Exact(text.to_owned())),
            (1, Some(begin), _) => Some(Self::Begins(begin.to_owned())),
            (1, _, Some(end)) => Some(Self::Between(String::new(), end.to_owned())),
            (2, Some(_), Some(inner)) => {
                let inner = inner.trim_end_matches('*');
                Some(Self::of(&format!(".*{}.*", escaped(inner)))?)
            }
            // Within a path a star stands for a part of one segment.
            _ => {
                let parts: Vec<String> = text.split('*').map(escaped).collect();
                Some(Self::of(&parts.join("[^/]*"))?)
            }
        };
        Ok(found)
    }

    /// An expression over the whole path, in any case.
    fn of(text: &str) -> Result<Self, String> {
        Ok(Self::Regex { whole: crate::pattern::whole(&format!("^{text}$"), true)?, name: String::new() })
    }

    fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// Whether it takes a path.
    pub(crate) fn takes(&self, path: &str, case: Case) -> bool {
        match self {
            Self::Exact(exact) => case.is_same(exact, path),
            Self::Begins(begin) => case.begins(path, begin),
            Self::Within(whole) => case.is_same(whole, path) || case.begins(path, &format!("{whole}/")),
            Self::Between(begin, end) => {
                path.len() >= begin.len() + end.len() && case.begins(path, begin) && case.ends(path, end)
            }
            Self::Regex { whole, .. } => whole.compiled.is_match(path),
        }
    }

    /// Paths that both take: `Ok(None)` where there are none.
    ///
    /// # Errors
    /// It cannot be said.
    pub(crate) fn and(&self, other: &Self, case: Case) -> Result<Option<Self>, String> {
        let found = match (self, other) {
            (Self::Exact(path), any) | (any, Self::Exact(path)) => {
                any.takes(path, case).then(|| Self::Exact(path.clone()))
            }
            (Self::Within(one), Self::Within(two)) => {
                let (short, long) = if one.len() <= two.len() { (one, two) } else { (two, one) };
                Self::Within(short.clone()).takes(long, case).then(|| Self::Within(long.clone()))
            }
            (Self::Within(whole), Self::Begins(begin)) | (Self::Begins(begin), Self::Within(whole)) => {
                if case.begins(begin, &format!("{whole}/")) {
                    Some(Self::Begins(begin.clone()))
                } else {
                    case.begins(whole, begin).then(|| Self::Within(whole.clone()))
                }
            }
            (Self::Begins(one), Self::Begins(two)) => {
                let (short, long) = if one.len() <= two.len() { (one, two) } else { (two, one) };
                case.begins(long, short).then(|| Self::Begins(long.clone()))
            }
            (Self::Begins(begin), Self::Between(inner, end))
            | (Self::Between(inner, end), Self::Begins(begin)) => {
                let (short, long) = if begin.len() <= inner.len() { (begin, inner) } else { (inner, begin) };
                case.begins(long, short).then(|| Self::Between(long.clone(), end.clone()))
            }
            (one, two) if one.is_same(two, case) => Some(one.clone()),
            (Self::Between(one, end), Self::Between(two, other))
                if case.is_same(one, two) && (case.ends(end, other) || case.ends(other, end)) =>
            {
                Some(Self::Between(one.clone(), if end.len() > other.len() { end } else { other }.clone()))
            }
            (Self::Between(_, end), Self::Between(_, other))
                if !case.ends(end, other) && !case.ends(other, end) =>
            {
                None
            }
            (Self::Regex { whole, .. }, Self::Begins(begin) | Self::Within(begin))
            | (Self::Begins(begin) | Self::Within(begin), Self::Regex { whole, .. })
                if !whole.prefix.is_empty() =>
            {
                let prefix = whole.prefix.as_str();
                if case.begins(prefix, begin) {
                    let is_self = matches!(self, Self::Regex { .. });
                    return Ok(Some(if is_self { self.clone() } else { other.clone() }));
                }
                if case.begins(begin, prefix) {
                    return Err("a regular expression and another path hold together".to_owned());
                }
                None
            }
            (Self::Regex { whole: one, .. }, Self::Regex { whole: two, .. })
                if !case.begins(&one.prefix, &two.prefix) && !case.begins(&two.prefix, &one.prefix) =>
            {
                None
            }
            _ => return Err("a regular expression and another path hold together".to_owned()),
        };
        Ok(found)
    }

    /// The same before a prefix was taken away.
    pub(crate) fn below(&self, prefix: &str) -> Result<Self, String> {
        Ok(match self {
            Self::Exact(path) => Self::Exact(format!("{prefix}{path}")),
            Self::Begins(begin) => Self::Begins(format!("{prefix}{begin}")),
            Self::Within(whole) => Self::Within(format!("{prefix}{whole}")),
            Self::Between(begin, end) => Self::Between(format!("{prefix}{begin}"), end.clone()),
            Self::Regex { .. } => {
                return Err("a regular expression is asked behind a change of the path".to_owned());
            }
        })
    }

    /// The expression over the whole path.
    pub(crate) fn regex(&self) -> String {
        match self {
            Self::Exact(path) => escaped(path),
            Self::Begins(begin) => format!("{}.*", escaped(begin)),
            Self::Within(whole) => format!("{}(?:/.*)?", escaped(whole)),
            Self::Between(begin, end) => format!("{}.*{}", escaped(begin), escaped(end)),
            Self::Regex { whole, .. } => whole.text.clone(),
        }
    }

    /// The same in any case.
    pub(crate) fn any_case(&self) -> String {
        let text = self.regex();
        if self.has_letters() { format!("(?i){text}") } else { text }
    }

    /// Whether the case of letters makes a difference that Caddy does not see.
    pub(crate) fn has_letters(&self) -> bool {
        !matches!(self, Self::Regex { .. }) && self.regex().bytes().any(|byte| byte.is_ascii_alphabetic())
    }

    /// The pattern of a route that takes these; `None`: it takes an expression.
    fn pattern(&self) -> Option<String> {
        let is_plain = |text: &str| text.starts_with('/') && !text.contains(['{', '}', '*', '%']);
        match self {
            Self::Exact(path) if is_plain(path) => Some(path.clone()),
            Self::Within(whole) if is_plain(whole) => Some(format!("{whole}/*")),
            Self::Begins(begin) if is_plain(begin) && begin.ends_with('/') => Some(format!("{begin}*")),
            _ => None,
        }
    }

    /// A path that its pattern takes and it does not: `/a` of `/a/*`.
    pub(crate) fn leak(&self) -> Option<String> {
        match self {
            Self::Begins(begin) if begin.ends_with('/') && begin.len() > 1 => {
                Some(begin.trim_end_matches('/').to_owned())
            }
            _ => None,
        }
    }
}

/// The paths of a route; `as_regex`: by an expression.
pub(crate) fn paths(atom: Option<&Atom>, as_regex: bool, case: Case) -> Paths {
    match atom {
        None => Paths::All,
        Some(atom) => match atom.pattern().filter(|_| !as_regex) {
            Some(pattern) => Paths::Patterns(vec![pattern]),
            None if case == Case::Counts => Paths::Regex(atom.regex()),
            None => Paths::Regex(atom.any_case()),
        },
    }
}

/// The place of a path in the order in which routes are asked: smaller goes first.
pub(crate) fn place(atom: Option<&Atom>, as_regex: bool) -> (u8, usize) {
    match atom {
        None => (4, 0),
        Some(atom) if as_regex || atom.pattern().is_none() => (3, 0),
        Some(Atom::Exact(_)) => (0, 0),
        Some(Atom::Begins(begin) | Atom::Within(begin)) => {
            (1, usize::MAX - begin.trim_end_matches('/').len())
        }
        Some(_) => (3, 0),
    }
}
