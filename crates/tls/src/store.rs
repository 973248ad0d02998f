//! Certificates by the names that clients ask for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;
use crate::name;
use crate::policy::{PolicyFlaw, UnknownName};

/// Certificates by name. A name may have several, with keys of different kinds; those given first go first.
#[derive(Debug)]
pub(crate) struct Store {
    certificates: Vec<Arc<Certificate>>,
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
    pub(crate) fn new(
        given: &[(Arc<Certificate>, Vec<String>)],
        unknown: UnknownName,
    ) -> Result<Self, PolicyFlaw> {
        let (mut exact, mut wildcard) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for (at, (certificate, names)) in (0_u32..).zip(given) {
            let names = if names.is_empty() { certificate.names() } else { names };
            for written in names {
                let name = name::filed(written).ok_or_else(|| PolicyFlaw::BadName(written.clone()))?;
                let places = match name.strip_prefix("*.") {
                    Some(suffix) => wildcard.entry(suffix.to_owned()),
                    None => exact.entry(name),
                };
                let places = places.or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
        }
        let certificates = given.iter().map(|(certificate, _)| Arc::clone(certificate)).collect();
        let mut store = Self { certificates, exact, wildcard, default: Vec::new(), unknown };
        store.default = given.first().map(|first| store.beside(first)).unwrap_or_default();
        Ok(store)
    }

    /// The certificates for a name, the best first; empty: the client is refused.
    pub(crate) fn find(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<Certificate>> {
        let (exact, wildcard) = name.map_or((&[][..], &[][..]), |name| self.named(name));
        let is_known = !exact.is_empty() || !wildcard.is_empty();
        let default = match (name, self.unknown) {
            (Some(_), UnknownName::Refuse) => &[],
            _ if is_known => &[][..],
            _ => &self.default[..],
        };
        let places = exact.iter().chain(wildcard).chain(default);
        places.filter_map(|place| self.certificates.get(*place as usize))
    }

    /// Those that have the name, or cover it.
    pub(crate) fn find_named(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<Certificate>> {
        let (exact, wildcard) = name.map_or((&[][..], &[][..]), |name| self.named(name));
        exact.iter().chain(wildcard).filter_map(|place| self.certificates.get(*place as usize))
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
    fn beside(&self, (certificate, names): &(Arc<Certificate>, Vec<String>)) -> Vec<u32> {
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

impl ResolvesServerCert for Store {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let usable = |certificate: &&Arc<Certificate>| can_sign(certificate, hello.signature_schemes());
        let first = self.find(hello.server_name()).find(usable);
        // Where none is usable rustls gives the right reason with any of them.
        let chosen = first.or_else(|| self.find(hello.server_name()).next());
        chosen.map(|certificate| Arc::clone(certificate.key()))
    }
}

/// Whether the key makes signatures of one of these kinds. Of TLS 1.2 rustls has left out those for which the client
/// has no cipher suite.
fn can_sign(certificate: &Certificate, schemes: &[SignatureScheme]) -> bool {
    certificate.key().key.choose_scheme(schemes).is_some()
}

#[cfg(test)]
mod tests;
