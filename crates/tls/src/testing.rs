//! For tests: certificates, and a session that talks with rustls' buffered connection through cut streams of bytes.

use std::io::{IoSlice, Read, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use rcgen::{
    CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyPair, RevokedCertParams,
    SignatureAlgorithm,
};
use rustls::client::ClientConnection;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};

use crate::provider::provider;
use crate::{
    Acceptor, Certificate, Connector, Failure, PeerPolicy, PeerTerms, Policy, Session, Tickets, Trust,
};

/// An authority, to issue certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A leaf with its key, in PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::valid(name, -1000..1000)
    }

    /// One that is valid for these days from today on.
    pub(crate) fn valid(name: &str, days: std::ops::Range<i64>) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (in_days(days.start).into(), in_days(days.end).into());
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_for(&rcgen::PKCS_ECDSA_P256_SHA256, names)
    }

    pub(crate) fn issue_for(&self, algorithm: &'static SignatureAlgorithm, names: &[&str]) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.issue_params(algorithm, CertificateParams::new(names).unwrap())
    }

    pub(crate) fn issue_params(
        &self,
        algorithm: &'static SignatureAlgorithm,
        params: CertificateParams,
    ) -> Issued {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        Issued { chain: leaf.pem(), key: key.serialize_pem() }
    }

    /// An authority that this one has signed.
    pub(crate) fn issue_authority(&self, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate of a client, valid for these days from today on, with this serial number.
    pub(crate) fn issue_client(&self, name: &str, days: std::ops::Range<i64>, serial: u64) -> Issued {
        let mut params = CertificateParams::new(vec![format!("{name}.clients.test")]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        (params.not_before, params.not_after) = (in_days(days.start).into(), in_days(days.end).into());
        params.serial_number = Some(serial.into());
        self.issue_params(&rcgen::PKCS_ECDSA_P256_SHA256, params)
    }

    /// A list of revoked certificates that holds for so many days from yesterday on.
    pub(crate) fn revoke(&self, serials: &[u64], days: i64) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: in_days(-1).into(),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: in_days(-20).into(),
            next_update: in_days(days - 1).into(),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }
}

impl Issued {
    pub(crate) fn read(&self) -> Arc<Certificate> {
        Arc::new(Certificate::read(self.chain.as_bytes(), self.key.as_bytes()).unwrap())
    }

    pub(crate) fn ders(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes()).map(Result::unwrap).collect();
        (chain, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap())
    }
}

fn in_days(days: i64) -> SystemTime {
    let distance = Duration::from_secs(days.unsigned_abs() * 24 * 3600);
    if days < 0 { SystemTime::now() - distance } else { SystemTime::now() + distance }
}

/// An acceptor with one certificate.
pub(crate) fn acceptor(issued: &Issued, policy: Policy, tickets: Option<Arc<Tickets>>) -> Arc<Acceptor> {
    Arc::new(Acceptor::new(vec![(issued.read(), Vec::new())], policy, tickets).unwrap())
}

/// A connector to `host` that trusts the authority.
pub(crate) fn connector(authority: &Authority, policy: PeerPolicy, host: &str) -> Arc<Connector> {
    let trust = match policy.trust {
        Trust::System => Trust::Only(authority.pem.as_bytes().into()),
        trust => trust,
    };
    let terms = Arc::new(PeerTerms::new(PeerPolicy { trust, ..policy }).unwrap());
    Arc::new(Connector::new(&terms, host).unwrap())
}

/// rustls' own client, all versions.
pub(crate) fn far_client(authority: &Authority) -> ClientConfig {
    let config = ClientConfig::builder_with_provider(provider(&[], &[]));
    let config = config.with_safe_default_protocol_versions().unwrap();
    config.with_root_certificates(authority.roots()).with_no_client_auth()
}

/// The same, of this version, with a certificate to show.
pub(crate) fn far_client_with(
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
    shown: Option<&Issued>,
) -> ClientConfig {
    let config = ClientConfig::builder_with_provider(provider(&[], &[]));
    let config = config.with_protocol_versions(&[version]).unwrap();
    let config = config.with_root_certificates(authority.roots());
    match shown {
        Some(shown) => {
            let (chain, key) = shown.ders();
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    }
}

/// rustls' own server, all versions.
pub(crate) fn far_server(issued: &Issued) -> ServerConfig {
    let (chain, key) = issued.ders();
    let config = ServerConfig::builder_with_provider(provider(&[], &[]));
    let config = config.with_safe_default_protocol_versions().unwrap();
    config.with_no_client_auth().with_single_cert(chain, key).unwrap()
}

/// The largest pieces in which bytes move; each is cut at random up to that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cuts {
    pub(crate) received: usize,
    pub(crate) into: usize,
    pub(crate) out: usize,
}

impl Cuts {
    pub(crate) const NONE: Self = Self { received: 1 << 17, into: 1 << 17, out: 1 << 17 };
}

/// A session, rustls' connection, and the bytes between them.
pub(crate) struct Link {
    pub(crate) session: Session,
    pub(crate) far: rustls::Connection,
    rng: Rng,
    cuts: Cuts,
    /// On the way from far, not received yet.
    pub(crate) coming: Vec<u8>,
    /// Received and not consumed.
    pub(crate) held: Vec<u8>,
    /// On the way to far.
    pub(crate) going: Vec<u8>,
    /// Plaintext that the session shall send.
    pub(crate) to_send: Vec<u8>,
    /// It shall part behind that.
    pub(crate) last: bool,
    /// Plaintext that came out of the session.
    pub(crate) got: Vec<u8>,
    /// Plaintext that came out of far.
    pub(crate) far_got: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) far_failure: Option<rustls::Error>,
    /// The most that was held.
    pub(crate) most_held: usize,
}

impl Link {
    pub(crate) fn new(session: Session, far: rustls::Connection, seed: u64, cuts: Cuts) -> Self {
        Self {
            session,
            far,
            rng: Rng::with_seed(seed),
            cuts,
            coming: Vec::new(),
            held: Vec::new(),
            going: Vec::new(),
            to_send: Vec::new(),
            last: false,
            got: Vec::new(),
            far_got: Vec::new(),
            ended: false,
            failure: None,
            far_failure: None,
            most_held: 0,
        }
    }

    /// The session is the server.
    pub(crate) fn with_client(
        acceptor: &Arc<Acceptor>,
        far: &Arc<ClientConfig>,
        name: &str,
        seed: u64,
        cuts: Cuts,
    ) -> Self {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let far = ClientConnection::new(Arc::clone(far), name).unwrap();
        Self::new(Session::accept(acceptor).unwrap(), far.into(), seed, cuts)
    }

    /// The session is the client.
    pub(crate) fn with_server(
        connector: &Arc<Connector>,
        far: &Arc<ServerConfig>,
        seed: u64,
        cuts: Cuts,
    ) -> Self {
        let far = ServerConnection::new(Arc::clone(far)).unwrap();
        Self::new(Session::connect(connector, crate::Offer::Http1).unwrap(), far.into(), seed, cuts)
    }

    /// Moves bytes both ways until nothing moves any more: often in a row, since there may be too little room by
    /// chance.
    pub(crate) fn run(&mut self) {
        let mut idle = 0;
        for _ in 0..10_000_000 {
            let moved = self.far_writes() | self.session_reads() | self.session_writes() | self.far_reads();
            idle = if moved { 0 } else { idle + 1 };
            if idle == 64 {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Puts bytes where far would put them.
    pub(crate) fn inject(&mut self, bytes: &[u8]) {
        self.coming.extend_from_slice(bytes);
    }

    pub(crate) fn far_sends(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let written = self.far.writer().write(bytes).unwrap();
            bytes = &bytes[written..];
            self.far_writes();
        }
    }

    pub(crate) fn far_writes(&mut self) -> bool {
        let before = self.coming.len();
        while self.far.wants_write() {
            self.far.write_tls(&mut self.coming).unwrap();
        }
        self.coming.len() > before
    }

    fn cut(&mut self, most: usize) -> usize {
        self.rng.usize(1..=most)
    }

    pub(crate) fn session_reads(&mut self) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let count = self.cut(self.cuts.received).min(self.coming.len());
        self.held.extend(self.coming.drain(..count));
        self.most_held = self.most_held.max(self.held.len());
        let mut moved = count > 0;
        loop {
            let room = self.cut(self.cuts.into);
            let mut into = vec![0; room];
            match self.session.open(&mut self.held, &mut into) {
                Ok(opened) => {
                    assert!(opened.consumed <= self.held.len() && opened.written <= room);
                    self.held.drain(..opened.consumed);
                    self.got.extend_from_slice(&into[..opened.written]);
                    moved |= opened.consumed > 0 || opened.written > 0;
                    assert!(!(opened.ended && opened.more));
                    self.ended |= opened.ended;
                    if !opened.more {
                        return moved;
                    }
                }
                Err(failure) => {
                    assert_eq!(self.session.open(&mut [], &mut []).unwrap_err(), failure);
                    assert_eq!(self.session.seal(&[], false, &mut []).unwrap_err(), failure);
                    self.failure = Some(failure);
                    return true;
                }
            }
        }
    }

    pub(crate) fn session_writes(&mut self) -> bool {
        let mut out = vec![0; self.cut(self.cuts.out)];
        let mut moved = false;
        if self.rng.bool() || self.failure.is_some() {
            let written = self.session.say(&mut out);
            self.going.extend_from_slice(&out[..written]);
            moved |= written > 0;
        }
        if self.failure.is_some() {
            return moved;
        }
        // Two pieces and an empty one, cut anywhere.
        let at = self.rng.usize(0..=self.to_send.len());
        let (first, second) = self.to_send.split_at(at);
        let slices = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)];
        let sealed = self.session.seal(&slices, self.last, &mut out).unwrap();
        assert!(sealed.taken <= self.to_send.len() && sealed.written <= out.len());
        assert!(sealed.taken == 0 || sealed.written > sealed.taken);
        self.to_send.drain(..sealed.taken);
        self.going.extend_from_slice(&out[..sealed.written]);
        moved | (sealed.written > 0)
    }

    pub(crate) fn far_reads(&mut self) -> bool {
        if self.far_failure.is_some() || self.going.is_empty() {
            return false;
        }
        let count = self.cut(self.cuts.received).min(self.going.len());
        let mut read = 0;
        while read < count && self.far_failure.is_none() {
            let taken = self.far.read_tls(&mut &self.going[read..count]).unwrap();
            if taken == 0 {
                break;
            }
            read += taken;
            match self.far.process_new_packets() {
                Ok(_) => {
                    // Nothing there is an error of its own kind, and no bytes.
                    let _ = self.far.reader().read_to_end(&mut self.far_got);
                }
                Err(why) => self.far_failure = Some(why),
            }
        }
        self.going.drain(..count);
        true
    }
}

/// Bytes that are easy to tell apart.
pub(crate) fn payload(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
}
