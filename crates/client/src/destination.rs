//! Where a request goes.

use std::path::PathBuf;

use thalweg_http::HttpUrl;

/// A server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// A host name or address and a port.
    Tcp {
        /// A name or an address; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
        /// Through TLS.
        tls: bool,
    },
    /// A unix socket.
    Unix(PathBuf),
}

impl Destination {
    /// The server of `http://host[:port]` or `https://host[:port]`.
    ///
    /// # Errors
    /// What is wrong with the text, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = HttpUrl::parse(text).map_err(str::to_owned)?;
        match url.target() {
            "/" => Ok(Self::from(&url)),
            _ => Err("write a host and port without a path, as in `http://127.0.0.1:8080`".into()),
        }
    }

    /// Whether it is spoken to through TLS.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }

    /// The value of the `Host` field (RFC 9110 §7.2): without the port where it is the scheme's own.
    pub(crate) fn authority(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".into(),
            Self::Tcp { host, port, tls } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                if *port == if *tls { 443 } else { 80 } { host } else { format!("{host}:{port}") }
            }
        }
    }
}

impl From<&HttpUrl> for Destination {
    fn from(url: &HttpUrl) -> Self {
        Self::Tcp { host: url.host().to_owned(), port: url.port(), tls: url.tls() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_urls_without_a_path() {
        let tcp = |host: &str, port, tls| Ok(Destination::Tcp { host: host.into(), port, tls });
        assert_eq!(Destination::parse("http://A:81"), tcp("a", 81, false));
        assert_eq!(Destination::parse("https://[::1]/"), tcp("::1", 443, true));
        for text in ["", "a:80", "http://a/b", "http://a?x", "ftp://a", "http://u@a"] {
            assert!(Destination::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_host_field_leaves_out_the_usual_port() {
        let authority = |host: &str, port, tls| Destination::Tcp { host: host.into(), port, tls }.authority();
        assert_eq!(authority("a", 80, false), "a");
        assert_eq!(authority("a", 443, false), "a:443");
        assert_eq!(authority("::1", 443, true), "[::1]");
        assert_eq!(authority("::1", 80, true), "[::1]:80");
        assert_eq!(Destination::Unix("/run/a".into()).authority(), "localhost");
    }
}
