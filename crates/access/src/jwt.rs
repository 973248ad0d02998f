//! Signed tokens (JWT, RFC 7519; JWS in compact form, RFC 7515), read strictly.
//!
//! The order is that of distrust: size and form, the head, the key that the *configuration* allows for the head's
//! algorithm, the signature, and only then what the token claims. Nothing in a token says where a key comes from:
//! `jku`, `x5u`, `jwk` and `x5c` are never looked at, `kid` is only compared, and a token with `crit` is refused, since
//! no extension is known here (RFC 7515 §4.1.11).
//!
//! Pure: time and keys are arguments.

mod algorithm;
mod flaw;
mod json;
mod key;
mod pem;
mod rules;
mod token;

pub use algorithm::Algorithm;
pub use flaw::Flaw;
pub use json::object;
pub use key::{Key, KeySet};
pub use rules::{Rules, Verified};
pub use token::{TOKEN, Token};

use std::sync::Arc;

/// Keys that are tried for one token, at most: those of its `kid`, or all of its algorithm where it names none.
const TRIES: usize = 4;

/// Verifies a token that was read: its signature by one of the keys, then what it claims, at `now` in seconds since the
/// Unix epoch.
///
/// # Errors
/// Why it proves nothing.
pub fn verify(token: &Token<'_>, keys: &KeySet, rules: &Rules, now: u64) -> Result<Arc<Verified>, Flaw> {
    rules.allow(token.algorithm)?;
    let mut tried = 0;
    for key in keys.candidates(token.algorithm, token.key_id.as_deref()).take(TRIES) {
        tried += 1;
        if key.verifies(token.algorithm, token.message, &token.signature) {
            return rules.claims(token.claims()?, now).map(Arc::new);
        }
    }
    Err(if tried == 0 { Flaw::UnknownKey } else { Flaw::Signature })
}

/// What a token claims that is not verified, for questions about what a configuration would do with it.
///
/// # Errors
/// Why it would prove nothing even if its signature were right.
pub fn unverified(token: &Token<'_>, rules: &Rules, now: u64) -> Result<Verified, Flaw> {
    rules.allow(token.algorithm)?;
    rules.claims(token.claims()?, now)
}

#[cfg(test)]
pub(crate) mod tests;
