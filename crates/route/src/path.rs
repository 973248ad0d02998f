//! Path patterns as a route states them.
//!
//! | written | matches |
//! |---|---|
//! | `/a/b` | this path only |
//! | `/a/*` | `/a`, `/a/` and all below, by whole segments: not `/ab` |
//! | `/*` | everything |
//! | `/users/{id}/posts` | `{id}` is one segment, not empty |
//! | `/users/*/posts` | the same without a name |
//! | `/files/{rest*}` | `/files` and all below, as `/files/*`, with a name |
//!
//! Parsed with the configuration. Invariant: literal text is in the matched form of request paths, so that both
//! compare as bytes: characters that need no escape in a segment are decoded, other escapes are in upper case, and
//! there are no dot segments (RFC 3986 §6.2.2) and no empty segments except at the end (decision 0005).

use std::fmt;

use crate::query::hex;
use crate::value::Regex;

/// Longest path pattern, in bytes as written.
pub const PATTERN_LENGTH: usize = 4096;
/// Most segments of a path pattern with parameters.
pub const PATTERN_SEGMENTS: usize = 32;

/// The paths that a route serves.
#[derive(Clone, Debug)]
pub enum PathPattern {
    /// This path and no other, case-sensitive.
    Exact(String),
    /// This path and all below it, by whole segments; without the closing `/*`; empty for everything.
    /// A slash at the end means nothing.
    Prefix(String),
    /// Segments of which some are open.
    Pattern(Pattern),
    /// A regular expression over the whole path.
    Regex(Regex),
}

/// A path of which some segments are open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern {
    segments: Vec<Segment>,
    rest: Option<String>,
}

/// One segment of a [`Pattern`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Segment {
    /// This text.
    Literal(String),
    /// Any one segment that is not empty, with its name; `*` has an empty name.
    One(String),
}

impl PathPattern {
    /// Parses the written form (see the module).
    ///
    /// # Errors
    /// A sentence that says what is wrong and, where it can be guessed, what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(body) = text.strip_prefix('/') else {
            return Err(match text {
                "" => "a path is missing, for example `/api/*`".into(),
                "*" => "`*` is not a path; write `/*` for everything".into(),
                _ => format!("`{text}` must begin with `/`"),
            });
        };
        if text.len() > PATTERN_LENGTH {
            return Err(format!("a path pattern has at most {PATTERN_LENGTH} bytes"));
        }
        if text.contains(" /") {
            return Err(format!(
                "`{text}`: a segment ends with a space; write a comma between two paths, or `%20` for a space"
            ));
        }
        if text.contains("//") {
            return Err(format!(
                "`{text}` has an empty segment, which is left out before paths are matched; write one slash"
            ));
        }
        let pattern = Pattern::parse(text, body)?;
        if pattern.literals() < pattern.segments.len()
            || pattern.rest.as_ref().is_some_and(|name| !name.is_empty())
        {
            return if pattern.segments.len() > PATTERN_SEGMENTS {
                Err(format!("`{text}`: a path with parameters has at most {PATTERN_SEGMENTS} segments"))
            } else {
                Ok(Self::Pattern(pattern))
            };
        }
        let literal = pattern.segments.iter().fold(String::new(), |path, segment| match segment {
            Segment::Literal(text) => path + "/" + text,
            Segment::One(_) => path,
        });
        if pattern.rest.is_none() {
            return Ok(Self::Exact(literal));
        }
        Ok(Self::Prefix(literal))
    }

    /// A regular expression over the whole path, anchored at both ends, in linear time.
    ///
    /// # Errors
    /// See [`Regex::parse`]; also for text that no matched path contains: an escape of a character that needs none,
    /// or two slashes in a row.
    pub fn regex(text: &str) -> Result<Self, String> {
        let regex = Regex::parse(text)?;
        for (at, _) in text.match_indices('%') {
            let Some(value) = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok())
            else {
                continue;
            };
            if is_plain(value) {
                return Err(format!(
                    "`{text}`: `{}` is decoded before paths are matched; write `{}`",
                    &text[at..at + 3],
                    regex::escape(&char::from(value).to_string())
                ));
            }
        }
        let is_repeated = |(at, _): (usize, &str)| text[at + 2..].starts_with(['?', '*', '{']);
        if !text.match_indices("//").all(is_repeated) {
            return Err(format!(
                "`{text}`: two slashes become one before paths are matched; write one slash"
            ));
        }
        Ok(Self::Regex(regex))
    }

    /// Whether the pattern matches a path in the matched form. `explain` and checks call it; the routing table does
    /// not.
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(text) => path == text.as_bytes(),
            Self::Prefix(text) => {
                let prefix = text.trim_end_matches('/').as_bytes();
                prefix.is_empty()
                    || path.strip_prefix(prefix).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            }
            Self::Pattern(pattern) => pattern.matches(path),
            Self::Regex(regex) => regex.matches(path),
        }
    }
}

impl PathPattern {
    /// What a parameter took of a path that fits, by its name or its number, from 1 on in the order of the pattern; `*`
    /// counts, and the rest is the last one. Of a regular expression: its groups.
    pub fn capture<'a>(&self, path: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let number = name.parse::<usize>().ok();
        match self {
            Self::Exact(_) => None,
            Self::Prefix(text) => {
                let rest = path.strip_prefix(text.trim_end_matches('/').as_bytes())?;
                (number == Some(1)).then(|| rest.strip_prefix(b"/").unwrap_or(rest))
            }
            Self::Pattern(pattern) => pattern.capture(path, name, number),
            Self::Regex(regex) => regex.capture(path, name),
        }
    }

    /// Whether [`Self::capture`] knows a parameter of this name or number.
    pub fn has_capture(&self, name: &str) -> bool {
        let number = name.parse::<usize>().ok();
        match self {
            Self::Exact(_) => false,
            Self::Prefix(_) => number == Some(1),
            Self::Pattern(pattern) => {
                let open = pattern.segments.len() - pattern.literals() + usize::from(pattern.rest.is_some());
                let is_named = |segment: &Segment| matches!(segment, Segment::One(known) if known == name);
                number.is_some_and(|number| (1..=open).contains(&number))
                    || pattern.segments.iter().any(is_named)
                    || pattern.rest.as_deref().is_some_and(|rest| rest == name)
            }
            Self::Regex(regex) => regex.has_group(name),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => f.write_str(&written(text)),
            Self::Prefix(text) => write!(f, "{}/*", written(text).trim_end_matches('/')),
            Self::Pattern(pattern) => pattern.fmt(f),
            Self::Regex(regex) => f.write_str(regex.as_str()),
        }
    }
}

impl Pattern {
    fn parse(text: &str, body: &str) -> Result<Self, String> {
        let mut segments = Vec::new();
        let mut pieces = body.split('/').peekable();
        while let Some(piece) = pieces.next() {
            let last = pieces.peek().is_none();
            if piece == "*" && last {
                return Ok(Self { segments, rest: Some(String::new()) });
            }
            if let Some(name) = piece.strip_prefix('{').and_then(|inner| inner.strip_suffix("*}")) {
                if !last {
                    return Err(format!("`{{{name}*}}` in `{text}` must be the last segment"));
                }
                let name = parameter_name(text, name, &segments)?;
                return Ok(Self { segments, rest: Some(name) });
            }
            let segment = Segment::parse(text, piece, &segments)?;
            segments.push(segment);
        }
        Ok(Self { segments, rest: None })
    }

    /// The segments in order, without the rest.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The name of the rest (empty for `*`), if the pattern ends in one.
    pub fn rest(&self) -> Option<&str> {
        self.rest.as_deref()
    }

    /// How many segments are literal: more come first.
    pub fn literals(&self) -> usize {
        self.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_))).count()
    }

    fn capture<'a>(&self, path: &'a [u8], name: &str, number: Option<usize>) -> Option<&'a [u8]> {
        let (mut rest, mut count) = (path.strip_prefix(b"/")?, 0);
        for segment in &self.segments {
            let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
            if let Segment::One(known) = segment {
                count += 1;
                if number == Some(count) || (!known.is_empty() && known == name) {
                    return Some(&rest[..end]);
                }
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        let known = self.rest.as_deref()?;
        (number == Some(count + 1) || (!known.is_empty() && known == name)).then_some(rest)
    }

    fn matches(&self, path: &[u8]) -> bool {
        let Some(body) = path.strip_prefix(b"/") else { return false };
        let mut pieces = body.split(|byte| *byte == b'/');
        for segment in &self.segments {
            let fits = match (pieces.next(), segment) {
                (Some(piece), Segment::Literal(text)) => piece == text.as_bytes(),
                (Some(piece), Segment::One(_)) => !piece.is_empty(),
                (None, _) => false,
            };
            if !fits {
                return false;
            }
        }
        self.rest.is_some() || pieces.next().is_none()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            write!(f, "/{segment}")?;
        }
        match self.rest.as_deref() {
            None => Ok(()),
            Some("") => f.write_str("/*"),
            Some(name) => write!(f, "/{{{name}*}}"),
        }
    }
}

impl Segment {
    fn parse(text: &str, piece: &str, before: &[Self]) -> Result<Self, String> {
        if piece == "*" {
            return Ok(Self::One(String::new()));
        }
        if let Some(name) = piece.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
            return parameter_name(text, name, before).map(Self::One);
        }
        if piece.contains(['{', '}', '*']) {
            return Err(format!(
                "`{piece}` in `{text}`: `{{name}}` and `*` stand for a whole segment; use `path_regex` for parts of one"
            ));
        }
        if let Some(name) = piece.strip_prefix(':') {
            return Err(format!("`{piece}` in `{text}`: a parameter is written `{{{name}}}`"));
        }
        normal_literal(text, piece).map(Self::Literal)
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(written(&format!("/{text}")).trim_start_matches('/')),
            Self::One(name) if name.is_empty() => f.write_str("*"),
            Self::One(name) => write!(f, "{{{name}}}"),
        }
    }
}

/// A literal path as a pattern has to write it: `*`, and `:` at the beginning of a segment, mean something else there.
fn written(literal: &str) -> String {
    literal.replace('*', "%2A").replace("/:", "/%3A")
}

fn parameter_name(text: &str, name: &str, before: &[Segment]) -> Result<String, String> {
    let mut letters = name.bytes();
    let sound = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !sound {
        return Err(format!("`{name}` in `{text}` is not a parameter name; use letters, digits and `_`"));
    }
    if before.iter().any(|segment| matches!(segment, Segment::One(other) if other == name)) {
        return Err(format!("`{{{name}}}` stands twice in `{text}`"));
    }
    Ok(name.to_owned())
}

/// The normal form of a literal segment.
fn normal_literal(text: &str, piece: &str) -> Result<String, String> {
    let mut normal = String::with_capacity(piece.len());
    let mut rest = piece.as_bytes();
    while let Some((&first, mut tail)) = rest.split_first() {
        let mut byte = first;
        let mut keep = is_plain(first);
        if first == b'%' {
            let [high, low, after @ ..] = tail else { return Err(malformed_escape(text)) };
            let (Some(high), Some(low)) = (hex(*high), hex(*low)) else { return Err(malformed_escape(text)) };
            byte = high << 4 | low;
            keep = is_plain(byte);
            tail = after;
        }
        if matches!(first, b'?' | b'#') {
            return Err(format!("`{text}`: a path pattern ends before `{}`", char::from(first)));
        }
        if byte.is_ascii_control() || byte == b'\\' {
            return Err(format!(
                "`{text}`: requests with a control character or backslash in the path are refused"
            ));
        }
        if keep {
            normal.push(char::from(byte));
        } else {
            normal.push_str(&format!("%{byte:02X}"));
        }
        rest = tail;
    }
    if matches!(normal.as_str(), "." | "..") {
        return Err(format!(
            "`{text}`: `.` and `..` are resolved before paths are matched; write the plain path"
        ));
    }
    Ok(normal)
}

fn malformed_escape(text: &str) -> String {
    format!("`{text}` has a malformed escape; write `%25` for a percent sign")
}

/// Bytes that need no escape in a path segment (RFC 3986 §3.3).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests;
