//! What the clients offer: TLS 1.3, one suite, one group. Called by all of them.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// The host that is named in every handshake; the certificate is for it.
pub(crate) const HOST: &str = "bench";
/// Tickets of a client that resumes; each is used once, and every handshake brings new ones.
const TICKETS: usize = 8;

/// What a connection needs that offers `protocol`, and comes back with a ticket if it may.
pub(crate) fn config(protocol: &str, resumes: bool) -> Result<Arc<ClientConfig>, Error> {
    let provider = CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
    let verifier = Arc::new(Everybody);
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    // A hello says that tickets are taken in either case, so servers make as many.
    config.resumption =
        if resumes { Resumption::in_memory_sessions(TICKETS) } else { Resumption::disabled() };
    Ok(Arc::new(config))
}

/// The name of the host, as rustls wants it.
pub(crate) fn host() -> ServerName<'static> {
    ServerName::try_from(HOST).expect("it is a name")
}

/// Believes everybody, and looks at no signature.
#[derive(Debug)]
struct Everybody;

impl ServerCertVerifier for Everybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
