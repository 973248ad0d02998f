//! URLs that the proxy itself calls: webhooks today.
//!
//! Read once, when the configuration is. Strict (RFC 3986, RFC 9110 §4.2): what two programs could
//! read in two ways is refused, so that a call goes where the configuration says.

use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use thalweg_core::written::Partly;

/// Longest URL, in bytes.
pub const URL: usize = 8 * 1024;

/// An `http://` or `https://` URL with a host.
#[derive(Clone, Eq, PartialEq)]
pub struct HttpUrl {
    tls: bool,
    host: Box<str>,
    port: u16,
    target: Box<str>,
}

impl HttpUrl {
    /// Reads `http://host[:port][/path][?query]`, or the same with `https`.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it: a URL may hold a secret.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > URL {
            return Err("the URL is longer than 8 KiB");
        }
        let scheme = |name: &str| text.get(..name.len()).is_some_and(|s| s.eq_ignore_ascii_case(name));
        let (tls, rest) = match () {
            () if scheme("https://") => (true, &text[8..]),
            () if scheme("http://") => (false, &text[7..]),
            () => return Err("the URL must begin with `http://` or `https://`"),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
            return Err("the URL holds a character that must be written as `%XX`");
        }
        if rest.contains('#') {
            return Err("a fragment (`#…`) is never sent; leave it out");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a user name and password in the URL are not supported");
        }
        let (host, port) = split(authority)?;
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: host.to_ascii_lowercase().into(), port, target: target.into() })
    }

    /// Whether it is called through TLS.
    pub fn tls(&self) -> bool {
        self.tls
    }

    /// The host: a name or an address, an IPv6 address without brackets, lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 1–65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path and query; begins with `/`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// All of it, as it is called. It may hold a secret.
    pub fn text(&self) -> String {
        format!("{self}{}", self.target)
    }

    /// The value of the `Host` field (RFC 9110 §7.2): without the port where it is the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        if self.port == if self.tls { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

/// Shows scheme, host and port: path and query of a webhook are often its secret.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn split(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the `[` of the address has no `]`")?;
            host.parse::<Ipv6Addr>().map_err(|_| "what stands in brackets is not an IPv6 address")?;
            match (after, after.strip_prefix(':')) {
                ("", _) => (host, None),
                (_, Some(port)) => (host, Some(port)),
                _ => return Err("after `]` only a port may stand"),
            }
        }
        None => {
            let (host, port) = authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
            check_host(host)?;
            (host, port)
        }
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse().ok().filter(|number| digits && *number != 0);
    number.map(|number| (host, Some(number))).ok_or("the port must be a number from 1 to 65535")
}

/// A name of DNS or an IPv4 address in its usual form.
fn check_host(host: &str) -> Result<(), &'static str> {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    if host.is_empty() {
        return Err("the URL has no host");
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.len() > 253 || !name.split('.').all(label) {
        return Err("the host is neither a name nor an address");
    }
    // `0x7f.1` and `127.1` are addresses to some resolvers and names to others.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric =
        last.bytes().all(|byte| byte.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x");
    if numeric && host.parse::<Ipv4Addr>().is_err() {
        return Err("the host is neither a name nor an IPv4 address of four numbers");
    }
    Ok(())
}

/// Without path and query, which are often secret; they are compared.
impl Serialize for HttpUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Partly::of(self, self.text().as_str()).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_scheme_host_port_and_target() {
        for (text, tls, host, port, target, authority) in [
            ("http://a", false, "a", 80, "/", "a"),
            ("https://Ops.Example.com/hook", true, "ops.example.com", 443, "/hook", "ops.example.com"),
            ("HTTP://a:8080?x=1&y", false, "a", 8080, "/?x=1&y", "a:8080"),
            ("https://a:80/", true, "a", 80, "/", "a:80"),
            ("http://[::1]:9000/a/b", false, "::1", 9000, "/a/b", "[::1]:9000"),
            ("http://[fe80::1]", false, "fe80::1", 80, "/", "[fe80::1]"),
            ("http://127.0.0.1:65535/%20", false, "127.0.0.1", 65535, "/%20", "127.0.0.1:65535"),
            ("http://my_host.internal.", false, "my_host.internal.", 80, "/", "my_host.internal."),
            ("http://a/:@x", false, "a", 80, "/:@x", "a"),
        ] {
            let url = HttpUrl::parse(text).expect(text);
            assert_eq!(
                (url.tls(), url.host(), url.port(), url.target()),
                (tls, host, port, target),
                "{text}"
            );
            assert_eq!(url.authority(), authority);
        }
    }

    #[test]
    fn refuses_what_could_be_read_in_two_ways() {
        for text in [
            "",
            "a",
            "//a",
            "ftp://a",
            "http:/a",
            "http://",
            "http:///a",
            "http://:80",
            "http://a:",
            "http://a:0",
            "http://a:65536",
            "http://a:+80",
            "http://a:080000",
            "http://a:80:80",
            "http://u@a",
            "http://u:p@a",
            "http://a#b",
            "http://a/ b",
            "http://a/\r\nX: y",
            "http://ä",
            "http://a/ä",
            "http://a\\b",
            "http://[::1",
            "http://[a]",
            "http://[::1]x",
            "http://[::1]:",
            "http://::1/",
            "http://127.1",
            "http://0x7f000001",
            "http://2130706433",
            "http://1.2.3.4.",
            "http://a..b",
            "http://%61",
            "ä://a",
        ] {
            assert!(HttpUrl::parse(text).is_err(), "{text}");
        }
        assert!(HttpUrl::parse(&format!("http://a/{}", "x".repeat(URL))).is_err());
    }

    #[test]
    fn path_and_query_are_not_shown() {
        let url = HttpUrl::parse("https://hooks.example.com/T0/secret?token=secret").unwrap();
        assert_eq!(format!("{url} {url:?}"), "https://hooks.example.com https://hooks.example.com");
    }
}
