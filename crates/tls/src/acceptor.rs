//! What a listener answers handshakes with.

use std::fmt;
use std::sync::Arc;

use rustls::SupportedProtocolVersion;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::version::{TLS12, TLS13};

use crate::certificate::Certificate;
use crate::name;
use crate::policy::{Policy, PolicyFlaw, Version};
use crate::provider::{Group, Suite, provider};
use crate::store::Store;
use crate::tickets::Tickets;

/// Tickets that a client gets after a full handshake; each is good for one connection, and browsers open several.
const TICKETS: usize = 2;

/// Certificates by name, and the policy. Shared by all workers. Equal by certificates, names, policy and whether there
/// are tickets; `Debug` shows no keys.
pub struct Acceptor {
    given: Vec<(Arc<Certificate>, Vec<String>)>,
    policy: Policy,
    has_tickets: bool,
    store: Arc<Store>,
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// The first of `certificates` answers clients that name nobody. The names beside each stand for its own, where
    /// there are any. `None` for `tickets`: no session is resumed.
    pub fn new(
        certificates: Vec<(Arc<Certificate>, Vec<String>)>,
        policy: Policy,
        tickets: Option<Arc<Tickets>>,
    ) -> Result<Self, PolicyFlaw> {
        let versions = versions(&policy)?;
        let store = Arc::new(Store::new(&certificates, policy.unknown_name)?);
        let builder = ServerConfig::builder_with_provider(provider(&policy.suites, &policy.groups));
        let builder = builder.with_protocol_versions(&versions);
        let builder = builder.map_err(|why| PolicyFlaw::Other(why.to_string()))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::clone(&store) as _);
        config.alpn_protocols.clone_from(&policy.alpn);
        // rustls would keep the last 256 sessions of all workers behind one lock.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        config.send_tls13_tickets = 0;
        let has_tickets = tickets.is_some();
        if let Some(tickets) = tickets {
            config.ticketer = tickets;
            config.send_tls13_tickets = TICKETS;
        }
        Ok(Self { given: certificates, policy, has_tickets, store, config: Arc::new(config) })
    }

    /// The same with other certificates, as when files have been renewed: the policy stays, and so do the tickets.
    pub fn with_certificates(
        &self,
        certificates: Vec<(Arc<Certificate>, Vec<String>)>,
    ) -> Result<Self, PolicyFlaw> {
        let store = Arc::new(Store::new(&certificates, self.policy.unknown_name)?);
        let mut config = ServerConfig::clone(&self.config);
        config.cert_resolver = Arc::clone(&store) as _;
        Ok(Self {
            given: certificates,
            policy: self.policy.clone(),
            has_tickets: self.has_tickets,
            store,
            config: Arc::new(config),
        })
    }

    /// All certificates, in the order in which they were given.
    pub fn certificates(&self) -> impl Iterator<Item = &Arc<Certificate>> {
        self.given.iter().map(|(certificate, _)| certificate)
    }

    /// The same, each with the names that stand for its own; none: its own hold.
    pub fn entries(&self) -> impl Iterator<Item = (&Arc<Certificate>, &[String])> {
        self.given.iter().map(|(certificate, names)| (certificate, names.as_slice()))
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The certificate for a name as a client sends it (SNI): an exact name goes before a wildcard, which covers one
    /// label, and the one given first before another with a key of another kind. `None`: the client is refused.
    pub fn choose(&self, name: Option<&str>) -> Option<&Arc<Certificate>> {
        self.store.find(name).next()
    }

    /// Whether one of the certificates has this host among its own names.
    pub fn is_for(&self, host: &str) -> bool {
        let Some(host) = name::filed(host) else { return false };
        self.certificates().any(|certificate| certificate.is_for(&host))
    }

    /// For a server over rustls' own connections: the control plane has one. A listener's are [`crate::Session`]s.
    pub fn server_config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// For rustls.
    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

/// What it was made of: the same for two that are equal.
impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Acceptor");
        shown.field("certificates", &self.given).field("policy", &self.policy);
        shown.field("has_tickets", &self.has_tickets).finish_non_exhaustive()
    }
}

impl PartialEq for Acceptor {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy && self.has_tickets == other.has_tickets && self.given == other.given
    }
}

impl Eq for Acceptor {}

/// The versions that are spoken, each with a suite and a group.
fn versions(policy: &Policy) -> Result<Vec<&'static SupportedProtocolVersion>, PolicyFlaw> {
    let range = policy.min_version..=policy.max_version;
    let mut versions = Vec::new();
    for (version, known) in [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)] {
        if !range.contains(&version) {
            continue;
        }
        let (suites, groups) = (&policy.suites, &policy.groups);
        if !suites.is_empty() && !suites.iter().any(|suite: &Suite| suite.version() == version) {
            return Err(PolicyFlaw::NoSuite(version));
        }
        if !groups.is_empty() && !groups.iter().any(|group: &Group| group.is_of(version)) {
            return Err(PolicyFlaw::NoGroup(version));
        }
        versions.push(known);
    }
    match versions.is_empty() {
        true => Err(PolicyFlaw::Versions),
        false => Ok(versions),
    }
}
