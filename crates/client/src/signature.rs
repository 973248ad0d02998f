//! The signature of requests that the proxy makes itself, by which a receiver knows who sent them and when.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use thalweg_core::SigningKey;

/// `sha256=` and HMAC-SHA256(key, `now` "." body) in hex (RFC 2104), with `now` in seconds since the Unix epoch. With
/// the time in it, an old request cannot be sent again as a new one.
pub fn signature(key: &SigningKey, now: u64, body: &[u8]) -> String {
    // HMAC takes keys of every length; without one, no signature would be right.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.reveal()) else { return String::new() };
    mac.update(format!("{now}.").as_bytes());
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    format!("sha256={}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with Python:
    /// `hmac.new(b"hush", b"1795330800." + '{"id":1,"cause":"ä"}'.encode(), "sha256").hexdigest()`.
    #[test]
    fn the_signature_is_what_python_computes() {
        let secret = SigningKey::new(b"hush").unwrap();
        assert_eq!(signature(&secret, 1_795_330_800, "{\"id\":1,\"cause\":\"ä\"}".as_bytes()), GOLDEN);
        let long = SigningKey::new(&[b'k'; 200]).unwrap();
        assert_eq!(signature(&long, 0, b""), GOLDEN_LONG);
    }

    const GOLDEN: &str = "sha256=a0c38fa6bc34e373edab4ba9cb40616b5008864e4972d50ea519d1bbf509ae2c";
    /// `hmac.new(b"k" * 200, b"0.", "sha256").hexdigest()`.
    const GOLDEN_LONG: &str = "sha256=76a82ba859636cc3081c72aa270fd66ac81a202f8182404e7752795c6e7ba88f";
}
