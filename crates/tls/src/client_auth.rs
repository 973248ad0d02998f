//! Realms of a listener: what its names ask of clients.
//!
//! Names that ask the same of their clients make a realm, with a `ServerConfig` of its own. The ClientHello decides
//! which one answers. Invariant: a connection of one realm is never shown a certificate of another, whatever rustls
//! reads in the hello; and a realm that asks for certificates gives no tickets and takes none, so that nobody comes
//! back with what was verified long ago, or somewhere else.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, SupportedProtocolVersion};

use crate::certificate::Certificate;
use crate::client_verifier::ClientAuth;
use crate::hello::Hello;
use crate::issued::Showcase;
use crate::policy::{Policy, PolicyError};
use crate::provider::provider;
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

    /// The realm of names that ask this; a new one, where no entry asks it.
    pub(crate) fn place_of(&mut self, asked: Option<&Arc<ClientAuth>>) -> u32 {
        let digest = |asked: Option<&Arc<ClientAuth>>| asked.map(|asked| asked.digest());
        let known = self.asked.iter().position(|known| digest(known.as_ref()) == digest(asked));
        let place = known.unwrap_or_else(|| {
            self.asked.push(asked.cloned());
            self.asked.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }
}

/// How a realm answers handshakes.
#[derive(Clone, Debug)]
pub(crate) struct Realm {
    pub(crate) client_auth: Option<Arc<ClientAuth>>,
    /// Of the suites that both sides have, the one that stands first here is taken.
    pub(crate) config: Arc<ServerConfig>,
    /// The one that stands first there: for clients that are slow with AES and say so by their order.
    pub(crate) by_client_order: Arc<ServerConfig>,
}

impl Realm {
    pub(crate) fn new(
        place: u32,
        showcase: &Arc<Showcase>,
        (policy, versions): (&Policy, &[&'static SupportedProtocolVersion]),
        tickets: Option<&Arc<Tickets>>,
    ) -> Result<Self, PolicyError> {
        let client_auth = showcase.store.asked(place).cloned();
        let builder = ServerConfig::builder_with_provider(provider(&policy.suites, &policy.groups));
        let builder = builder.with_protocol_versions(versions);
        let builder = builder.map_err(|why| PolicyError::Other(why.to_string()))?;
        let builder = match &client_auth {
            Some(asked) => builder.with_client_cert_verifier(Arc::clone(asked.verifier())),
            None => builder.with_no_client_auth(),
        };
        let resolver = Resolver { showcase: Arc::clone(showcase), realm: place };
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
        config.ignore_client_order = false;
        let by_client_order = Arc::new(config.clone());
        config.ignore_client_order = true;
        Ok(Self { client_auth, config: Arc::new(config), by_client_order })
    }

    /// What answers this hello.
    pub(crate) fn config_for(&self, hello: &Hello) -> Arc<ServerConfig> {
        Arc::clone(if hello.puts_chacha20_first { &self.by_client_order } else { &self.config })
    }
}

/// The certificates of one realm.
#[derive(Debug)]
struct Resolver {
    showcase: Arc<Showcase>,
    realm: u32,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(issued) = &self.showcase.issued {
            // Read once: what was issued may change at any time, and its realm with it.
            let found = self.showcase.find(issued, hello.server_name());
            return choose(
                || found.iter().filter(|found| found.realm == self.realm).map(|it| &it.certificate),
                &hello,
            );
        }
        let store = &self.showcase.store;
        if store.realm(hello.server_name()) != Some(self.realm) {
            // The realm was chosen by our reading of the hello. Another one is no reason to change it.
            return None;
        }
        choose(|| store.find(hello.server_name()), &hello)
    }
}

/// The first that the client can use. Where none is rustls gives the right reason with any of them.
fn choose<'a, I: Iterator<Item = &'a Arc<Certificate>>>(
    found: impl Fn() -> I,
    hello: &ClientHello<'_>,
) -> Option<Arc<CertifiedKey>> {
    let usable = |certificate: &&Arc<Certificate>| can_sign(certificate, hello.signature_schemes());
    let chosen = found().find(usable).or_else(|| found().next());
    chosen.map(|certificate| Arc::clone(certificate.key()))
}

/// Whether the key makes signatures of one of these kinds. Of TLS 1.2 rustls has left out those for which the client
/// has no cipher suite.
fn can_sign(certificate: &Certificate, schemes: &[SignatureScheme]) -> bool {
    certificate.key().key.choose_scheme(schemes).is_some()
}

#[cfg(test)]
mod tests;
