//! Queries without the credentials that people put into them.
//!
//! Called by the encoders for the query of the request and of the `Referer`, and for decision records. Invariant: the
//! value of a key with the name of a credential ([`credentials::may_be_secret`]) is never written, in any spelling of
//! the key (case, percent-encoding).

use std::borrow::Cow;

use thalweg_core::credentials;

use crate::escape::Escape;

/// What stands in the place of a value.
const REDACTED: &[u8] = b"[redacted]";

/// Writes a query, escaped, with `[redacted]` in place of secret values.
pub(crate) fn query(out: &mut Vec<u8>, query: &[u8], escape: Escape) {
    // `;` separates pairs too in some frameworks.
    for part in query.split_inclusive(|byte| matches!(byte, b'&' | b';')) {
        let (pair, separator) = match part.split_last() {
            Some((last @ (b'&' | b';'), pair)) => (pair, Some(*last)),
            _ => (part, None),
        };
        match pair.iter().position(|byte| *byte == b'=') {
            Some(at) if is_secret(&pair[..at]) => {
                escape(out, &pair[..=at]);
                out.extend_from_slice(REDACTED);
            }
            _ => escape(out, pair),
        }
        out.extend(separator);
    }
}

/// A query with `[redacted]` in place of values that may be credentials, as it stands in the access log, but not
/// escaped for any form.
pub fn redact_query(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len());
    query(&mut out, plain, |out, part| out.extend_from_slice(part));
    out
}

/// The value of a field of a request or response as people may see it: `[redacted]` where the field's name, or the
/// value's first word, says that it is a credential; else with the secrets of a query in it redacted.
pub fn redact_field<'a>(name: &str, value: &'a [u8]) -> Cow<'a, [u8]> {
    if credentials::may_be_secret(name) || has_scheme(value) {
        return Cow::Borrowed(REDACTED);
    }
    if !value.contains(&b'?') {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    url(&mut out, value, |out, part| out.extend_from_slice(part));
    Cow::Owned(out)
}

/// Whether a value begins as credentials do (RFC 9110 §11.4), or is a JWT.
fn has_scheme(value: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 5] = [b"bearer ", b"basic ", b"digest ", b"negotiate ", b"eyj"];
    let begins = |with: &[u8]| value.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    BEGINNINGS.iter().any(|with| begins(with))
}

/// Writes a URL, escaped, with the secrets of its query redacted.
pub(crate) fn url(out: &mut Vec<u8>, url: &[u8], escape: Escape) {
    match url.iter().position(|byte| *byte == b'?') {
        Some(at) => {
            escape(out, &url[..=at]);
            query(out, &url[at + 1..], escape);
        }
        None => escape(out, url),
    }
}

/// Whether a raw key of the query names a credential, as written or decoded.
fn is_secret(key: &[u8]) -> bool {
    let is_named = |key: &[u8]| credentials::may_be_secret(&String::from_utf8_lossy(key));
    is_named(key) || key.contains(&b'%') && is_named(&decoded(key))
}

/// Decodes escapes; an invalid escape is kept as it is.
fn decoded(mut key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len());
    while let Some((first, rest)) = key.split_first() {
        let escape = match (first, rest) {
            (b'%', [high, low, rest @ ..]) => nibble(*high).zip(nibble(*low)).zip(Some(rest)),
            _ => None,
        };
        let (byte, rest) = escape.map_or((*first, rest), |((high, low), rest)| (high << 4 | low, rest));
        out.push(byte);
        key = rest;
    }
    out
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape;

    fn text(input: &str) -> String {
        let mut out = Vec::new();
        query(&mut out, input.as_bytes(), escape::nginx);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_are_shown_without_credentials() {
        let shown =
            |name, value: &str| String::from_utf8(redact_field(name, value.as_bytes()).into()).unwrap();
        for (name, value) in [
            ("Authorization", "x"),
            ("set-cookie", "a=b; Path=/"),
            ("X-Shop", "Bearer abc"),
            ("X-Shop", "basic abc"),
            ("X-Shop", "eyJhbGciOi.x.y"),
        ] {
            assert_eq!(shown(name, value), "[redacted]", "{name}: {value}");
        }
        assert_eq!(shown("Referer", "https://a.test/?a=1&token=s"), "https://a.test/?a=1&token=[redacted]");
        assert_eq!(shown("Accept", "*/*"), "*/*");
    }

    /// Only eleven names were hidden: credentials of clouds and of identity providers were logged (issue 43).
    #[test]
    fn values_of_every_name_of_a_credential_are_redacted() {
        for key in
            ["token", "code", "api_key", "X-Amz-Signature", "sessionid", "SAMLResponse", "access-token"]
        {
            assert_eq!(text(&format!("a=1&{key}=s3cret&b=2")), format!("a=1&{key}=[redacted]&b=2"));
        }
    }

    #[test]
    fn spelling_does_not_help() {
        assert_eq!(text("Token=x"), "Token=[redacted]");
        assert_eq!(text("%74o%6Ben=x"), "%74o%6Ben=[redacted]");
        assert_eq!(
            text("%zztoken=x&user%5Bpassword%5D=y"),
            "%zztoken=[redacted]&user%5Bpassword%5D=[redacted]"
        );
        assert_eq!(text("a=1;sig=x=y;"), "a=1;sig=[redacted];");
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for plain in
            ["", "a", "token", "tokens=1", "a=token&", "&&;=", "monkey=1", "author=a", "%7=1", "%zz=1"]
        {
            assert_eq!(text(plain), plain);
        }
        assert_eq!(text("a=\"\n"), r"a=\x22\x0A");
    }

    #[test]
    fn urls_are_redacted_in_their_query() {
        let mut out = Vec::new();
        url(&mut out, b"https://a/key=1?key=1", escape::json);
        assert_eq!(out, b"https://a/key=1?key=[redacted]");
    }
}
