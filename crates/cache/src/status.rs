//! What a cache tells of an exchange in `Cache-Status` (RFC 9211).

use crate::lookup::Forward;
use crate::storable::NotStored;
use thalweg_http::h1::encode::write_decimal;
use thalweg_http::octet;

/// Bytes of a key that are told.
const MOST_KEY_TEXT: usize = 256;

/// What a cache has done with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Handled {
    /// It has answered it without the service.
    Hit,
    /// It has asked the service.
    Forwarded {
        /// Why.
        why: Forward,
        /// What the service has answered; `None`: nothing, or the same as the client gets.
        status: Option<u16>,
        /// The response is stored.
        stored: bool,
        /// The request has waited for another one's response.
        collapsed: bool,
    },
}

/// What is said beside that (RFC 9211 §2.8).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Detail {
    /// Why the response was not stored.
    NotStored(NotStored),
    /// It was stored on the disk, and not in memory.
    Disk,
}

impl Detail {
    const fn token(self) -> &'static str {
        match self {
            Self::NotStored(why) => why.token(),
            Self::Disk => "disk",
        }
    }
}

/// One member of `Cache-Status`.
#[derive(Clone, Copy, Debug)]
pub struct CacheStatus<'a> {
    /// The name of the cache.
    pub name: &'a str,
    /// What it has done.
    pub handled: Handled,
    /// Seconds that the response stays fresh, negative where it is stale; of a stored response only.
    pub ttl: Option<i64>,
    /// The key as text; `None`: it is not told.
    pub key: Option<&'a str>,
    /// Why it was not stored, or where it was.
    pub detail: Option<Detail>,
}

impl CacheStatus<'_> {
    /// Appends the value of the field.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_name(self.name, out);
        match self.handled {
            Handled::Hit => out.extend_from_slice(b"; hit"),
            Handled::Forwarded { why, status, stored, collapsed } => {
                out.extend_from_slice(b"; fwd=");
                out.extend_from_slice(why.token().as_bytes());
                if let Some(status) = status {
                    out.extend_from_slice(b"; fwd-status=");
                    write_decimal(out, u64::from(status));
                }
                out.extend_from_slice(if stored { b"; stored" } else { b"" });
                out.extend_from_slice(if collapsed { b"; collapsed" } else { b"" });
            }
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(if ttl < 0 { b"; ttl=-" } else { b"; ttl=" });
            write_decimal(out, ttl.unsigned_abs());
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b"; key=");
            write_string(key, out);
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(detail.token().as_bytes());
        }
    }
}

/// A token where it is one, else a string (RFC 9211 §2).
fn write_name(name: &str, out: &mut Vec<u8>) {
    let is_part = |byte: u8| octet::is_token(byte) || byte == b':' || byte == b'/';
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '*');
    if begins && name.bytes().all(is_part) {
        out.extend_from_slice(name.as_bytes());
    } else {
        write_string(name, out);
    }
}

/// A string of a structured field (RFC 8941 §3.3.3); what it cannot have is a question mark.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes().take(MOST_KEY_TEXT) {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(status: CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    const HIT: CacheStatus<'static> =
        CacheStatus { name: "thalweg", handled: Handled::Hit, ttl: Some(30), key: None, detail: None };

    #[test]
    fn a_hit_says_how_long_it_is_fresh() {
        assert_eq!(text(HIT), "thalweg; hit; ttl=30");
        assert_eq!(text(CacheStatus { ttl: Some(-5), ..HIT }), "thalweg; hit; ttl=-5");
        assert_eq!(
            text(CacheStatus { ttl: Some(i64::MIN), ..HIT }),
            "thalweg; hit; ttl=-9223372036854775808"
        );
    }

    #[test]
    fn what_is_forwarded_says_why() {
        let handled =
            Handled::Forwarded { why: Forward::Stale, status: Some(304), stored: true, collapsed: false };
        assert_eq!(
            text(CacheStatus { handled, ..HIT }),
            "thalweg; fwd=stale; fwd-status=304; stored; ttl=30"
        );
        let handled =
            Handled::Forwarded { why: Forward::UriMiss, status: None, stored: false, collapsed: true };
        let status =
            CacheStatus { handled, ttl: None, detail: Some(Detail::NotStored(NotStored::SetCookie)), ..HIT };
        assert_eq!(text(status), "thalweg; fwd=uri-miss; collapsed; detail=set-cookie");
    }

    #[test]
    fn names_and_keys_are_those_of_structured_fields() {
        assert_eq!(text(CacheStatus { name: "a b", ttl: None, ..HIT }), "\"a b\"; hit");
        assert_eq!(text(CacheStatus { name: "1a", ttl: None, ..HIT }), "\"1a\"; hit");
        let status = CacheStatus { key: Some("http://a/\"\\\u{e4}\n"), ttl: None, ..HIT };
        assert_eq!(text(status), "thalweg; hit; key=\"http://a/\\\"\\\\???\"");
    }

    #[test]
    fn every_reason_is_a_token_of_its_own() {
        let mut tokens: Vec<_> = NotStored::ALL.iter().map(|reason| reason.token()).collect();
        let is_token = |token: &&str| token.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(tokens.iter().all(is_token));
        assert!(NotStored::ALL.iter().all(|reason| reason.sentence().ends_with('.')));
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), NotStored::ALL.len());
    }
}
