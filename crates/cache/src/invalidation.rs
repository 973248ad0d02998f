//! Which stored responses an unsafe request takes away (RFC 9111 §4.4).

use crate::key::Url;
use thalweg_http::{Method, Span, normalize_path, parse_authority, write_normal_host};

/// Longest reference in `Location` or `Content-Location` that is looked at, in bytes.
const MOST_REFERENCE: usize = 8 * 1024;

/// Whether what is stored for the URL of a request goes: the method may change something, or is not known, and the
/// service has not refused it.
pub fn invalidates(method: Method, status: u16) -> bool {
    !method.is_safe() && (200..400).contains(&status)
}

/// Another URL of the same origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// Its path in normal form.
    pub path: Vec<u8>,
    /// Its query.
    pub query: Option<Vec<u8>>,
}

/// The URL that `Location` or `Content-Location` names, if it has the origin of the request: others are not to be taken
/// away (RFC 9111 §4.4). `None` also for what cannot be read.
pub fn same_origin(url: &Url<'_>, reference: &[u8]) -> Option<Target> {
    if reference.len() > MOST_REFERENCE {
        return None;
    }
    let reference = reference.split(|byte| *byte == b'#').next()?;
    let (scheme, rest) = split_scheme(reference);
    if scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case(url.scheme.as_bytes())) {
        return None;
    }
    match (scheme, rest.strip_prefix(b"//")) {
        (_, Some(rest)) => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
            is_authority_of(url, &rest[..end]).then_some(())?;
            match rest.get(end) {
                // An empty path is the root.
                Some(b'?') => resolve(url, &[b"/", &rest[end..]].concat()),
                Some(_) => resolve(url, &rest[end..]),
                None => resolve(url, b"/"),
            }
        }
        // `http:a` is read in more than one way.
        (Some(_), None) => None,
        (None, None) => resolve(url, rest),
    }
}

/// `http` and what follows the colon.
fn split_scheme(reference: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let end = reference.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(byte));
    match end {
        Some(end) if end > 0 && reference[end] == b':' => (Some(&reference[..end]), &reference[end + 1..]),
        _ => (None, reference),
    }
}

fn is_authority_of(url: &Url<'_>, text: &[u8]) -> bool {
    let Ok(authority) = parse_authority(text, Span::new(0, text.len())) else { return false };
    let mut host = Vec::new();
    write_normal_host(authority.host.of(text), &mut host);
    let usual = if url.scheme == "https" { 443 } else { 80 };
    host == url.host && authority.port.unwrap_or(usual) == url.port
}

/// Resolves a path and query against those of the request (RFC 3986 §5.2.2).
fn resolve(url: &Url<'_>, reference: &[u8]) -> Option<Target> {
    let question = memchr::memchr(b'?', reference);
    let (path, query) = match question {
        Some(at) => (&reference[..at], Some(&reference[at + 1..])),
        None => (reference, None),
    };
    let (joined, query) = match path.first() {
        None => (url.path.to_vec(), query.or(url.query)),
        Some(b'/') => (path.to_vec(), query),
        Some(_) => {
            let folder = memchr::memrchr(b'/', url.path).map_or(0, |slash| slash + 1);
            ([&url.path[..folder], path].concat(), query)
        }
    };
    let mut normal = Vec::with_capacity(joined.len());
    normalize_path(&joined, &mut normal).ok()?;
    Some(Target { path: normal, query: query.map(<[u8]>::to_vec) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Url<'static> =
        Url { scheme: "https", host: b"a.example", port: 443, path: b"/b/c", query: Some(b"d=1") };

    fn target(reference: &str) -> Option<String> {
        let target = same_origin(&BASE, reference.as_bytes())?;
        let query =
            target.query.map_or(String::new(), |query| format!("?{}", String::from_utf8_lossy(&query)));
        Some(format!("{}{query}", String::from_utf8_lossy(&target.path)))
    }

    #[test]
    fn references_are_resolved_as_rfc_3986_says() {
        for (reference, expected) in [
            ("", "/b/c?d=1"),
            ("#x", "/b/c?d=1"),
            ("?e", "/b/c?e"),
            ("/x", "/x"),
            ("/x?y=1#z", "/x?y=1"),
            ("x", "/b/x"),
            ("./x", "/b/x"),
            ("../x/./y/..", "/x/"),
            ("https://a.example", "/"),
            ("https://a.example?x", "/?x"),
            ("HTTPS://A.EXAMPLE:443/x", "/x"),
            ("//a.example./x", "/x"),
            ("/%7ex", "/~x"),
        ] {
            assert_eq!(target(reference).as_deref(), Some(expected), "{reference}");
        }
    }

    #[test]
    fn other_origins_are_left_alone() {
        for reference in [
            "http://a.example/x",
            "https://b.example/x",
            "https://a.example:8443/x",
            "https://a.example.evil/x",
            "https://u@a.example/x",
            "//b.example/x",
            "///x",
            "https:x",
            "https:/x",
            "mailto:a@b",
            "javascript:alert(1)",
            "/../x",
            "//",
            "\\\\b.example\\x",
        ] {
            assert_eq!(target(reference), None, "{reference}");
        }
        assert_eq!(target(&"x".repeat(MOST_REFERENCE + 1)), None);
    }

    #[test]
    fn only_methods_that_may_change_something_take_away_and_only_if_they_succeed() {
        for method in [Method::Post, Method::Put, Method::Delete, Method::Patch, Method::Other] {
            assert!(invalidates(method, 200) && invalidates(method, 303));
            assert!(!invalidates(method, 404) && !invalidates(method, 500) && !invalidates(method, 100));
        }
        for method in [Method::Get, Method::Head, Method::Options, Method::Trace] {
            assert!(!invalidates(method, 200));
        }
    }
}
