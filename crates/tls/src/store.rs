//! Certificates by the names that clients ask for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::certificate::Certificate;
use crate::client_auth::{Entry, Realms};
use crate::client_verifier::ClientAuth;
use crate::name;
use crate::policy::{PolicyError, UnknownName};

/// Certificates by name. A name may have several, with keys of different kinds; those given first go first. All that a
/// name leads to ask the same of clients: its realm.
#[derive(Debug)]
pub(crate) struct Store {
    certificates: Vec<Arc<Certificate>>,
    realms: Realms,
    /// Whole names.
    exact: HashMap<String, Vec<u32>>,
    /// What stands behind `*.`.
    wildcard: HashMap<String, Vec<u32>>,
    /// The first one and those that share its first name.
    default: Vec<u32>,
    unknown: UnknownName,
}

impl Store {
    /// The names beside a certificate stand for its own, where there are any.
    pub(crate) fn new(given: &[Entry], unknown: UnknownName) -> Result<Self, PolicyError> {
        let realms = Realms::new(given);
        let (mut exact, mut wildcard) = (HashMap::<_, Vec<u32>>::new(), HashMap::<_, Vec<u32>>::new());
        for (at, Entry { certificate, names, .. }) in (0_u32..).zip(given) {
            let names = if names.is_empty() { certificate.names() } else { names };
            for written in names {
                let name = name::filed(written).ok_or_else(|| PolicyError::BadName(written.clone()))?;
                let places = match name.strip_prefix("*.") {
                    Some(suffix) => wildcard.entry(suffix.to_owned()),
                    None => exact.entry(name),
                };
                let places = places.or_default();
                if places.iter().any(|place| realms.of[*place as usize] != realms.of[at as usize]) {
                    return Err(PolicyError::ClientAuthDiffers(written.clone()));
                }
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
        }
        let certificates = given.iter().map(|entry| Arc::clone(&entry.certificate)).collect();
        let mut store = Self { certificates, realms, exact, wildcard, default: Vec::new(), unknown };
        store.default = given.first().map(|first| store.beside(first)).unwrap_or_default();
        Ok(store)
    }

    /// The certificates for a name, the best first, all of the realm of that one; empty: the client is refused.
    pub(crate) fn find(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<Certificate>> {
        let mut places = self.places(name).peekable();
        // A certificate with a wildcard stands behind one with the name itself, for clients that cannot use that one's
        // key: it must not be a way around what that one asks.
        let realm = places.peek().and_then(|place| self.realm_of(*place));
        let of_realm = places.filter(move |place| self.realm_of(*place) == realm);
        of_realm.filter_map(|place| self.certificates.get(place as usize))
    }

    /// The realm of a name; `None`: the client is refused.
    pub(crate) fn realm(&self, name: Option<&str>) -> Option<u32> {
        self.places(name).next().and_then(|place| self.realm_of(place))
    }

    /// The number of realms.
    pub(crate) fn realms(&self) -> u32 {
        u32::try_from(self.realms.asked.len()).unwrap_or(u32::MAX)
    }

    /// The realm of names that ask this and that are not filed here.
    pub(crate) fn realm_asking(&mut self, asked: Option<&Arc<ClientAuth>>) -> u32 {
        self.realms.place_of(asked)
    }

    /// What a realm asks of clients.
    pub(crate) fn asked(&self, realm: u32) -> Option<&Arc<ClientAuth>> {
        self.realms.asked.get(realm as usize)?.as_ref()
    }

    fn realm_of(&self, place: u32) -> Option<u32> {
        self.realms.of.get(place as usize).copied()
    }

    fn places(&self, name: Option<&str>) -> impl Iterator<Item = u32> {
        let (exact, wildcard) = name.map_or((&[][..], &[][..]), |name| self.named(name));
        let is_known = !exact.is_empty() || !wildcard.is_empty();
        let default = match (name, self.unknown) {
            (Some(_), UnknownName::Refuse) => &[],
            _ if is_known => &[][..],
            _ => &self.default[..],
        };
        exact.iter().chain(wildcard).chain(default).copied()
    }

    /// The certificates that have the name, or cover it, with their realms.
    pub(crate) fn find_named(&self, name: &str) -> impl Iterator<Item = (u32, &Arc<Certificate>)> {
        let (exact, wildcard) = self.named(name);
        exact.iter().chain(wildcard).filter_map(|place| self.shown(*place))
    }

    /// The certificates for clients that name nobody, with their realms.
    pub(crate) fn find_default(&self) -> impl Iterator<Item = (u32, &Arc<Certificate>)> {
        self.default.iter().filter_map(|place| self.shown(*place))
    }

    fn shown(&self, place: u32) -> Option<(u32, &Arc<Certificate>)> {
        Some((self.realm_of(place)?, self.certificates.get(place as usize)?))
    }

    /// The certificates that have the name itself, and those that have `*.` before what follows its first label.
    fn named(&self, name: &str) -> (&[u32], &[u32]) {
        let name = name.strip_suffix('.').unwrap_or(name);
        let name = match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        };
        let exact = self.exact.get(name.as_ref());
        let wildcard = name.split_once('.').filter(|(label, _)| !label.is_empty());
        let wildcard = wildcard.and_then(|(_, suffix)| self.wildcard.get(suffix));
        (exact.map_or(&[], Vec::as_slice), wildcard.map_or(&[], Vec::as_slice))
    }

    /// The first one, and those that share its first name.
    fn beside(&self, Entry { certificate, names, .. }: &Entry) -> Vec<u32> {
        let name = names.first().or(certificate.names().first());
        // Names were filed before, so this one can be.
        let name = name.and_then(|name| name::filed(name)).unwrap_or_default();
        let places = match name.strip_prefix("*.") {
            Some(suffix) => self.wildcard.get(suffix),
            None => self.exact.get(&name),
        };
        places.cloned().unwrap_or_else(|| vec![0])
    }
}

#[cfg(test)]
mod tests;
