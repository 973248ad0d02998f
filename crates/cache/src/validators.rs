//! Entity tags and the conditions that clients set (RFC 9110 §8.8, §13.1).

use crate::request::FieldLines;
use crate::response::values;

/// An entity tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EntityTag<'a> {
    /// The tag as it is written, with `W/` and quotes.
    pub text: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads a field that is one tag.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (tag, rest) = Self::first(text)?;
        rest.is_empty().then_some(tag)
    }

    /// Reads the tag in front, and gives what follows.
    fn first(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let opaque = text.strip_prefix(b"W/").unwrap_or(text).strip_prefix(b"\"")?;
        let len = opaque.iter().position(|byte| matches!(byte, 0..=b' ' | b'"' | 0x7f))?;
        let end = text.len() - opaque.len() + len;
        (text[end] == b'"').then(|| (Self { text: &text[..=end] }, &text[end + 1..]))
    }

    /// Whether it says that two representations are the same in meaning only.
    pub fn is_weak(self) -> bool {
        self.text.first() == Some(&b'W')
    }

    fn opaque(self) -> &'a [u8] {
        self.text.strip_prefix(b"W/").unwrap_or(self.text)
    }

    /// The strong comparison (RFC 9110 §8.8.3.2).
    pub fn is_strongly(self, other: EntityTag<'_>) -> bool {
        !self.is_weak() && !other.is_weak() && self.text == other.text
    }

    /// The weak comparison.
    pub fn is_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque() == other.opaque()
    }
}

/// Whether `If-None-Match` names this tag, or any (`*`). A member that is no tag matches nothing, and neither does what
/// follows it on its line.
pub(crate) fn if_none_match_lists<'a>(fields: impl FieldLines<'a>, tag: Option<EntityTag<'_>>) -> bool {
    values(fields, "if-none-match").any(|value| {
        let mut rest = value.trim_ascii();
        if rest == b"*" {
            return true;
        }
        loop {
            let begins = rest.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t'));
            let Some((found, behind)) = begins.and_then(|begins| EntityTag::first(&rest[begins..])) else {
                return false;
            };
            let is_member = behind.trim_ascii_start().first().is_none_or(|byte| *byte == b',');
            if is_member && tag.is_some_and(|tag| tag.is_weakly(found)) {
                return true;
            }
            rest = behind;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lines;

    #[test]
    fn tags_are_quoted() {
        for text in ["\"\"", "\"a\"", "W/\"a\"", "\"a,b\"", "\"W/\"", "\"\u{fc}\"", "\"a\\\""] {
            assert!(EntityTag::parse(text.as_bytes()).is_some(), "{text}");
        }
        for text in
            ["", "a", "\"", "\"a", "a\"", "w/\"a\"", "W\"a\"", "W\\\"a\"", "\"a\"b", "\"a b\"", "\"a\" ", "*"]
        {
            assert!(EntityTag::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn comparisons_are_those_of_rfc_9110() {
        let tag = |text: &'static str| EntityTag::parse(text.as_bytes()).unwrap();
        for (one, other, strongly, weakly) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(tag(one).is_strongly(tag(other)), strongly, "{one} {other}");
            assert_eq!(tag(one).is_weakly(tag(other)), weakly, "{one} {other}");
        }
    }

    #[test]
    fn lists_of_tags_are_searched() {
        let listed = |value: &str| {
            let head = format!("If-None-Match: {value}");
            if_none_match_lists(lines(&head), EntityTag::parse(b"\"abc\""))
        };
        for value in [
            "\"abc\"",
            "W/\"abc\"",
            "\"x\", \"abc\"",
            "\"x\",\"abc\" , \"y\"",
            "*",
            ", \"abc\"",
            "\"a,\",\"abc\"",
        ] {
            assert!(listed(value), "{value}");
        }
        for value in
            ["", "\"x\"", "abc", "\"abc", "\"abcd\"", "x, \"abc\"", "\"abc\"x", "\"x\", *", "\"x, \"abc"]
        {
            assert!(!listed(value), "{value}");
        }
        assert!(if_none_match_lists(
            lines("if-none-match: \"x\"\nif-none-match: \"abc\""),
            EntityTag::parse(b"\"abc\"")
        ));
        assert!(if_none_match_lists(lines("if-none-match: *"), None));
        assert!(!if_none_match_lists(lines("if-none-match: \"abc\""), None));
    }
}
