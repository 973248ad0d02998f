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
    fn the_host_field_leaves_out_the_usual_port() {
        let authority = |host: &str, port, tls| Destination::Tcp { host: host.into(), port, tls }.authority();
        assert_eq!(authority("a", 80, false), "a");
        assert_eq!(authority("a", 443, false), "a:443");
        assert_eq!(authority("::1", 443, true), "[::1]");
        assert_eq!(authority("::1", 80, true), "[::1]:80");
        assert_eq!(Destination::Unix("/run/a".into()).authority(), "localhost");
    }
}
