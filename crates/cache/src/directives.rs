//! The directives of a `Cache-Control` field, one by one (RFC 9111 §5.2).
//!
//! Strict where two readers could differ: a directive that is not written as the grammar wants it keeps its name and
//! has an argument that nobody can use, so that `max-age= 60` is no freshness and `private =x` is still private.

use thalweg_http::octet;

/// The largest number of seconds (RFC 9111 §1.2.2): more counts as this.
pub const MOST_SECONDS: u32 = 1 << 31;

/// What stands behind the name of a directive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Argument<'a> {
    /// Nothing.
    Absent,
    /// A token.
    Token(&'a [u8]),
    /// The inside of a quoted string, with its backslashes.
    Quoted(&'a [u8]),
    /// The same, where a number may not stand in quotes (a String of a structured field).
    Text(&'a [u8]),
    /// A number (an Integer of a structured field that is not negative).
    Number(u64),
    /// What the grammar does not allow.
    Malformed,
}

impl<'a> Argument<'a> {
    /// A number of seconds (`delta-seconds`), also in quotes; too large a one is [`MOST_SECONDS`].
    pub(crate) fn seconds(self) -> Option<u32> {
        match self {
            Self::Token(text) | Self::Quoted(text) => delta_seconds(text),
            Self::Number(number) => u32::try_from(number.min(u64::from(MOST_SECONDS))).ok(),
            Self::Absent | Self::Text(_) | Self::Malformed => None,
        }
    }

    /// Names of fields (`no-cache="a, b"`); `None` where it is no list of names.
    pub(crate) fn names(self) -> Option<impl Iterator<Item = &'a [u8]>> {
        let (Self::Token(text) | Self::Quoted(text) | Self::Text(text)) = self else { return None };
        let is_name = |name: &[u8]| octet::token_len(name) == name.len();
        (octet::list(text).all(is_name) && octet::list(text).next().is_some()).then(|| octet::list(text))
    }
}

/// A directive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Directive<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) argument: Argument<'a>,
}

impl Directive<'_> {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Reads digits; too large a number is [`MOST_SECONDS`].
pub(crate) fn delta_seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().fold(0_u64, |sum, digit| {
        sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')).min(u64::from(MOST_SECONDS))
    });
    u32::try_from(number).ok()
}

/// The directives of one line. `Err` once, at the end, where a quoted string does not end: what stands in it and what
/// behind it cannot be told.
#[derive(Clone, Debug)]
pub(crate) struct Directives<'a> {
    rest: &'a [u8],
}

/// A quoted string has no end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Unterminated;

impl<'a> Directives<'a> {
    pub(crate) fn of(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Takes the argument, up to a comma.
    fn argument(&mut self) -> Result<Argument<'a>, Unterminated> {
        let Some(value) = self.rest.strip_prefix(b"=") else {
            let is_clean = octet::trim_ows(self.skip()?).is_empty();
            return Ok(if is_clean { Argument::Absent } else { Argument::Malformed });
        };
        self.rest = value;
        let argument = match value.strip_prefix(b"\"") {
            Some(inside) => {
                let end = end_of_quoted(inside).ok_or(Unterminated)?;
                self.rest = &inside[end + 1..];
                Argument::Quoted(&inside[..end])
            }
            None => {
                let (token, rest) = value.split_at(octet::token_len(value));
                self.rest = rest;
                Argument::Token(token)
            }
        };
        let is_clean = octet::trim_ows(self.skip()?).is_empty();
        Ok(if is_clean && argument != Argument::Token(b"") { argument } else { Argument::Malformed })
    }

    /// Takes what stands before the next comma outside quotes.
    fn skip(&mut self) -> Result<&'a [u8], Unterminated> {
        let all = self.rest;
        let mut at = 0;
        while let Some(byte) = all.get(at) {
            match byte {
                b',' => break,
                b'"' => at += end_of_quoted(&all[at + 1..]).ok_or(Unterminated)? + 1,
                _ => {}
            }
            at += 1;
        }
        self.rest = &all[at..];
        Ok(&all[..at])
    }
}

/// Where the quote stands that ends a quoted string, of which the first quote is gone.
fn end_of_quoted(inside: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match inside.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

impl<'a> Iterator for Directives<'a> {
    type Item = Result<Directive<'a>, Unterminated>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let begins = self.rest.iter().position(|byte| *byte != b',' && !octet::is_ows(*byte))?;
            let (name, rest) = self.rest[begins..].split_at(octet::token_len(&self.rest[begins..]));
            self.rest = rest;
            let argument = match self.argument() {
                Ok(argument) => argument,
                Err(unterminated) => {
                    self.rest = &[];
                    return Some(Err(unterminated));
                }
            };
            if !name.is_empty() {
                return Some(Ok(Directive { name, argument }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<(String, String)> {
        let show = |directive: Result<Directive<'_>, Unterminated>| match directive {
            Ok(directive) => {
                let argument = match directive.argument {
                    Argument::Absent => "-".into(),
                    Argument::Malformed => "?".into(),
                    Argument::Token(text) => String::from_utf8_lossy(text).into_owned(),
                    Argument::Quoted(text) | Argument::Text(text) => {
                        format!("\"{}\"", String::from_utf8_lossy(text))
                    }
                    Argument::Number(number) => number.to_string(),
                };
                (String::from_utf8_lossy(directive.name).into_owned(), argument)
            }
            Err(Unterminated) => ("!".into(), "!".into()),
        };
        Directives::of(line.as_bytes()).map(show).collect()
    }

    #[test]
    fn directives_are_read_as_the_grammar_has_them() {
        for (line, expected) in [
            ("", &[][..]),
            (" , ,, ", &[]),
            ("no-store", &[("no-store", "-")]),
            ("max-age=60 , public", &[("max-age", "60"), ("public", "-")]),
            ("a=\"b, c\",d", &[("a", "\"b, c\""), ("d", "-")]),
            ("a=\"b\\\", c\", d", &[("a", "\"b\\\", c\""), ("d", "-")]),
            ("extension=\"max-age=3600\", max-age=1", &[("extension", "\"max-age=3600\""), ("max-age", "1")]),
            ("max-age=\"60\"", &[("max-age", "\"60\"")]),
            ("a=\"\"", &[("a", "\"\"")]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(n, a)| ((*n).to_owned(), (*a).to_owned())).collect();
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_not_written_well_keeps_its_name() {
        for (line, expected) in [
            ("max-age =60", &[("max-age", "?")][..]),
            ("max-age= 60", &[("max-age", "?")]),
            ("max-age=", &[("max-age", "?")]),
            ("max-age=60 70", &[("max-age", "?")]),
            ("max-age=6/0, b", &[("max-age", "?"), ("b", "-")]),
            ("private x, b", &[("private", "?"), ("b", "-")]),
            ("a=\"b\"c, d", &[("a", "?"), ("d", "-")]),
            ("a \"b, c\", d", &[("a", "?"), ("d", "-")]),
            ("=60, b", &[("b", "-")]),
            ("\"a, b\", c", &[("c", "-")]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(n, a)| ((*n).to_owned(), (*a).to_owned())).collect();
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn a_string_without_an_end_is_told() {
        for line in ["a=\"b, no-store", "a, b=\"c\\\"", "\"", "a \"b", "a=\"b\\"] {
            assert_eq!(read(line).last(), Some(&("!".into(), "!".into())), "{line}");
        }
    }

    #[test]
    fn seconds_are_digits_and_never_too_many() {
        for (text, expected) in [
            ("0", Some(0)),
            ("003600", Some(3600)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", Some(MOST_SECONDS)),
            ("99999999999999999999999999", Some(MOST_SECONDS)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            ("1a", None),
            ("'1'", None),
        ] {
            assert_eq!(delta_seconds(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn lists_of_names_are_names_only() {
        let names = |argument: Argument<'static>| argument.names().map(|names| names.collect::<Vec<_>>());
        assert_eq!(names(Argument::Quoted(b"a, b")), Some(vec![&b"a"[..], b"b"]));
        assert_eq!(names(Argument::Token(b"a")), Some(vec![&b"a"[..]]));
        for argument in [
            Argument::Absent,
            Argument::Malformed,
            Argument::Quoted(b""),
            Argument::Quoted(b" , "),
            Argument::Quoted(b"a b"),
            Argument::Quoted(b"a\\b"),
        ] {
            assert_eq!(names(argument), None);
        }
    }
}
