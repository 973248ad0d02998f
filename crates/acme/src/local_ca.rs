//! Certificates for `localhost` and the names below it, by an authority of this machine's own (RFC 6761 §6.3).
//!
//! For development: whoever trusts its certificate, which stands in `<state>/local/authority.pem`, can use TLS as it
//! will be in production. What it signs is good for those names and the loopback addresses alone, and says so itself
//! (RFC 5280 §4.2.1.10): its key, should it be taken, opens nothing else.
//!
//! The addresses have a certificate of their own, for clients that name no host: BoringSSL knows no constraints on
//! addresses and refuses every certificate below such a constraint that has one
//! (`X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE`).
//!
//! ```text
//! <state>/local/authority.key    when it ends, certificate and key: made once, by whoever is first
//! <state>/local/authority.pem    the certificate, for those who are to trust it
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use sha2::{Digest, Sha256};
use thalweg_core::limits::TLS_LOCAL_NAMES;
use thalweg_tls::acme::local::NAME;
use thalweg_tls::{Certificate, IssuedStore};

use crate::failure::Failure;
use crate::keys::failed;
use crate::storage;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Its files.
const KEPT: &str = "authority.key";
const SHOWN: &str = "authority.pem";
/// Before the end of the authority's certificate, in seconds since the Unix epoch.
const ENDS: &str = "ends: ";
/// How long the authority's own certificate is valid, and when it is made anew.
const AUTHORITY: (Duration, Duration) =
    (Duration::from_secs(3650 * 24 * 3600), Duration::from_secs(365 * 24 * 3600));
/// The same of what it signs.
const LEAF: (Duration, Duration) = (Duration::from_secs(90 * 24 * 3600), Duration::from_secs(30 * 24 * 3600));
/// Longest common name (RFC 5280, appendix A).
const COMMON_NAME: usize = 64;
/// How often is looked whether something is due.
const LOOK: Duration = Duration::from_secs(60);
/// How often is looked whether somebody else has made the authority, and how long between.
const TRIES: u32 = 100;
const TRY: Duration = Duration::from_millis(50);

/// The authority.
pub struct LocalAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, for those who are to trust it.
    file: PathBuf,
}

impl LocalAuthority {
    /// The one that is kept below the state directory; made there when there is none. Where nothing can be kept it
    /// lives as long as the process, and the sentence says why.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn open(state: &Path) -> Result<(Self, Option<String>), String> {
        let directory = state.join("local");
        let (authority, kept) = match kept(&directory) {
            Ok(Some(kept)) if is_shown(&directory, &kept) => (Ok(kept), Ok(())),
            Ok(_) => make(&directory),
            Err(failure) => (Authority::new(), Err(failure)),
        };
        let Authority { key, .. } = authority.map_err(|failure| failure.to_string())?;
        let issuer = Issuer::new(params(&key), key);
        let why = kept.err();
        let why = why.map(|why| {
            format!("the local authority lasts as long as the process, and nobody can trust it: {why}, and start again")
        });
        Ok((Self { issuer, file: directory.join(SHOWN) }, why))
    }

    /// Where its certificate stands.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Shows `localhost` on the store of issued certificates from now on, and what is below it when a client comes with
    /// it. What it signs it renews, as long as somebody holds the store of issued certificates.
    ///
    /// # Errors
    /// When nothing can be signed, or there can be no thread.
    pub fn serve(self: &Arc<Self>, issued_store: &Arc<IssuedStore>) -> Result<(), String> {
        self.show(issued_store, NAME).map_err(|failure| failure.to_string())?;
        self.show_addresses(issued_store).map_err(|failure| failure.to_string())?;
        let (authority, held) = (self.clone(), Arc::downgrade(issued_store));
        let thread = thread::Builder::new().name("thalweg-local".into());
        let thread = thread.spawn(move || authority.run(&held)).map_err(|error| error.to_string())?;
        // From here on clients may ask; the thread looks for what they have asked for when it begins.
        let bell = Waker::from(Arc::new(Bell(thread.thread().clone())));
        let asked = issued_store.take_wanted(&bell);
        asked.iter().for_each(|name| self.answer(issued_store, name));
        Ok(())
    }

    fn run(&self, issued_store: &Weak<IssuedStore>) {
        let bell = Waker::from(Arc::new(Bell(thread::current())));
        while let Some(issued_store) = issued_store.upgrade() {
            issued_store.take_wanted(&bell).iter().for_each(|name| self.answer(&issued_store, name));
            let now = SystemTime::now();
            // Clocks are set back too.
            let is_due = |shown: &Certificate| shown.not_after() < now + LEAF.1 || shown.not_before() > now;
            for (name, ..) in issued_store.all().into_iter().filter(|(_, shown, _)| is_due(shown)) {
                self.answer(&issued_store, &name);
            }
            if issued_store.unnamed().is_some_and(|shown| is_due(&shown)) {
                // It is tried again at the next look.
                let _ = self.show_addresses(&issued_store);
            }
            drop(issued_store);
            thread::park_timeout(LOOK);
        }
    }

    /// Signs for a name that a client waits for.
    fn answer(&self, issued_store: &IssuedStore, name: &str) {
        // Whoever comes with the name that has to go gets another one.
        if !issued_store.has(name)
            && issued_store.len() >= TLS_LOCAL_NAMES
            && let Some((other, ..)) = issued_store.all().into_iter().find(|(other, ..)| other != NAME)
        {
            issued_store.remove(&other);
        }
        if self.show(issued_store, name).is_err() {
            issued_store.settle(name, false);
        }
    }

    fn show(&self, issued_store: &IssuedStore, name: &str) -> Result<(), Failure> {
        issued_store.put(name, Arc::new(self.sign(name, &[])?));
        Ok(())
    }

    /// For clients that name no host: they have come to an address, or say nothing of the name.
    fn show_addresses(&self, issued_store: &IssuedStore) -> Result<(), Failure> {
        let addresses = [Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()];
        issued_store.put_unnamed(Arc::new(self.sign(NAME, &addresses)?));
        Ok(())
    }

    fn sign(&self, name: &str, addresses: &[String]) -> Result<Certificate, Failure> {
        let names: Vec<_> = [name.to_owned()].into_iter().chain(addresses.iter().cloned()).collect();
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        if name.len() <= COMMON_NAME {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let now = SystemTime::now();
        (params.not_before, params.not_after) = ((now - DAY).into(), (now + LEAF.0).into());
        let key = KeyPair::generate().map_err(failed)?;
        let signed = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let read = Certificate::read(signed.pem().as_bytes(), key.serialize_pem().as_bytes());
        read.map_err(|flaw| Failure::Other(format!("a certificate of our own {flaw}")))
    }
}

/// Rings when a client waits for a name.
struct Bell(Thread);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What is kept.
struct Authority {
    key: KeyPair,
    /// Its certificate.
    pem: String,
    /// When that ceases to be valid.
    ends: SystemTime,
}

impl Authority {
    fn new() -> Result<Self, Failure> {
        let key = KeyPair::generate().map_err(failed)?;
        let params = params(&key);
        let pem = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { key, pem, ends: params.not_after.into() })
    }

    /// How long its certificate is valid.
    fn left(&self) -> Duration {
        self.ends.duration_since(SystemTime::now()).unwrap_or_default()
    }
}

/// What the authority says of itself. All but its times follows from the key.
fn params(key: &KeyPair) -> CertificateParams {
    let digest: String =
        Sha256::digest(key.public_key_raw()).iter().take(4).map(|b| format!("{b:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Thalweg local authority {digest}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let addresses = [
        CidrSubnet::from_v4_prefix(Ipv4Addr::new(127, 0, 0, 0).octets(), 8),
        CidrSubnet::from_v6_prefix(Ipv6Addr::LOCALHOST.octets(), 128),
    ];
    let names = [GeneralSubtree::DnsName(NAME.to_owned())].into_iter();
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: names.chain(addresses.map(GeneralSubtree::IpAddress)).collect(),
        excluded_subtrees: Vec::new(),
    });
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - DAY).into(), (now + AUTHORITY.0).into());
    params
}

/// Whether the certificate stands where those find it who are to trust it.
fn is_shown(directory: &Path, kept: &Authority) -> bool {
    let shown = storage::read(&directory.join(SHOWN));
    matches!(shown, Ok(Some(shown)) if shown == kept.pem.as_bytes()) && kept.left() > AUTHORITY.1
}

/// What is kept, if it is valid.
fn kept(directory: &Path) -> Result<Option<Authority>, Failure> {
    let path = directory.join(KEPT);
    let bytes = storage::read(&path).map_err(|error| Failure::file("read", &path, &error))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let read = |text: &str| {
        let (ends, text) = text.strip_prefix(ENDS)?.split_once('\n')?;
        let ends = UNIX_EPOCH.checked_add(Duration::from_secs(ends.parse().ok()?))?;
        let (pem, key) = text.split_at(text.find("-----BEGIN PRIVATE")?);
        Some(Authority { key: KeyPair::from_pem(key).ok()?, pem: pem.to_owned(), ends })
    };
    let Some(authority) = std::str::from_utf8(&bytes).ok().and_then(read) else {
        return Err(Failure::File(format!("{} is damaged; remove it", path.display())));
    };
    Ok((!authority.left().is_zero()).then_some(authority))
}

/// The one that is kept, made where there is none or the last year of it has begun, and shown to those who are to trust
/// it; and whether that went well. One process does so at a time.
fn make(directory: &Path) -> (Result<Authority, Failure>, Result<(), Failure>) {
    for _ in 0..TRIES {
        match storage::lease(directory) {
            Ok(None) => thread::sleep(TRY),
            Err(failure) => return without_lease(directory, failure),
            Ok(Some(_lease)) => {
                return match kept(directory) {
                    Ok(Some(kept)) if kept.left() > AUTHORITY.1 => {
                        let shown = show(directory, &kept);
                        (Ok(kept), shown)
                    }
                    Err(failure) => (Authority::new(), Err(failure)),
                    Ok(old) => match Authority::new().and_then(|made| write(directory, &made).map(|()| made))
                    {
                        Ok(made) => (Ok(made), Ok(())),
                        // There is nowhere to keep another.
                        Err(failure) => match old {
                            Some(old) => (Ok(old), Ok(())),
                            None => (Authority::new(), Err(failure)),
                        },
                    },
                };
            }
        }
    }
    without_lease(directory, Failure::Other(format!("somebody else holds {}", directory.display())))
}

/// What there is where nothing can be written.
fn without_lease(directory: &Path, failure: Failure) -> (Result<Authority, Failure>, Result<(), Failure>) {
    match kept(directory) {
        Ok(Some(kept)) => (Ok(kept), Ok(())),
        _ => (Authority::new(), Err(failure)),
    }
}

/// Whoever sees the key sees the certificate.
fn write(directory: &Path, made: &Authority) -> Result<(), Failure> {
    show(directory, made)?;
    let path = directory.join(KEPT);
    let ends = made.ends.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = format!("{ENDS}{ends}\n{}{}", made.pem, made.key.serialize_pem());
    storage::write_whole(&path, text.as_bytes()).map_err(|error| Failure::file("write", &path, &error))
}

fn show(directory: &Path, authority: &Authority) -> Result<(), Failure> {
    let path = directory.join(SHOWN);
    storage::write_whole(&path, authority.pem.as_bytes())
        .map_err(|error| Failure::file("write", &path, &error))
}

#[cfg(test)]
mod tests;
