//! The cryptography: suites and groups by name, and the provider with those that a policy asks for.
//!
//! The one place that names the library behind rustls. rustls' own default of a process is never asked for: a second
//! library in the tree, through some dependency, would make that a panic.

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::{DEFAULT_CIPHER_SUITES, cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{NamedGroup, ProtocolVersion, SupportedCipherSuite};

use crate::policy::Version;

/// A cipher suite.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Suite(usize);

/// A group of the key exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Group(usize);

/// Names of the registry of IANA, the preferred first.
const SUITES: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

impl Suite {
    /// The names of all suites, the preferred first.
    pub const ALL: &[&str] = &[
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_128_GCM_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ];

    /// The suite of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().position(|known| *known == name).map(Self)
    }

    /// Its name in the registry of IANA.
    pub fn name(self) -> &'static str {
        Self::ALL[self.0]
    }

    /// The version that it belongs to.
    pub fn version(self) -> Version {
        match self.suite() {
            SupportedCipherSuite::Tls13(_) => Version::Tls13,
            SupportedCipherSuite::Tls12(_) => Version::Tls12,
        }
    }

    /// The name of what was negotiated.
    pub(crate) fn name_of(suite: SupportedCipherSuite) -> &'static str {
        SUITES.iter().find(|(_, known)| known.suite() == suite.suite()).map_or("", |(name, _)| name)
    }

    fn suite(self) -> SupportedCipherSuite {
        SUITES[self.0].1
    }
}

impl Group {
    /// The names of all groups.
    pub const ALL: &[&str] = &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1", "SecP256r1MLKEM768"];
    /// Those that are used where none are given, the preferred first.
    pub const DEFAULT: &[&str] = &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];

    /// The group of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().position(|known| *known == name).map(Self)
    }

    /// Its name in the registry of IANA, as OpenSSL writes it too.
    pub fn name(self) -> &'static str {
        Self::ALL[self.0]
    }

    /// Whether it can be used with that version.
    pub(crate) fn is_of(self, version: Version) -> bool {
        let version = match version {
            Version::Tls12 => ProtocolVersion::TLSv1_2,
            Version::Tls13 => ProtocolVersion::TLSv1_3,
        };
        self.group().usable_for_version(version)
    }

    /// The name of what was negotiated.
    pub(crate) fn name_of(group: NamedGroup) -> &'static str {
        let known = (0..Self::ALL.len()).map(Self).find(|known| known.group().name() == group);
        known.map_or("", |known| known.name())
    }

    fn group(self) -> &'static dyn SupportedKxGroup {
        const GROUPS: [&dyn SupportedKxGroup; 5] = [
            kx_group::X25519MLKEM768,
            kx_group::X25519,
            kx_group::SECP256R1,
            kx_group::SECP384R1,
            kx_group::SECP256R1MLKEM768,
        ];
        GROUPS[self.0]
    }
}

/// The provider with these suites and groups; all, or the default ones, where none are given.
pub(crate) fn provider(suites: &[Suite], groups: &[Group]) -> Arc<CryptoProvider> {
    static DEFAULT: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    if suites.is_empty() && groups.is_empty() {
        return Arc::clone(DEFAULT.get_or_init(|| Arc::new(build(suites, groups))));
    }
    Arc::new(build(suites, groups))
}

fn build(suites: &[Suite], groups: &[Group]) -> CryptoProvider {
    let groups = match groups {
        [] => Group::DEFAULT.iter().filter_map(|name| Group::named(name)).map(Group::group).collect(),
        groups => groups.iter().map(|group| group.group()).collect(),
    };
    let suites = match suites {
        [] => DEFAULT_CIPHER_SUITES.to_vec(),
        suites => suites.iter().map(|suite| suite.suite()).collect(),
    };
    CryptoProvider { cipher_suites: suites, kx_groups: groups, ..default_provider() }
}
