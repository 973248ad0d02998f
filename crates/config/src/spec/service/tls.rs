//! `services.<name>.tls:` how endpoints that are reached through TLS prove who they are.

use crate::spec::Spanned;
use crate::spec::listener_tls::TlsVersionSpec;
use schemars::JsonSchema;
use serde::Deserialize;

/// `services.<name>.tls:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of TLS settings")]
pub struct ServiceTlsSpec {
    /// A PEM file with the certificates of those who are trusted.
    #[schemars(extend("x-default-words" = "whom the system trusts"))]
    #[schemars(extend("x-api" = "reference", "x-kept" = true))]
    pub ca: Option<Spanned<String>>,
    /// The name that is asked for and that the certificate must have.
    #[schemars(extend("x-default-words" = "the host of the endpoint's URL"))]
    #[schemars(extend("x-api" = "trust", "x-kept" = true))]
    pub server_name: Option<Spanned<String>>,
    /// A PEM file with the certificate that is shown to endpoints that ask for one.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    pub cert: Option<Spanned<String>>,
    /// A PEM file with the private key of `cert`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    pub key: Option<Spanned<String>>,
    /// The oldest version that is spoken.
    #[schemars(extend("x-default" = 1.2))]
    #[schemars(extend("x-api" = "trust", "x-kept" = true))]
    pub min_version: Option<TlsVersionSpec>,
    /// Whether sessions are resumed.
    #[schemars(extend("x-default" = true))]
    pub resumption: Option<bool>,
    /// Trusts any certificate: who stands in between can read and change everything.
    #[schemars(extend("x-default" = false))]
    #[schemars(extend("x-api" = "trust"))]
    pub insecure_skip_verify: Option<Spanned<bool>>,
}
