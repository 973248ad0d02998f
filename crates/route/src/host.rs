//! Host patterns as a route states them.
//!
//! Configuration parses them; [`crate::Table::build`] files routes under them. Invariant: the text
//! inside is in the same normal form as the host of a request: lower case, no trailing dot, no port,
//! punycode untouched, IPv6 in brackets and in the form of RFC 5952.

use std::fmt;
use std::net::Ipv6Addr;

/// Longest host name, in bytes (RFC 1035 §2.3.4, without the root label).
pub const HOST_LENGTH: usize = 253;
/// Longest label of a host name, in bytes (RFC 1035 §2.3.4).
pub const LABEL_LENGTH: usize = 63;

/// The hosts that a route serves.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum HostPattern {
    /// `*`: every host, also a missing one.
    Any,
    /// `example.com`: this name and no other.
    Exact(String),
    /// `*.example.com`, kept as `example.com`: one or more labels in front of it, never the name itself.
    Wildcard(String),
}

impl HostPattern {
    /// Parses `*`, `*.example.com`, `example.com`, `10.0.0.1` or `[::1]` and brings it to normal form.
    ///
    /// # Errors
    /// A sentence that says what is wrong and, where it can be guessed, what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(suffix) = text.strip_prefix("*.") {
            return normal_name(text, suffix).map(Self::Wildcard);
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(format!("`{text}`: an IPv6 address stands in brackets; write `[{text}]`"));
        }
        if let Some(inner) = text.strip_prefix('[') {
            return match inner.strip_suffix(']').map(str::parse::<Ipv6Addr>) {
                Some(Ok(address)) => Ok(Self::Exact(format!("[{address}]"))),
                _ => Err(format!("`{text}` is not an IPv6 address in brackets, for example `[::1]`")),
            };
        }
        normal_name(text, text).map(Self::Exact)
    }

    /// Whether a host in normal form, without port, fits this pattern.
    pub fn matches(&self, host: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(name) => host == name.as_bytes(),
            Self::Wildcard(suffix) => host
                .strip_suffix(suffix.as_bytes())
                .and_then(|front| front.strip_suffix(b"."))
                .is_some_and(|labels| !labels.is_empty()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(name) => f.write_str(name),
            Self::Wildcard(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

/// The normal form of `name`, a part of the pattern `text`.
fn normal_name(text: &str, name: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a host is missing, for example `example.com` or `*.example.com`".into());
    }
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        return Err(format!("`{text}` is a URL; a host pattern is only its host, `{host}`"));
    }
    if name.contains('/') {
        return Err(format!("`{text}` holds a path; the path has its own key"));
    }
    if let Some((host, port)) = name.split_once(':') {
        return Err(format!(
            "`{text}` holds a port (`{port}`); ports belong to listeners, write only the host, ending in `{host}`"
        ));
    }
    if name.contains('*') {
        return Err(format!("`{text}`: `*` stands for the first labels only, as in `*.example.com`"));
    }
    if !name.is_ascii() {
        return Err(format!("`{text}` is not ASCII; write the punycode form that clients send (`xn--…`)"));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.len() > HOST_LENGTH {
        return Err(format!("`{text}` is longer than {HOST_LENGTH} bytes"));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(format!("`{text}` has an empty label"));
        }
        if label.len() > LABEL_LENGTH {
            return Err(format!("`{label}` in `{text}` is longer than {LABEL_LENGTH} bytes"));
        }
        if let Some(bad) = label.bytes().find(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'-' | b'_')) {
            return Err(format!(
                "`{}` cannot stand in a host name (`{text}`)",
                char::from(bad).escape_default()
            ));
        }
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> HostPattern {
        HostPattern::parse(text).unwrap()
    }

    #[test]
    fn brings_names_to_normal_form() {
        assert_eq!(parsed("*"), HostPattern::Any);
        assert_eq!(parsed("Shop.Example.COM."), HostPattern::Exact("shop.example.com".into()));
        assert_eq!(parsed("*.Example.com"), HostPattern::Wildcard("example.com".into()));
        assert_eq!(parsed("XN--bcher-kva.example"), HostPattern::Exact("xn--bcher-kva.example".into()));
        assert_eq!(parsed("[0:0::A]"), HostPattern::Exact("[::a]".into()));
        assert_eq!(parsed("_dmarc.10.0.0.1"), HostPattern::Exact("_dmarc.10.0.0.1".into()));
    }

    #[test]
    fn refuses_what_could_never_match() {
        let long_label = "a".repeat(64);
        let long_name = "a.".repeat(127) + "com";
        for text in [
            "",
            ".",
            "*.",
            "*..com",
            "a..b",
            ".a",
            "a.*.b",
            "*a.com",
            "**",
            "*.*.com",
            "a b",
            "a@b",
            "bücher.de",
            "[::1",
            "[1.2.3.4]",
            "[::1]:80",
            &long_label,
            &long_name,
            "a\0b",
            "a..",
        ] {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn says_what_to_write_instead() {
        assert!(HostPattern::parse("example.com:80").unwrap_err().contains("listeners"));
        assert!(HostPattern::parse("http://example.com/x").unwrap_err().contains("`example.com`"));
        assert!(HostPattern::parse("::1").unwrap_err().contains("`[::1]`"));
        assert!(HostPattern::parse("example.com/x").unwrap_err().contains("path"));
    }

    #[test]
    fn a_wildcard_stands_for_one_or_more_labels() {
        let pattern = parsed("*.example.com");
        assert!(pattern.matches(b"a.example.com"));
        assert!(pattern.matches(b"a.b.example.com"));
        assert!(!pattern.matches(b"example.com"));
        assert!(!pattern.matches(b".example.com"));
        assert!(!pattern.matches(b"badexample.com"));
        assert!(HostPattern::Any.matches(b""));
    }

    #[test]
    fn the_written_form_parses_to_the_same_pattern() {
        for text in ["*", "a.b", "*.a.b", "[::1]"] {
            assert_eq!(parsed(text).to_string(), text);
        }
    }
}
