//! Authorities: the `host[:port]` of `Host`, absolute-form targets and CONNECT (RFC 3986 §3.2).
//!
//! Called once per request, before routing. Narrower than the RFC: no userinfo, no escapes, no
//! sub-delimiters, no zone ids, no future address forms. What remains has one normal form.

use std::io::Write as _;
use std::net::Ipv6Addr;

use thalweg_core::Fault;

use crate::octet;
use crate::span::Span;

/// Longest host, in bytes: a full domain name with its last dot.
pub const HOST_MAX: usize = 254;

/// A host and perhaps a port.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Authority {
    /// The host as written; an IPv6 address with its brackets. Never empty.
    pub host: Span,
    /// The port, where one is written: 0–65535.
    pub port: Option<u16>,
    /// Whether the host is an IPv6 address in brackets.
    pub is_ipv6: bool,
    /// Whether the text as it stands is the normal form, host and port, which nearly all are. True
    /// promises that [`write_normal_host`] would write the same host; false promises nothing.
    pub is_normal: bool,
}

/// Reads an authority.
///
/// # Errors
/// 400 for anything but a name of letters, digits, `-`, `_` and single dots (one may end it), an
/// IPv4 address or an IPv6 address in brackets, and a port of at most five digits (A13). An empty port
/// (`a:`, RFC 3986 §3.2.3) is none.
pub fn parse_authority(bytes: &[u8], span: Span) -> Result<Authority, Fault> {
    let text = span.of(bytes);
    let is_ipv6 = text.first() == Some(&b'[');
    let len = match is_ipv6 {
        true => memchr::memchr(b']', text).map_or(text.len(), |end| end + 1),
        false => memchr::memchr(b':', text).unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(len);
    let sound = if is_ipv6 { ipv6(host).is_some() } else { is_name(host) };
    if !sound {
        return Err(host_fault(text));
    }
    let start = span.start as usize;
    let port = parse_port(rest)?;
    let lower = !is_ipv6 && !host.ends_with(b".") && !host.iter().any(u8::is_ascii_uppercase);
    let is_normal = lower && (rest.is_empty() || port.is_some_and(|port| port != 80 && rest[1] != b'0'));
    Ok(Authority { host: Span::new(start, start + len), port, is_ipv6, is_normal })
}

/// Appends the normal form of a host that [`parse_authority`] accepted: lower case, without one last
/// dot; an IPv6 address in the form of RFC 5952 and in brackets.
pub fn write_normal_host(host: &[u8], out: &mut Vec<u8>) {
    if let Some(address) = ipv6(host) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "[{address}]");
        return;
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    out.extend(host.iter().map(u8::to_ascii_lowercase));
}

fn ipv6(host: &[u8]) -> Option<Ipv6Addr> {
    let inner = host.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inner).ok()?.parse().ok()
}

/// A name of non-empty labels; IPv4 addresses are such names too.
fn is_name(host: &[u8]) -> bool {
    let name = host.strip_suffix(b".").unwrap_or(host);
    let mut label = 0;
    for &byte in name {
        if !octet::is_host(byte) || (byte == b'.' && label == 0) {
            return false;
        }
        label = if byte == b'.' { 0 } else { label + 1 };
    }
    label > 0 && host.len() <= HOST_MAX
}

fn parse_port(rest: &[u8]) -> Result<Option<u16>, Fault> {
    let digits = match rest {
        [] | [b':'] => return Ok(None),
        [b':', digits @ ..] => digits,
        _ => return Err(Fault::request(400, "characters after the host's closing bracket")),
    };
    let port = match digits.len() {
        1..=5 => digits
            .iter()
            .try_fold(0_u32, |sum, &byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0'))),
        _ => None,
    };
    match port.map(u16::try_from) {
        Some(Ok(port)) => Ok(Some(port)),
        _ => Err(Fault::request(400, "a port that is not a number within 0 and 65535")),
    }
}

#[cold]
fn host_fault(text: &[u8]) -> Fault {
    Fault::request(
        400,
        match text {
            [] => "an empty host",
            _ if text.contains(&b'@') => "userinfo in the host",
            _ if text.contains(&b'/') => "a path in the host",
            _ if text.contains(&b',') => "a list of hosts",
            [b'[', ..] => "a malformed IPv6 address in the host",
            _ => "a host that is neither a name nor an address",
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<Authority, Fault> {
        parse_authority(text, Span::new(0, text.len()))
    }

    fn normal(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_normal_host(parse(text).unwrap().host.of(text), &mut out);
        out
    }

    #[test]
    fn reads_names_addresses_and_ports() {
        for (text, host, port) in [
            ("example.com", "example.com", None),
            ("a_b-c.9", "a_b-c.9", None),
            ("localhost:0", "localhost", Some(0)),
            ("10.0.0.1:65535", "10.0.0.1", Some(65535)),
            ("[::1]", "[::1]", None),
            ("[2001:db8::a]:443", "[2001:db8::a]", Some(443)),
            ("example.com.:80", "example.com.", Some(80)),
            ("a:", "a", None),
            ("[::1]:", "[::1]", None),
        ] {
            let authority = parse(text.as_bytes()).unwrap();
            assert_eq!(authority.host.of(text.as_bytes()), host.as_bytes());
            assert_eq!((authority.port, authority.is_ipv6), (port, text.starts_with('[')));
            assert!(!authority.is_normal || !text.ends_with(':'), "an empty port is left out: {text}");
        }
    }

    /// Hostile input A13.
    #[test]
    fn refuses_hosts_that_parsers_read_differently() {
        for text in [
            "",
            ":80",
            "good@evil",
            "user:pass@host",
            "a/b",
            "a b",
            " a",
            "a, b",
            "a,b",
            "a:99999",
            "a:65536",
            "a:+1",
            "a:1 ",
            "a:123456",
            "a:b",
            "[]",
            "[::1",
            "::1",
            "[::1]x",
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]",
            "[v1.a]",
            "[127.0.0.1]",
            "a..b",
            ".a",
            ".",
            "..",
            "a..",
            "a%41",
            "*.example.com",
            "a\\b",
            "a?b",
            "a#b",
            "a\0",
            "a\u{e9}",
            "a:80:80",
            "a;b",
            "a'b",
            "[[::1]]",
        ] {
            assert_eq!(parse(text.as_bytes()).map_err(|fault| fault.status), Err(400), "{text:?}");
        }
        let long = [b'a'; HOST_MAX + 1];
        assert!(parse(&long).is_err() && parse(&long[1..]).is_ok());
    }

    /// Hostile input B3.
    #[test]
    fn the_normal_form_is_lower_case_without_a_last_dot() {
        assert_eq!(normal(b"ExAmple.COM.:80"), b"example.com");
        assert_eq!(normal(b"XN--Bcher-KVA.example"), b"xn--bcher-kva.example");
        assert_eq!(normal(b"[2001:DB8:0:0:0:0:0:A]:1"), b"[2001:db8::a]");
        assert_eq!(normal(b"127.0.0.1"), b"127.0.0.1");
    }
}
