//! Request ids: UUID version 7 (RFC 9562 §5.7), sortable by time, or what a client has said.

use std::fmt;

/// Where the two digits of each byte stand in the text.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
/// The two digits of every byte.
static HEX: [[u8; 2]; 256] = hex_pairs();

const fn hex_pairs() -> [[u8; 2]; 256] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut i = 0;
    while i < 256 {
        pairs[i] = [DIGITS[i >> 4], DIGITS[i & 15]];
        i += 1;
    }
    pairs
}

/// The id of one exchange, sent upstream as `X-Request-Id` and written to the log. A shorter one has zeros behind it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct RequestId([u8; 36]);

impl RequestId {
    /// The longest text form, which is that of a UUID.
    pub const LEN: usize = 36;

    /// Makes an id from milliseconds since the Unix epoch and 74 random bits (the rest is ignored).
    pub fn new(unix_ms: u64, random: u128) -> Self {
        let bytes = ((u128::from(unix_ms & 0xffff_ffff_ffff) << 80)
            | (0x7 << 76)
            | ((random >> 64 & 0xfff) << 64)
            | (0b10 << 62)
            | (random & 0x3fff_ffff_ffff_ffff))
            .to_be_bytes();
        let mut text = [b'-'; 36];
        for (byte, at) in bytes.iter().zip(PLACES) {
            text[at..at + 2].copy_from_slice(&HEX[usize::from(*byte)]);
        }
        Self(text)
    }

    /// Takes an id that somebody else made: 36 hex digits and hyphens in the form of a UUID.
    pub fn from_bytes(text: &[u8]) -> Option<Self> {
        let text: [u8; 36] = text.try_into().ok()?;
        let fits = |(i, byte): (usize, &u8)| match i {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        text.iter().enumerate().all(fits).then_some(Self(text))
    }

    /// Takes an id of any form that somebody else made: 1 to [`Self::LEN`] letters, digits and `-_.:+/=`, none of
    /// which has a meaning where ids are written.
    pub fn given(text: &[u8]) -> Option<Self> {
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=".contains(byte);
        if text.is_empty() || !text.iter().all(fits) {
            return None;
        }
        let mut id = [0; Self::LEN];
        id.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self(id))
    }

    /// The text form: 1 to 36 characters.
    pub fn as_bytes(&self) -> &[u8] {
        let padding = self.0.iter().rev().take_while(|byte| **byte == 0).count();
        &self.0[..Self::LEN - padding]
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_only_what_has_the_form() {
        let text = b"01923456-789A-7fff-bfff-ffffffffffff";
        assert_eq!(RequestId::from_bytes(text).unwrap().as_bytes(), text);
        assert_eq!(RequestId::from_bytes(b"01923456-789a-7fff-bfff-fffffffffff"), None);
        assert_eq!(RequestId::from_bytes(b"01923456-789a-7fff-bfff-fffffffffff\n"), None);
        assert_eq!(RequestId::from_bytes(b"01923456x789a-7fff-bfff-ffffffffffff"), None);
    }

    #[test]
    fn an_id_of_another_form_is_short_and_has_no_characters_with_a_meaning() {
        for text in ["a", "4bf92f3577b34da6a3ce929d0e0e4736", "Root=1-67891233-abcdef01", &"x".repeat(36)] {
            assert_eq!(RequestId::given(text.as_bytes()).unwrap().as_str(), text);
        }
        for text in ["", "a b", "a\"b", "<a>", "a\n", "a\0", "a,b", "ä", &"x".repeat(37)] {
            assert_eq!(RequestId::given(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn has_version_seven_variant_ten_and_the_time_in_front() {
        let id = RequestId::new(0x0192_3456_789a, u128::MAX);
        assert_eq!(id.as_str(), "01923456-789a-7fff-bfff-ffffffffffff");
        assert_eq!(RequestId::new(0, 0).as_str(), "00000000-0000-7000-8000-000000000000");
    }
}
