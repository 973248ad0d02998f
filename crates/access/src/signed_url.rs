//! Signed URLs: a signature over a host, a scope, a path, an expiry time and chosen parameters, valid until that
//! time.
//!
//! The signed text consists of lines, so that parts cannot be confused: `v2`, the method or `*`, the host, the scope
//! (the name of the route, unless the configuration has another), the path, the time and the id of the key, and the
//! signed parameters, `NAME=VALUE` as spelled in the query. No line can contain a line end: hosts and targets have
//! none, and scopes with one are never signed. So a link for one host or route is invalid on another one that has the
//! same key.

use aws_lc_rs::hmac::{self, Context, HMAC_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;

/// Bytes of a signature as it is written.
const SIGNATURE: usize = 43;
/// Bytes that a key has at least.
pub const KEY: usize = 16;

/// A key, and the id that URLs name it by.
pub struct SigningKey {
    id: Box<str>,
    key: hmac::Key,
}

/// What is signed.
#[derive(Clone, Debug)]
pub struct Signed<'a> {
    /// The method; `None`: any.
    pub method: Option<&'a [u8]>,
    /// The host in normal form, without a port.
    pub host: &'a [u8],
    /// The name of the route, or the configured `scope`.
    pub scope: &'a [u8],
    /// The path, as it is sent.
    pub path: &'a [u8],
    /// Until when it is good, in seconds since the Unix epoch, as it is written.
    pub expires: &'a [u8],
    /// Parameters that belong to it, `NAME=VALUE` as they stand in the query, in the order of the configuration.
    pub parameters: Vec<&'a [u8]>,
}

impl SigningKey {
    /// A key.
    ///
    /// # Errors
    /// A sentence: the id or the key is wrong.
    pub fn new(id: &str, key: &[u8]) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=64).contains(&id.len()) || !id.bytes().all(fits) {
            return Err("the id of a key has from 1 to 64 letters, digits and `-_.`".into());
        }
        if key.len() < KEY {
            return Err(format!(
                "the key `{id}` must have at least {KEY} bytes; `openssl rand -hex 32` makes one"
            ));
        }
        Ok(Self { id: id.into(), key: hmac::Key::new(HMAC_SHA256, key) })
    }

    /// What URLs name it by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The signature. `scope` has no line end.
    pub fn sign(&self, signed: &Signed<'_>) -> String {
        URL_SAFE_NO_PAD.encode(self.context(signed).sign().as_ref())
    }

    /// Whether this is the signature; takes the same time whatever it is.
    pub fn verify(&self, signed: &Signed<'_>, signature: &[u8]) -> bool {
        if signature.len() != SIGNATURE {
            return false;
        }
        let made = self.sign(signed);
        aws_lc_rs::constant_time::verify_slices_are_equal(made.as_bytes(), signature).is_ok()
    }

    fn context(&self, signed: &Signed<'_>) -> Context {
        let mut context = Context::with_key(&self.key);
        let Signed { host, scope, path, expires, .. } = *signed;
        debug_assert!(!scope.contains(&b'\n'), "names of routes have no control characters");
        let method = signed.method.unwrap_or(b"*");
        let head = [&b"v2"[..], method, host, scope, path, expires, self.id.as_bytes()];
        for line in head.iter().chain(&signed.parameters) {
            context.update(line);
            context.update(b"\n");
        }
        context
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_what_was_signed_alone() {
        let key = SigningKey::new("k1", b"0123456789abcdef").unwrap();
        let signed = Signed {
            method: None,
            host: b"a.example.com",
            scope: b"files",
            path: b"/files/a.zip",
            expires: b"1900000000",
            parameters: vec![b"user=7"],
        };
        let signature = key.sign(&signed);
        assert_eq!(signature.len(), SIGNATURE);
        assert!(key.verify(&signed, signature.as_bytes()));
        for other in [
            Signed { method: Some(b"GET"), ..signed.clone() },
            Signed { host: b"b.example.com", ..signed.clone() },
            Signed { scope: b"other files", ..signed.clone() },
            Signed { host: b"", scope: b"a.example.com", ..signed.clone() },
            Signed { path: b"/files/b.zip", ..signed.clone() },
            Signed { expires: b"1900000001", ..signed.clone() },
            Signed { parameters: vec![], ..signed.clone() },
            Signed { parameters: vec![b"user=8"], ..signed.clone() },
        ] {
            assert!(!key.verify(&other, signature.as_bytes()), "{other:?}");
        }
        for wrong in ["", &signature[1..], &format!("{signature}="), &"A".repeat(SIGNATURE)] {
            assert!(!key.verify(&signed, wrong.as_bytes()));
        }
        for (id, secret) in [("k2", &b"0123456789abcdef"[..]), ("k1", b"0123456789abcdeg")] {
            assert!(!SigningKey::new(id, secret).unwrap().verify(&signed, signature.as_bytes()));
        }
        assert!(SigningKey::new("", b"0123456789abcdef").is_err() && SigningKey::new("k", b"short").is_err());
    }

    /// Made by another program, as the guide describes.
    #[test]
    fn the_lines_that_are_signed_are_those_of_the_guide() {
        let key = SigningKey::new("k1", b"0123456789abcdef").unwrap();
        let signed = Signed {
            method: None,
            host: b"files.example.com",
            scope: b"files",
            path: b"/a.zip",
            expires: b"1900000000",
            parameters: vec![b"user=7"],
        };
        assert_eq!(key.sign(&signed), "RVo8RCMUi2VgHAkQGdtqF3A4pKkNPFiTbaYlBuW2MAo");
    }
}
