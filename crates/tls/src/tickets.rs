//! Keys that seal session tickets (RFC 5077 §4, RFC 8446 §4.6.1), shared by all workers and listeners.
//!
//! A ticket is the name of its key (16 bytes), a nonce (12), what rustls wants to remember sealed with AES-256-GCM, and its
//! tag (16). The newest key seals; the one before it still opens, so a ticket is good for one to two
//! periods. Reading keys takes a lock that only a rotation takes for writing, and holds it for one increment.
//!
//! Why not rustls' own: it makes its keys itself, so that neither can a second process share them, nor is it told
//! when to rotate; and what it makes is AES-CBC with HMAC.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use thalweg_core::limits::TLS_TICKET_KEYS;

use crate::failure::{Failure, Refused};

/// How long a key seals, where nothing else is said.
const PERIOD: Duration = Duration::from_secs(12 * 60 * 60);
/// Keys that open: the one that seals and the one before it.
const KEYS: usize = 2;
const _: () = assert!(KEYS <= TLS_TICKET_KEYS);
/// The longest that a client may keep a ticket, RFC 8446 §4.6.1.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bytes of a key's name.
const NAME: usize = 16;

/// Keys that seal session tickets. `Debug` does not show them.
pub struct Tickets {
    period: Duration,
    keys: RwLock<Arc<[Arc<Key>]>>,
}

static OF_PROCESS: OnceLock<Option<Arc<Tickets>>> = OnceLock::new();

struct Key {
    name: [u8; NAME],
    key: RandomizedNonceKey,
    since: Instant,
}

impl Tickets {
    /// With one key, which seals for 12 hours.
    pub fn new() -> Result<Self, Failure> {
        Self::with_period(PERIOD)
    }

    /// With one key, which seals for that long.
    pub fn with_period(period: Duration) -> Result<Self, Failure> {
        let key = Key::random(Instant::now()).map_err(|_| no_randomness())?;
        Ok(Self { period, keys: RwLock::new(Arc::new([Arc::new(key)])) })
    }

    /// Those of the process: whatever listener or configuration a client meets next, its ticket is good. Made when
    /// first asked for; `None` where the system has no randomness, and then no session is resumed.
    pub fn of_process() -> Option<Arc<Self>> {
        OF_PROCESS.get_or_init(|| Self::new().ok().map(Arc::new)).clone()
    }

    /// [`Self::rotate`] for those of the process, if somebody has asked for them.
    pub fn rotate_of_process(now: Instant) {
        if let Some(Some(tickets)) = OF_PROCESS.get() {
            tickets.rotate(now);
        }
    }

    /// Takes a new key to seal with where the newest is older than a period, else does nothing: control calls it now
    /// and then. Where the system has no randomness the old key stays.
    pub fn rotate(&self, now: Instant) {
        let keys = self.keys();
        if keys.first().is_some_and(|key| now.saturating_duration_since(key.since) < self.period) {
            return;
        }
        if let Ok(key) = Key::random(now) {
            let kept = keys.iter().take(KEYS - 1).cloned();
            let keys = [Arc::new(key)].into_iter().chain(kept).collect();
            *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        }
    }

    fn keys(&self) -> Arc<[Arc<Key>]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        let lifetime = (self.period * KEYS as u32).min(LIFETIME);
        u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys().first()?.seal(plain).ok()
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, sealed) = ticket.split_at_checked(NAME)?;
        self.keys().iter().find(|key| key.name == name)?.open(sealed).ok()
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Key {
    fn random(since: Instant) -> Result<Self, Unspecified> {
        let (mut name, mut secret) = ([0; NAME], [0; 32]);
        rand::fill(&mut name)?;
        rand::fill(&mut secret)?;
        Ok(Self { name, key: RandomizedNonceKey::new(&AES_256_GCM, &secret)?, since })
    }

    /// Random nonces of 96 bits are good for 2^32 tickets (NIST SP 800-38D §8.3): 99,000 in every second of 12 hours.
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut sealed = plain.to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(&self.name), &mut sealed)?;
        let mut ticket = Vec::with_capacity(NAME + NONCE_LEN + sealed.len());
        ticket.extend_from_slice(&self.name);
        ticket.extend_from_slice(nonce.as_ref());
        ticket.append(&mut sealed);
        Ok(ticket)
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN).ok_or(Unspecified)?;
        let mut opened = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce)?;
        let length = self.key.open_in_place(nonce, Aad::from(&self.name), &mut opened)?.len();
        opened.truncate(length);
        Ok(opened)
    }
}

fn no_randomness() -> Failure {
    Failure::new(Refused::Limit, Some("the system gives no randomness".to_owned()))
}

#[cfg(test)]
mod tests;
