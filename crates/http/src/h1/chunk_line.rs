//! The line before each chunk: its size and its extensions (RFC 9112 §7.1, §7.1.1).
//!
//! Driven byte by byte by the body reader. Extensions are checked against the grammar, counted and
//! forgotten: they are never passed on. The only whitespace allowed is that of the grammar within
//! extensions; none between the size and what follows it.

use thalweg_core::limits;

use crate::octet;

/// Hexadecimal digits of a chunk size, leading zeros included.
const SIZE_DIGITS: u8 = 16;
/// Largest chunk, in bytes: what every integer type of 64 bits can hold.
const SIZE_MAX: u64 = i64::MAX as u64;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    Size,
    /// After `;`: whitespace or the first byte of a name.
    BeforeName,
    Name,
    /// Whitespace after a name: `=` or `;` must come.
    AfterName,
    /// After `=`: whitespace, a token or a quoted string.
    BeforeValue,
    Value,
    Quoted,
    Escape,
    /// After the closing quote.
    AfterQuoted,
    /// Whitespace after a value: `;` must come.
    AfterValue,
    Lf,
}

/// The reader of chunk-size lines of one message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkLine {
    state: State,
    digits: u8,
    size: u64,
    /// Bytes of the current line.
    line: usize,
    /// Bytes of extensions in the message so far.
    extensions: usize,
}

impl ChunkLine {
    /// Takes one byte; gives the chunk's size when the line is complete, and is then ready for the next.
    #[inline]
    pub(crate) fn step(&mut self, byte: u8) -> Result<Option<u64>, &'static str> {
        self.line += 1;
        self.state = match (self.state, byte) {
            (State::Size, _) => return self.size_byte(byte).map(|()| None),
            (State::Lf, b'\n') => {
                let size = self.size;
                *self = Self { extensions: self.extensions, ..Self::default() };
                return Ok(Some(size));
            }
            (State::Lf, _) => return Err("CR without LF after a chunk size"),
            _ => self.extension_byte(byte)?,
        };
        Ok(None)
    }

    fn size_byte(&mut self, byte: u8) -> Result<(), &'static str> {
        if let Some(digit) = octet::hex_digit(byte) {
            self.digits += 1;
            self.size = self.size << 4 | u64::from(digit);
            return match self.digits {
                ..=SIZE_DIGITS if self.size <= SIZE_MAX => Ok(()),
                _ => Err("a chunk size that is too large"),
            };
        }
        self.state = match byte {
            _ if self.digits == 0 => return Err("a chunk size that is not a hexadecimal number"),
            b'\r' => State::Lf,
            b';' => State::BeforeName,
            b'\n' => return Err("bare LF after a chunk size"),
            b' ' | b'\t' => return Err("whitespace after a chunk size"),
            _ => return Err("a chunk size that is not a hexadecimal number"),
        };
        Ok(())
    }

    fn extension_byte(&mut self, byte: u8) -> Result<State, &'static str> {
        self.extensions += 1;
        if self.line > limits::CHUNK_LINE || self.extensions > limits::CHUNK_EXTENSIONS {
            return Err("too many bytes of chunk extensions");
        }
        use State::{
            AfterName, AfterQuoted, AfterValue, BeforeName, BeforeValue, Escape, Lf, Name, Quoted, Value,
        };
        Ok(match (self.state, byte) {
            (BeforeName, b' ' | b'\t') => BeforeName,
            (BeforeName | Name, _) if octet::is_token(byte) => Name,
            (Name | AfterName, b' ' | b'\t') => AfterName,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeValue, b' ' | b'\t') => BeforeValue,
            (BeforeValue, b'"') => Quoted,
            (BeforeValue | Value, _) if octet::is_token(byte) => Value,
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escape,
            (Quoted | Escape, _) if octet::is_value(byte) => Quoted,
            (Value | AfterQuoted | AfterValue, b' ' | b'\t') => AfterValue,
            (Name | AfterName | Value | AfterQuoted | AfterValue, b';') => BeforeName,
            (Name | Value | AfterQuoted, b'\r') => Lf,
            (_, b'\n') => return Err("bare LF in a chunk extension"),
            (Quoted | Escape, _) => return Err("an unbalanced quote in a chunk extension"),
            (_, b'\r') => return Err("an unfinished chunk extension"),
            _ => return Err("a malformed chunk extension"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Result<Option<u64>, &'static str> {
        let mut reader = ChunkLine::default();
        line.iter().try_fold(None, |_, byte| reader.step(*byte))
    }

    #[test]
    fn sizes_are_plain_hexadecimal() {
        for (line, size) in [
            ("0", 0),
            ("000", 0),
            ("a", 10),
            ("Ff", 255),
            ("0000000000000005", 5),
            ("7fffffffffffffff", SIZE_MAX),
        ] {
            assert_eq!(read(format!("{line}\r\n").as_bytes()), Ok(Some(size)), "{line}");
        }
    }

    /// Hostile input A10.
    #[test]
    fn sizes_that_parsers_read_differently_are_refused() {
        for line in [
            "0x5\r\n",
            "+5\r\n",
            "5 \r\n",
            "5\t\r\n",
            " 5\r\n",
            "5_0\r\n",
            "\r\n",
            "-1\r\n",
            "\n",
            "5\n",
            "5\r5",
            "5\r\r\n",
            "00000000000000005\r\n",
            "ffffffffffffffff\r\n",
            "8000000000000000\r\n",
            "g\r\n",
            ";a\r\n",
            "5 ;a\r\n",
            "5\0\r\n",
        ] {
            assert!(read(line.as_bytes()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn extensions_of_the_grammar_are_read_and_dropped() {
        for ext in [";a", ";a=b", ";a=\"b c;\\\"\\r\"", ";a;b=c;d=\"\"", "; a = b ; c", ";a=\"\u{e9}\" ;b"] {
            assert_eq!(read(format!("5{ext}\r\n").as_bytes()), Ok(Some(5)), "{ext}");
        }
    }

    /// Hostile input A11.
    #[test]
    fn extensions_with_controls_or_open_quotes_are_refused() {
        for ext in [
            ";",
            ";;",
            ";a=",
            ";a\n",
            ";a=\"b\n",
            ";a=\"b",
            ";a=\"b\\",
            ";a\rb",
            ";a=b\"",
            ";a \r",
            ";a=\"b\"c",
            ";=b",
            ";a=\0",
            ";\u{e9}",
            ";a b",
            ";a=\"\x7f\"",
        ] {
            assert!(read(format!("5{ext}\r\n").as_bytes()).is_err(), "{ext:?}");
        }
    }

    /// Hostile input A11, CVE-2023-39326.
    #[test]
    fn extensions_are_bounded_per_line_and_per_message() {
        let mut reader = ChunkLine::default();
        assert!(b"1;".iter().chain(&[b'a'; limits::CHUNK_LINE]).any(|byte| reader.step(*byte).is_err()));
        let mut reader = ChunkLine::default();
        let chunks = std::iter::repeat_n(b"1;a=b\r\n", limits::CHUNK_EXTENSIONS).flatten();
        assert!(chunks.map(|byte| reader.step(*byte)).any(|step| step.is_err()));
    }
}
