//! `cache: {}`: responses of a route are kept and used again (RFC 9111).
//!
//! A phase of an exchange and no filter that is called: `proxy` asks the chain for the rule ([`Chain::cache_for`]) once
//! all filters have been called with the request, whichever place it has in their list, and before the service is
//! asked. Filters of responses are called with what the cache gives as with what a service answers: stored is what the
//! service has sent.
//!
//! Invariant: where the service may answer for one client alone, because a filter has verified who it is or it has
//! shown a certificate, the request counts as one with credentials ([`CacheRule::has_credentials`]) unless the
//! configuration says otherwise.
//!
//! [`Chain::cache_for`]: crate::Chain::cache_for

use crate::{Facts, Filter, Hooks};
use std::sync::Arc;
use std::time::Duration;
use thalweg_cache::{KeyRule, Policy, Sharing};

/// How responses of a route are cached.
#[derive(Clone, Debug)]
pub struct CacheRule {
    /// What is stored and used.
    pub policy: Policy,
    /// Its space is the name of the route unless the configuration names one; set when the route is compiled.
    pub key: KeyRule,
    /// Larger bodies are not stored, in bytes.
    pub max_object: u64,
    /// A request waits at most this long for the first byte of a response that another one fetches; then it goes
    /// alone.
    pub wait: Duration,
    /// Whether responses say what the cache did (`Cache-Status`, RFC 9211).
    pub tells_status: bool,
    /// Clients that are known by other means than `Authorization` may get what the service has answered to others.
    pub shares_verified: bool,
    /// A filter of the chain verifies clients; set when the chain is made.
    pub is_behind_auth: bool,
}

impl CacheRule {
    /// Whether a request counts as one with credentials though it has no `Authorization` (any more): the service may
    /// know the client by what the proxy tells it. To be put into [`thalweg_cache::Request::has_credentials`] beside
    /// what is read from the request as the client sent it.
    pub fn has_credentials(&self, facts: &Facts<'_>) -> bool {
        !self.shares_verified
            && self.policy.sharing == Sharing::Shared
            && (self.is_behind_auth || facts.connection.client_certificate().is_some())
    }

    /// The same in a chain that verifies clients.
    pub(crate) fn behind_auth(&self) -> Arc<Self> {
        Arc::new(Self { is_behind_auth: true, ..self.clone() })
    }

    /// The same in the space of a route, and of one of its services where it has several.
    pub(crate) fn placed(&self, route: &str, service: Option<&str>) -> Arc<Self> {
        let own = &*self.key.space;
        let space = if own.is_empty() { route } else { own };
        // Names have no control characters: no other route and service have this space.
        let space = service.map_or_else(|| space.to_owned(), |service| format!("{space}\t{service}"));
        let key = KeyRule { space: space.into(), ..self.key.clone() };
        Arc::new(Self { key, ..self.clone() })
    }
}

/// The filter: it is never called.
#[derive(Debug)]
struct Cache {
    rule: Arc<CacheRule>,
}

impl Filter for Cache {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn hooks(&self) -> Hooks {
        Hooks::NONE
    }

    fn cache(&self) -> Option<Arc<CacheRule>> {
        Some(self.rule.clone())
    }
}
