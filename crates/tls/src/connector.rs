//! How connections to a server are secured.

use std::sync::Arc;

use crate::certificate::Certificate;
use crate::policy::{PolicyFlaw, Version};

/// Whose signature makes a server's certificate good.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Trust {
    /// Who the system trusts.
    #[default]
    System,
    /// These alone: certificates in PEM.
    Only(Arc<[u8]>),
    /// Anybody: **whoever stands in between can read and change everything.**
    InsecureSkipVerify,
}

/// What a service asks of its servers, and shows them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeerPolicy {
    /// Default: the system's.
    pub trust: Trust,
    /// The name that is asked for (SNI) and verified, instead of the endpoint's host. An address is verified as one,
    /// without SNI.
    pub server_name: Option<String>,
    /// Shown where the server asks for one.
    pub certificate: Option<Arc<Certificate>>,
    /// Default 1.2.
    pub min_version: Version,
    /// Whether sessions are resumed; default yes.
    pub resumption: bool,
    /// Application protocols that are offered (ALPN); `http/1.1` by default.
    pub alpn: Vec<Vec<u8>>,
}

impl Default for PeerPolicy {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            server_name: None,
            certificate: None,
            min_version: Version::Tls12,
            resumption: true,
            alpn: vec![b"http/1.1".to_vec()],
        }
    }
}

/// How connections to one server are secured. One per endpoint: it keeps that server's tickets.
#[derive(Debug)]
pub struct Connector {}

impl Connector {
    /// For the endpoint of that host: a name, or an address without brackets.
    pub fn new(_policy: &PeerPolicy, _host: &str) -> Result<Self, PolicyFlaw> {
        Ok(Self {})
    }
}
