//! A certificate chain with its key, read and checked.
//!
//! Configuration reads them, so that what is wrong is said before anything runs; [`crate::Acceptor`] shows them. What
//! clients check is not checked again here: signatures, trust, and whether it is valid now.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Context, SHA256};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::OID_SIG_ED25519;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;

use crate::certificate_error::CertificateError;
use crate::{name, pem, provider};

/// A certificate chain with its key. Equal when chain and key are; `Debug` shows no key.
#[derive(Clone)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    not_before: SystemTime,
    not_after: SystemTime,
    subject: String,
    issuer: String,
    serial: String,
    key_type: String,
    self_signed: bool,
    digest: [u8; 32],
    /// Of the chain and the key.
    whole: [u8; 32],
}

impl Certificate {
    /// Reads a chain in PEM, the leaf first, and its key. An expired one is read: who calls looks at
    /// [`Certificate::not_after`].
    pub fn read(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, CertificateError> {
        let chain = pem::certificates(chain_pem)?;
        let mut parsed = Vec::with_capacity(chain.len());
        for (at, der) in chain.iter().enumerate() {
            parsed.push(parse(der).map_err(|why| CertificateError::BadCertificate(at + 1, why))?);
        }
        if let Some(at) = parsed.windows(2).position(|pair| pair[0].issuer() != pair[1].subject()) {
            return Err(CertificateError::OutOfOrder(at + 2));
        }
        let leaf = &parsed[0];
        let (names, addresses) = names_of(leaf)?;
        let key = pem::private_key(key_pem)?;
        let whole = whole(&chain, &key);
        Ok(Self {
            names,
            addresses,
            not_before: time_of(leaf.validity().not_before),
            not_after: time_of(leaf.validity().not_after),
            subject: leaf.subject().to_string(),
            issuer: leaf.issuer().to_string(),
            serial: leaf.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
            key_type: key_type(leaf),
            self_signed: leaf.subject() == leaf.issuer(),
            digest: digest([chain[0].as_ref()]),
            whole,
            key: Arc::new(certified(chain, key)?),
        })
    }

    /// Host names of the leaf (subjectAltName), in lower case, `*.example.com` as written.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Addresses of the leaf (subjectAltName).
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether it names this host, in lower case; a wildcard covers one label (RFC 9525 §6.3).
    pub fn is_for(&self, host: &str) -> bool {
        let behind = host.split_once('.').map(|(_, rest)| rest);
        let covers = |known: &String| known.strip_prefix("*.").is_some_and(|rest| behind == Some(rest));
        self.names.iter().any(|known| known == host || covers(known))
    }

    /// When the leaf begins to be valid.
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// When the leaf ceases to be valid.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Whether the leaf has ceased to be valid.
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.not_after <= now
    }

    /// Whom the leaf is for, as a distinguished name.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Who issued the leaf, as a distinguished name.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The leaf's serial number in hexadecimal, as its issuer knows it.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The kind of the leaf's key and its size: `RSA 2048`, `ECDSA P-256`, `Ed25519`.
    pub fn key_type(&self) -> &str {
        &self.key_type
    }

    /// Whether the leaf's issuer is its own subject.
    pub fn is_self_signed(&self) -> bool {
        self.self_signed
    }

    /// The leaf, in DER.
    pub fn leaf(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], AsRef::as_ref)
    }

    /// SHA-256 of the leaf.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// SHA-256 of chain and key: what equality goes by. Not to be shown.
    pub fn whole_digest(&self) -> [u8; 32] {
        self.whole
    }

    /// Whether both keys are for the same kind of signatures (RSA, ECDSA, Ed25519): a client that can use one of them
    /// can, curves aside, use the other.
    pub fn is_of_kind(&self, other: &Self) -> bool {
        self.key.key.algorithm() == other.key.key.algorithm()
    }

    /// The chain and key as rustls takes them.
    pub(crate) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
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
        let mut shown = f.debug_struct("Certificate");
        shown.field("subject", &self.subject).field("names", &self.names).field("addresses", &self.addresses);
        shown.finish_non_exhaustive()
    }
}

/// The kind and size of a public key. What is none of those that can be used is told by its number.
fn key_type(leaf: &X509Certificate<'_>) -> String {
    match leaf.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => format!("RSA {}", key.key_size()),
        Ok(PublicKey::EC(point)) => match point.key_size() {
            // The coordinates of P-521 have 528 bits.
            size @ (256 | 384) => format!("ECDSA P-{size}"),
            _ => "ECDSA P-521".to_owned(),
        },
        _ if leaf.public_key().algorithm.algorithm == OID_SIG_ED25519 => "Ed25519".to_owned(),
        _ => leaf.public_key().algorithm.algorithm.to_id_string(),
    }
}

pub(crate) fn parse<'a>(der: &'a CertificateDer<'static>) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) => Err("bytes follow it".to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

/// Host names and addresses of the leaf. One that is neither is refused rather than passed over, since a client may
/// read it in another way (a NUL in the middle, for example).
fn names_of(leaf: &X509Certificate<'_>) -> Result<(Vec<String>, Vec<IpAddr>), CertificateError> {
    let bad = |why: String| CertificateError::BadCertificate(1, why);
    let extension = leaf.subject_alternative_name().map_err(|why| bad(why.to_string()))?;
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    for general in extension.iter().flat_map(|extension| &extension.value.general_names) {
        match general {
            GeneralName::DNSName(written) => {
                let name = name::filed(written);
                names.push(name.ok_or_else(|| bad(format!("{written:?} is not a host name")))?);
            }
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let address = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                addresses.push(address.map_err(|_| bad("one of its addresses is none".to_owned()))?);
            }
            GeneralName::Invalid(..) => return Err(bad("one of its names cannot be read".to_owned())),
            _ => {}
        }
    }
    match names.is_empty() && addresses.is_empty() {
        true => Err(CertificateError::NoNames),
        false => Ok((names, addresses)),
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, CertificateError> {
    let key = provider::provider(&[], &[]).key_provider.load_private_key(key);
    let unusable = "it is neither RSA (2048 to 8192 bits), nor ECDSA (P-256, P-384, P-521), nor Ed25519";
    let key = key.map_err(|_| CertificateError::UnusableKey(unusable.to_owned()))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(CertificateError::KeyDoesNotMatch),
        Err(Error::InconsistentKeys(_)) => {
            Err(CertificateError::UnusableKey("it does not tell its public half".to_owned()))
        }
        Err(why) => Err(CertificateError::BadCertificate(1, why.to_string())),
    }
}

pub(crate) fn time_of(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    // Four digits of a year always fit.
    let moved = match seconds >= 0 {
        true => SystemTime::UNIX_EPOCH.checked_add(distance),
        false => SystemTime::UNIX_EPOCH.checked_sub(distance),
    };
    moved.unwrap_or(SystemTime::UNIX_EPOCH)
}

fn whole(chain: &[CertificateDer<'static>], key: &PrivateKeyDer<'static>) -> [u8; 32] {
    // Each is DER, which tells its own length.
    digest(chain.iter().map(AsRef::as_ref).chain([key.secret_der()]))
}

/// SHA-256 of all parts, one behind the other.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.into_iter().for_each(|part| context.update(part));
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests;
