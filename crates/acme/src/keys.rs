//! What is made here: keys, requests for certificates, certificates that answer a check or stand in.

use instant_acme::KeyAuthorization;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, Error, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256,
};
use thalweg_tls::AcmeKeyType;
use thalweg_tls::Certificate;

use crate::failure::Failure;

/// A new key, PEM.
pub(crate) fn generate(kind: AcmeKeyType) -> Result<String, Failure> {
    let algorithm = match kind {
        AcmeKeyType::P256 => &PKCS_ECDSA_P256_SHA256,
        AcmeKeyType::P384 => &PKCS_ECDSA_P384_SHA384,
        // Of 2048 bits.
        AcmeKeyType::Rsa2048 => &PKCS_RSA_SHA256,
    };
    Ok(KeyPair::generate_for(algorithm).map_err(failed)?.serialize_pem())
}

/// What asks for a certificate for this name with this key (PKCS #10), DER.
pub(crate) fn request(name: &str, key_pem: &str) -> Result<Vec<u8>, Failure> {
    let key = KeyPair::from_pem(key_pem).map_err(failed)?;
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key).map_err(failed)?.der().to_vec())
}

/// The certificate that answers the check of a name in a handshake (RFC 8737 §3), and its key; PEM.
pub(crate) fn proof(name: &str, authorization: &KeyAuthorization) -> Result<(String, String), Failure> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
    let digest = authorization.digest();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
    signed_by_itself(&params)
}

/// What a name is answered with until it has a certificate. Nobody trusts it.
pub(crate) fn placeholder(name: &str) -> Result<Certificate, Failure> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "thalweg: no certificate has been issued yet");
    let (chain, key) = signed_by_itself(&params)?;
    let read = Certificate::read(chain.as_bytes(), key.as_bytes());
    read.map_err(|flaw| Failure::Other(format!("a certificate of our own {flaw}")))
}

fn signed_by_itself(params: &CertificateParams) -> Result<(String, String), Failure> {
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

pub(crate) fn failed(error: Error) -> Failure {
    Failure::Other(format!("cannot make a key or a certificate: {error}"))
}
