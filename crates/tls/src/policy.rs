//! What a listener speaks: versions, cipher suites, groups, protocols, and what it makes of an unknown name.
//!
//! Plain values that configuration fills in; [`crate::Acceptor::new`] refuses those that contradict each other.

use std::fmt;

use crate::provider::{Group, Suite};

/// A version of TLS. Older ones are not spoken.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Version {
    /// TLS 1.2, RFC 5246.
    Tls12,
    /// TLS 1.3, RFC 8446.
    Tls13,
}

impl Version {
    /// As configuration and logs write it: `1.2`, `1.3`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    /// The version that configuration calls so.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tls12, Self::Tls13].into_iter().find(|version| version.name() == name)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What becomes of a client that asks for a name which no certificate has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum UnknownName {
    /// It gets the first certificate, as a client without a name does.
    #[default]
    Default,
    /// It is refused with the alert unrecognized_name (112, RFC 6066 §3).
    Refuse,
}

/// What a listener speaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// Default 1.2.
    pub min_version: Version,
    /// Default 1.3.
    pub max_version: Version,
    /// In order of preference, which counts where the client has none. Empty: all of [`Suite::ALL`].
    pub suites: Vec<Suite>,
    /// Groups of the key exchange. The client's first that is among them is taken. Empty: [`Group::DEFAULT`].
    pub groups: Vec<Group>,
    /// Default: the first certificate.
    pub unknown_name: UnknownName,
    /// Application protocols (ALPN), the preferred first; `h2`, `http/1.1` and `http/1.0` by default. Empty: none is
    /// agreed on, whatever a client offers.
    pub alpn: Vec<Vec<u8>>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            min_version: Version::Tls12,
            max_version: Version::Tls13,
            suites: Vec::new(),
            groups: Vec::new(),
            unknown_name: UnknownName::Default,
            alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec(), b"http/1.0".to_vec()],
        }
    }
}

/// Why nothing can be spoken by a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicyError {
    /// The lowest version is above the highest.
    Versions,
    /// None of the suites is of a version that is spoken.
    NoSuite(Version),
    /// None of the groups can be used with a version that is spoken: hybrid ones are for 1.3.
    NoGroup(Version),
    /// No certificate at all.
    NoCertificate,
    /// A name that is neither a host name nor one with `*.` before it.
    BadName(String),
    /// Certificates that have this name in common ask different things of clients.
    ClientAuthDiffers(String),
    /// The machine has no root certificates, or the ones given cannot be used.
    Roots(String),
    /// What the library says to everything else.
    Other(String),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Versions => f.write_str("the lowest TLS version is above the highest"),
            Self::NoSuite(version) => write!(f, "none of the suites is of TLS {version}, which is spoken"),
            Self::NoGroup(version) => {
                write!(f, "none of the groups can be used with TLS {version}, which is spoken")
            }
            Self::NoCertificate => f.write_str("no certificate is given"),
            Self::BadName(name) => write!(f, "`{name}` is neither a host name nor one with `*.` before it"),
            Self::ClientAuthDiffers(name) => {
                write!(f, "certificates for `{name}` ask different things of clients")
            }
            Self::Roots(why) | Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PolicyError {}
