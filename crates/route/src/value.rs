//! Conditions on one named value: a header field or a query parameter.
//!
//! Configuration builds them; the router's conditions test them once host and path have matched.
//! Values are compared as bytes, case-sensitively. When a name occurs several times, one value that
//! passes is enough.

use std::fmt;

use regex::bytes::RegexBuilder;

/// Most memory that one compiled regex, and separately its lazy automaton, may take, in bytes.
pub const REGEX_SIZE: usize = 1024 * 1024;

/// A condition on the values of one name.
#[derive(Clone, Debug)]
pub struct FieldMatch {
    /// The name. Header names are compared without case, query names as they are (decoded).
    pub name: String,
    /// What its values must be.
    pub value: ValueMatch,
}

/// What a value must be.
#[derive(Clone, Debug)]
pub enum ValueMatch {
    /// The name occurs, with any value, also an empty one.
    Present,
    /// The name does not occur.
    Absent,
    /// The value is this one.
    Exact(String),
    /// The value begins with this.
    Prefix(String),
    /// The value ends with this.
    Suffix(String),
    /// The value holds this somewhere.
    Contains(String),
    /// The whole value matches.
    Regex(Regex),
}

impl ValueMatch {
    /// Whether one value passes. [`Self::Absent`] passes none: that the value is there is its failure.
    pub fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Present => true,
            Self::Absent => false,
            Self::Exact(text) => value == text.as_bytes(),
            Self::Prefix(text) => value.starts_with(text.as_bytes()),
            Self::Suffix(text) => value.ends_with(text.as_bytes()),
            Self::Contains(text) => memchr::memmem::find(value, text.as_bytes()).is_some(),
            Self::Regex(regex) => regex.matches(value),
        }
    }

    /// Decides over all values of a name. `any` calls its argument for each value until it returns true.
    pub(crate) fn decide(&self, any: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> bool) -> bool {
        match self {
            Self::Absent => !any(&mut |_| true),
            _ => any(&mut |value| self.matches(value)),
        }
    }
}

/// A regular expression over a whole value or path: linear time, bounded size, anchored at both ends.
///
/// `.` and negated classes match every byte that a client can send: a line feed counts as any other character, and each
/// invalid sequence of UTF-8 counts as U+FFFD. Otherwise one such byte would get a value past `.*word.*`.
#[derive(Clone)]
pub struct Regex {
    text: Box<str>,
    compiled: regex::bytes::Regex,
}

impl Regex {
    /// Compiles `text`; `^` and `$` around it are not needed and do no harm.
    ///
    /// # Errors
    /// The text of the regex crate, which quotes the expression and points at the place, or that the
    /// compiled form would exceed [`REGEX_SIZE`].
    pub fn parse(text: &str) -> Result<Self, String> {
        // First on its own: the error then quotes what the user wrote, and a stray `)` cannot
        // leave the group that the anchors stand around.
        compile(text)?;
        let compiled = compile(&format!(r"\A(?:{text})\z")).map_err(|_| {
            format!("`{text}` cannot be anchored; a comment at its end must be closed by a new line")
        })?;
        Ok(Self { text: text.into(), compiled })
    }

    /// Whether the whole of `value` matches. Time is linear in its length.
    pub fn matches(&self, value: &[u8]) -> bool {
        // Borrowed, where the value is UTF-8.
        self.compiled.is_match(String::from_utf8_lossy(value).as_bytes())
    }

    /// What a group took of a value that matches, by its name or number; 0 is all of it. Of a value that is not UTF-8,
    /// which no path is, it may take nothing.
    pub fn capture<'a>(&self, value: &'a [u8], group: &str) -> Option<&'a [u8]> {
        let found = self.compiled.captures(value)?;
        let group = group.parse().map_or_else(|_| found.name(group), |number| found.get(number))?;
        Some(group.as_bytes())
    }

    /// Whether there is a group of this name or number.
    pub fn has_group(&self, group: &str) -> bool {
        group.parse::<usize>().map_or_else(
            |_| self.compiled.capture_names().flatten().any(|name| name == group),
            |number| number < self.compiled.captures_len(),
        )
    }

    /// The expression as it was written, without the anchors.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regex({:?})", self.text)
    }
}

fn compile(text: &str) -> Result<regex::bytes::Regex, String> {
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(REGEX_SIZE).dfa_size_limit(REGEX_SIZE).dot_matches_new_line(true);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!("`{text}` compiles to more than {} KiB; repeat less", REGEX_SIZE / 1024)
        }
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_tests_what_it_says() {
        let text = || "ab".to_owned();
        for (kind, yes, no) in [
            (ValueMatch::Exact(text()), "ab", "abc"),
            (ValueMatch::Prefix(text()), "abc", "cab"),
            (ValueMatch::Suffix(text()), "cab", "abc"),
            (ValueMatch::Contains(text()), "cabc", "acb"),
            (ValueMatch::Regex(Regex::parse("a[b-d]").unwrap()), "ad", "xad"),
        ] {
            assert!(kind.matches(yes.as_bytes()), "{kind:?}");
            assert!(!kind.matches(no.as_bytes()), "{kind:?}");
        }
    }

    #[test]
    fn absent_passes_only_when_there_is_no_value() {
        assert!(ValueMatch::Absent.decide(|_| false));
        assert!(!ValueMatch::Absent.decide(|test| test(b"")));
        assert!(ValueMatch::Present.decide(|test| test(b"")));
        assert!(!ValueMatch::Present.decide(|_| false));
    }

    #[test]
    fn a_regex_covers_the_whole_value() {
        let regex = Regex::parse("a|ab").unwrap();
        assert!(regex.matches(b"ab"));
        assert!(!regex.matches(b"abc"));
        assert!(!regex.matches(b"a\n"));
        assert_eq!(regex.as_str(), "a|ab");
        assert!(Regex::parse("^/a$").unwrap().matches(b"/a"));
    }

    #[test]
    fn no_byte_gets_a_value_past_a_regex() {
        for text in [".*sqlmap.*", "[^x]*sqlmap[^x]*", "(?i).*SQLMAP.*"] {
            let regex = Regex::parse(text).unwrap();
            for value in [
                &b"sqlmap"[..],
                b"sqlmap\xff",
                b"\xffsqlmap",
                b"\n\xc3sqlmap\r\n",
                b"\xe2\x82sqlmap\0\xc3\xa4",
            ] {
                assert!(regex.matches(value), "{text} {value:?}");
            }
            assert!(!regex.matches(b"sql\xffmap"));
        }
        // What is written for certain characters takes no other.
        assert!(Regex::parse(r"\w+").unwrap().matches("zoë".as_bytes()));
        assert!(!Regex::parse(r"\w+").unwrap().matches(b"zo\xeb"));
        assert!(!Regex::parse("[a-z]+").unwrap().matches(b"ab\n"));
        assert!(!Regex::parse("(?-s)a.*").unwrap().matches(b"a\nb"));
    }

    #[test]
    fn a_regex_keeps_its_error_text_and_its_bounds() {
        assert!(Regex::parse("a(b").unwrap_err().contains("unclosed group"));
        assert!(Regex::parse("a)|(b").is_err());
        assert!(Regex::parse("(?x)a # b").unwrap_err().contains("comment"));
        assert!(Regex::parse(r"\w{1000}{1000}").unwrap_err().contains("KiB"));
        assert!(Regex::parse(r"(a)\1").is_err());
    }
}
