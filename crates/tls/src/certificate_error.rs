//! What may be wrong with a certificate and its key.

use std::fmt;

use thalweg_core::limits::{TLS_CHAIN, TLS_PEM};

/// What is wrong with a pair, in a sentence that stands behind a file's name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CertificateError {
    /// No block `CERTIFICATE` is there.
    NoCertificate,
    /// What looks like PEM is none.
    BadPem {
        /// Whether it is the key's file.
        key: bool,
        /// In what way.
        why: String,
    },
    /// No private key is there.
    NoKey,
    /// More than one private key is there.
    SeveralKeys,
    /// The private key is encrypted.
    EncryptedKey,
    /// The private key is of a kind that is not supported, or broken.
    UnusableKey(String),
    /// The key is another certificate's.
    KeyDoesNotMatch,
    /// More bytes or certificates than a chain may have.
    TooLarge {
        /// Whether it is the key's file.
        key: bool,
    },
    /// A certificate of the chain did not issue the one before it. Counted from 1.
    OutOfOrder(usize),
    /// The leaf has neither a host name nor an address as subjectAltName.
    NoNames,
    /// A certificate is not one. Which (from 1), and why.
    BadCertificate(usize, String),
}

impl CertificateError {
    /// Whether it concerns the key's file rather than the chain's.
    pub fn is_of_key(&self) -> bool {
        match self {
            Self::NoKey | Self::SeveralKeys | Self::EncryptedKey => true,
            Self::UnusableKey(_) | Self::KeyDoesNotMatch => true,
            Self::BadPem { key, .. } | Self::TooLarge { key } => *key,
            Self::NoCertificate | Self::OutOfOrder(_) | Self::NoNames | Self::BadCertificate(..) => false,
        }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("holds no certificate (no block `BEGIN CERTIFICATE`)"),
            Self::BadPem { why, .. } => write!(f, "is not PEM: {why}"),
            Self::NoKey => f.write_str("holds no private key"),
            Self::SeveralKeys => f.write_str("holds more than one private key"),
            Self::EncryptedKey => {
                f.write_str("holds an encrypted private key, and there is nobody to ask for its password")
            }
            Self::UnusableKey(why) => write!(f, "holds a private key that cannot be used: {why}"),
            Self::KeyDoesNotMatch => f.write_str("holds the private key of another certificate"),
            Self::TooLarge { key: false } => {
                write!(f, "is larger than a chain of {TLS_CHAIN} certificates or {TLS_PEM} bytes")
            }
            Self::TooLarge { key: true } => write!(f, "is larger than {TLS_PEM} bytes"),
            Self::OutOfOrder(at) => {
                write!(f, "has its certificates out of order: number {at} did not issue the one before it")
            }
            Self::NoNames => f.write_str("names no host: its certificate has no subjectAltName"),
            Self::BadCertificate(at, why) => {
                write!(f, "has a certificate (number {at}) that cannot be read: {why}")
            }
        }
    }
}

impl std::error::Error for CertificateError {}
