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

mod spec;
#[cfg(test)]
mod tests;

use crate::{Facts, Filter, Hooks};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_cache::{KeyRule, Policy, QueryRule, Selected, SetCookie, Sharing};
use thalweg_core::units::{duration_text, size_text};

pub(crate) use spec::CacheSpec;

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
    /// Clients that are verified may get what the service has answered to others: what it tells them apart by is in the
    /// key.
    pub shares_verified: bool,
    /// A filter of the chain verifies clients; set when the chain is made.
    pub is_behind_auth: bool,
}

impl CacheRule {
    /// Whether a request counts as one with credentials though it has no `Authorization` (any more): the service may
    /// know the client by what the proxy tells it. To be put into [`thalweg_cache::Request::has_credentials`] beside
    /// what is read from the request as the client sent it.
    pub fn has_credentials(&self, facts: &Facts<'_>) -> bool {
        self.policy.sharing == Sharing::Shared && self.is_unkeyed(has_certificate(facts))
    }

    /// Whether the service may know the client by something that is in no key.
    fn is_unkeyed(&self, has_certificate: bool) -> bool {
        !self.shares_verified && (self.is_behind_auth || has_certificate)
    }

    /// Whether it is for a request at all: what is for one client is not told apart by what the proxy has verified.
    pub(crate) fn suits(&self, facts: &Facts<'_>) -> bool {
        self.policy.sharing == Sharing::Shared || !self.is_unkeyed(has_certificate(facts))
    }

    /// Whether its key does not tell clients apart that filters of the chain verify.
    pub fn mixes_clients(&self) -> bool {
        self.policy.sharing != Sharing::Shared && self.is_behind_auth && !self.shares_verified
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

fn has_certificate(facts: &Facts<'_>) -> bool {
    facts.connection.client_certificate().is_some()
}

/// What differs from `{}`, in the words of the configuration.
impl fmt::Display for CacheRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, usual) = (&self.policy, Policy::default());
        let time = |seconds: u32| duration_text(Duration::from_secs(u64::from(seconds)));
        let mut words = vec![match own.sharing {
            Sharing::Shared => "shared".to_owned(),
            Sharing::PerClient { lifetime } => format!("per client for {}", time(lifetime)),
        }];
        if let Some(most) = own.post_body {
            let get = if own.skips_get { "" } else { "GET and " };
            words.push(format!("{get}POST with bodies up to {}", size_text(u64::from(most))));
        }
        let mut say = |differs: bool, text: String| words.extend(differs.then_some(text));
        for given in &own.default_lifetimes {
            let (first, last) = given.statuses;
            let statuses = if first == last { first.to_string() } else { format!("{}xx", first / 100) };
            say(true, format!("{statuses} for {}", time(given.seconds)));
        }
        say(
            (own.heuristic_percent, own.heuristic_most) != (usual.heuristic_percent, usual.heuristic_most),
            format!("heuristic {}% up to {}", own.heuristic_percent, time(own.heuristic_most)),
        );
        say(
            own.stale_while_revalidate != usual.stale_while_revalidate,
            format!("stale while revalidated {}", time(own.stale_while_revalidate)),
        );
        say(
            own.stale_when_unreachable != usual.stale_when_unreachable,
            format!("stale if unreachable {}", time(own.stale_when_unreachable)),
        );
        say(!own.honours_clients, "directives of requests do not count".into());
        say(own.set_cookie == SetCookie::Strip, "without Set-Cookie".into());
        say(own.set_cookie == SetCookie::Store, "with Set-Cookie".into());
        say(own.targets != usual.targets, format!("targeted fields [{}]", own.targets.join(", ")));
        say(own.ignores_language_order, "languages in any order".into());
        say(!self.key.query.is_plain(), query_text(&self.key.query));
        say(!self.key.fields.is_empty(), format!("by headers [{}]", self.key.fields.join(", ")));
        say(!self.key.cookies.is_empty(), format!("by cookies [{}]", self.key.cookies.join(", ")));
        say(!self.key.space.is_empty(), format!("space {}", self.key.space));
        say(self.shares_verified, "shared by verified clients".into());
        say(self.max_object != u64::MAX, format!("bodies up to {}", size_text(self.max_object)));
        words.push(format!("waits {}", duration_text(self.wait)));
        words.extend((!self.tells_status).then(|| "no Cache-Status".to_owned()));
        f.write_str(&words.join(", "))
    }
}

fn query_text(rule: &QueryRule) -> String {
    let which = match &rule.selected {
        Selected::All => "all parameters".to_owned(),
        Selected::Nothing => "no parameters".to_owned(),
        Selected::Only(names) => format!("parameters [{}]", names.join(", ")),
        Selected::But(names) => format!("parameters but [{}]", names.join(", ")),
    };
    if rule.sorted { format!("{which}, sorted") } else { which }
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
        self.rule.to_string()
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::NONE
    }

    fn cache(&self) -> Option<Arc<CacheRule>> {
        Some(self.rule.clone())
    }
}
