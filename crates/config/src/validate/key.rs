//! What of a request is hashed (`balance.hash.on`, `to.sticky_by`).

use super::is_token;
use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{KeySpec, Spanned};
use std::sync::Arc;
use thalweg_upstream::HashKey;

/// Longest name of a header, cookie or parameter, in bytes.
const NAME: usize = 256;

/// The key; names of headers in lower case.
pub(super) fn key(spec: &KeySpec, problems: &mut Problems) -> HashKey {
    match spec {
        KeySpec::ClientIp => HashKey::ClientIp,
        KeySpec::Path => HashKey::Path,
        KeySpec::Header(name) => {
            token(name, "header", problems);
            HashKey::Header(name.to_ascii_lowercase().into())
        }
        KeySpec::Cookie(name) => {
            token(name, "cookie", problems);
            HashKey::Cookie(Arc::from(name.as_str()))
        }
        KeySpec::Query(name) => {
            let wrong = |byte: u8| byte.is_ascii_control() || b" &=#+%".contains(&byte);
            if name.is_empty() || name.len() > NAME || name.bytes().any(wrong) {
                let message = format!("`{}` is not the name of a parameter", name.value);
                problems.push(SpecError::value(name.span, "name of a parameter", message));
            }
            HashKey::Query(Arc::from(name.as_str()))
        }
    }
}

/// RFC 9110 §5.1 and RFC 6265 §4.1.1: names of headers and of cookies are tokens.
pub(super) fn token(name: &Spanned<String>, what: &str, problems: &mut Problems) -> bool {
    let fits = is_token(name) && name.len() <= NAME;
    if !fits {
        let message = format!("this is not the name of a {what}");
        problems.push(SpecError::new(Class::Invalid, name.span, message));
    }
    fits
}
