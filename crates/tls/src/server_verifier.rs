//! Verifiers of servers' certificates.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::policy::PolicyError;

/// Trusts what these roots have signed, for the name, now.
pub(crate) fn verifier(
    roots: Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, PolicyError> {
    let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
    Ok(builder.build().map_err(|why| PolicyError::Roots(why.to_string()))?)
}

/// Trusts anybody.
pub(crate) fn anybody(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Anybody(provider.signature_verification_algorithms))
}

/// Takes any certificate for any name. The server still proves that it has the certificate's key: what does not would be
/// broken, not merely unknown.
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
