//! Entity tags and `If-Match` (RFC 9110 §8.8.3 and §13.1.1).
//!
//! Read before a handler runs; whether a tag is the present one is decided by the control trait,
//! under the lock of the change. Endpoint sets are tagged with their version and a text that is new
//! with each start, so that a tag from before a restart never matches.

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};

use crate::control::Expected;
use crate::problem::Problem;

/// A list of entity tags, or `*`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Tags {
    /// `*`
    Any,
    /// The tags.
    List(Vec<Tag>),
}

/// An entity tag.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Tag {
    weak: bool,
    opaque: String,
}

/// The `If-Match` of a request; `None` when it has none.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<Tags>, Problem> {
    field(headers, &IF_MATCH)
}

/// Whether `If-None-Match` holds the tag, by weak comparison (§13.1.2).
pub(crate) fn is_known(headers: &HeaderMap, current: &str) -> Result<bool, Problem> {
    Ok(match field(headers, &IF_NONE_MATCH)? {
        None => false,
        Some(Tags::Any) => true,
        Some(Tags::List(tags)) => tags.iter().any(|tag| tag.opaque == current),
    })
}

impl Tags {
    /// What a writer expects, by strong comparison: weak tags match nothing.
    pub(crate) fn expected<T>(&self, read: impl Fn(&str) -> Option<T>) -> Expected<T> {
        match self {
            Self::Any => Expected::Any,
            Self::List(tags) => {
                let strong = tags.iter().filter(|tag| !tag.weak);
                Expected::OneOf(strong.filter_map(|tag| read(&tag.opaque)).collect())
            }
        }
    }
}

fn field(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    if !headers.contains_key(name) {
        return Ok(None);
    }
    let malformed = || Problem::invalid(name.as_str(), format!("malformed {name} field"));
    let mut text = String::new();
    for value in headers.get_all(name) {
        // Several lines are one list (§5.3).
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(value.to_str().map_err(|_| malformed())?);
    }
    parse(&text).map(Some).ok_or_else(malformed)
}

fn parse(text: &str) -> Option<Tags> {
    if text.trim_matches([' ', '\t']) == "*" {
        return Some(Tags::Any);
    }
    let (mut tags, mut rest) = (Vec::new(), text);
    loop {
        // Empty elements of a list are passed over (§5.6.1.2).
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return (!tags.is_empty()).then_some(Tags::List(tags));
        }
        let (weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let (opaque, after) = quoted.strip_prefix('"')?.split_once('"')?;
        let plain = |byte: u8| byte == 0x21 || (0x23..=0x7e).contains(&byte);
        let after = after.trim_start_matches([' ', '\t']);
        if !opaque.bytes().all(plain) || !(after.is_empty() || after.starts_with(',')) {
            return None;
        }
        tags.push(Tag { weak, opaque: opaque.to_owned() });
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<u64> {
        text.parse().ok()
    }

    #[test]
    fn lists_of_strong_tags_are_expectations() {
        for (text, expected) in [
            ("\"5\"", vec![5]),
            (" \"5\" , \"7\"", vec![5, 7]),
            (",\"5\",,\"7\",", vec![5, 7]),
            ("W/\"5\", \"7\"", vec![7]),
            ("W/\"5\"", vec![]),
            ("\"foreign\", \"a,b\", \"7\"", vec![7]),
            ("\"\"", vec![]),
        ] {
            assert_eq!(parse(text).unwrap().expected(number), Expected::OneOf(expected), "{text}");
        }
        assert_eq!(parse(" * ").unwrap().expected(number), Expected::Any);
    }

    #[test]
    fn malformed_lists_are_refused() {
        for text in
            ["", ",", "5", "\"5", "\"5\" \"6\"", "*, \"5\"", "w/\"5\"", "\"a b\"", "\"5\"x", "W/", "W/5"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let mut headers = HeaderMap::new();
        assert_eq!(if_match(&headers).unwrap(), None);
        headers.append(IF_MATCH, "\"5\"".parse().unwrap());
        headers.append(IF_MATCH, "\"6\"".parse().unwrap());
        let tags = if_match(&headers).unwrap().unwrap();
        assert_eq!(tags.expected(number), Expected::OneOf(vec![5, 6]));
    }

    #[test]
    fn an_empty_expectation_admits_nothing() {
        assert!(!Expected::<u64>::OneOf(Vec::new()).admits(&5));
        assert!(Expected::OneOf(vec![4, 5]).admits(&5) && !Expected::OneOf(vec![4]).admits(&5));
        assert!(Expected::Any.admits(&5));
    }
}
