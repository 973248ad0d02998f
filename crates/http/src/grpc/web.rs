//! gRPC-Web's body: what a browser, which sees no trailers, gets and sends instead (PROTOCOL-WEB of gRPC).
//!
//! Messages are framed as in gRPC and go by untouched; trailers become a frame of their own at the end. In the
//! text form all of it is base64. Both directions hold at most three bytes.

use crate::h2::composed::split_trailers;

/// The first byte of the frame that holds the trailers.
pub const TRAILERS_FRAME: u8 = 0x80;
/// Bytes of a frame before its content: a byte of flags, four of length.
pub const FRAME_HEAD: usize = 5;

/// Appends the frame of trailers, of lines as they came. Names become lower case.
pub fn write_trailers(out: &mut Vec<u8>, lines: &mut [u8]) {
    let start = out.len();
    out.extend_from_slice(&[TRAILERS_FRAME, 0, 0, 0, 0]);
    for (name, value) in split_trailers(lines) {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    // Trailers are bounded far below 4 GiB.
    let len = u32::try_from(out.len() - start - FRAME_HEAD).unwrap_or(u32::MAX);
    out[start + 1..start + FRAME_HEAD].copy_from_slice(&len.to_be_bytes());
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// No digit of base64.
const NONE: u8 = 0xff;
static DIGITS: [u8; 256] = digits();

const fn digits() -> [u8; 256] {
    let mut table = [NONE; 256];
    let mut i = 0;
    while i < 64 {
        table[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    table
}

/// Appends bytes in base64, padded. Each piece of a body is written by itself, so that what has come can
/// be sent; a reader has to expect padding at the end of any of them.
pub fn write_text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place > group.len() { b'=' } else { digit });
        }
    }
}

/// What is wrong with a body in text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BrokenText(pub &'static str);

/// Reads base64 that comes in pieces and may be padded at the end of any group of four.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextReader {
    /// The digits of a group that is not whole.
    group: u32,
    have: u8,
    padding: u8,
}

impl TextReader {
    /// Appends what the bytes stand for, but for a group that is not whole yet.
    ///
    /// # Errors
    /// For anything but digits and padding in its place, and for bits that the padding would throw away: two
    /// readers could take them differently. The reader is useless then.
    pub fn read(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), BrokenText> {
        out.reserve(text.len() / 4 * 3 + 3);
        for &byte in text {
            let digit = match (byte, DIGITS[usize::from(byte)]) {
                (b'=', _) if self.have >= 2 => {
                    self.padding += 1;
                    0
                }
                (_, NONE) => return Err(BrokenText("a body in base64 with other characters")),
                _ if self.padding > 0 => {
                    return Err(BrokenText("a body in base64 with padding within a group"));
                }
                (_, digit) => digit,
            };
            self.group = self.group << 6 | u32::from(digit);
            self.have += 1;
            if self.have == 4 {
                let [_, bytes @ ..] = self.group.to_be_bytes();
                let (kept, lost) = bytes.split_at(3 - usize::from(self.padding));
                if lost.iter().any(|byte| *byte != 0) {
                    return Err(BrokenText("a body in base64 with bits behind its end"));
                }
                out.extend_from_slice(kept);
                *self = Self::default();
            }
        }
        Ok(())
    }

    /// The body is over.
    ///
    /// # Errors
    /// When it ends within a group.
    pub fn end(&self) -> Result<(), BrokenText> {
        if self.have > 0 { Err(BrokenText("a body in base64 that breaks off")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write_text(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    fn read(pieces: &[&[u8]]) -> Result<Vec<u8>, BrokenText> {
        let (mut reader, mut out) = (TextReader::default(), Vec::new());
        pieces.iter().try_for_each(|piece| reader.read(piece, &mut out))?;
        reader.end().map(|()| out)
    }

    /// RFC 4648 §10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(text(bytes.as_bytes()), expected);
            assert_eq!(read(&[expected.as_bytes()]), Ok(bytes.as_bytes().to_vec()));
        }
        assert_eq!(text(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn text_that_readers_take_differently_is_refused() {
        for broken in [
            "Z", "Zg", "Zg=", "Zm9vY", "=", "====", "Z===", "Zg=v", "Zg==Z", "Zm 9v", "Zm9v\n", "Zm9-",
            "Zm9_", "Zh==", "Zm9=", "Zg===",
        ] {
            assert!(read(&[broken.as_bytes()]).is_err(), "{broken}");
        }
    }

    #[test]
    fn trailers_are_the_last_frame() {
        let mut lines = *b"grpc-status: 0\r\nGrpc-Message:  ok \r\nconnection: x\r\n";
        let mut out = b"message".to_vec();
        write_trailers(&mut out, &mut lines);
        assert_eq!(out, b"message\x80\0\0\0\x22grpc-status: 0\r\ngrpc-message: ok\r\n");
        let mut out = Vec::new();
        write_trailers(&mut out, &mut []);
        assert_eq!(out, b"\x80\0\0\0\0");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cuts in prop::collection::vec(0usize..400, 0..8),
        ) {
            let mut wire = Vec::new();
            pieces.iter().for_each(|piece| write_text(&mut wire, piece));
            let mut ends: Vec<_> = cuts.iter().map(|cut| (*cut).min(wire.len())).chain([wire.len()]).collect();
            ends.sort_unstable();
            let mut start = 0;
            let cut: Vec<_> = ends.iter().map(|end| &wire[std::mem::replace(&mut start, *end)..*end]).collect();
            prop_assert_eq!(read(&cut), Ok(pieces.concat()));
        }

        #[test]
        fn what_is_read_is_what_would_be_written(text in "[A-D/=]{0,12}") {
            if let Ok(bytes) = read(&[text.as_bytes()]) {
                let mut again = Vec::new();
                for group in text.as_bytes().chunks(4) {
                    write_text(&mut again, &read(&[group]).unwrap());
                }
                prop_assert_eq!(String::from_utf8(again).unwrap(), text);
                prop_assert!(bytes.len() <= 9);
            }
        }
    }
}
