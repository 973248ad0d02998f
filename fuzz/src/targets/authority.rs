//! Authorities, as they stand in `Host`, absolute-form targets and CONNECT.
//!
//! Input: an authority. Asserts: host and port lie inside it and make it up; the normal form of the host
//! is accepted again, stays as it is, and holds only lower-case letters, digits, `-._` or a
//! bracketed address as the standard library writes it; what we accept, the `http` crate accepts with
//! the same host and port.

use std::net::Ipv6Addr;
use thalweg_http::{Span, parse_authority, write_normal_host};

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let buffer = [b"Host:", input, b"\r\n"].concat();
    let span = Span::new(5, 5 + input.len());
    let Ok(authority) = parse_authority(&buffer, span) else { return };
    let host = authority.host.of(&buffer);
    assert!(authority.host.start == span.start && authority.host.end <= span.end && !host.is_empty());
    let rest = &input[host.len()..];
    match authority.port {
        // A port may be empty (RFC 3986 §3.2.3).
        None => assert!(rest.is_empty() || rest == b":"),
        Some(port) => {
            let digits = rest.strip_prefix(b":").and_then(|digits| std::str::from_utf8(digits).ok());
            assert_eq!(digits.and_then(|digits| digits.parse().ok()), Some(port));
        }
    }
    assert_eq!(authority.is_ipv6, host[0] == b'[');
    let mut once = Vec::new();
    write_normal_host(host, &mut once);
    let mut twice = Vec::new();
    write_normal_host(&once, &mut twice);
    assert_eq!(once, twice, "not idempotent");
    let again = parse_authority(&once, Span::new(0, once.len()));
    assert_eq!(again.map(|again| (again.host.len(), again.port)).ok(), Some((once.len(), None)));
    let text = std::str::from_utf8(&once).expect("a normal host is ASCII");
    match text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => {
            assert_eq!(inner.parse::<Ipv6Addr>().map(|address| address.to_string()), Ok(inner.to_owned()))
        }
        None => {
            assert!(
                text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b))
            );
            assert!(!text.starts_with('.') && !text.ends_with('.') && !text.contains(".."));
        }
    }
    let theirs = http::uri::Authority::try_from(input).expect("the http crate accepts it");
    assert_eq!(theirs.host().as_bytes(), host);
    assert_eq!(theirs.port_u16(), authority.port);
}
