//! Which names of a shelf a listener shows, and how they stand beside the certificates that its configuration names.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thalweg_core::OnDemandPolicy;

use crate::certificate::Certificate;
use crate::name;
use crate::policy::{PolicyFlaw, UnknownName};
use crate::shelf::Shelf;
use crate::store::Store;

/// What an authority issues for a listener.
#[derive(Clone, Debug)]
pub struct Issued {
    /// Where it is.
    pub shelf: Arc<Shelf>,
    /// The names that are shown, `*.example.com` among them. The first one answers clients that name nobody where the
    /// configuration names no certificate.
    pub names: Vec<String>,
    /// Names that are asked for when a client comes with them.
    pub on_demand: Option<OnDemandPolicy>,
}

impl PartialEq for Issued {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shelf, &other.shelf)
            && self.names == other.names
            && self.on_demand == other.on_demand
    }
}

impl Issued {
    /// Names in the form in which they are filed.
    pub(crate) fn filed(mut self) -> Result<Self, PolicyFlaw> {
        for written in &mut self.names {
            *written = name::filed(written).ok_or_else(|| PolicyFlaw::BadName(written.clone()))?;
        }
        Ok(self)
    }

    /// Whether a client that asks for this name, which has no certificate, may be kept waiting for one.
    pub(crate) fn may_want(&self, name: &str) -> bool {
        let known = |policy: &OnDemandPolicy| policy.ask.is_some() || policy.allows(name);
        self.on_demand.as_ref().is_some_and(known) && name.contains('.') && !self.shelf.has(name)
    }
}

/// All that a listener shows.
#[derive(Debug)]
pub(crate) struct Showcase {
    pub(crate) store: Arc<Store>,
    pub(crate) issued: Option<Issued>,
    /// Those that are issued.
    names: HashSet<String>,
    unknown: UnknownName,
}

impl Showcase {
    /// What the configuration names, and what is issued beside it.
    pub(crate) fn new(store: Arc<Store>, issued: Option<Issued>, unknown: UnknownName) -> Self {
        let names = issued.iter().flat_map(|issued| issued.names.iter().cloned()).collect();
        Self { store, issued, names, unknown }
    }

    /// The certificates for a name, the best first: those that the configuration names for it, the one that was issued
    /// for it, and, where nothing is known of it, the default.
    pub(crate) fn find(&self, name: Option<&str>) -> Vec<Arc<Certificate>> {
        let Some(issued) = &self.issued else { return self.store.find(name).cloned().collect() };
        let lower = name.map(str::to_ascii_lowercase);
        let mut found: Vec<_> = self.store.find_named(name).cloned().collect();
        found.extend(lower.as_deref().and_then(|name| self.issued_for(issued, name)));
        // A name that may not be asked for is none of ours, and neither is one that nothing was issued for.
        let refuses = self.unknown == UnknownName::Refuse || issued.on_demand.is_some();
        if !found.is_empty() || (name.is_some() && refuses) {
            return found;
        }
        found.extend(self.store.find(None).cloned());
        if found.is_empty() {
            found.extend(issued.names.first().and_then(|first| issued.shelf.get(first)));
        }
        found
    }

    fn issued_for(&self, issued: &Issued, name: &str) -> Option<Arc<Certificate>> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if (self.names.contains(name) || issued.on_demand.is_some())
            && let Some(found) = issued.shelf.get(name)
        {
            return Some(found);
        }
        let (label, suffix) = name.split_once('.')?;
        let wildcard = format!("*.{suffix}");
        let covers = !label.is_empty() && self.names.contains(&wildcard);
        if covers { issued.shelf.get(&wildcard) } else { None }
    }
}

impl ResolvesServerCert for Showcase {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if self.issued.is_none() {
            return self.store.resolve(hello);
        }
        let found = self.find(hello.server_name());
        let usable = |it: &&Arc<Certificate>| it.key().key.choose_scheme(hello.signature_schemes()).is_some();
        let chosen = found.iter().find(usable).or(found.first());
        chosen.map(|certificate| Arc::clone(certificate.key()))
    }
}
