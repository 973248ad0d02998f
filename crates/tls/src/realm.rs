//! Realms of a listener: what its names ask of clients.
//!
//! Names that ask the same of their clients make a realm, with a `ServerConfig` of its own. The ClientHello decides which
//! one answers. Invariant: a connection of one realm is never shown a certificate of another, whatever rustls reads
//! in the hello; and a realm that asks for certificates gives no tickets and takes none, so that nobody comes back with
//! what was verified long ago, or somewhere else.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, SupportedProtocolVersion};

use crate::certificate::Certificate;
use crate::clients::ClientAuth;
use crate::policy::{Policy, PolicyFlaw};
use crate::provider::provider;
use crate::store::Store;
use crate::tickets::Tickets;

/// Tickets that a client gets after a full handshake; each is good for one connection, and browsers open several.
const TICKETS: usize = 2;

/// A certificate of a listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// With its key.
    pub certificate: Arc<Certificate>,
    /// These stand for its own names, where there are any.
    pub names: Vec<String>,
    /// What clients are asked for that ask for one of its names; `None`: nothing.
    pub client_auth: Option<Arc<ClientAuth>>,
}

impl From<(Arc<Certificate>, Vec<String>)> for Entry {
    fn from((certificate, names): (Arc<Certificate>, Vec<String>)) -> Self {
        Self { certificate, names, client_auth: None }
    }
}

/// What the names of a listener ask of clients, each once, and by entry which of them.
#[derive(Debug, Default)]
pub(crate) struct Realms {
    pub(crate) asked: Vec<Option<Arc<ClientAuth>>>,
    pub(crate) of: Vec<u32>,
}

impl Realms {
    pub(crate) fn new(entries: &[Entry]) -> Self {
        let mut realms = Self::default();
        let mut known = HashMap::new();
        for entry in entries {
            let asked = entry.client_auth.as_ref();
            let place = *known.entry(asked.map(|asked| asked.digest())).or_insert_with(|| {
                realms.asked.push(asked.cloned());
                realms.asked.len() - 1
            });
            realms.of.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        realms
    }
}

/// How a realm answers handshakes.
#[derive(Debug)]
pub(crate) struct Realm {
    pub(crate) client_auth: Option<Arc<ClientAuth>>,
    pub(crate) config: Arc<ServerConfig>,
}

impl Realm {
    pub(crate) fn new(
        place: u32,
        store: &Arc<Store>,
        (policy, versions): (&Policy, &[&'static SupportedProtocolVersion]),
        tickets: Option<&Arc<Tickets>>,
    ) -> Result<Self, PolicyFlaw> {
        let client_auth = store.asked(place).cloned();
        let builder = ServerConfig::builder_with_provider(provider(&policy.suites, &policy.groups));
        let builder = builder.with_protocol_versions(versions);
        let builder = builder.map_err(|why| PolicyFlaw::Other(why.to_string()))?;
        let builder = match &client_auth {
            Some(asked) => builder.with_client_cert_verifier(Arc::clone(asked.verifier())),
            None => builder.with_no_client_auth(),
        };
        let resolver = Resolver { store: Arc::clone(store), realm: place };
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols.clone_from(&policy.alpn);
        // rustls would keep the last 256 sessions of all workers behind one lock.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        config.send_tls13_tickets = 0;
        if let (Some(tickets), None) = (tickets, &client_auth) {
            config.ticketer = Arc::clone(tickets) as _;
            config.send_tls13_tickets = TICKETS;
        }
        Ok(Self { client_auth, config: Arc::new(config) })
    }
}

/// The certificates of one realm.
#[derive(Debug)]
struct Resolver {
    store: Arc<Store>,
    realm: u32,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if self.store.realm(hello.server_name()) != Some(self.realm) {
            // The realm was chosen by our reading of the hello. Another one is no reason to change it.
            return None;
        }
        let usable = |certificate: &&Arc<Certificate>| can_sign(certificate, hello.signature_schemes());
        let first = self.store.find(hello.server_name()).find(usable);
        // Where none is usable rustls gives the right reason with any of them.
        let chosen = first.or_else(|| self.store.find(hello.server_name()).next());
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
