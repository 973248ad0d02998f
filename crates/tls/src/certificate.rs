//! A certificate chain with its key, read and checked.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::sign::CertifiedKey;

use crate::flaw::CertificateFlaw;

/// A certificate chain with its key. Equal when chain and key are; `Debug` shows no key.
#[derive(Clone)]
pub struct Certificate {
    pub(crate) key: Arc<CertifiedKey>,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    not_before: SystemTime,
    not_after: SystemTime,
    subject: String,
    issuer: String,
    self_signed: bool,
    digest: [u8; 32],
    whole: [u8; 32],
}

impl Certificate {
    /// Reads a chain, the leaf first, and its key. An expired one is read: who calls looks at
    /// [`Certificate::not_after`].
    pub fn read(_chain_pem: &[u8], _key_pem: &[u8]) -> Result<Self, CertificateFlaw> {
        Err(CertificateFlaw::NoCertificate)
    }

    /// Host names of the leaf (subjectAltName), in lower case, `*.example.com` as written.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Addresses of the leaf (subjectAltName).
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// When the leaf begins to be valid.
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// When the leaf, or a certificate of its chain, ceases to be valid.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Whom the leaf is for, as a distinguished name.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Who issued the leaf, as a distinguished name.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whether the leaf was issued by its own key.
    pub fn is_self_signed(&self) -> bool {
        self.self_signed
    }

    /// SHA-256 of the leaf.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("names", &self.names)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}
