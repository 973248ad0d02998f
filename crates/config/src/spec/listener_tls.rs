//! `listeners.<name>.tls:` how a listener proves who it is, and what it speaks with clients.

use super::spanned::{ListSpec, Spanned};
use super::values::DurationSpec;
use crate::schema;
use schemars::JsonSchema;
use serde::Deserialize;

/// `listeners.<name>.tls:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `certificates`")]
pub struct ListenerTlsSpec {
    /// What the listener proves its names with. The first one answers clients that name no host.
    pub certificates: Spanned<ListSpec<CertificateSpec>>,
    /// What a client gets that names a host without a certificate; default `default`.
    pub unknown_name: Option<UnknownNameSpec>,
    /// The oldest version that is spoken; default `1.2`.
    pub min_version: Option<Spanned<TlsVersionSpec>>,
    /// The newest version that is spoken; default `1.3`.
    pub max_version: Option<Spanned<TlsVersionSpec>>,
    /// Cipher suites by their IANA names, of both versions; default: all that there are.
    #[schemars(with = "Option<ListSpec<schema::SuiteName>>")]
    pub suites: Option<Spanned<ListSpec<String>>>,
    /// Key exchange groups; default: X25519MLKEM768, X25519, secp256r1 and secp384r1.
    #[schemars(with = "Option<ListSpec<schema::GroupName>>")]
    pub groups: Option<Spanned<ListSpec<String>>>,
    /// From the accept to the end of the handshake, 1s–5m; default 10s.
    pub handshake_timeout: Option<Spanned<DurationSpec>>,
}

/// `certificates[]:` a chain and its key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `cert` and `key`")]
pub struct CertificateSpec {
    /// A PEM file with the certificate, then those that lead from it to a root.
    pub cert: Spanned<String>,
    /// A PEM file with the private key of the certificate.
    pub key: Spanned<String>,
    /// The hosts that it answers for, `*.example.com` among them; default: those of the certificate.
    pub names: Option<Spanned<ListSpec<String>>>,
}

/// What a client gets that names a host without a certificate.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`default` or `refuse`")]
pub enum UnknownNameSpec {
    /// The first certificate.
    Default,
    /// The alert `unrecognized_name`.
    Refuse,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(expecting = "`\"1.2\"` or `\"1.3\"`, in quotes")]
pub enum TlsVersionSpec {
    /// RFC 5246.
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    Tls13,
}
