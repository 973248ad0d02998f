//! Where a route goes whose requests name their destination themselves, sealed in the first label of their host.
//!
//! A plan type with its one decision: what a label says, and whether it holds here and now. The format and the cipher
//! are `thalweg_sealed`'s; what a client is told of a refusal, `exchange/unseal.rs`'s.

use crate::plan::ServiceId;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_core::units::duration_text;
use thalweg_sealed::reach::{Allow, canonical};
use thalweg_sealed::{Destination, Keyring, Minutes, Refusal, Revoked, SealError, Services, Siv, To};
use thalweg_upstream::Aim;

/// Labels are told in whole minutes, rounded up; and clocks of minters differ a little.
const ROUNDING: Duration = Duration::from_secs(2 * 60);

/// Where labels lead (`to: { sealed: … }`).
#[derive(Debug)]
pub struct SealedRoute {
    /// The service that counts what goes to addresses; it has no endpoints.
    pub service: ServiceId,
    /// Opens labels, below the domain.
    pub keyring: Keyring,
    /// Addresses that a label may name.
    pub allow: Allow,
    /// Services that a label may name.
    pub named: Vec<ServiceId>,
    /// Finds a place in [`Self::named`] by a label.
    pub found: Services,
    /// Labels that hold no longer; `None`: all do.
    pub revoked: Option<RevokedFile>,
    /// How long a label may be good for from now on, 1 min to 1 year; default 24 h.
    pub max_ttl: Duration,
}

/// Keys and lists decide; what finds services follows from them.
impl PartialEq for SealedRoute {
    fn eq(&self, other: &Self) -> bool {
        let Self { service, keyring, allow, named, found: _, revoked, max_ttl } = self;
        *service == other.service
            && *keyring == other.keyring
            && *allow == other.allow
            && *named == other.named
            && *revoked == other.revoked
            && *max_ttl == other.max_ttl
    }
}

/// Labels that hold no longer, of a file. Another list may take over while requests come.
#[derive(Debug)]
pub struct RevokedFile {
    /// As written.
    pub path: PathBuf,
    list: RwLock<Revoked>,
}

impl RevokedFile {
    /// What the file holds.
    pub fn new(path: PathBuf, list: Revoked) -> Self {
        Self { path, list: RwLock::new(list) }
    }

    /// It holds these from now on; says whether that is news.
    pub fn replace(&self, list: Revoked) -> bool {
        let mut known = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let is_news = *known != list;
        *known = list;
        is_news
    }

    /// Whether another list holds all that it does.
    pub fn is_within(&self, list: &Revoked) -> bool {
        self.read().is_within(list)
    }

    /// How many labels.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether none.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    fn contains(&self, siv: &Siv) -> bool {
        self.read().contains(siv)
    }

    fn read(&self) -> RwLockReadGuard<'_, Revoked> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for RevokedFile {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.path == other.path && *self.read() == *other.read())
    }
}

/// Where a label leads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leads {
    /// To an address.
    Aim(Aim),
    /// To a service of the configuration.
    Service(ServiceId),
}

impl SealedRoute {
    /// What a host says, at this time. `is_own` tells whether an address is the proxy's.
    ///
    /// # Errors
    /// The true reason, for logs.
    pub fn open(
        &self,
        host: &[u8],
        now: SystemTime,
        is_own: impl FnOnce(SocketAddr) -> bool,
    ) -> Result<(Leads, Destination), &'static str> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let opened = self.keyring.open(self.label_of(host), Minutes::from_unix(now.as_secs()));
        let opened = opened.map_err(reason)?;
        let destination = *opened.destination();
        if self.revoked.as_ref().is_some_and(|revoked| revoked.contains(opened.siv())) {
            return Err("the label was revoked");
        }
        let left = destination.expires.unix().saturating_sub(now.as_secs());
        if Duration::from_secs(left) > self.max_ttl + ROUNDING {
            return Err("the label is good for longer than `max_ttl`");
        }
        let leads = match destination.to {
            To::Address(address) => {
                Leads::Aim(Aim { address: self.permitted(address, is_own)?, secure: destination.tls })
            }
            To::Service(_) => {
                let place = self.found.find(&opened);
                let service = place.and_then(|place| self.named.get(place));
                Leads::Service(*service.ok_or("the label names no service of `services`")?)
            }
        };
        Ok((leads, destination))
    }

    /// The address as it is connected to, where `allow` holds it.
    ///
    /// # Errors
    /// Why it may not be connected to.
    pub fn permitted(
        &self,
        address: SocketAddr,
        is_own: impl FnOnce(SocketAddr) -> bool,
    ) -> Result<SocketAddr, &'static str> {
        let address = SocketAddr::new(canonical(address.ip()), address.port());
        self.allow.permits(address, is_own).map_err(|why| why.as_str())?;
        Ok(address)
    }

    /// Whether a label may be made that is good for so long.
    ///
    /// # Errors
    /// Why not.
    pub fn check_ttl(&self, ttl: Duration) -> Result<(), String> {
        if ttl > self.max_ttl || ttl.is_zero() {
            let most = duration_text(self.max_ttl);
            return Err(format!(
                "a label is good for longer than no time, and for {most} at most (`max_ttl`)"
            ));
        }
        Ok(())
    }

    /// Seals a destination that this route would serve, until `ttl` from now; gives the host.
    ///
    /// # Errors
    /// Why it would not serve it.
    pub fn seal(
        &self,
        to: Target<'_>,
        (now, ttl): (SystemTime, Duration),
        is_own: impl FnOnce(SocketAddr) -> bool,
    ) -> Result<Sealed, String> {
        self.check_ttl(ttl)?;
        let (to, tls) = match to {
            Target::Address { address, tls } => {
                let permitted = self.permitted(address, is_own);
                (To::Address(permitted.map_err(|why| format!("{address}: {why}"))?), tls)
            }
            Target::Service(name) => (To::Service(self.keyring.service(name)), false),
        };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let expires = Minutes::after(now, ttl);
        let label = self.keyring.seal(&Destination { to, tls, expires });
        let label = label.map_err(|error: SealError| error.to_string())?;
        let host = format!("{label}.{}", self.keyring.domain());
        Ok(Sealed { host, label: label.to_string(), expires: expires.unix(), key: self.keyring.sealer_id() })
    }

    /// What stands before the domain, if that is one label; else nothing, which no key opens.
    fn label_of<'a>(&self, host: &'a [u8]) -> &'a [u8] {
        let domain = self.keyring.domain().as_bytes();
        let (label, rest) = host.split_at(host.len().saturating_sub(domain.len() + 1));
        match rest.split_first() {
            Some((b'.', rest)) if rest.eq_ignore_ascii_case(domain) && !label.contains(&b'.') => label,
            _ => &[],
        }
    }
}

/// What is to be sealed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target<'a> {
    /// An address.
    Address {
        /// With a port.
        address: SocketAddr,
        /// Whether TLS is spoken with it.
        tls: bool,
    },
    /// A service, by its name.
    Service(&'a str),
}

impl<'a> Target<'a> {
    /// `10.0.0.7:3000`, `http://10.0.0.7:3000`, `https://[2001:db8::7]:8443`, `service:checkout`. A scheme gives its
    /// port where none is written.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("service:") {
            return match name {
                "" => Err("`service:` lacks the name of a service".into()),
                name => Ok(Self::Service(name)),
            };
        }
        let (rest, tls, port) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false, Some(80)),
            (_, Some(rest)) => (rest, true, Some(443)),
            _ => (text, false, None),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let bare = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rest);
        let with_port = rest.parse::<SocketAddr>().ok();
        let with_schemes = || Some(SocketAddr::new(bare.parse::<IpAddr>().ok()?, port?));
        match with_port.or_else(with_schemes) {
            Some(address) => Ok(Self::Address { address, tls }),
            None => Err(format!(
                "`{text}` is no destination; write an address with a port as in `10.0.0.7:3000` or \
                 `https://[2001:db8::7]:8443`, or `service:NAME`. Host names are not resolved"
            )),
        }
    }
}

/// What logs may show of a label: the id of its key and 8 digits of a digest.
pub fn redacted(label: &str) -> String {
    thalweg_sealed::redacted(label.as_bytes()).to_string()
}

/// A label that was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// The whole host name.
    pub host: String,
    /// Its first label.
    pub label: String,
    /// Until when it is good, in seconds since the Unix epoch.
    pub expires: u64,
    /// The key that sealed it.
    pub key: u8,
}

fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Length => "the label has not 63 characters",
        Refusal::Alphabet => "a character of the label is none of `a`-`z` and `2`-`7`",
        Refusal::SpareBits => "the spare bits of the label are not zero",
        Refusal::Version => "the label has another version",
        Refusal::UnknownKey => "the route has no key with the id that the label tells",
        Refusal::Forged => "the label was not sealed with this key for this domain",
        Refusal::Malformed => "the label says what this version does not know",
        Refusal::Expired => "the label has expired",
    }
}

#[cfg(test)]
mod tests;
