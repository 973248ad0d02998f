//! Certificates that come and go while a listener runs: those that an authority issues.
//!
//! Control puts them here, handshakes look here. All acceptors with the same mark share one store, over reloads too: a
//! configuration that takes over finds what the one before it has been issued. A name without a certificate may have a
//! placeholder. Where names are asked for on demand, a handshake waits here for what becomes of its name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use thalweg_core::limits::{TLS_WANTED, TLS_WANTED_REFUSED};

use crate::certificate::Certificate;
use crate::certificate_error::CertificateError;
use crate::hello::Hello;
use crate::pem;
use crate::provider::provider;

/// The protocol of handshakes that check a name (RFC 8737 §6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";
/// How long a name that was refused on demand is refused at once.
const REFUSED: Duration = Duration::from_secs(60);

type Shelves = Mutex<HashMap<String, Weak<IssuedStore>>>;

/// Certificates by name. `Debug` shows no keys.
#[derive(Debug)]
pub struct IssuedStore {
    mark: String,
    names: RwLock<HashMap<String, Shown>>,
    /// For clients that name no host, before the first of the names.
    unnamed: RwLock<Option<Arc<Certificate>>>,
    /// For handshakes that check a name.
    challenges: RwLock<HashMap<String, Arc<ServerConfig>>>,
    /// How many of them there are: a look at one word while there are none.
    challenged: AtomicUsize,
    wanted: Mutex<Wanted>,
}

#[derive(Clone, Debug)]
struct Shown {
    certificate: Arc<Certificate>,
    stands_in: bool,
}

/// Names that clients wait for.
#[derive(Debug, Default)]
struct Wanted {
    waiting: HashMap<String, Vec<Waker>>,
    /// Those that control has not been told of.
    fresh: Vec<String>,
    refused: HashMap<String, Instant>,
    /// Tells control.
    bell: Option<Waker>,
}

impl Wanted {
    /// Whoever waits for the name would ask again at once if that were not remembered; where there are too many, the
    /// oldest goes.
    fn refuse(&mut self, name: &str, until: Instant) {
        if self.refused.len() >= TLS_WANTED_REFUSED
            && let Some((oldest, _)) = self.refused.iter().min_by_key(|(_, until)| **until)
        {
            let oldest = oldest.clone();
            self.refused.remove(&oldest);
        }
        self.refused.insert(name.to_owned(), until);
    }
}

/// What becomes of a handshake whose name has no certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnDemand {
    /// It is there now.
    There,
    /// It is asked for: the waker is called when that has ended.
    Waits,
    /// It was refused, or too many names are asked for.
    Refused,
}

impl IssuedStore {
    /// An empty one.
    pub fn new(mark: &str) -> Arc<Self> {
        Arc::new(Self {
            mark: mark.to_owned(),
            names: RwLock::default(),
            unnamed: RwLock::default(),
            challenges: RwLock::default(),
            challenged: AtomicUsize::new(0),
            wanted: Mutex::default(),
        })
    }

    /// The one with this mark in the process, which lives as long as somebody holds it.
    pub fn of_process(mark: &str) -> Arc<Self> {
        static SHELVES: OnceLock<Shelves> = OnceLock::new();
        let mut issued_stores =
            SHELVES.get_or_init(Shelves::default).lock().unwrap_or_else(PoisonError::into_inner);
        issued_stores.retain(|_, issued_store| issued_store.strong_count() > 0);
        if let Some(issued_store) = issued_stores.get(mark).and_then(Weak::upgrade) {
            return issued_store;
        }
        let issued_store = Self::new(mark);
        issued_stores.insert(mark.to_owned(), Arc::downgrade(&issued_store));
        issued_store
    }

    /// What tells it from others.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Shows a certificate for a name from now on; who waits for the name is woken. One that has expired never takes
    /// the place of one that is valid.
    pub fn put(&self, name: &str, certificate: Arc<Certificate>) {
        let mut names = self.write();
        let now = SystemTime::now();
        let keeps = names.get(name).is_some_and(|shown| {
            !shown.stands_in && !shown.certificate.has_expired(now) && certificate.has_expired(now)
        });
        if !keeps {
            names.insert(name.to_owned(), Shown { certificate, stands_in: false });
        }
        drop(names);
        self.settle(name, true);
    }

    /// Shows a certificate to clients that name no host from now on: those that come to an address.
    pub fn put_unnamed(&self, certificate: Arc<Certificate>) {
        *self.unnamed.write().unwrap_or_else(PoisonError::into_inner) = Some(certificate);
    }

    /// The certificate for clients that name no host, where there is one of its own.
    pub fn unnamed(&self) -> Option<Arc<Certificate>> {
        self.unnamed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows this one as long as the name has none of its own.
    pub fn stand_in(&self, name: &str, certificate: Arc<Certificate>) {
        self.write().entry(name.to_owned()).or_insert(Shown { certificate, stands_in: true });
    }

    /// Shows nothing for a name any more.
    pub fn remove(&self, name: &str) {
        self.write().remove(name);
    }

    /// The certificate for a name as it is filed, `*.example.com` as written.
    pub fn get(&self, name: &str) -> Option<Arc<Certificate>> {
        self.read().get(name).map(|shown| Arc::clone(&shown.certificate))
    }

    /// Whether the name has a certificate that is no placeholder.
    pub fn has(&self, name: &str) -> bool {
        self.read().get(name).is_some_and(|shown| !shown.stands_in)
    }

    /// How many names have a certificate or a placeholder.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All names with their certificates; `true`: a placeholder.
    pub fn all(&self) -> Vec<(String, Arc<Certificate>, bool)> {
        let names = self.read();
        let all = names.iter().map(|(name, it)| (name.clone(), Arc::clone(&it.certificate), it.stands_in));
        all.collect()
    }

    /// Answers handshakes that check this name with this certificate and its key, in PEM. It need not be one that
    /// clients would take: what it says stands in an extension that they do not know.
    pub fn challenge(&self, name: &str, chain_pem: &[u8], key_pem: &[u8]) -> Result<(), CertificateError> {
        let key = provider(&[], &[]).key_provider.load_private_key(pem::private_key(key_pem)?);
        let key = key.map_err(|why| CertificateError::UnusableKey(why.to_string()))?;
        let shown = Arc::new(CertifiedKey::new(pem::certificates(chain_pem)?, key));
        let config = challenge_config(shown);
        let config = config.map_err(|why| CertificateError::BadCertificate(1, why.to_string()))?;
        self.change_challenges(|challenges| challenges.insert(name.to_owned(), Arc::new(config)));
        Ok(())
    }

    /// Answers them no longer.
    pub fn end_challenge(&self, name: &str) {
        self.change_challenges(|challenges| challenges.remove(name));
    }

    fn change_challenges<T>(&self, change: impl FnOnce(&mut HashMap<String, Arc<ServerConfig>>) -> T) {
        let mut challenges = self.challenges.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut challenges);
        self.challenged.store(challenges.len(), Ordering::Release);
    }

    /// What a handshake that checks a name is answered with: it offers that protocol and nothing else (RFC 8737 §3).
    pub(crate) fn challenged(&self, hello: &Hello) -> Option<Arc<ServerConfig>> {
        if self.challenged.load(Ordering::Acquire) == 0 || !asks_for_challenge(hello) {
            return None;
        }
        let challenges = self.challenges.read().unwrap_or_else(PoisonError::into_inner);
        challenges.get(hello.name.as_deref()?).cloned()
    }

    /// Asks for a name, which is allowed, on behalf of a handshake.
    pub fn want(&self, name: &str, now: Instant, waker: &Waker) -> OnDemand {
        if self.has(name) {
            return OnDemand::There;
        }
        let mut wanted = self.wanted();
        wanted.refused.retain(|_, until| *until > now);
        if wanted.refused.contains_key(name) {
            return OnDemand::Refused;
        }
        // Between the first look and the lock it may have come.
        if self.has(name) {
            return OnDemand::There;
        }
        // A name whose clients have left is asked for all the same.
        let waiting: usize = wanted.waiting.values().map(|wakers| wakers.len().max(1)).sum();
        if let Some(wakers) = wanted.waiting.get_mut(name) {
            if !wakers.iter().any(|known| known.will_wake(waker)) {
                if waiting >= TLS_WANTED {
                    return OnDemand::Refused;
                }
                wakers.push(waker.clone());
            }
            return OnDemand::Waits;
        }
        if waiting >= TLS_WANTED || wanted.bell.is_none() {
            return OnDemand::Refused;
        }
        wanted.waiting.insert(name.to_owned(), vec![waker.clone()]);
        wanted.fresh.push(name.to_owned());
        wanted.bell.iter().for_each(Waker::wake_by_ref);
        OnDemand::Waits
    }

    /// A handshake does not wait any more.
    pub fn give_up(&self, name: &str, waker: &Waker) {
        if let Some(wakers) = self.wanted().waiting.get_mut(name) {
            wakers.retain(|known| !known.will_wake(waker));
        }
    }

    /// Who waits for the name asks for it anew.
    pub fn want_again(&self, name: &str) {
        let wanted = &mut *self.wanted();
        if wanted.waiting.contains_key(name) && !wanted.fresh.iter().any(|fresh| fresh == name) {
            wanted.fresh.push(name.to_owned());
        }
    }

    /// The names that were asked for since the last call; `bell` is called when there are more.
    pub fn take_wanted(&self, bell: &Waker) -> Vec<String> {
        let mut wanted = self.wanted();
        wanted.bell = Some(bell.clone());
        std::mem::take(&mut wanted.fresh)
    }

    /// What became of a name that was asked for: who waits for it is woken. One that has none is refused for a while.
    pub fn settle(&self, name: &str, is_there: bool) {
        let mut wanted = self.wanted();
        if !is_there {
            wanted.refuse(name, Instant::now() + REFUSED);
        }
        let wakers = wanted.waiting.remove(name);
        drop(wanted);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Shown>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Shown>> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a client wants to check a name and nothing else.
pub(crate) fn asks_for_challenge(hello: &Hello) -> bool {
    matches!(hello.alpn.as_slice(), [only] if only == ACME_TLS)
}

/// No tickets, no session, one protocol, one certificate.
fn challenge_config(shown: Arc<CertifiedKey>) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider(&[], &[]));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[cfg(test)]
mod tests;
