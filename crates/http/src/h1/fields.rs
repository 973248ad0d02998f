//! The field section: the part that requests, responses and trailers share (RFC 9112 §5).
//!
//! Called by the two heads and by the body reader. It can be resumed at any byte, looks at
//! no byte more than twice (but for a CR that waits for its LF), and refuses the first byte that cannot belong
//! to a field, however much of the line is still missing.

use crate::field::{Field, FieldId, FieldSet};
use crate::h1::{BARE_CR, BARE_LF, Progress};
use crate::octet;
use crate::span::Span;

/// What is wrong with a field section; whom it is blamed on depends on the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flaw {
    /// Against the grammar.
    Malformed(&'static str),
    /// More fields than allowed.
    TooManyFields,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    LineStart,
    Name,
    Value,
}

/// The cursor over one field section.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FieldScan {
    state: State,
    /// The first byte not looked at yet.
    at: usize,
    /// Where the name or value being read begins.
    mark: usize,
    name: Span,
    id: FieldId,
}

impl FieldScan {
    /// A cursor whose section begins at `at`.
    pub(crate) const fn starting(at: usize) -> Self {
        Self { state: State::LineStart, at, mark: at, name: Span { start: 0, end: 0 }, id: FieldId::Other }
    }

    /// The first byte not looked at yet; after `Complete`, the byte after the blank line.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Reads on in the same buffer, which may have grown. After an error the cursor is useless.
    #[inline]
    pub(crate) fn scan(
        &mut self,
        input: &[u8],
        max: usize,
        fields: &mut Vec<Field>,
        present: &mut FieldSet,
    ) -> Result<Progress, Flaw> {
        loop {
            if self.state == State::LineStart {
                // Nearly every line is whole and sound; what is not is told apart below.
                while let Some((field, next)) = whole_line(input, self.at)
                    && fields.len() < max
                {
                    fields.push(field);
                    present.insert(field.id);
                    self.at = next;
                }
                match input.get(self.at..).unwrap_or_default() {
                    [] | [b'\r'] => return Ok(Progress::Partial),
                    [b'\r', b'\n', ..] => {
                        self.at += 2;
                        return Ok(Progress::Complete);
                    }
                    [first, ..] => begin_line(*first, fields.len(), max)?,
                }
                self.mark = self.at;
                self.state = State::Name;
            }
            if self.state == State::Name {
                self.at += octet::token_len(input.get(self.at..).unwrap_or_default());
                match input.get(self.at) {
                    None => return Ok(Progress::Partial),
                    Some(b':') if self.at > self.mark => {}
                    Some(&byte) => return Err(name_flaw(byte, self.at == self.mark)),
                }
                self.name = Span::new(self.mark, self.at);
                self.id = FieldId::classify(self.name.of(input));
                self.at += 1;
                self.mark = self.at;
                self.state = State::Value;
            }
            let rest = input.get(self.at..).unwrap_or_default();
            let len = octet::value_len(rest);
            self.at += len;
            match &rest[len..] {
                [] | [b'\r'] => return Ok(Progress::Partial),
                [b'\r', b'\n', ..] => {}
                [byte, ..] => return Err(value_flaw(*byte)),
            }
            let value = trimmed(input, self.mark, self.at);
            fields.push(Field { name: self.name, value, id: self.id, keep: true });
            present.insert(self.id);
            self.at += 2;
            self.state = State::LineStart;
        }
    }
}

/// The field of the line at `at` and where the next line begins, if the line is whole and sound.
#[inline]
fn whole_line(input: &[u8], at: usize) -> Option<(Field, usize)> {
    let line = input.get(at..)?;
    let name_len = octet::colon(line)?;
    let id = FieldId::known(line, name_len);
    if id == FieldId::Other && octet::token_len(&line[..name_len]) < name_len {
        return None;
    }
    let name = Span::new(at, at + name_len);
    let mark = name_len + 1;
    let end = mark + octet::value_len(&line[mark..]);
    if !line[end..].starts_with(b"\r\n") || name_len == 0 {
        return None;
    }
    let id = if id == FieldId::Other { FieldId::unknown(&line[..name_len]) } else { id };
    Some((Field { name, value: trimmed(input, at + mark, at + end), id, keep: true }, at + end + 2))
}

/// The span `start..end` without whitespace around it.
#[inline]
fn trimmed(input: &[u8], mut start: usize, mut end: usize) -> Span {
    while start < end && octet::is_ows(input[start]) {
        start += 1;
    }
    while end > start && octet::is_ows(input[end - 1]) {
        end -= 1;
    }
    Span::new(start, end)
}

/// Whether a field line may begin with this byte here.
#[inline]
fn begin_line(byte: u8, fields: usize, max: usize) -> Result<(), Flaw> {
    match byte {
        b'\r' => Err(Flaw::Malformed(BARE_CR)),
        b'\n' => Err(Flaw::Malformed(BARE_LF)),
        b' ' | b'\t' if fields == 0 => Err(Flaw::Malformed("whitespace before the first field")),
        b' ' | b'\t' => Err(Flaw::Malformed("a field continued on the next line (obs-fold)")),
        _ if fields >= max => Err(Flaw::TooManyFields),
        _ => Ok(()),
    }
}

#[cold]
fn name_flaw(byte: u8, empty: bool) -> Flaw {
    Flaw::Malformed(match byte {
        b':' if empty => "an empty field name",
        b' ' | b'\t' => "whitespace before the colon of a field",
        b'\n' => BARE_LF,
        b'\r' => "a field line without a colon",
        0 => "NUL in a field name",
        0x80.. => "a byte above 0x7f in a field name",
        _ => "a forbidden character in a field name",
    })
}

#[cold]
fn value_flaw(byte: u8) -> Flaw {
    Flaw::Malformed(match byte {
        b'\n' => BARE_LF,
        b'\r' => BARE_CR,
        0 => "NUL in a field value",
        _ => "a control character in a field value",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(input: &[u8]) -> Result<Progress, Flaw> {
        FieldScan::default().scan(input, 4, &mut Vec::new(), &mut FieldSet::default())
    }

    #[test]
    fn values_are_trimmed_and_may_be_empty_or_hold_obs_text() {
        let input = b"A:1\r\nB: \t2 \t3\t \r\nC:\r\nD: \xff\x80\r\n\r\nrest";
        let (mut fields, mut present) = (Vec::new(), FieldSet::default());
        let mut cursor = FieldScan::default();
        assert_eq!(cursor.scan(input, 4, &mut fields, &mut present), Ok(Progress::Complete));
        let values: Vec<_> = fields.iter().map(|field| field.value.of(input)).collect();
        assert_eq!(values, [b"1".as_slice(), b"2 \t3", b"", b"\xff\x80"]);
        assert_eq!(&input[cursor.at()..], b"rest");
    }

    #[test]
    fn the_first_wrong_byte_is_refused_before_the_line_is_complete() {
        for wrong in [
            "A ", "A\t", ":", "A(", "A\r", "A\n", "\0", "\u{e9}", " ", "\n", "\rx", "A: \0", "A: \x7f",
            "A: x\n",
        ] {
            assert!(matches!(scan(wrong.as_bytes()), Err(Flaw::Malformed(_))), "{wrong:?}");
        }
        for fine in ["", "\r", "A", "A:", "A: x", "A: x\r", "A: x\r\n", "A: x\r\n\r"] {
            assert_eq!(scan(fine.as_bytes()), Ok(Progress::Partial), "{fine:?}");
        }
    }

    #[test]
    fn one_field_more_than_allowed_is_too_many_as_soon_as_it_begins() {
        assert_eq!(scan(b"A:\r\nB:\r\nC:\r\nD:\r\n\r\n"), Ok(Progress::Complete));
        assert_eq!(scan(b"A:\r\nB:\r\nC:\r\nD:\r\nE"), Err(Flaw::TooManyFields));
    }
}
