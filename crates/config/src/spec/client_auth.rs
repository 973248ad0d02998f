//! `client_auth:` what clients of a listener, or of the hosts of one certificate, must show of themselves.

use super::spanned::{ListSpec, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;

/// `client_auth:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `ca`")]
pub struct ClientAuthSpec {
    /// Whether a client must show a certificate.
    #[schemars(extend("x-default" = "required"))]
    pub mode: Option<ClientAuthModeSpec>,
    /// A PEM file with the certificates of the authorities whose clients are let in.
    #[schemars(extend("x-api" = "reference"))]
    pub ca: Spanned<String>,
    /// PEM files with lists of revoked certificates, of each authority of a client's chain one.
    #[schemars(extend("x-default-words" = "nothing is looked up"))]
    #[schemars(extend("x-api" = "reference", "x-kept" = true))]
    pub crl: Option<Spanned<ListSpec<String>>>,
    /// What becomes of a certificate that none of the lists says anything about.
    #[schemars(extend("x-default" = "deny"))]
    pub crl_unknown: Option<Spanned<CrlUnknownSpec>>,
    /// What of its certificate the upstream is told in the head of each request.
    #[schemars(extend("x-default-words" = "the subject"))]
    pub forward: Option<Spanned<ListSpec<ForwardSpec>>>,
}

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`required` or `optional`")]
pub enum ClientAuthModeSpec {
    /// Without one there is no connection.
    Required,
    /// It may; one that it shows must be good.
    Optional,
}

/// What becomes of a certificate that none of the lists says anything about.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`deny` or `allow`")]
pub enum CrlUnknownSpec {
    /// It is refused.
    Deny,
    /// It is good, if its authority is.
    Allow,
}

/// Part of a client's certificate.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`subject`, `san`, `fingerprint` or `certificate`")]
pub enum ForwardSpec {
    /// `X-Client-Cert-Subject`.
    Subject,
    /// `X-Client-Cert-San`.
    San,
    /// `X-Client-Cert-Fingerprint`.
    Fingerprint,
    /// `Client-Cert`, RFC 9440.
    Certificate,
}
