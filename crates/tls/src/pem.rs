//! PEM (RFC 7468): chains and keys as DER. Other blocks, and text around blocks, are passed over, so that chain and key
//! may stand in one file.

use rustls::pki_types::pem::{Error, PemObject, SectionKind};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer,
    PrivateSec1KeyDer,
};
use thalweg_core::limits::{TLS_CHAIN, TLS_PEM};

use crate::certificate_error::CertificateError;

/// What marks an encrypted key: PKCS #8 (RFC 7468 §11), and the older way (RFC 1421 §4.6.1.1).
const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];

/// All certificates, in the order of the file.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    if pem.len() > TLS_PEM {
        return Err(CertificateError::TooLarge { key: false });
    }
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).take(TLS_CHAIN + 1).collect();
    let found = found.map_err(|why| CertificateError::BadPem { key: false, why: in_words(&why) })?;
    match found.len() {
        0 => Err(CertificateError::NoCertificate),
        count if count > TLS_CHAIN => Err(CertificateError::TooLarge { key: false }),
        _ => Ok(found),
    }
}

/// All lists of revoked certificates; what is wrong with the file in a sentence that stands behind its name.
pub(crate) fn revocations(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err("holds no list of revoked certificates (no block `BEGIN X509 CRL`)".to_owned())
        }
        Ok(found) => Ok(found),
        Err(why) => Err(format!("is not PEM: {}", in_words(&why))),
    }
}

/// The only private key.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateError> {
    if pem.len() > TLS_PEM {
        return Err(CertificateError::TooLarge { key: true });
    }
    let is_encrypted = |line: &[u8]| ENCRYPTED.iter().any(|mark| line.starts_with(mark));
    if pem.split(|byte| matches!(byte, b'\n' | b'\r')).any(is_encrypted) {
        return Err(CertificateError::EncryptedKey);
    }
    let mut found = None;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
        let section = section.map_err(|why| CertificateError::BadPem { key: true, why: in_words(&why) })?;
        let key: PrivateKeyDer<'static> = match section {
            (SectionKind::PrivateKey, der) => PrivatePkcs8KeyDer::from(der).into(),
            (SectionKind::RsaPrivateKey, der) => PrivatePkcs1KeyDer::from(der).into(),
            (SectionKind::EcPrivateKey, der) => PrivateSec1KeyDer::from(der).into(),
            _ => continue,
        };
        if found.replace(key).is_some() {
            return Err(CertificateError::SeveralKeys);
        }
    }
    found.ok_or(CertificateError::NoKey)
}

/// What is wrong, without what the reader quotes: where a key stands on one line, that is the key.
fn in_words(why: &Error) -> String {
    let words = match why {
        Error::MissingSectionEnd { .. } => "a block does not end",
        Error::IllegalSectionStart { .. } => "a block does not begin as it should",
        Error::Base64Decode(_) => "what stands in a block is not base64",
        Error::SectionTooLarge => "a block is too large",
        _ => "it cannot be read",
    };
    words.to_owned()
}
