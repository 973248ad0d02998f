//! Verifiers of servers' certificates.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::policy::PolicyError;
use crate::{certificate, error_text, roots};

/// Trusts what these roots have signed, for the name, now.
pub(crate) fn verifier(
    roots: Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, PolicyError> {
    let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
    Ok(builder.build().map_err(|why| PolicyError::Roots(why.to_string()))?)
}

/// Trusts what the certificates of a file have signed, for the name, now; and servers that show one of them.
pub(crate) fn verifier_of_file(
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, PolicyError> {
    let (roots, known) = roots::of_pem(pem)?;
    let verifier = verifier(roots, provider)?;
    Ok(Arc::new(OrKnown { verifier, known }))
}

/// Takes what a verifier takes, and a certificate that is known as it is. Self-signed ones are mostly made as those of
/// authorities (`openssl req -x509`), which no verifier takes from a server, trusted or not (RFC 5280 §4.2.1.9).
#[derive(Debug)]
struct OrKnown {
    verifier: Arc<dyn ServerCertVerifier>,
    known: Vec<CertificateDer<'static>>,
}

impl OrKnown {
    /// Whether the certificate is known, is for the name, and is valid now.
    fn knows(&self, leaf: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<bool, Error> {
        if !self.known.iter().any(|known| known.as_ref() == leaf.as_ref()) {
            return Ok(false);
        }
        verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
        let owned = leaf.clone().into_owned();
        let parsed = certificate::parse(&owned).map_err(|_| CertificateError::BadEncoding)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match parsed.validity() {
            validity if now < validity.not_before.timestamp() => Err(CertificateError::NotValidYet.into()),
            validity if now > validity.not_after.timestamp() => Err(CertificateError::Expired.into()),
            _ => Ok(true),
        }
    }
}

impl ServerCertVerifier for OrKnown {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verifier.verify_server_cert(leaf, chain, name, ocsp, now) {
            // That it is an authority's is found before its name and its time are looked at.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if other.0.to_string() == error_text::CA_AS_LEAF && self.knows(leaf, name, now)? =>
            {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Trusts anybody.
pub(crate) fn anybody(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Anybody(provider.signature_verification_algorithms))
}

/// Takes any certificate for any name. The server still proves that it has the certificate's key: what does not would
/// be broken, not merely unknown.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
