//! The keys of a route, ready to seal and to open.
//!
//! Made once per plan. [`Keyring::open`] is called once per exchange on a sealed route, after the route was found.
//! Invariant: it does the same work for every text, so that its time tells a client nothing.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::cipher::Cipher;
use crate::destination::{Destination, Plain, SealError, ServiceDigest};
use crate::label::{LABEL_LENGTH, Label, Parts, Siv, header};
use crate::minutes::Minutes;
use crate::refusal::Refusal;
use crate::secret::Secret;
use crate::services::Services;

/// The longest domain, in bytes: with a label and a dot in front it is a host name of 253.
const DOMAIN_LENGTH: usize = 253 - LABEL_LENGTH - 1;
/// Stands in front of a service's name in its digest.
const SERVICE: &[u8] = b"thalweg sealed service\0";

/// A key as configuration gives it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Key {
    /// 1–31, told in every label that it seals.
    pub id: u8,
    /// What seals and opens.
    pub secret: Secret,
}

/// The keys and the domain of one route.
///
/// The last key of the list is the newest one and seals; all of them open. To change keys, append one, wait until
/// the labels of the old one have expired, and take the old one out.
pub struct Keyring {
    domain: Box<str>,
    /// The first one is a stand-in that nobody has sealed with, for ids that no key has; the last one seals.
    keys: Box<[Ready]>,
    /// Where the key with an id stands in `keys`.
    places: [u8; 32],
}

/// A key, expanded for one domain.
struct Ready {
    key: Key,
    cipher: Cipher,
}

/// What a label says, who sealed it, and what tells it from others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Opened {
    destination: Destination,
    key: u8,
    siv: Siv,
}

impl Opened {
    /// Where the request goes.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The id of the key that sealed it, 1–31.
    pub fn key(&self) -> u8 {
        self.key
    }

    /// What [`Revoked`](crate::Revoked) is asked about.
    pub fn siv(&self) -> &Siv {
        &self.siv
    }
}

impl Keyring {
    /// Expands keys for a domain, as it stands in the host pattern without `*.`: `svc.example.com`.
    ///
    /// # Errors
    /// No key, an id out of range or given twice, a domain that is not in normal form or too long.
    pub fn new(keys: Vec<Key>, domain: &str) -> Result<Self, KeyringError> {
        check_domain(domain).map_err(KeyringError::Domain)?;
        if keys.is_empty() {
            return Err(KeyringError::NoKey);
        }
        let mut places = [0; 32];
        let mut ready = vec![Ready::new(Key { id: 0, secret: Secret::from([0; 64]) }, 0, domain)];
        for key in keys {
            let place = places.get_mut(usize::from(key.id)).filter(|_| key.id != 0);
            let place = place.ok_or(KeyringError::IdRange(key.id))?;
            if *place != 0 {
                return Err(KeyringError::IdTwice(key.id));
            }
            // At most 31 ids, each once.
            *place = ready.len() as u8;
            let header = header(key.id);
            ready.push(Ready::new(key, header, domain));
        }
        Ok(Self { domain: domain.into(), keys: ready.into(), places })
    }

    /// The domain, without `*.`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Seals a destination with the last key of the list.
    ///
    /// # Errors
    /// An address with port 0 or with a scope.
    pub fn seal(&self, destination: &Destination) -> Result<Label, SealError> {
        let plain = Plain::of(destination)?.to_bytes();
        let sealer = self.sealer();
        let (siv, sealed) = sealer.cipher.seal(plain);
        Ok(Label::new(header(sealer.key.id), siv, sealed))
    }

    /// Opens the first label of a host, in whatever case it came. `now` is [`Minutes::from_unix`] of the time.
    ///
    /// Does the same work for every text: one opening, with a key that stands in where there is none.
    ///
    /// # Errors
    /// The true reason, which is for the log and not for the client. What was revoked is not known here.
    pub fn open(&self, label: &[u8], now: Minutes) -> Result<Opened, Refusal> {
        let parts = Parts::of(label);
        let place = self.places[usize::from(parts.key())];
        let (plain, authentic) = self.keys[usize::from(place)].cipher.open(&parts.siv.0, parts.sealed);
        let plain = Plain::read(&plain);
        let refusal = Refusal::first([
            parts.wrong_length,
            parts.wrong_alphabet,
            parts.wrong_spare_bits,
            parts.wrong_version,
            place == 0,
            !authentic,
            !plain.is_sound(),
            plain.expires <= now,
        ]);
        match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(Opened { destination: plain.destination(), key: parts.key(), siv: parts.siv }),
        }
    }

    /// The digest of a service's name, for [`To::Service`](crate::To::Service) in what [`seal`](Self::seal) seals.
    pub fn service(&self, name: &str) -> ServiceDigest {
        self.sealer().digest(name)
    }

    /// The digest of a service's name under the key with this id, if there is one.
    pub fn digest_of(&self, key: u8, name: &str) -> Option<ServiceDigest> {
        let place = *self.places.get(usize::from(key))?;
        (place != 0).then(|| self.keys[usize::from(place)].digest(name))
    }

    /// Digests of all these names under every key: what finds a service by an opened label in O(1). Costs an HMAC per
    /// name and key. Of a name that stands twice the first place counts.
    pub fn services<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Services {
        let mut places = Services::default();
        for (place, name) in names.into_iter().enumerate() {
            for ready in &self.keys[1..] {
                places.insert(ready.key.id, ready.digest(name), place);
            }
        }
        places
    }

    /// The id of every key with what tells its secret from others; it does not tell the secret.
    pub fn fingerprints(&self) -> impl Iterator<Item = (u8, ServiceDigest)> {
        self.keys[1..].iter().map(|ready| (ready.key.id, ready.digest("")))
    }

    /// The id of the key that seals.
    pub fn sealer_id(&self) -> u8 {
        self.sealer().key.id
    }

    /// The ids of all keys, in their order.
    pub fn ids(&self) -> impl Iterator<Item = u8> {
        self.keys[1..].iter().map(|ready| ready.key.id)
    }

    fn sealer(&self) -> &Ready {
        &self.keys[self.keys.len() - 1]
    }
}

impl Ready {
    fn new(key: Key, header: u8, domain: &str) -> Self {
        let cipher = Cipher::new(key.secret.reveal(), &[&[header], domain.as_bytes()].concat());
        Self { key, cipher }
    }

    fn digest(&self, name: &str) -> ServiceDigest {
        let mac = Hmac::<Sha256>::new_from_slice(self.key.secret.reveal());
        let mac = mac.expect("HMAC takes keys of any length").chain_update(SERVICE).chain_update(name);
        let mut digest = [0; 16];
        digest.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        ServiceDigest(digest)
    }
}

/// Whether they have the same keys, in the same order, for the same domain.
impl PartialEq for Keyring {
    fn eq(&self, other: &Self) -> bool {
        let keys = |ring: &Self| ring.keys.iter().map(|ready| ready.key.clone()).collect::<Vec<_>>();
        self.domain == other.domain && keys(self) == keys(other)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.ids().collect();
        f.debug_struct("Keyring").field("domain", &self.domain).field("keys", &ids).finish()
    }
}

/// Why keys and a domain are no keyring.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeyringError {
    /// The list is empty.
    NoKey,
    /// An id is not from 1 to 31.
    IdRange(u8),
    /// Two keys have this id.
    IdTwice(u8),
    /// The domain cannot be used: why, and what to write instead.
    Domain(String),
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("a key is missing; the last one of the list seals, all of them open"),
            Self::IdRange(id) => write!(f, "{id} is no id of a key; give one from 1 to 31"),
            Self::IdTwice(id) => {
                write!(f, "two keys have the id {id}; give each its own, and no old one to a new key")
            }
            Self::Domain(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for KeyringError {}

/// Whether a text is a domain in normal form below which a label has room.
fn check_domain(domain: &str) -> Result<(), String> {
    if domain.is_empty() {
        return Err("a domain is missing, for example `svc.example.com`".into());
    }
    if let Some(rest) = domain.strip_prefix("*.") {
        return Err(format!("`{domain}`: the domain stands without `*.`; write `{rest}`"));
    }
    if let Some(rest) = domain.strip_suffix('.') {
        return Err(format!("`{domain}`: the domain stands without the last dot; write `{rest}`"));
    }
    if !domain.is_ascii() {
        return Err(format!("`{domain}` is not ASCII; write the punycode form that clients send (`xn--…`)"));
    }
    if domain.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(format!("`{domain}` is not in lower case; write `{}`", domain.to_ascii_lowercase()));
    }
    if domain.len() > DOMAIN_LENGTH {
        return Err(format!(
            "`{domain}` is longer than {DOMAIN_LENGTH} bytes; with a label in front it is no host name"
        ));
    }
    for label in domain.split('.') {
        if label.is_empty() || label.len() > LABEL_LENGTH {
            return Err(format!("`{domain}`: every label has 1 to {LABEL_LENGTH} characters"));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if let Some(bad) = label.bytes().find(|byte| !fits(*byte)) {
            let bad = char::from(bad).escape_default();
            return Err(format!("`{bad}` cannot stand in a host name (`{domain}`)"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
