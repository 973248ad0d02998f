//! Tests of paths, and what two of them have in common.

use crate::pattern::{escaped, whole};
use regex::Regex;

/// A test of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum PathTest {
    Exact(String),
    Begin(String),
    End(String),
    /// A regular expression over the whole path, and a text with which all begins that it matches.
    Like(String, String),
}

/// What two tests have in common cannot be said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Unsayable;

impl PathTest {
    /// An expression that is searched for anywhere in a path.
    ///
    /// # Errors
    /// A sentence: it cannot be matched here.
    pub(super) fn searched(regex: &str, any_case: bool) -> Result<Self, String> {
        let found = whole(regex, any_case)?;
        Ok(Self::Like(found.text, found.prefix))
    }

    /// The same as a regular expression over the whole path.
    pub(super) fn regex(&self) -> String {
        match self {
            Self::Exact(path) => escaped(path),
            Self::Begin(begin) => format!("{}.*", escaped(begin)),
            Self::End(end) => format!(".*{}", escaped(end)),
            Self::Like(regex, _) => regex.clone(),
        }
    }

    fn fits(&self, path: &str) -> bool {
        match self {
            Self::Exact(known) => known == path,
            Self::Begin(begin) => path.starts_with(begin.as_str()),
            Self::End(end) => path.ends_with(end.as_str()),
            Self::Like(regex, _) => {
                Regex::new(&format!(r"\A(?:{regex})\z")).is_ok_and(|regex| regex.is_match(path))
            }
        }
    }

    /// The paths that both fit.
    ///
    /// # Errors
    /// They are two expressions of which neither holds the other.
    fn and(&self, other: &Self) -> Result<Vec<Self>, Unsayable> {
        Ok(match (self, other) {
            (one, other) if one == other => vec![one.clone()],
            (Self::Exact(path), test) | (test, Self::Exact(path)) => {
                if test.fits(path) {
                    vec![Self::Exact(path.clone())]
                } else {
                    Vec::new()
                }
            }
            (Self::Begin(one), Self::Begin(other)) => {
                match (one.starts_with(other), other.starts_with(one)) {
                    (true, _) => vec![self.clone()],
                    (_, true) => vec![Self::Begin(other.clone())],
                    _ => Vec::new(),
                }
            }
            (Self::End(one), Self::End(other)) => match (one.ends_with(other), other.ends_with(one)) {
                (true, _) => vec![self.clone()],
                (_, true) => vec![Self::End(other.clone())],
                _ => Vec::new(),
            },
            (Self::Begin(begin), Self::End(end)) | (Self::End(end), Self::Begin(begin)) => {
                between(begin, end)
            }
            (Self::Like(regex, prefix), Self::Begin(begin))
            | (Self::Begin(begin), Self::Like(regex, prefix)) => {
                match (prefix.starts_with(begin), begin.starts_with(prefix)) {
                    (true, _) => vec![Self::Like(regex.clone(), prefix.clone())],
                    (_, true) => return Err(Unsayable),
                    _ => Vec::new(),
                }
            }
            (Self::Like(_, one), Self::Like(_, other))
                if !one.starts_with(other) && !other.starts_with(one) =>
            {
                Vec::new()
            }
            _ => return Err(Unsayable),
        })
    }
}

/// Paths with a beginning and an end, also those where the two overlap.
fn between(begin: &str, end: &str) -> Vec<PathTest> {
    let mut found = vec![PathTest::Like(format!("{}.*{}", escaped(begin), escaped(end)), begin.to_owned())];
    for (at, _) in end.char_indices().skip(1).chain([(end.len(), ' ')]) {
        if begin.ends_with(&end[..at]) {
            found.push(PathTest::Exact(format!("{begin}{}", &end[at..])));
        }
    }
    found
}

/// The paths that fit one of each list.
///
/// # Errors
/// Some of them have in common what cannot be said.
pub(super) fn common(one: &[PathTest], other: &[PathTest]) -> Result<Vec<PathTest>, Unsayable> {
    let mut found = Vec::new();
    for first in one {
        for second in other {
            for test in first.and(second)? {
                if !found.contains(&test) {
                    found.push(test);
                }
            }
        }
    }
    Ok(found)
}

/// Several tests as one expression.
pub(super) fn joined(tests: &[PathTest]) -> String {
    match tests {
        [only] => only.regex(),
        _ => tests.iter().map(|test| format!("(?:{})", test.regex())).collect::<Vec<_>>().join("|"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_have_in_common_is_said_or_refused() {
        let begin = |text: &str| PathTest::Begin(text.into());
        let end = |text: &str| PathTest::End(text.into());
        let exact = |text: &str| PathTest::Exact(text.into());
        assert_eq!(begin("/a").and(&begin("/ab")), Ok(vec![begin("/ab")]));
        assert_eq!(begin("/a").and(&begin("/b")), Ok(vec![]));
        assert_eq!(exact("/a.css").and(&end(".css")), Ok(vec![exact("/a.css")]));
        let both = begin("/a.c").and(&end(".css")).unwrap();
        assert_eq!(both, [PathTest::Like(r"/a\.c.*\.css".into(), "/a.c".into()), exact("/a.css")]);
        let like = PathTest::searched("^/api/v[0-9]", false).unwrap();
        assert_eq!(like.and(&begin("/api")), Ok(vec![like.clone()]));
        assert_eq!(like.and(&begin("/other")), Ok(vec![]));
        assert_eq!(like.and(&end("x")), Err(Unsayable));
    }
}
