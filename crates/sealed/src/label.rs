//! Labels as text and as 39 bytes: header, vector, sealed destination.

use std::fmt;

use crate::base32::{self, Decoded};
use crate::cipher::{PLAIN, SIV};
use crate::hex::Hex;
use crate::redacted::redacted;

/// Length of a label, in characters: the most that one label of a host name may have (RFC 1035 §2.3.4).
pub const LABEL_LENGTH: usize = base32::DIGITS;
/// The version that this code seals and opens.
const VERSION: u8 = 1;
/// The header of what stands in for a label that has not the form: no version, no key.
const STAND_IN: [u8; base32::DIGITS] = [b'a'; base32::DIGITS];

/// The header byte of labels that the key with this id seals: version in the high 3 bits, id in the low 5.
pub(crate) fn header(key: u8) -> u8 {
    debug_assert!((1..=31).contains(&key));
    VERSION << 5 | key
}

/// A sealed destination: one label of a host name, 63 characters in lower case.
///
/// Whoever has it can use it: `Display` prints it, `Debug` only its [redacted](crate::redacted) form.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Label([u8; LABEL_LENGTH]);

impl Label {
    pub(crate) fn new(header: u8, siv: [u8; SIV], sealed: [u8; PLAIN]) -> Self {
        let mut bytes = [0; base32::BYTES];
        bytes[0] = header;
        bytes[1..=SIV].copy_from_slice(&siv);
        bytes[1 + SIV..].copy_from_slice(&sealed);
        Self(base32::encode(&bytes))
    }

    /// The text: 63 characters.
    pub fn as_bytes(&self) -> &[u8; LABEL_LENGTH] {
        &self.0
    }

    /// The text: 63 characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({})", redacted(&self.0))
    }
}

/// What tells one label from all others, whatever the case of its text: its synthetic initialization vector.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Siv(pub [u8; SIV]);

impl fmt::Debug for Siv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Siv({})", Hex(&self.0))
    }
}

/// A text taken apart. Whatever the text is, the same work is done and bytes stand here, perhaps those of no label.
pub(crate) struct Parts {
    pub(crate) bytes: [u8; base32::BYTES],
    pub(crate) siv: Siv,
    pub(crate) sealed: [u8; PLAIN],
    pub(crate) wrong_length: bool,
    pub(crate) wrong_alphabet: bool,
    pub(crate) wrong_spare_bits: bool,
    pub(crate) wrong_version: bool,
}

impl Parts {
    pub(crate) fn of(text: &[u8]) -> Self {
        let taken = <&[u8; LABEL_LENGTH]>::try_from(text);
        let Decoded { bytes, in_alphabet, spare_bits_zero } = base32::decode(taken.unwrap_or(&STAND_IN));
        let (mut siv, mut sealed) = ([0; SIV], [0; PLAIN]);
        siv.copy_from_slice(&bytes[1..=SIV]);
        sealed.copy_from_slice(&bytes[1 + SIV..]);
        Self {
            bytes,
            siv: Siv(siv),
            sealed,
            wrong_length: taken.is_err(),
            wrong_alphabet: !in_alphabet,
            wrong_spare_bits: !spare_bits_zero,
            wrong_version: bytes[0] >> 5 != VERSION,
        }
    }

    /// The id of the key, 0–31. 0 is the id of none.
    pub(crate) fn key(&self) -> u8 {
        self.bytes[0] & 31
    }

    /// Whether a label of this version and some key may look so.
    pub(crate) fn has_form(&self) -> bool {
        !(self.wrong_length || self.wrong_alphabet || self.wrong_spare_bits || self.wrong_version)
            && self.key() != 0
    }
}
