//! Keys that seal session tickets (RFC 5077 §4, RFC 8446 §4.6.1), shared by all workers and listeners.
//!
//! A ticket is the name of its key (16 bytes), a nonce (12), what rustls wants to remember sealed with AES-256-GCM, and
//! its tag (16). The newest key seals; the one before it still opens, so a ticket is good for one to two periods. Keys
//! from a file are not rotated here: the first of them seals, all open, and who writes the file decides. A key's name
//! is derived from it, so that replicas with the same file know each other's tickets. Reading keys takes a lock that
//! only a rotation takes for writing, and holds it for one increment.
//!
//! Why not rustls' own: it makes its keys itself, so that neither can a second process share them, nor is it told
//! when to rotate; and what it makes is AES-CBC with HMAC.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use serde::{Deserialize, Serialize};
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
    /// The keys come from outside: they are not rotated.
    is_given: bool,
    keys: RwLock<Keys>,
}

/// One for each period, while a configuration holds it: the next one that says the same has the same tickets.
static OF_PROCESS: Mutex<Vec<Weak<Tickets>>> = Mutex::new(Vec::new());

struct Key {
    name: [u8; NAME],
    key: RandomizedNonceKey,
    /// For the process that comes after this one.
    secret: [u8; 32],
    since: Instant,
}

/// Keys of one process for the one that comes after it, so that tickets stay good: for each period, the newest first.
/// `Debug` does not show them.
#[derive(Default, Deserialize, Serialize)]
pub struct PassedKeysSpec(Vec<(Duration, Vec<PassedKeySpec>)>);

#[derive(Deserialize, Serialize)]
struct PassedKeySpec {
    name: [u8; NAME],
    secret: [u8; 32],
    age: Duration,
}

impl fmt::Debug for PassedKeysSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PassedKeysSpec({})", self.0.len())
    }
}

/// What an earlier process has passed on, until a configuration asks for tickets of that period.
static PASSED: Mutex<Vec<(Duration, Keys)>> = Mutex::new(Vec::new());

/// Keys, the newest first.
type Keys = Arc<[Arc<Key>]>;

impl Tickets {
    /// With one key, which seals for 12 hours.
    pub fn new() -> Result<Self, Failure> {
        Self::with_period(PERIOD)
    }

    /// With one key, which seals for that long.
    pub fn with_period(period: Duration) -> Result<Self, Failure> {
        let key = Key::random(Instant::now()).map_err(|_| no_randomness())?;
        Ok(Self { period, is_given: false, keys: RwLock::new(Arc::new([Arc::new(key)])) })
    }

    /// With keys from outside: the first seals, all open. A client may keep a ticket for two periods.
    ///
    /// # Errors
    /// The library takes none of them, which it has no reason for.
    pub fn with_keys(period: Duration, keys: &TicketKeys) -> Result<Self, Failure> {
        let keys = keys.ready().map_err(|_| no_randomness())?;
        Ok(Self { period, is_given: true, keys: RwLock::new(keys) })
    }

    /// Other keys from outside take the place of those that were given.
    pub fn replace(&self, keys: &TicketKeys) -> Result<(), Failure> {
        let keys = keys.ready().map_err(|_| no_randomness())?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// Those of the process that seal for 12 hours.
    pub fn of_process() -> Option<Arc<Self>> {
        Self::of_process_for(PERIOD)
    }

    /// Those of the process with that period: whatever listener or configuration a client meets next, its ticket is
    /// good. Made when first asked for; `None` where the system has no randomness, and then no session is resumed.
    pub fn of_process_for(period: Duration) -> Option<Arc<Self>> {
        let mut all = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        let mut known = all.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|known| known.period == period) {
            return Some(known);
        }
        let mut tickets = Self::with_period(period).ok()?;
        let passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, keys)) = passed.into_iter().find(|(passed, _)| *passed == period) {
            tickets.keys = RwLock::new(keys);
        }
        let tickets = Arc::new(tickets);
        all.push(Arc::downgrade(&tickets));
        Some(tickets)
    }

    /// The keys of the process, for the one that comes after it.
    pub fn pass_on() -> PassedKeysSpec {
        let all = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let key =
            |key: &Arc<Key>| PassedKeySpec { name: key.name, secret: key.secret, age: key.since.elapsed() };
        let tickets = all.iter().filter_map(Weak::upgrade);
        PassedKeysSpec(
            tickets.map(|tickets| (tickets.period, tickets.keys().iter().map(key).collect())).collect(),
        )
    }

    /// Keys of the process before this one, for configurations that are made from now on.
    pub fn take_over(passed: PassedKeysSpec) {
        let now = Instant::now();
        let key = |passed: PassedKeySpec| {
            let since = now.checked_sub(passed.age).unwrap_or(now);
            Key::of(passed.name, passed.secret, since).ok().map(Arc::new)
        };
        let mut kept = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
        for (period, keys) in passed.0 {
            let keys: Option<Vec<_>> = keys.into_iter().take(KEYS).map(key).collect();
            kept.extend(keys.filter(|keys| !keys.is_empty()).map(|keys| (period, keys.into())));
        }
    }

    /// [`Self::rotate`] for all of those of the process.
    pub fn rotate_of_process(now: Instant) {
        let all = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|tickets| tickets.rotate(now));
    }

    /// Takes a new key to seal with where the newest is older than a period, else does nothing, as with given keys:
    /// control calls it now and then. Where the system has no randomness the old key stays.
    pub fn rotate(&self, now: Instant) {
        let keys = self.keys();
        if self.is_given {
            return;
        }
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
    /// From a secret of 32 bytes. Its name says nothing of it: it is the beginning of a digest of another use.
    fn given(secret: &[u8; 32], since: Instant) -> Result<Self, Unspecified> {
        let mut context = Context::new(&SHA256);
        context.update(b"thalweg ticket key name\0");
        context.update(secret);
        let mut name = [0; NAME];
        name.copy_from_slice(&context.finish().as_ref()[..NAME]);
        Self::of(name, *secret, since)
    }

    fn of(name: [u8; NAME], secret: [u8; 32], since: Instant) -> Result<Self, Unspecified> {
        Ok(Self { name, key: RandomizedNonceKey::new(&AES_256_GCM, &secret)?, secret, since })
    }

    fn random(since: Instant) -> Result<Self, Unspecified> {
        let (mut name, mut secret) = ([0; NAME], [0; 32]);
        rand::fill(&mut name)?;
        rand::fill(&mut secret)?;
        Self::of(name, secret, since)
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

/// Keys from outside, as they stand in a file: 1 to [`TLS_TICKET_KEYS`] lines of 64 hexadecimal digits; empty lines and
/// those that begin with `#` are passed over. Equal when they are the same in the same order; `Debug` does not show
/// them.
#[derive(Clone, Eq, PartialEq)]
pub struct TicketKeys(Vec<[u8; 32]>);

impl TicketKeys {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let lines = (1..).zip(text.split(|byte| *byte == b'\n')).map(|(at, line)| (at, line.trim_ascii()));
        let written = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"));
        let mut keys = Vec::new();
        for (at, line) in written {
            let key = digits(line).ok_or_else(|| format!("line {at} has no 64 hexadecimal digits"))?;
            if keys.contains(&key) {
                return Err(format!("line {at} holds a key for the second time"));
            }
            keys.push(key);
        }
        match keys.len() {
            0 => Err("it holds no key".to_owned()),
            1..=TLS_TICKET_KEYS => Ok(Self(keys)),
            _ => Err(format!("it holds more than {TLS_TICKET_KEYS} keys")),
        }
    }

    /// SHA-256 of all of them: what tells one file from another. Not to be shown.
    pub fn digest(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        self.0.iter().for_each(|key| context.update(key));
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        digest
    }

    fn ready(&self) -> Result<Arc<[Arc<Key>]>, Unspecified> {
        let now = Instant::now();
        self.0.iter().map(|secret| Key::given(secret, now).map(Arc::new)).collect()
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKeys({})", self.0.len())
    }
}

fn digits(line: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if line.len() != 64 {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(line.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(key)
}

fn no_randomness() -> Failure {
    Failure::new(Refused::Limit, Some("the system gives no randomness".to_owned()))
}

#[cfg(test)]
mod tests;
