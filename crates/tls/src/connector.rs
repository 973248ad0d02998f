//! How connections to servers are secured.
//!
//! [`PeerTerms`] are a service's: whom it trusts and what it shows. A [`Connector`] is an endpoint's: the name that is
//! verified, and the tickets that this server gave.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};

use crate::certificate::Certificate;
use crate::policy::{PolicyError, Version};
use crate::provider::provider;
use crate::{name, roots, server_verifier};

/// Sessions that are kept for an endpoint. A ticket of TLS 1.3 is good for one connection.
const SESSIONS: usize = 32;

/// Whose signature makes a server's certificate good.
#[derive(Clone, Default, Eq, PartialEq)]
pub enum Trust {
    /// Whom the system trusts.
    #[default]
    System,
    /// These alone: certificates in PEM.
    Only(Arc<[u8]>),
    /// Anybody: **whoever stands in between can read and change everything.**
    InsecureSkipVerify,
}

impl fmt::Debug for Trust {
    /// Without the text: a private key may stand beside the certificates.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Only(pem) => write!(f, "Only({} bytes)", pem.len()),
            Self::InsecureSkipVerify => f.write_str("InsecureSkipVerify"),
        }
    }
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
}

/// What is offered to speak through TLS (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Offer {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2, rather than HTTP/1.1.
    Either,
    /// HTTP/2 alone.
    Http2,
}

impl Offer {
    const ALL: [Self; 3] = [Self::Http1, Self::Either, Self::Http2];

    fn protocols(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Either => &[b"h2", b"http/1.1"],
            Self::Http2 => &[b"h2"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

impl Default for PeerPolicy {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            server_name: None,
            certificate: None,
            min_version: Version::Tls12,
            resumption: true,
        }
    }
}

/// A service's policy with what it names: roots read, certificate at hand. Equal when the policies are.
#[derive(Debug)]
pub struct PeerTerms {
    policy: PeerPolicy,
    config: ClientConfig,
}

impl PeerTerms {
    /// Reads the roots: the system's once in the life of the process.
    pub fn new(policy: PeerPolicy) -> Result<Self, PolicyError> {
        if let Some(name) = &policy.server_name {
            server_name(name)?;
        }
        let provider = provider(&[], &[]);
        let verifier = match &policy.trust {
            Trust::System => server_verifier::verifier(roots::system()?, &provider)?,
            Trust::Only(pem) => server_verifier::verifier_of_file(pem, &provider)?,
            Trust::InsecureSkipVerify => server_verifier::anybody(&provider),
        };
        let versions = match policy.min_version {
            Version::Tls12 => &[&TLS13, &TLS12][..],
            Version::Tls13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let builder = builder.map_err(|why| PolicyError::Other(why.to_string()))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &policy.certificate {
            Some(certificate) => {
                let shown = SingleCertAndKey::from(Arc::clone(certificate.key()));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = Offer::Http1.protocols();
        config.resumption = Resumption::disabled();
        Ok(Self { policy, config })
    }

    /// The policy.
    pub fn policy(&self) -> &PeerPolicy {
        &self.policy
    }

    /// For connections of the control plane, whose streams are not [`crate::Session`]s. Nothing is resumed on them.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::new(self.config.clone())
    }
}

impl PartialEq for PeerTerms {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy
    }
}

impl Eq for PeerTerms {}

impl Hash for PeerTerms {
    /// By the name alone: what else tells terms apart is long, and few are compared.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.policy.server_name.hash(state);
    }
}

/// How connections to one server are secured. One per endpoint: it keeps that server's tickets. Equal where terms and
/// name are.
#[derive(Debug)]
pub struct Connector {
    terms: Arc<PeerTerms>,
    /// By [`Offer`]; one store of tickets.
    configs: [Arc<ClientConfig>; 3],
    name: ServerName<'static>,
}

impl PartialEq for Connector {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.terms == other.terms
    }
}

impl Eq for Connector {}

impl Connector {
    /// For the endpoint of that host: a name, or an address without brackets.
    pub fn new(terms: &Arc<PeerTerms>, host: &str) -> Result<Self, PolicyError> {
        let name = server_name(terms.policy.server_name.as_deref().unwrap_or(host))?;
        let mut config = terms.config.clone();
        if terms.policy.resumption {
            config.resumption = Resumption::in_memory_sessions(SESSIONS);
        }
        let configs = Offer::ALL.map(|offer| {
            let mut config = config.clone();
            config.alpn_protocols = offer.protocols();
            Arc::new(config)
        });
        Ok(Self { terms: Arc::clone(terms), configs, name })
    }

    /// What the service asks of it.
    pub fn terms(&self) -> &PeerTerms {
        &self.terms
    }

    /// For a client over rustls' own connections: the control plane has some. Endpoints' are [`crate::Session`]s.
    pub fn client_config(&self, offer: Offer) -> &Arc<ClientConfig> {
        &self.configs[offer as usize]
    }

    /// The server's name as rustls takes it.
    pub fn server_name(&self) -> &ServerName<'static> {
        &self.name
    }

    /// The server's name, or its address.
    pub(crate) fn name(&self) -> String {
        self.name.to_str().into_owned()
    }

    pub(crate) fn connection(&self, offer: Offer) -> Result<UnbufferedClientConnection, rustls::Error> {
        UnbufferedClientConnection::new(Arc::clone(self.client_config(offer)), self.name.clone())
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, PolicyError> {
    let host = name::filed(host).unwrap_or_else(|| host.to_owned());
    ServerName::try_from(host).map_err(|why| PolicyError::Other(why.to_string()))
}

#[cfg(test)]
mod tests;
