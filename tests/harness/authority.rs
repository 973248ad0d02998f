//! Authorities of clients for tests: certificates that clients show, and lists of those that are revoked.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa,
    Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, SupportedProtocolVersion};

use crate::Identity;

/// An authority.
#[derive(Debug)]
pub struct Authority {
    /// Its certificate, PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// What a client shows of itself.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The certificate, PEM.
    pub chain: String,
    /// Its key, PEM.
    pub key: String,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Authority {
    /// A new one of this name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// A certificate for the client `name` of the organisation "Example", with this serial number, that is valid in
    /// these days from today on.
    pub fn issue(&self, name: &str, days: Range<i64>, serial: u64) -> Shown {
        let host: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut params = CertificateParams::new(vec![format!("{host}.clients.test")]).unwrap();
        params.subject_alt_names.push(SanType::URI("spiffe://clients.test/a,b".try_into().unwrap()));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) = (in_days(days.start).into(), in_days(days.end).into());
        params.serial_number = Some(serial.into());
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        let (der, key_der) = (made.der().clone(), key.serialize_der());
        Shown { chain: made.pem(), key: key.serialize_pem(), der, key_der }
    }

    /// A list that revokes these serial numbers, PEM.
    pub fn revoke(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: in_days(-1).into(),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: in_days(-1).into(),
            next_update: in_days(10).into(),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

impl Shown {
    /// What a client needs that shows this, trusts `server` and speaks these versions.
    pub fn client(&self, server: &Identity, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(self.key_der.clone()).unwrap();
        ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(server.roots())
            .with_client_auth_cert(vec![self.der.clone()], key)
            .unwrap()
    }

    /// Writes it as `NAME.pem` and `NAME.key`.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (chain, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
        fs::write(&chain, &self.chain).unwrap();
        fs::write(&key, &self.key).unwrap();
        (chain, key)
    }
}

fn in_days(days: i64) -> SystemTime {
    let distance = Duration::from_secs(days.unsigned_abs() * 24 * 3600);
    if days < 0 { SystemTime::now() - distance } else { SystemTime::now() + distance }
}
