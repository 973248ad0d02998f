//! What a listener answers handshakes with.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::certificate::Certificate;
use crate::client_auth::{Entry, Realm};
use crate::client_verifier::ClientAuth;
use crate::failure::Refused;
use crate::hello::Hello;
use crate::issued::{Issued, Showcase};
use crate::issued_store::{OnDemand, asks_for_challenge};
use crate::name;
use crate::policy::{Policy, PolicyError, Version};
use crate::provider::{Group, Suite};
use crate::store::Store;
use crate::tickets::Tickets;

/// Certificates by name, what is asked of clients, and the policy. Shared by all workers. Equal by certificates, names,
/// what is asked, policy and whether there are tickets; `Debug` shows no keys.
pub struct Acceptor {
    given: Vec<Entry>,
    policy: Policy,
    tickets: Option<Arc<Tickets>>,
    showcase: Arc<Showcase>,
    realms: Vec<Realm>,
}

impl Acceptor {
    /// The first of `certificates` answers clients that name nobody. `None` for `tickets`: no session is resumed. Where
    /// clients are asked for certificates none is in any case.
    pub fn new<E: Into<Entry>>(
        certificates: Vec<E>,
        policy: Policy,
        tickets: Option<Arc<Tickets>>,
    ) -> Result<Self, PolicyError> {
        match certificates.is_empty() {
            true => Err(PolicyError::NoCertificate),
            false => {
                let given = certificates.into_iter().map(Into::into).collect();
                Self::showing((given, None), policy, tickets)
            }
        }
    }

    /// The same with what an authority issues; then there need be no certificate.
    pub fn with_issued(
        certificates: Vec<Entry>,
        issued: Issued,
        policy: Policy,
        tickets: Option<Arc<Tickets>>,
    ) -> Result<Self, PolicyError> {
        Self::showing((certificates, Some(issued.filed()?)), policy, tickets)
    }

    fn showing(
        (given, issued): (Vec<Entry>, Option<Issued>),
        policy: Policy,
        tickets: Option<Arc<Tickets>>,
    ) -> Result<Self, PolicyError> {
        let versions = versions(&policy)?;
        let store = Store::new(&given, policy.unknown_name)?;
        let showcase = Arc::new(Showcase::new(store, issued, policy.unknown_name));
        let realm = |place| Realm::new(place, &showcase, (&policy, &versions), tickets.as_ref());
        let realms = (0..showcase.store.realms()).map(realm).collect::<Result<_, _>>()?;
        Ok(Self { given, policy, tickets, showcase, realms })
    }

    /// The same with another certificate in the place of each, as when files have been renewed: what clients are asked
    /// for, what an authority issues, the policy and the tickets stay.
    pub fn with_certificates(
        &self,
        certificates: Vec<(Arc<Certificate>, Vec<String>)>,
    ) -> Result<Self, PolicyError> {
        if certificates.len() != self.given.len() {
            return Err(PolicyError::Other("there are not as many certificates as before".to_owned()));
        }
        let asked = self.given.iter().map(|entry| entry.client_auth.clone());
        let entries = certificates.into_iter().zip(asked);
        let entries =
            entries.map(|((certificate, names), client_auth)| Entry { certificate, names, client_auth });
        Self::showing((entries.collect(), self.issued().cloned()), self.policy.clone(), self.tickets.clone())
    }

    /// All certificates, in the order in which they were given.
    pub fn certificates(&self) -> impl Iterator<Item = &Arc<Certificate>> {
        self.given.iter().map(|entry| &entry.certificate)
    }

    /// The same, each with the names that stand for its own; none: its own hold.
    pub fn entries(&self) -> impl Iterator<Item = (&Arc<Certificate>, &[String])> {
        self.given.iter().map(|entry| (&entry.certificate, entry.names.as_slice()))
    }

    /// What clients are asked for by each of them, in the same order.
    pub fn client_auths(&self) -> impl Iterator<Item = Option<&Arc<ClientAuth>>> {
        self.given.iter().map(|entry| entry.client_auth.as_ref())
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The certificate for a name as a client sends it (SNI): an exact name goes before a wildcard, which covers one
    /// label, and the one given first before another with a key of another kind. `None`: the client is refused.
    pub fn choose(&self, name: Option<&str>) -> Option<Arc<Certificate>> {
        self.showcase.first(name)
    }

    /// What an authority issues.
    pub fn issued(&self) -> Option<&Issued> {
        self.showcase.issued.as_ref()
    }

    /// Whether a certificate for the name, which has none, may be asked for on demand.
    pub fn may_issue(&self, name: &str) -> bool {
        self.issued().is_some_and(|issued| issued.may_want(name))
    }

    /// Has the certificate for the name of this hello asked for, where that is to be done on demand and it is not
    /// there. `None`: there is nothing to wait for.
    pub fn want(&self, hello: &Hello, now: Instant, waker: &Waker) -> Option<OnDemand> {
        let issued = self.issued()?;
        let name = hello.name.as_deref().filter(|_| !asks_for_challenge(hello))?;
        // A certificate that covers the name is as good as one of its own.
        let is_wanted = issued.may_want(name) && self.showcase.realm(Some(name)).is_none();
        is_wanted.then(|| issued.issued_store.want(name, now, waker))
    }

    /// A client does not wait any more for what [`Self::want`] has asked for.
    pub fn give_up(&self, hello: &Hello, waker: &Waker) {
        if let (Some(issued), Some(name)) = (self.issued(), &hello.name) {
            issued.issued_store.give_up(name, waker);
        }
    }

    /// Whether one of the certificates has this host among its own names.
    pub fn is_for(&self, host: &str) -> bool {
        let Some(host) = name::filed(host) else { return false };
        self.certificates().any(|certificate| certificate.is_for(&host))
    }

    /// For a server over rustls' own connections, which asks nothing of its clients: the control plane has one. A
    /// listener's are [`crate::Session`]s.
    pub fn server_config(&self) -> Option<&Arc<ServerConfig>> {
        self.realms.first().map(|realm| &realm.config)
    }

    /// What clients are asked for that ask for this name.
    pub fn client_auth(&self, name: Option<&str>) -> Option<&Arc<ClientAuth>> {
        self.realm(name)?.client_auth.as_ref()
    }

    /// What answers clients that ask for this name; `None`: they are refused.
    pub(crate) fn realm(&self, name: Option<&str>) -> Option<&Realm> {
        self.realms.get(self.showcase.realm(name)? as usize)
    }

    /// What answers this hello.
    pub(crate) fn realm_for(&self, hello: &Hello) -> Result<Realm, Refused> {
        let found = match self.issued().filter(|_| asks_for_challenge(hello)) {
            // Who checks a name is asked for nothing.
            Some(issued) => issued.issued_store.challenged(hello).map(|config| Realm {
                client_auth: None,
                by_client_order: Arc::clone(&config),
                config,
            }),
            None => self.realm(hello.name.as_deref()).cloned(),
        };
        found.ok_or(Refused::UnknownName)
    }
}

/// What it was made of: the same for two that are equal.
impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Acceptor");
        shown.field("certificates", &self.given).field("policy", &self.policy);
        shown.field("issued", &self.issued().map(|issued| &issued.names));
        shown.field("has_tickets", &self.tickets.is_some()).finish_non_exhaustive()
    }
}

impl PartialEq for Acceptor {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy
            && self.tickets.is_some() == other.tickets.is_some()
            && self.given == other.given
            && self.issued() == other.issued()
    }
}

impl Eq for Acceptor {}

/// The versions that are spoken, each with a suite and a group.
fn versions(policy: &Policy) -> Result<Vec<&'static SupportedProtocolVersion>, PolicyError> {
    let range = policy.min_version..=policy.max_version;
    let mut versions = Vec::new();
    for (version, known) in [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)] {
        if !range.contains(&version) {
            continue;
        }
        let (suites, groups) = (&policy.suites, &policy.groups);
        if !suites.is_empty() && !suites.iter().any(|suite: &Suite| suite.version() == version) {
            return Err(PolicyError::NoSuite(version));
        }
        if !groups.is_empty() && !groups.iter().any(|group: &Group| group.is_of(version)) {
            return Err(PolicyError::NoGroup(version));
        }
        versions.push(known);
    }
    match versions.is_empty() {
        true => Err(PolicyError::Versions),
        false => Ok(versions),
    }
}
