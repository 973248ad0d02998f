//! `listeners.<name>.tls:` how a listener proves who it is, and what it speaks with clients.

use super::acme::AcmeSpec;
use super::client_auth::ClientAuthSpec;
use super::spanned::{ListSpec, Spanned};
use super::switch::SwitchSpec;
use super::values::DurationSpec;
use crate::schema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// `listeners.<name>.tls:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `cert` and `key`, `certificates`, `acme` or `local`")]
pub struct ListenerTlsSpec {
    /// What the listener proves its names with. The first one answers clients that name no host.
    #[schemars(extend("x-default-words" = "what `acme` brings"))]
    pub certificates: Option<Spanned<ListSpec<CertificateSpec>>>,
    /// A PEM file with the certificate, then those that lead from it to a root, where there is one: a short form of
    /// `certificates` with `key`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    pub cert: Option<Spanned<String>>,
    /// A PEM file with the private key of `cert`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    pub key: Option<Spanned<String>>,
    /// Certificates that an authority issues and that renew themselves, beside those of the list.
    #[schemars(extend("x-default-words" = "none"))]
    pub acme: Option<AcmeSpec>,
    /// Certificates for `localhost` and every name below it by an authority of this machine's own, for development;
    /// not with `acme`.
    #[schemars(extend("x-default" = false))]
    pub local: Option<Spanned<bool>>,
    /// What clients must show of themselves, for certificates that do not say it themselves and those of `acme` or
    /// `local`.
    #[schemars(extend("x-default-words" = "nothing"))]
    #[schemars(extend("x-api" = "trust", "x-kept" = true))]
    pub client_auth: Option<ClientAuthSpec>,
    /// What a client gets that names a host without a certificate.
    #[schemars(extend("x-default" = "default"))]
    pub unknown_name: Option<UnknownNameSpec>,
    /// The oldest version that is spoken.
    #[schemars(extend("x-default" = 1.2))]
    #[schemars(extend("x-api" = "trust", "x-kept" = true))]
    pub min_version: Option<Spanned<TlsVersionSpec>>,
    /// The newest version that is spoken.
    #[schemars(extend("x-default" = 1.3))]
    #[schemars(extend("x-api" = "trust"))]
    pub max_version: Option<Spanned<TlsVersionSpec>>,
    /// Cipher suites by their IANA names, of both versions; the first that a client has too is taken, unless ChaCha20
    /// is the first that it offers.
    #[schemars(extend("x-default-words" = "all that there are"))]
    #[schemars(with = "Option<ListSpec<schema::SuiteName>>")]
    #[schemars(extend("x-api" = "trust"))]
    pub suites: Option<Spanned<ListSpec<String>>>,
    /// Key exchange groups.
    #[schemars(extend("x-default-words" = "X25519MLKEM768, X25519, secp256r1 and secp384r1"))]
    #[schemars(with = "Option<ListSpec<schema::GroupName>>")]
    #[schemars(extend("x-api" = "trust"))]
    pub groups: Option<Spanned<ListSpec<String>>>,
    /// How sessions are resumed: `off`, or settings.
    #[schemars(extend("x-default-words" = "keys of the process, which rotate"))]
    pub tickets: Option<SwitchSpec<TicketsSpec>>,
    /// From its first byte to the end of the handshake.
    #[schemars(extend("x-range" = ["1s", "5m"], "x-default" = "10s"))]
    pub handshake_timeout: Option<Spanned<DurationSpec>>,
}

impl ListenerTlsSpec {
    /// The certificates: those of the list, or the one of the short form.
    pub fn list(&self) -> Option<Cow<'_, Spanned<ListSpec<CertificateSpec>>>> {
        if let Some(list) = &self.certificates {
            return Some(Cow::Borrowed(list));
        }
        let (cert, key) = (self.cert.clone()?, self.key.clone()?);
        let span = cert.span;
        let one = CertificateSpec { cert, key, names: None, client_auth: None };
        let items = vec![Spanned::new(span, one)];
        Some(Cow::Owned(Spanned::new(span, ListSpec { items, written: 1 })))
    }
}

/// `tickets:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `rotate` and `keys`")]
pub struct TicketsSpec {
    /// How long a key seals; it opens for as long again, and no client keeps a ticket longer than both.
    #[schemars(extend("x-range" = ["10m", "7d"], "x-default" = "12h"))]
    pub rotate: Option<Spanned<DurationSpec>>,
    /// Keys that replicas share, in place of those of the process.
    #[schemars(extend("x-default-words" = "none"))]
    pub keys: Option<TicketKeysSpec>,
}

/// `tickets.keys:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `file`")]
pub struct TicketKeysSpec {
    /// A file with a key of 64 hexadecimal digits on each of one to eight lines: the first seals, all of them open.
    #[schemars(extend("x-api" = "reference"))]
    pub file: Spanned<String>,
}

/// `certificates[]:` a chain and its key.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `cert` and `key`")]
pub struct CertificateSpec {
    /// A PEM file with the certificate, then those that lead from it to a root.
    #[schemars(extend("x-api" = "reference"))]
    pub cert: Spanned<String>,
    /// A PEM file with the private key of the certificate.
    #[schemars(extend("x-api" = "reference"))]
    pub key: Spanned<String>,
    /// The hosts that it answers for, `*.example.com` among them.
    #[schemars(extend("x-default-words" = "those of the certificate"))]
    #[schemars(extend("x-shown" = true))]
    pub names: Option<Spanned<ListSpec<String>>>,
    /// What clients of these hosts must show of themselves, instead of what the listener says.
    #[schemars(extend("x-default-words" = "that"))]
    #[schemars(extend("x-api" = "trust", "x-kept" = true))]
    pub client_auth: Option<ClientAuthSpec>,
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

/// A version of TLS, in quotes or as the number that it looks like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsVersionSpec {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// How versions are written.
const VERSIONS: &[&str] = &["1.2", "1.3"];

impl<'de> Deserialize<'de> for TlsVersionSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = TlsVersionSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`1.2` or `1.3`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TlsVersionSpec, E> {
                match text {
                    "1.2" => Ok(TlsVersionSpec::Tls12),
                    "1.3" => Ok(TlsVersionSpec::Tls13),
                    _ => Err(E::unknown_variant(text, VERSIONS)),
                }
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<TlsVersionSpec, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<TlsVersionSpec, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<TlsVersionSpec, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Number)
    }
}

impl JsonSchema for TlsVersionSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TlsVersionSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "enum": VERSIONS },
            { "type": "number", "enum": [1.2, 1.3] },
        ] })
    }
}
