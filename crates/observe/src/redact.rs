//! Paths, queries and URLs without the credentials that people put into them.
//!
//! Called by the encoders for the path and the query of the request and for the `Referer`, by spans, and for decision
//! records. Invariant: the value of a parameter with the name of a credential ([`credentials::may_be_secret`]) is
//! never written, in any spelling of the name (case, percent-encoding), whether it stands in the query, behind `;` in
//! the path, or in the fragment; nor is the user's part of a URL.

use std::borrow::Cow;
use std::ops::Range;

use thalweg_core::credentials;

use crate::escape::Escape;

/// What stands in the place of a value.
const REDACTED: &[u8] = b"[redacted]";
/// A field in which clients that can set no others send their tokens (RFC 6455 §1.9).
const SUBPROTOCOLS: &str = "sec-websocket-protocol";

/// Queries within one pair that are looked at: a bound.
const NESTED: usize = 6;

/// Writes a query, escaped, with `[redacted]` in place of secret values.
pub(crate) fn query(out: &mut Vec<u8>, query: &[u8], escape: Escape) {
    // `;` separates pairs too in some frameworks.
    for part in query.split_inclusive(|byte| matches!(byte, b'&' | b';')) {
        let (pair, separator) = match part.split_last() {
            Some((last @ (b'&' | b';'), pair)) => (pair, Some(*last)),
            _ => (part, None),
        };
        write_pair(out, pair, escape);
        out.extend(separator);
    }
}

/// Writes a pair of a query. Behind `?` and `#` of a value that is shown begins another one: that of a URL in the
/// value, or of a fragment.
fn write_pair(out: &mut Vec<u8>, mut pair: &[u8], escape: Escape) {
    for _ in 0..NESTED {
        let equals = pair.iter().position(|byte| *byte == b'=');
        if let Some(at) = equals.filter(|at| is_secret(&pair[..*at])) {
            escape(out, &pair[..=at]);
            out.extend_from_slice(REDACTED);
            return;
        }
        let Some(at) = pair.iter().position(|byte| matches!(byte, b'?' | b'#')) else { break };
        escape(out, &pair[..=at]);
        pair = &pair[at + 1..];
    }
    escape(out, pair);
}

/// Writes a path, escaped, with `[redacted]` in place of secret parameters (`/a;token=x/b`, RFC 3986 §3.3).
pub(crate) fn path(out: &mut Vec<u8>, path: &[u8], escape: Escape) {
    if !path.contains(&b';') {
        return escape(out, path);
    }
    let mut is_parameter = false;
    for part in path.split_inclusive(|byte| matches!(byte, b'/' | b';')) {
        let end = part.len() - usize::from(part.ends_with(b"/") || part.ends_with(b";"));
        let (text, separator) = part.split_at(end);
        match text.iter().position(|byte| *byte == b'=') {
            Some(at) if is_parameter && is_secret(&text[..at]) => {
                escape(out, &text[..=at]);
                out.extend_from_slice(REDACTED);
            }
            _ => escape(out, text),
        }
        out.extend_from_slice(separator);
        is_parameter = separator == b";";
    }
}

/// A path with `[redacted]` in place of parameters that may be credentials, not escaped for any form.
pub fn redact_path(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len());
    path(&mut out, plain, |out, part| out.extend_from_slice(part));
    out
}

/// A query with `[redacted]` in place of values that may be credentials, as it stands in the access log, but not
/// escaped for any form.
pub fn redact_query(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len());
    query(&mut out, plain, |out, part| out.extend_from_slice(part));
    out
}

/// The value of a field of a request or response as people may see it: `[redacted]` where the field's name, or the
/// value's first word, says that it is a credential; else with the secrets of a URL in it redacted.
pub fn redact_field<'a>(name: &str, value: &'a [u8]) -> Cow<'a, [u8]> {
    if credentials::may_be_secret(name) || name.eq_ignore_ascii_case(SUBPROTOCOLS) || has_scheme(value) {
        return Cow::Borrowed(REDACTED);
    }
    if !value.iter().any(|byte| matches!(byte, b'?' | b';' | b'#' | b'@')) {
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

/// Writes a URL, escaped, with its user and the secrets of its path, query and fragment redacted.
pub(crate) fn url(out: &mut Vec<u8>, url: &[u8], escape: Escape) {
    let mut rest = url;
    if let Some(at) = user_of(url) {
        escape(out, &url[..at.start]);
        out.extend_from_slice(REDACTED);
        rest = &url[at.end..];
    }
    let end = rest.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(rest.len());
    path(out, &rest[..end], escape);
    query(out, &rest[end..], escape);
}

/// Where the user and the password of a URL stand, without the `@` behind them (RFC 3986 §3.2.1).
fn user_of(url: &[u8]) -> Option<Range<usize>> {
    let start = url.windows(3).position(|three| three == b"://")? + 3;
    let rest = &url[start..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let at = rest[..end].iter().rposition(|byte| *byte == b'@')?;
    Some(start..start + at)
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
        assert_eq!(shown("Accept", "text/html;q=0.9, a/b; c=d"), "text/html;q=0.9, a/b; c=d");
        assert_eq!(shown("Sec-WebSocket-Protocol", "chat, token.abc"), "[redacted]");
        for (value, told) in [
            ("https://ada:pw@a.test/x?a=1", "https://[redacted]@a.test/x?a=1"),
            ("https://a.test/x;jsessionid=1", "https://a.test/x;jsessionid=[redacted]"),
            ("https://a.test/x#access_token=1&b=2", "https://a.test/x#access_token=[redacted]&b=2"),
            ("https://a.test/x?a=1#id_token=2", "https://a.test/x?a=1#id_token=[redacted]"),
            ("/x?token=1?2#3", "/x?token=[redacted]"),
            ("/x?to=https://b.test/?sig=1&c=2", "/x?to=https://b.test/?sig=[redacted]&c=2"),
            ("https://a.test/@ada?to=b@c", "https://a.test/@ada?to=b@c"),
            ("ada@a.test", "ada@a.test"),
        ] {
            assert_eq!(shown("Location", value), told);
        }
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
    fn parameters_of_a_path_are_redacted_by_their_names() {
        for (plain, shown) in [
            ("/a;jsessionid=1/b;token=2;v=3", "/a;jsessionid=[redacted]/b;token=[redacted];v=3"),
            ("/a;%74oken=1", "/a;%74oken=[redacted]"),
            ("/token=1/a;b/key=2;", "/token=1/a;b/key=2;"),
            ("/a;;token=", "/a;;token=[redacted]"),
            ("/a", "/a"),
        ] {
            let told = String::from_utf8(redact_path(plain.as_bytes())).unwrap();
            assert_eq!(told, shown, "{plain}");
        }
    }

    #[test]
    fn urls_are_redacted_in_their_query() {
        let mut out = Vec::new();
        url(&mut out, b"https://a/key=1?key=1", escape::json);
        assert_eq!(out, b"https://a/key=1?key=[redacted]");
    }
}
