//! The key with which the proxy signs requests that it makes itself: webhooks and DNS hooks.

use std::fmt;
use std::sync::Arc;

/// The key of a signature. Never shown.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct SigningKey(Arc<[u8]>);

impl SigningKey {
    /// Takes a key of any length but none.
    ///
    /// # Errors
    /// It is empty: a signature with it would prove nothing.
    pub fn new(key: &[u8]) -> Result<Self, &'static str> {
        if key.is_empty() { Err("the secret is empty") } else { Ok(Self(key.into())) }
    }

    /// The key.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown_and_not_empty() {
        assert_eq!(format!("{:?}", SigningKey::new(b"hush").unwrap()), "<secret>");
        assert!(SigningKey::new(b"").is_err());
    }
}
