//! Addresses and URLs: where to listen and where to connect.
//!
//! Pure functions from text to plan types; a [`Flaw`] says what is wrong and what to write.

use crate::diagnose::Class;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_proxy::plan::ListenAddress;
use thalweg_upstream::Address;

/// Longest path of a unix socket, in bytes (`sun_path` without its NUL).
const UNIX_PATH: usize = 107;
/// Longest host name and longest label of one, in bytes (RFC 1035 §2.3.4).
const HOST_NAME: usize = 253;
const HOST_LABEL: usize = 63;
/// The ports of `http` and `https` (RFC 9110 §4.2.1, §4.2.2).
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;
/// Schemes of the design that have not landed.
const LATER: &[&str] = &["h2c", "grpc", "grpcs", "ws", "wss", "tls", "http3"];

/// Why a text is not an address or URL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Flaw {
    pub(super) class: Class,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

fn flaw<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, Flaw> {
    Err(Flaw { class: Class::Invalid, message: message.into(), help: Some(help.into()) })
}

/// `:8080`, `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`; port 0 lets the kernel choose.
pub(super) fn listen(text: &str) -> Result<ListenAddress, Flaw> {
    const FORMS: &str = "write `:8080`, `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`";
    if let Some(path) = text.strip_prefix("unix:") {
        return unix_path(path).map(ListenAddress::Unix);
    }
    if let Some((_, rest)) = text.split_once("://") {
        let rest = rest.trim_end_matches('/');
        return flaw(format!("`{text}` is a URL, not an address"), format!("write `{rest}`"));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(ListenAddress::Tcp { address, dual_stack: false });
    }
    if let Ok(port) = text.parse::<u16>() {
        return flaw(format!("`{text}` is a port, not an address"), format!("write `\":{port}\"`"));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return flaw("an IPv6 address stands in brackets", "write for example `[::1]:8080`");
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        let example = SocketAddr::new(ip, 8080);
        return flaw(format!("`{text}` has no port"), format!("write for example `{example}`"));
    }
    if text.is_empty() {
        return flaw("the address is empty", FORMS);
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return flaw(format!("`{text}` is not an address"), FORMS);
    };
    let Some(port) = number(port) else {
        return flaw(format!("`{port}` is not a port"), "a port is a number from 0 to 65535");
    };
    match host {
        "" => {
            let address = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
            Ok(ListenAddress::Tcp { address, dual_stack: true })
        }
        "*" => flaw("`*` is not an address", format!("write `\":{port}\"` for every interface")),
        "localhost" => flaw("host names are not resolved here", format!("write `127.0.0.1:{port}`")),
        _ if host.parse::<Ipv6Addr>().is_ok() => {
            flaw("an IPv6 address stands in brackets", format!("write `[{host}]:{port}`"))
        }
        _ => flaw(format!("`{host}` is not an IP address"), FORMS),
    }
}

fn unix_path(path: &str) -> Result<PathBuf, Flaw> {
    if !path.starts_with('/') {
        return flaw("the path of a unix socket must be absolute", "write `unix:/run/app.sock`");
    }
    if path.len() > UNIX_PATH || path.ends_with('/') {
        let help = format!("it names a file and has at most {UNIX_PATH} bytes");
        return flaw("this cannot be the path of a unix socket", help);
    }
    Ok(PathBuf::from(path))
}

/// `http://host:port`, `https://host:port`, `tcp://host:port`, `udp://host:port` or `unix:/path`: the URL in normal
/// form and where to connect.
pub(super) fn endpoint(text: &str) -> Result<(Arc<str>, Address), Flaw> {
    const FORMS: &str =
        "write `http://host:port`, `https://host:port`, `tcp://host:port`, `udp://host:port` or `unix:/path`";
    if let Some(path) = text.strip_prefix("unix:") {
        return unix_path(path).map(|path| (text.into(), Address::Unix(Arc::new(path))));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let help = if text.is_empty() || text.contains(char::is_whitespace) || text.starts_with('/') {
            FORMS.to_owned()
        } else {
            format!("write `http://{text}`")
        };
        return flaw("the scheme of this URL is missing", help);
    };
    let scheme = scheme.to_ascii_lowercase();
    if LATER.contains(&scheme.as_str()) {
        let message = format!("`{scheme}` endpoints are not available in this version");
        let help = Some("use `http://…`, `https://…`, `tcp://…`, `udp://…` or `unix:/…`".into());
        return Err(Flaw { class: Class::Unavailable, message, help });
    }
    let default_port = match scheme.as_str() {
        "http" => HTTP_PORT,
        "https" => HTTPS_PORT,
        // There is no usual one.
        "tcp" | "udp" => 0,
        _ => return flaw(format!("unknown scheme `{scheme}`"), FORMS),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if authority.contains('@') {
        let help = "remove what stands before the `@`; the request's own credentials pass through";
        return flaw("an endpoint URL has no user or password", help);
    }
    if !matches!(tail, "" | "/") {
        let help = format!("write `{scheme}://{authority}`; paths are changed by filters of the route");
        return flaw(format!("an endpoint URL has no path or query, found `{tail}`"), help);
    }
    let (host, port) = split_port(authority, default_port)?;
    if port == 0 {
        let usual = if scheme == "tcp" { 5432 } else { 53 };
        return flaw(
            format!("a `{scheme}` endpoint has a port"),
            format!("write for example `{scheme}://{authority}:{usual}`"),
        );
    }
    if host.is_empty() {
        return flaw("the host of this URL is missing", FORMS);
    }
    let address = host_address(host, port)?;
    Ok((format!("{scheme}://{}", authority.to_ascii_lowercase()).into(), address))
}

/// A port: digits only, without a sign.
fn number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Splits `host:port`.
fn split_port(authority: &str, default: u16) -> Result<(&str, u16), Flaw> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match authority[after_host..].rfind(':') {
        Some(at) => (&authority[..after_host + at], Some(&authority[after_host + at + 1..])),
        None => (authority, None),
    };
    match port.map(number) {
        None => Ok((host, default)),
        Some(Some(port)) if port > 0 => Ok((host, port)),
        Some(_) => {
            let port = port.unwrap_or_default();
            flaw(format!("`{port}` is not a port"), "a port is a number from 1 to 65535")
        }
    }
}

fn host_address(host: &str, port: u16) -> Result<Address, Flaw> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(ip) => Ok(Address::Socket(SocketAddr::new(ip.into(), port))),
            Err(_) => {
                flaw(format!("`{inner}` is not an IPv6 address"), "write for example `http://[::1]:8080`")
            }
        };
    }
    if host.contains(':') {
        return flaw("an IPv6 address stands in brackets", "write for example `http://[::1]:8080`");
    }
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Ok(Address::Socket(SocketAddr::new(ip.into(), port)));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if let Some(reason) = wrong_name(&name) {
        return flaw(format!("`{host}` is not a host: {reason}"), "write for example `http://10.0.0.1:8080`");
    }
    Ok(Address::Name { host: name.into(), port })
}

/// What keeps a text from being a host name (RFC 1123 §2.1, underscores allowed).
pub(super) fn wrong_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > HOST_NAME || name.split('.').any(|label| label.len() > HOST_LABEL) {
        return Some("it is too long");
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        return Some("a name holds letters, digits, `-`, `_` and `.` only");
    }
    if name.split('.').any(|label| label.is_empty() || label.starts_with('-') || label.ends_with('-')) {
        return Some("a part of it is empty or begins or ends with `-`");
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    last.bytes().all(|b| b.is_ascii_digit()).then_some("an IPv4 address has four numbers up to 255")
}

/// Whether two sockets cannot listen at the same time. Port 0 never collides.
pub(super) fn collide(a: &ListenAddress, b: &ListenAddress) -> bool {
    match (a, b) {
        (ListenAddress::Unix(a), ListenAddress::Unix(b)) => a == b,
        (
            ListenAddress::Tcp { address: a, dual_stack: a_both },
            ListenAddress::Tcp { address: b, dual_stack: b_both },
        )
        | (
            ListenAddress::Udp { address: a, dual_stack: a_both },
            ListenAddress::Udp { address: b, dual_stack: b_both },
        ) => {
            // A wildcard takes the port at every address of its family, `:8080` at those of both.
            let covers = |all: &SocketAddr, both: bool, one: &SocketAddr| {
                all.ip().is_unspecified() && (both || all.is_ipv4() == one.is_ipv4())
            };
            let same = a.ip() == b.ip() || covers(a, *a_both, b) || covers(b, *b_both, a);
            a.port() != 0 && a.port() == b.port() && same
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_listen_addresses() {
        let tcp = |text: &str| match listen(text).unwrap() {
            ListenAddress::Tcp { address, dual_stack } | ListenAddress::Udp { address, dual_stack } => {
                (address.to_string(), dual_stack)
            }
            ListenAddress::Unix(path) => (path.display().to_string(), false),
        };
        assert_eq!(tcp(":8080"), ("[::]:8080".into(), true));
        assert_eq!(tcp("127.0.0.1:0"), ("127.0.0.1:0".into(), false));
        assert_eq!(tcp("[::1]:80"), ("[::1]:80".into(), false));
        assert_eq!(tcp("unix:/run/a.sock"), ("/run/a.sock".into(), false));
    }

    #[test]
    fn every_refused_address_comes_with_help() {
        for text in [
            "",
            "80",
            ":",
            ":99999",
            "*:80",
            "localhost:80",
            "::1:80",
            "http://:80",
            "10.0.0.1",
            "a.b:80",
            "unix:a",
            "unix:",
            ":-1",
            ":+80",
            "1.2.3.4.5:80",
            "[::1]",
            ": 80",
        ] {
            assert!(listen(text).unwrap_err().help.is_some(), "{text}");
        }
        assert_eq!(listen("8080").unwrap_err().help.unwrap(), "write `\":8080\"`");
    }

    #[test]
    fn reads_endpoint_urls() {
        for (text, url, address) in [
            ("http://10.0.0.1:8080", "http://10.0.0.1:8080", "10.0.0.1:8080"),
            ("http://10.0.0.1", "http://10.0.0.1", "10.0.0.1:80"),
            ("HTTP://Example.COM:81/", "http://example.com:81", "example.com:81"),
            ("http://[::1]:9", "http://[::1]:9", "[::1]:9"),
            ("http://a_b.local.", "http://a_b.local.", "a_b.local:80"),
            ("HTTPS://Example.COM/", "https://example.com", "example.com:443"),
            ("https://10.0.0.1:8443", "https://10.0.0.1:8443", "10.0.0.1:8443"),
            ("https://[::1]", "https://[::1]", "[::1]:443"),
            ("UDP://Resolver.local:53/", "udp://resolver.local:53", "resolver.local:53"),
            ("unix:/run/A.sock", "unix:/run/A.sock", "unix:/run/A.sock"),
        ] {
            let (read, place) = endpoint(text).unwrap();
            assert_eq!((&*read, place.to_string().as_str()), (url, address), "{text}");
        }
    }

    #[test]
    fn refuses_what_an_endpoint_cannot_be() {
        for text in [
            "",
            "10.0.0.1:80",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:x",
            "http://a:99999",
            "http://a:+80",
            "http://u:p@a",
            "http://a/b",
            "http://a?b",
            "http://a#b",
            "http://::1",
            "http://[::1",
            "http://[x]",
            "http://1.2.3",
            "http://256.1.1.1",
            "http://-a",
            "http://a..b",
            "http://a b",
            "http://ä",
            "ftp://a",
            "unix:x",
            "udp://10.0.0.2",
            "http://[::1]x:80",
        ] {
            let flaw = endpoint(text).unwrap_err();
            assert!(flaw.help.is_some() && flaw.class == Class::Invalid, "{text}");
        }
        assert_eq!(endpoint("h2c://a").unwrap_err().class, Class::Unavailable);
    }

    #[test]
    fn knows_when_two_listeners_collide() {
        let hit = |a, b| collide(&listen(a).unwrap(), &listen(b).unwrap());
        assert!(hit(":80", ":80") && hit(":80", "0.0.0.0:80") && hit("[::]:80", ":80"));
        assert!(hit("unix:/a", "unix:/a"));
        assert!(!hit(":80", ":81") && !hit(":0", ":0") && !hit("127.0.0.1:80", "127.0.0.2:80"));
        // The kernel gives a port of a wildcard away once.
        assert!(hit(":80", "127.0.0.1:80") && hit("[::1]:80", ":80") && hit("0.0.0.0:80", "127.0.0.1:80"));
        assert!(
            hit("[::]:80", "[::1]:80") && !hit("[::]:80", "127.0.0.1:80") && !hit("0.0.0.0:80", "[::1]:80")
        );
        assert!(!hit("[::]:80", "0.0.0.0:80") && !hit("unix:/a", ":80"));
        let udp = |text| match listen(text).unwrap() {
            ListenAddress::Tcp { address, dual_stack } => ListenAddress::Udp { address, dual_stack },
            other => other,
        };
        assert!(collide(&udp(":53"), &udp("0.0.0.0:53")));
        assert!(!collide(&udp(":53"), &listen(":53").unwrap()), "DNS has both");
    }
}
