//! Entrances: what a listener asks of clients before a request reaches a route, its `access` and a client certificate.
//!
//! Both are guards of every way through the listener ([`super::ways`]). A certificate may be asked for by server name,
//! so this guard depends on the hosts of the route: it counts only if no host of the route is served without one.
//! Certificates that an authority issues (`acme`, `local`) count as if they were there.

use super::guards::{Guard, Guards};
use std::collections::{BTreeSet, HashMap};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Listener, ListenerProtocol, ListenerTls};
use thalweg_route::HostPattern;
use thalweg_tls::{ClientAuth, ClientMode, OnDemandPolicy};

/// The guard by the client's address at a listener.
pub(super) const ACCESS: &str = "access of the listener";
/// The guard by the client's certificate.
pub(super) const CLIENT_AUTH: &str = "client_auth of the listener";

/// The listeners of a plan, by their positions.
pub(super) struct Entrances<'p>(Vec<Entrance<'p>>);

struct Entrance<'p> {
    listener: &'p Listener,
    /// Whether routes answer its requests.
    is_open: bool,
    access: Option<Guard>,
    /// `None`: it asks no client for a certificate.
    names: Option<Names>,
}

impl<'p> Entrances<'p> {
    pub(super) fn of(plan: &'p Plan) -> Self {
        let entrance = |listener: &'p Listener| Entrance {
            listener,
            is_open: !redirects_all(plan, listener),
            access: listener.access.as_ref().map(|rules| Guard::of_listener(ACCESS, rules.to_string())),
            names: listener.tls.as_deref().and_then(Names::of),
        };
        Self(plan.listeners.iter().map(entrance).collect())
    }

    /// Whether a listener asks something of clients.
    pub(super) fn has_guards(&self) -> bool {
        self.0.iter().any(|entrance| entrance.access.is_some() || entrance.names.is_some())
    }

    /// The positions of the listeners whose requests a route answers: those that it names, or all for requests.
    pub(super) fn of_route(&self, plan: &Plan, at: usize) -> Vec<u16> {
        let named = plan.match_of(at).map_or(&[][..], |route| &route.listeners);
        let is_open = |at: &u16| self.0.get(usize::from(*at)).is_some_and(|entrance| entrance.is_open);
        if !named.is_empty() {
            return named.iter().copied().filter(is_open).collect();
        }
        let all = (0_u16..).zip(&self.0);
        let of_requests = all.filter(|(_, it)| it.listener.protocol == ListenerProtocol::Http);
        of_requests.map(|(at, _)| at).filter(is_open).collect()
    }

    pub(super) fn name(&self, at: u16) -> Option<&'p str> {
        self.0.get(usize::from(at)).map(|entrance| &*entrance.listener.name)
    }

    /// What a listener asks of the clients of a route.
    pub(super) fn guards(&self, at: u16, plan: &Plan, route: usize) -> Guards {
        let Some(entrance) = self.0.get(usize::from(at)) else { return Guards::new() };
        let hosts = plan.match_of(route).map_or(&[][..], |route| &route.hosts);
        let asked = entrance.names.as_ref().and_then(|names| names.asked_of(hosts));
        let client_auth = asked.map(|asked| Guard::of_listener(CLIENT_AUTH, asked));
        entrance.access.iter().cloned().chain(client_auth).collect()
    }
}

/// Whether every request is redirected to HTTPS before a route is looked for. A trusted proxy may say that its client
/// came through TLS; then it is not.
fn redirects_all(plan: &Plan, listener: &Listener) -> bool {
    listener.redirect_https && plan.trusted_proxies.is_empty()
}

/// The certificates that a client must show, in words; `None`: it may show none.
type Asked = Option<String>;

/// Names that an authority issues certificates for.
struct IssuedNames {
    names: Vec<String>,
    on_demand: Option<OnDemandPolicy>,
    asked: Asked,
}

impl IssuedNames {
    fn has(&self, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| parent);
        let covers = |name: &String| match name.strip_prefix("*.") {
            Some(suffix) => parent == Some(suffix),
            None => name == host,
        };
        self.names.iter().any(covers) || self.on_demand.as_ref().is_some_and(|policy| policy.covers(host))
    }
}

/// What a listener asks of clients, by the names of its certificates.
struct Names {
    exact: HashMap<String, Asked>,
    /// By the text behind `*.`.
    wildcard: HashMap<String, Asked>,
    issued: Option<IssuedNames>,
    /// Of clients that name no host, or one without a certificate.
    otherwise: Asked,
    /// Each of these once.
    all: BTreeSet<Asked>,
}

impl Names {
    /// `None`: no client is asked.
    fn of(tls: &ListenerTls) -> Option<Self> {
        let acceptor = &tls.acceptor;
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        let mut all = BTreeSet::new();
        let mut otherwise = None;
        for ((certificate, names), asked) in acceptor.entries().zip(acceptor.client_auths()) {
            let asked = text(asked.map(|asked| &**asked));
            otherwise.get_or_insert_with(|| asked.clone());
            for name in if names.is_empty() { certificate.names() } else { names } {
                let name = normal(name);
                match name.strip_prefix("*.") {
                    Some(suffix) => wildcard.entry(suffix.to_owned()).or_insert_with(|| asked.clone()),
                    None => exact.entry(name).or_insert_with(|| asked.clone()),
                };
            }
            all.insert(asked);
        }
        let issued = acceptor.issued().map(|issued| {
            let asked = text(issued.client_auth.as_deref());
            otherwise.get_or_insert_with(|| asked.clone());
            all.insert(asked.clone());
            let names = issued.names.iter().map(|name| normal(name)).collect();
            IssuedNames { names, on_demand: issued.on_demand.clone(), asked }
        });
        let otherwise = otherwise.flatten();
        all.iter().any(Option::is_some).then_some(Self { exact, wildcard, issued, otherwise, all })
    }

    /// What is asked of every client of these hosts; none: of any host. `None`: some need no certificate.
    fn asked_of(&self, hosts: &[HostPattern]) -> Asked {
        let mut found = BTreeSet::new();
        match self.all.len() {
            1 => found.clone_from(&self.all),
            _ if hosts.is_empty() => found.clone_from(&self.all),
            _ => hosts.iter().for_each(|host| self.find(host, &mut found)),
        }
        let all: Option<Vec<String>> = found.into_iter().collect();
        all.filter(|all| !all.is_empty()).map(|all| all.join(", "))
    }

    fn find(&self, host: &HostPattern, found: &mut BTreeSet<Asked>) {
        match host {
            HostPattern::Any => found.extend(self.all.iter().cloned()),
            HostPattern::Exact(host) => {
                let parent = host.split_once('.').map(|(_, parent)| parent);
                let named =
                    self.exact.get(host).or_else(|| parent.and_then(|parent| self.wildcard.get(parent)));
                let issued = self.issued.as_ref().filter(|issued| issued.has(host));
                let asked = named.or_else(|| issued.map(|issued| &issued.asked));
                found.insert(asked.unwrap_or(&self.otherwise).clone());
            }
            HostPattern::Wildcard(suffix) => {
                let is_below = |name: &str| {
                    let rest = name.strip_suffix(&**suffix);
                    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                let exact = self.exact.iter().filter(|(name, _)| *name != suffix && is_below(name));
                let wildcard = self.wildcard.iter().filter(|(name, _)| is_below(name));
                found.extend(exact.chain(wildcard).map(|(_, asked)| asked.clone()));
                found.extend(self.issued.iter().map(|issued| issued.asked.clone()));
                // A host of several labels has no certificate of a wildcard.
                found.insert(self.otherwise.clone());
            }
        }
    }
}

/// The authorities whose clients pass, by their names: an authority with a renewed certificate is the same.
fn text(asked: Option<&ClientAuth>) -> Asked {
    let asked = asked.filter(|asked| asked.mode() == ClientMode::Required)?;
    let mut names: Vec<&str> = asked.authorities().iter().map(|authority| &*authority.subject).collect();
    names.sort_unstable();
    names.dedup();
    let revocation = match (asked.revocations().is_empty(), asked.allows_unknown()) {
        (true, _) => "",
        (false, true) => ", not revoked",
        (false, false) => ", known and not revoked",
    };
    Some(format!("{}{revocation}", names.join(" or ")))
}

/// A name as the hosts of routes are written.
fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
