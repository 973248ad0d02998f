//! The 64 bytes that seal and open labels.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Length of a secret, in bytes.
const BYTES: usize = 64;

/// 64 random bytes: the key of AES-256-SIV as it is. Never printed, overwritten when dropped, compared in constant
/// time.
#[derive(Clone)]
pub struct Secret(Box<[u8; BYTES]>);

impl Secret {
    /// Reads 128 hex digits of either case.
    ///
    /// # Errors
    /// A sentence that says what is wrong and how to make a secret. It quotes nothing of the text.
    pub fn from_hex(text: &str) -> Result<Self, String> {
        const HELP: &str = "make one with `openssl rand -hex 64`";
        if text.len() != 2 * BYTES {
            let length = text.chars().count();
            return Err(format!("a secret has 128 hex digits, this has {length} characters; {HELP}"));
        }
        let mut secret = Self(Box::new([0; BYTES]));
        for (at, (byte, pair)) in secret.0.iter_mut().zip(text.as_bytes().chunks_exact(2)).enumerate() {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                let at = 2 * at + 1 + usize::from(digit(pair[0]).is_some());
                return Err(format!("a secret has 128 hex digits, number {at} is none; {HELP}"));
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(secret)
    }

    /// The bytes.
    pub(crate) fn reveal(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl From<[u8; BYTES]> for Secret {
    fn from(mut bytes: [u8; BYTES]) -> Self {
        let secret = Self(Box::new(bytes));
        bytes.zeroize();
        secret
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for Secret {}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hex_of_either_case() {
        let secret = Secret::from_hex(&"0aF9".repeat(32)).unwrap();
        assert_eq!(secret.reveal()[..4], [0x0a, 0xf9, 0x0a, 0xf9]);
        assert_eq!(secret, Secret::from_hex(&"0Af9".repeat(32)).unwrap());
        assert_ne!(secret, Secret::from([0; BYTES]));
    }

    #[test]
    fn errors_say_what_is_wrong_and_quote_nothing() {
        for (text, word) in [
            (String::new(), "this has 0 characters"),
            ("ab".repeat(32), "this has 64 characters"),
            ("é".repeat(128), "this has 128 characters"),
            ("ab".repeat(63) + "x1", "number 127 is none"),
            ("ab".repeat(63) + "1x", "number 128 is none"),
            ("é".repeat(64), "number 1 is none"),
        ] {
            let error = Secret::from_hex(&text).unwrap_err();
            assert!(error.contains(word) && error.contains("openssl rand -hex 64"), "{error}");
            assert!(!error.contains("ab") || text.is_empty(), "{error}");
        }
    }

    #[test]
    fn debug_output_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", Secret::from([0x61; BYTES])), "Secret(not shown)");
    }
}
