//! Certificates, as the admin API shows them. No key is among it.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use super::service::rfc3339;

/// The answer to `GET /api/v1/certificates`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Certificates {
    /// By listener and in the order of the configuration, then that of the admin API.
    pub certificates: Vec<CertificateStatus>,
}

/// One certificate of a listener, as it is in use.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CertificateStatus {
    /// Name of the listener; absent for the one of the admin API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// It answers clients that name no host.
    pub default: bool,
    /// Hosts that it answers for, `*.example.com` among them: its own, or those of the configuration.
    pub names: Vec<String>,
    /// Addresses in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whom it is for, as a distinguished name; often empty.
    pub subject: String,
    /// Who issued it, as a distinguished name.
    pub issuer: String,
    /// It is its own issuer.
    pub self_signed: bool,
    /// Its number at its issuer, in hexadecimal.
    pub serial: String,
    /// SHA-256 of it, in hexadecimal.
    pub sha256: String,
    /// The kind of its key and the key's size: `RSA 2048`, `ECDSA P-256`, `Ed25519`.
    pub key_type: String,
    /// When it begins to hold, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub not_before: SystemTime,
    /// When it ceases to hold, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub not_after: SystemTime,
    /// Whole days until then; negative when it has expired.
    pub days_left: i64,
    /// The file of the chain, as in the configuration; absent where an authority issues it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// The file of the key, as in the configuration; absent where an authority issues it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The host of the authority that it is asked of, as a URL, or `local` for this machine's own; absent where files
    /// hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// It stands in for one that the authority has not issued yet, and is its own issuer.
    pub placeholder: bool,
    /// Why what the files hold now has not taken over; absent when nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
