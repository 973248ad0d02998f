//! Dictionaries of structured fields (RFC 8941 §4.2.2), as targeted fields are (RFC 9213 §2.1).
//!
//! Strict: one byte that does not fit and the whole field counts as absent. Values become the arguments of directives;
//! parameters are read and ignored.

use crate::directives::Argument;
use thalweg_http::octet;

/// Digits of an Integer.
const INTEGER_DIGITS: usize = 15;
/// Digits of a Decimal before and behind its point.
const DECIMAL_DIGITS: (usize, usize) = (12, 3);

/// Reads one line and calls `member` with each key and value. `None` where the line is no dictionary; the number of
/// its members otherwise.
///
/// Lines of one field are read one by one: a member that is split over two lines is refused in each.
pub(crate) fn read<'a>(line: &'a [u8], mut member: impl FnMut(&'a [u8], Argument<'a>)) -> Option<usize> {
    let mut input = Input { rest: trim_sp(line) };
    let mut count = 0;
    while !input.rest.is_empty() {
        let key = input.key()?;
        let value = if input.takes(b'=') { input.member_value()? } else { Argument::Absent };
        input.parameters()?;
        member(key, value);
        count += 1;
        input.ows();
        if input.rest.is_empty() {
            break;
        }
        if !input.takes(b',') {
            return None;
        }
        input.ows();
        if input.rest.is_empty() {
            return None;
        }
    }
    Some(count)
}

fn trim_sp(mut bytes: &[u8]) -> &[u8] {
    while let Some(rest) = bytes.strip_prefix(b" ") {
        bytes = rest;
    }
    while let Some(rest) = bytes.strip_suffix(b" ") {
        bytes = rest;
    }
    bytes
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn takes(&mut self, byte: u8) -> bool {
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sp(&mut self) {
        while self.takes(b' ') {}
    }

    fn ows(&mut self) {
        while self.takes(b' ') || self.takes(b'\t') {}
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|byte| !is_part(*byte)).unwrap_or(self.rest.len());
        let (part, rest) = self.rest.split_at(len);
        self.rest = rest;
        part
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        self.rest.first().filter(|byte| byte.is_ascii_lowercase() || **byte == b'*')?;
        Some(
            self.take_while(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
            }),
        )
    }

    /// An item or a list of items; no directive has a list.
    fn member_value(&mut self) -> Option<Argument<'a>> {
        if !self.takes(b'(') {
            return self.bare_item();
        }
        loop {
            self.sp();
            if self.takes(b')') {
                return Some(Argument::Malformed);
            }
            self.bare_item()?;
            self.parameters()?;
            if !self.rest.starts_with(b" ") && !self.rest.starts_with(b")") {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.takes(b';') {
            self.sp();
            self.key()?;
            if self.takes(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<Argument<'a>> {
        match self.rest.first()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b'?' => self.boolean(),
            b':' => self.bytes(),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                let is_part = |byte: u8| octet::is_token(byte) || byte == b':' || byte == b'/';
                Some(Argument::Token(self.take_while(is_part)))
            }
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Argument<'a>> {
        self.takes(b'"').then_some(())?;
        let all = self.rest;
        let mut at = 0;
        loop {
            match all.get(at)? {
                b'"' => break,
                b'\\' => {
                    all.get(at + 1).filter(|byte| matches!(byte, b'"' | b'\\'))?;
                    at += 2;
                }
                b' '..=b'~' => at += 1,
                _ => return None,
            }
        }
        self.rest = &all[at + 1..];
        Some(Argument::Text(&all[..at]))
    }

    fn number(&mut self) -> Option<Argument<'a>> {
        let is_negative = self.takes(b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if self.takes(b'.') {
            let part = self.take_while(|byte| byte.is_ascii_digit());
            let is_sound =
                (1..=DECIMAL_DIGITS.0).contains(&whole.len()) && (1..=DECIMAL_DIGITS.1).contains(&part.len());
            return is_sound.then_some(Argument::Malformed);
        }
        (1..=INTEGER_DIGITS).contains(&whole.len()).then_some(())?;
        let number = whole.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        Some(if is_negative && number > 0 { Argument::Malformed } else { Argument::Number(number) })
    }

    fn boolean(&mut self) -> Option<Argument<'a>> {
        let (value, rest) = self.rest.split_at_checked(2)?;
        self.rest = rest;
        match value {
            b"?1" => Some(Argument::Absent),
            b"?0" => Some(Argument::Malformed),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<Argument<'a>> {
        self.takes(b':').then_some(())?;
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.takes(b':').then_some(Argument::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(line: &str) -> Option<Vec<(String, bool)>> {
        let mut found = Vec::new();
        let count = read(line.as_bytes(), |key, value| {
            found.push((String::from_utf8_lossy(key).into_owned(), value == Argument::Malformed));
        })?;
        assert_eq!(count, found.len());
        Some(found)
    }

    #[test]
    fn members_have_the_types_of_structured_fields() {
        let mut found = Vec::new();
        let line = b"  a, b=?1, c=60;x;y=2, d=\"p, q\\\"\", e=tok/en:, max-age=0 ";
        let count = read(line, |key, value| found.push((key, value)));
        assert_eq!(count, Some(6));
        assert_eq!(
            found,
            [
                (&b"a"[..], Argument::Absent),
                (b"b", Argument::Absent),
                (b"c", Argument::Number(60)),
                (b"d", Argument::Text(b"p, q\\\"")),
                (b"e", Argument::Token(b"tok/en:")),
                (b"max-age", Argument::Number(0)),
            ]
        );
    }

    #[test]
    fn values_that_no_directive_has_are_read_and_of_no_use() {
        for line in ["a=?0", "a=1.5", "a=-5", "a=:aGk=:", "a=()", "a=( 1  \"b\";c d )", "a=(1);b"] {
            assert_eq!(keys(line), Some(vec![("a".into(), true)]), "{line}");
        }
        assert_eq!(keys("").map(|keys| keys.len()), Some(0));
        assert_eq!(keys("a=-0"), Some(vec![("a".into(), false)]));
        assert_eq!(keys("a=999999999999999"), Some(vec![("a".into(), false)]));
    }

    #[test]
    fn one_byte_that_does_not_fit_spoils_all() {
        for line in [
            "max-age=10000, &&&&&",
            "MaX-aGe=1",
            "max-age =1",
            "max-age= 1",
            "a,",
            ",a",
            "a,,b",
            "a b",
            "a=",
            "a=\"b",
            "a=\"b\\c\"",
            "a=\"\u{e4}\"",
            "a=?2",
            "a=1000000000000000",
            "a=1.",
            "a=1.2345",
            "a=1234567890123.1",
            "a=--1",
            "a=-",
            "a=:b",
            "a=(1 2",
            "a=(1,2)",
            "a=(1\"b\")",
            "a;=1",
            "a;B",
            "1a",
            "a=@1",
        ] {
            assert_eq!(keys(line), None, "{line}");
        }
    }
}
