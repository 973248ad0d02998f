//! TLS for tests: a certificate of the test's own, and clients and servers that are not ours (rustls' buffered side).

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, CrlDistributionPoint, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use crate::Directory;

/// A certificate with its key, and what trusts it.
#[derive(Debug)]
pub struct Identity {
    /// The certificate, PEM.
    pub chain: String,
    /// Its key, PEM.
    pub key: String,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Identity {
    /// A new one for these names, ECDSA P-256.
    pub fn new(names: &[&str]) -> Self {
        Self::made(names, |_| ())
    }

    /// As authorities of the world issue them, but that it is its own issuer: for servers, for less than 90 days, with
    /// a place where it would stand if it were revoked.
    pub fn as_issued(names: &[&str]) -> Self {
        Self::made(names, |params| {
            let hour = Duration::from_secs(3600);
            params.not_before = (SystemTime::now() - hour).into();
            params.not_after = (SystemTime::now() + 89 * 24 * hour).into();
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let uris = vec!["http://crl.example.test/1.crl".to_owned()];
            params.crl_distribution_points = vec![CrlDistributionPoint { uris }];
        })
    }

    /// One that held in the year 2001.
    pub fn expired(names: &[&str]) -> Self {
        Self::made(names, |params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 12, 31);
        })
    }

    /// One that was made an hour ago for this time.
    pub fn made_for(names: &[&str], time: Duration) -> Self {
        Self::made(names, |params| {
            let begin = SystemTime::now() - Duration::from_secs(3600);
            (params.not_before, params.not_after) = (begin.into(), (begin + time).into());
        })
    }

    fn made(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        // Each is an issuer of its own.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("test certificate {number}"));
        change(&mut params);
        let made = params.self_signed(&key).unwrap();
        Self {
            chain: made.pem(),
            key: key.serialize_pem(),
            der: made.der().clone(),
            key_der: key.serialize_der(),
        }
    }

    /// A new one that expires after this time.
    pub fn lasting(names: &[&str], time: Duration) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = (SystemTime::now() + time).into();
        let made = params.self_signed(&key).unwrap();
        let (chain, key_der) = (made.pem(), key.serialize_der());
        Self { chain, key: key.serialize_pem(), der: made.der().clone(), key_der }
    }

    /// One that tests share, for `example.test`, `*.example.test`, `localhost` and 127.0.0.1.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Identity> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(&["example.test", "*.example.test", "localhost", "127.0.0.1"]))
    }

    /// Writes it as `NAME.pem` and `NAME.key`, and gives what a configuration says of it.
    pub fn write(&self, directory: &Directory, name: &str) -> String {
        self.write_into(directory.path(), name)
    }

    /// As [`Self::write`], into the directory of a running proxy.
    pub fn write_into(&self, directory: &Path, name: &str) -> String {
        let (chain, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
        fs::write(&chain, &self.chain).unwrap();
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&key);
        file.unwrap().write_all(self.key.as_bytes()).unwrap();
        format!("{{ cert: \"{}\", key: \"{}\" }}", chain.display(), key.display())
    }

    /// What trusts nobody but this one.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        roots
    }

    /// What a client needs that trusts nobody but this one.
    pub fn client(&self) -> ClientConfig {
        self.client_of(rustls::DEFAULT_VERSIONS)
    }

    /// What a client needs that trusts this one and `other`.
    pub fn client_with(&self, other: &Self) -> ClientConfig {
        Self::client_that_trusts(&[self, other], rustls::DEFAULT_VERSIONS)
    }

    /// What a client needs that trusts this one and speaks only these versions.
    pub fn client_of(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        Self::client_that_trusts(&[self], versions)
    }

    fn client_that_trusts(
        trusted: &[&Self],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        trusted.iter().for_each(|identity| roots.add(identity.der.clone()).unwrap());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// What a server needs that shows this one.
    pub fn server(&self) -> ServerConfig {
        self.server_of(rustls::DEFAULT_VERSIONS, None)
    }

    /// The same with these versions; it wants the certificate of a client that is or was signed by `client`.
    pub fn server_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        client: Option<&Self>,
    ) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(versions).unwrap();
        let builder = match client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let mut roots = RootCertStore::empty();
                roots.add(client.der.clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(self.key_der.clone()).unwrap();
        let mut config = builder.with_single_cert(vec![self.der.clone()], key).unwrap();
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        config
    }
}

/// A client's session. After its handshake it only reads tickets and plaintext, so that one thread may read and another
/// one write.
#[derive(Debug)]
pub struct Secure {
    session: Mutex<ClientConnection>,
}

impl Secure {
    /// Shakes hands as a client that asks for `name`; the stream needs a read deadline.
    ///
    /// # Errors
    /// What went wrong.
    pub fn connect(mut stream: &TcpStream, config: Arc<ClientConfig>, name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Self { session: Mutex::new(session) })
    }

    /// The bytes that carry this plaintext.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let mut session = self.session.lock().unwrap();
        session.set_buffer_limit(None);
        session.writer().write_all(plain).unwrap();
        let mut sealed = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut sealed).unwrap();
        }
        sealed
    }

    /// The bytes that say that nothing follows.
    pub fn farewell(&self) -> Vec<u8> {
        self.session.lock().unwrap().send_close_notify();
        self.seal(b"")
    }

    /// The plaintext that these bytes carry; with `true` when the other side has said that nothing follows.
    ///
    /// # Errors
    /// When they break the protocol, or are an alert.
    pub fn open(&self, mut sealed: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        let mut session = self.session.lock().unwrap();
        let mut plain = Vec::new();
        let mut over = false;
        while !sealed.is_empty() {
            session.read_tls(&mut sealed)?;
            let state = session.process_new_packets().map_err(io::Error::other)?;
            over = state.peer_has_closed();
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut plain[before..])?;
        }
        Ok((plain, over))
    }
}
