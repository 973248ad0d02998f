//! Which names of a store of issued certificates a listener shows, and how they stand beside the certificates that its
//! configuration names.

use std::collections::HashSet;
use std::sync::Arc;

use crate::acme::OnDemandPolicy;

use crate::certificate::Certificate;
use crate::client_verifier::ClientAuth;
use crate::issued_store::IssuedStore;
use crate::name;
use crate::policy::{PolicyError, UnknownName};
use crate::store::Store;

/// What an authority issues for a listener.
#[derive(Clone, Debug)]
pub struct Issued {
    /// Where it is.
    pub issued_store: Arc<IssuedStore>,
    /// The names that are shown, `*.example.com` among them. The first one answers clients that name nobody where the
    /// configuration names no certificate and the store of issued certificates has none for them.
    pub names: Vec<String>,
    /// Names that are asked for when a client comes with them.
    pub on_demand: Option<OnDemandPolicy>,
    /// What clients are asked for that ask for one of its names; `None`: nothing.
    pub client_auth: Option<Arc<ClientAuth>>,
}

impl PartialEq for Issued {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.issued_store, &other.issued_store)
            && self.names == other.names
            && self.on_demand == other.on_demand
            && self.client_auth == other.client_auth
    }
}

impl Issued {
    /// Names in the form in which they are filed.
    pub(crate) fn filed(mut self) -> Result<Self, PolicyError> {
        for written in &mut self.names {
            *written = name::filed(written).ok_or_else(|| PolicyError::BadName(written.clone()))?;
        }
        Ok(self)
    }

    /// What the listener has of it, by name in alphabetical order; `true`: a placeholder. The names are all that it was
    /// given, and on demand those that it may ask for.
    pub fn shown(&self) -> Vec<(String, Arc<Certificate>, bool)> {
        let names: HashSet<&String> = self.names.iter().collect();
        let is_asked = |name: &str| self.on_demand.as_ref().is_some_and(|policy| policy.covers(name));
        let mut shown = self.issued_store.all();
        shown.retain(|(name, ..)| names.contains(name) || is_asked(name));
        shown.sort_unstable_by(|(one, ..), (other, ..)| one.cmp(other));
        shown
    }

    /// Whether a client that asks for this name, which has no certificate, may be kept waiting for one.
    pub(crate) fn may_want(&self, name: &str) -> bool {
        self.on_demand.as_ref().is_some_and(|policy| policy.covers(name))
            && name.contains('.')
            && !self.issued_store.has(name)
    }
}

/// All that a listener shows.
#[derive(Debug)]
pub(crate) struct Showcase {
    pub(crate) store: Store,
    pub(crate) issued: Option<Issued>,
    /// The realm of what is issued.
    realm: u32,
    /// Those that are issued.
    names: HashSet<String>,
    unknown: UnknownName,
}

/// A certificate, and the realm of the names that it is shown for.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) realm: u32,
    pub(crate) certificate: Arc<Certificate>,
}

impl From<(u32, &Arc<Certificate>)> for Found {
    fn from((realm, certificate): (u32, &Arc<Certificate>)) -> Self {
        Self { realm, certificate: Arc::clone(certificate) }
    }
}

impl Showcase {
    /// What the configuration names, and what is issued beside it.
    pub(crate) fn new(mut store: Store, issued: Option<Issued>, unknown: UnknownName) -> Self {
        let names = issued.iter().flat_map(|issued| issued.names.iter().cloned()).collect();
        let realm = issued.as_ref().map_or(0, |issued| store.realm_asking(issued.client_auth.as_ref()));
        Self { store, issued, realm, names, unknown }
    }

    /// The best certificate for a name.
    pub(crate) fn first(&self, name: Option<&str>) -> Option<Arc<Certificate>> {
        match &self.issued {
            None => self.store.find(name).next().cloned(),
            Some(issued) => self.find(issued, name).into_iter().next().map(|found| found.certificate),
        }
    }

    /// The realm of a name; `None`: the client is refused.
    pub(crate) fn realm(&self, name: Option<&str>) -> Option<u32> {
        match &self.issued {
            None => self.store.realm(name),
            Some(issued) => self.find(issued, name).first().map(|found| found.realm),
        }
    }

    /// The certificates for a name, the best first, all of the realm of that one: those that the configuration names
    /// for it, the one that was issued for it, and, where nothing is known of it, the default.
    pub(crate) fn find(&self, issued: &Issued, name: Option<&str>) -> Vec<Found> {
        let mut found = self.find_all(issued, name);
        let realm = found.first().map(|first| first.realm);
        found.retain(|other| Some(other.realm) == realm);
        found
    }

    fn find_all(&self, issued: &Issued, name: Option<&str>) -> Vec<Found> {
        let of_shelf = |certificate| Found { realm: self.realm, certificate };
        let name = name.map(|name| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase());
        let mut found = Vec::new();
        if let Some(name) = &name {
            found.extend(self.store.find_named(name).map(Found::from));
            found.extend(self.issued_for(issued, name).map(of_shelf));
        }
        // A name that may not be asked for is none of ours, and neither is one that nothing was issued for.
        let refuses = self.unknown == UnknownName::Refuse || issued.on_demand.is_some();
        if !found.is_empty() || (name.is_some() && refuses) {
            return found;
        }
        found.extend(self.store.find_default().map(Found::from));
        if found.is_empty() {
            let unnamed = issued.issued_store.unnamed().filter(|_| name.is_none());
            let first = || issued.names.first().and_then(|first| issued.issued_store.get(first));
            found.extend(unnamed.or_else(first).map(of_shelf));
        }
        // A certificate that is still to come asks the same as when it is there.
        if name.is_some_and(|name| self.is_issued(&name)) {
            found.retain(|other| other.realm == self.realm);
        }
        found
    }

    /// Whether the name is one of those that are issued, there or not.
    fn is_issued(&self, name: &str) -> bool {
        self.names.contains(name) || wildcard(name).is_some_and(|wildcard| self.names.contains(&wildcard))
    }

    fn issued_for(&self, issued: &Issued, name: &str) -> Option<Arc<Certificate>> {
        // the store of issued certificates has names of other listeners too.
        let may_bring = || issued.on_demand.as_ref().is_some_and(|policy| policy.covers(name));
        if (self.names.contains(name) || may_bring())
            && let Some(found) = issued.issued_store.get(name)
        {
            return Some(found);
        }
        let wildcard = wildcard(name).filter(|wildcard| self.names.contains(wildcard))?;
        issued.issued_store.get(&wildcard)
    }
}

/// The name that covers a name and its neighbours.
fn wildcard(name: &str) -> Option<String> {
    let (label, suffix) = name.split_once('.')?;
    (!label.is_empty()).then(|| format!("*.{suffix}"))
}
