//! Labels as logs show them.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::hex::Hex;
use crate::label::Parts;

/// What a log may show of a label: `sealed:1:9f86d081`, the id of its key and the first 8 hex digits of a digest.
/// It cannot be made into the label again, and is the same in whatever case the label came.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Redacted {
    key: Option<u8>,
    digest: [u8; 4],
}

/// What a log may show of a text that should be a label. Needs no key.
///
/// The digest is SHA-256 of the 39 bytes. A text that has not the form of a label, version and key id included, has `?`
/// for the key (`sealed:?:9f86d081`) and the digest of the text in lower case (ASCII).
pub fn redacted(text: &[u8]) -> Redacted {
    let parts = Parts::of(text);
    let (key, digest) = if parts.has_form() {
        (Some(parts.key()), Sha256::digest(parts.bytes))
    } else {
        let mut digest = Sha256::new();
        let mut lower = [0; 64];
        for part in text.chunks(lower.len()) {
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            digest.update(lower);
        }
        (None, digest.finalize())
    };
    Redacted { key, digest: [digest[0], digest[1], digest[2], digest[3]] }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            Some(key) => write!(f, "sealed:{key}:{}", Hex(&self.digest)),
            None => write!(f, "sealed:?:{}", Hex(&self.digest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_label_is_shown_by_its_text_in_lower_case() {
        // The digest of `test` begins so.
        assert_eq!(redacted(b"TesT").to_string(), "sealed:?:9f86d081");
        assert_eq!(redacted(b"").to_string(), "sealed:?:e3b0c442");
        let long = [b'A'; 200];
        let whole = Sha256::digest(long.to_ascii_lowercase());
        assert_eq!(redacted(&long).to_string(), format!("sealed:?:{}", Hex(&whole[..4])));
    }

    #[test]
    fn other_versions_and_key_zero_have_no_key() {
        // The first 8 bits are the header: `e` is 00100, `h` 00111, `4` 11100, `i` 01000.
        let text = |start: &str| format!("{start:a<63}");
        assert!(redacted(text("ee").as_bytes()).to_string().starts_with("sealed:1:"));
        assert!(redacted(text("h4").as_bytes()).to_string().starts_with("sealed:31:"));
        assert!(redacted(text("ea").as_bytes()).to_string().starts_with("sealed:?:"));
        assert!(redacted(text("aa").as_bytes()).to_string().starts_with("sealed:?:"));
        assert!(redacted(text("ii").as_bytes()).to_string().starts_with("sealed:?:"));
    }
}
