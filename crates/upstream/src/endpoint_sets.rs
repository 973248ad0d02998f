//! Who the members of each service are, for all workers alike.
//!
//! The control thread draws all endpoint sets up when the plan changes ([`EndpointSets::update`]), and that of one
//! service when its endpoints or the meaning of a host name change ([`EndpointSets::update_one`]), before workers hear
//! of it. What is known of a member stays while its service has it; a balancer's tables are made here once and shared,
//! so that no worker stops for them.

use crate::directory::Directory;
use crate::endpoint_state::{EndpointState, Health};
use crate::service::{Address, Endpoint, Mode, Service};
use crate::service_shared::{Notifier, ServiceShared};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use thalweg_balance::{Balance, Candidate, Seed, endpoint_id};
use thalweg_core::limits;
use thalweg_net::connect::PeerAddress;
use thalweg_net::interfaces::is_machines;
use thalweg_tls::{Connector, PeerTerms};

/// What host names stood for when they were resolved last.
pub type Names = HashMap<Arc<str>, Vec<IpAddr>>;

/// The members of a service at one moment. Immutable.
#[derive(Debug)]
pub struct EndpointSet {
    /// The service in the form that the endpoint set is made from.
    pub service: Arc<Service>,
    /// What its members share.
    pub standing: Arc<ServiceShared>,
    /// In the order of the endpoints; of a host name, one for each address.
    pub entries: Vec<Entry>,
    /// What a balancer sees of them, all ready.
    pub(crate) candidates: Vec<Candidate>,
    /// How many workers share them.
    pub(crate) workers: usize,
    pub(crate) balancer: Box<dyn Balance>,
    /// Of endpoints that exchanges bring along.
    pub(crate) directory: Arc<Directory>,
}

/// A member.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The position of its endpoint in [`Service::endpoints`].
    pub endpoint: u32,
    /// How it stands.
    pub standing: Arc<EndpointState>,
}

/// What tells a member from others over changes of the configuration. Connections of services and
/// endpoints with and without a bound on them are counted at different concurrency limits: they do not mix. Nor do
/// those that were secured on other terms: who is no longer trusted is not spoken to any longer.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Key {
    url: Arc<str>,
    address: PeerAddress,
    terms: Option<Arc<PeerTerms>>,
    bounded: (bool, bool),
}

#[derive(Debug)]
struct Known {
    standing: Arc<ServiceShared>,
    members: HashMap<Key, Arc<EndpointState>>,
    endpoint_set: Arc<EndpointSet>,
}

/// The endpoint sets of all services, by their names.
#[derive(Debug)]
pub struct EndpointSets {
    workers: usize,
    bell: Notifier,
    known: Mutex<HashMap<Arc<str>, Known>>,
    /// The check for addresses that may not be used.
    barred: Mutex<Option<Barred>>,
}

/// The check whether an endpoint may not use an address.
#[derive(Clone)]
struct Barred(Arc<Bars>);

type Bars = dyn Fn(&Endpoint, &PeerAddress) -> bool + Send + Sync;

impl fmt::Debug for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Barred")
    }
}

impl EndpointSets {
    /// None yet; `bell` is rung at every change of a standing, on whichever thread it happens.
    pub fn new(workers: usize, bell: Notifier) -> Self {
        Self { workers, bell, known: Mutex::default(), barred: Mutex::default() }
    }

    /// From now on, sets are built without members at addresses for which `bars` is true. It is called for every
    /// endpoint after host names are resolved, and replaces the previous check.
    pub fn keep_off(&self, bars: impl Fn(&Endpoint, &PeerAddress) -> bool + Send + Sync + 'static) {
        *self.barred.lock().unwrap_or_else(PoisonError::into_inner) = Some(Barred(Arc::new(bars)));
    }

    /// The endpoint sets of these services, in their order. Services that are not among them are forgotten.
    pub fn update(&self, services: &[Arc<Service>], names: &Names) -> Vec<Arc<EndpointSet>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *known);
        let endpoint_sets = services.iter().map(|service| {
            let kept = before.remove(&service.name);
            let now = self.know(service, names, kept);
            let endpoint_set = now.endpoint_set.clone();
            known.insert(service.name.clone(), now);
            endpoint_set
        });
        endpoint_sets.collect()
    }

    /// The endpoint set of one service, in the form that it has from now on. What it costs does not depend on the
    /// others.
    pub fn update_one(&self, service: &Arc<Service>, names: &Names) -> Arc<EndpointSet> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known.remove(&service.name);
        let now = self.know(service, names, kept);
        let endpoint_set = now.endpoint_set.clone();
        known.insert(service.name.clone(), now);
        endpoint_set
    }

    /// Every usable address of every endpoint, in order, each once per endpoint.
    fn addresses_of(&self, service: &Service, names: &Names) -> Vec<(u32, PeerAddress)> {
        let barred = self.barred.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all = Vec::with_capacity(service.endpoints.len());
        for (index, endpoint) in service.endpoints.iter().enumerate() {
            let mut add = |address: PeerAddress| {
                if !barred.as_ref().is_some_and(|Barred(bars)| bars(endpoint, &address)) {
                    all.push((index as u32, address));
                }
            };
            match &endpoint.address {
                // It may be the address of a host name that the file protects.
                Address::Socket(address) if is_kept_off((service, endpoint), *address, names) => {}
                Address::Socket(address) => add(PeerAddress::Tcp(*address)),
                Address::Unix(path) => add(PeerAddress::Unix(path.clone())),
                Address::Name { host, port } => {
                    let ips = names.get(host).map(Vec::as_slice).unwrap_or_default();
                    let each = ips.iter().map(|ip| SocketAddr::new(*ip, *port));
                    let each = each.filter(|address| !is_kept_off((service, endpoint), *address, names));
                    each.for_each(|address| add(PeerAddress::Tcp(address)));
                }
            }
        }
        all.truncate(limits::ENDPOINTS);
        all
    }

    fn know(&self, service: &Arc<Service>, names: &Names, before: Option<Known>) -> Known {
        let addresses = self.addresses_of(service, names);
        let is_running = before.is_some();
        let (standing, mut old, endpoint_set) = match before {
            Some(Known { standing, members, endpoint_set }) => (standing, members, Some(endpoint_set)),
            None => {
                let standing = ServiceShared::new(service.name.clone(), self.workers, self.bell.clone());
                (Arc::new(standing), HashMap::new(), None)
            }
        };
        let now = Instant::now();
        standing.set_breaker(service.breaker, now);
        let mut members = HashMap::with_capacity(addresses.len());
        let mut entries = Vec::with_capacity(addresses.len());
        for (at, address) in addresses {
            let endpoint = &service.endpoints[at as usize];
            let bounded =
                (service.limits.max_connections.is_some(), endpoint.limits.max_connections.is_some());
            let terms = service.tls.clone().filter(|_| endpoint.is_secure());
            let key = Key { url: endpoint.url.clone(), address, terms, bounded };
            let member = old.remove(&key).unwrap_or_else(|| {
                let id = identity(&endpoint.address, &endpoint.url, &key.address);
                let place = (key.url.clone(), key.address.clone());
                let connector =
                    key.terms.as_ref().and_then(|terms| Connector::new(terms, &endpoint.host()).ok());
                let member = EndpointState::new(standing.clone(), place, id, self.workers);
                let member = member.secured(connector.map(Arc::new));
                if service.health.as_ref().is_some_and(|policy| policy.starts_unhealthy) {
                    member.set_health(Health::Awaited, now, "");
                } else if is_running {
                    member.is_new(now);
                }
                Arc::new(member)
            });
            if service.health.is_none() {
                member.set_health(Health::Unchecked, now, "");
            }
            member.set_open(endpoint.mode == Mode::Ready);
            if endpoint.mode == Mode::Ready {
                member.set_cut(false);
            }
            entries.push(Entry { endpoint: at, standing: member.clone() });
            members.insert(key, member);
        }
        old.values().for_each(|gone| gone.retire());
        // Who is reached on other terms is another one; else what is under way goes on to count.
        let same_terms = endpoint_set.as_ref().filter(|endpoint_set| endpoint_set.service.tls == service.tls);
        let directory = same_terms.map(|endpoint_set| endpoint_set.directory.clone()).unwrap_or_default();
        let endpoint_set = endpoint_set.filter(|endpoint_set| is_same(endpoint_set, service, &entries));
        let endpoint_set = endpoint_set.unwrap_or_else(|| {
            standing.set_members(entries.len());
            Arc::new(EndpointSet { directory, ..draw(service, &standing, entries, self.workers) })
        });
        Known { standing, members, endpoint_set }
    }
}

fn is_same(endpoint_set: &EndpointSet, service: &Service, entries: &[Entry]) -> bool {
    let limits = |service: &Service| service.endpoints.iter().map(|e| e.limits).collect::<Vec<_>>();
    *endpoint_set.service == *service
        && endpoint_set.service.limits == service.limits
        && limits(&endpoint_set.service) == limits(service)
        && endpoint_set.entries.len() == entries.len()
        && endpoint_set
            .entries
            .iter()
            .zip(entries)
            .all(|(one, other)| one.endpoint == other.endpoint && Arc::ptr_eq(&one.standing, &other.standing))
}

fn draw(
    service: &Arc<Service>,
    standing: &Arc<ServiceShared>,
    entries: Vec<Entry>,
    workers: usize,
) -> EndpointSet {
    let candidate = |entry: &Entry| Candidate {
        weight: service.endpoints[entry.endpoint as usize].weight,
        ready: true,
        id: entry.standing.id,
    };
    let candidates: Vec<_> = entries.iter().map(candidate).collect();
    let mut balancer = (service.balance.algorithm.new)(Seed(0));
    balancer.rebuild(&candidates);
    let (service, standing, directory) = (service.clone(), standing.clone(), Arc::default());
    EndpointSet { service, standing, entries, candidates, workers, balancer, directory }
}

/// What keyed balancers know a member by: its URL, and of a host name the address too.
fn identity(address: &Address, url: &str, resolved: &PeerAddress) -> u64 {
    match (address, resolved) {
        (Address::Name { .. }, PeerAddress::Tcp(resolved)) => {
            endpoint_id(&format!("{url} {}", resolved.ip()))
        }
        _ => endpoint_id(url),
    }
}

/// Whether an added endpoint resolved to an address that is forbidden to the service: see [`Service::kept_off`].
fn is_kept_off((service, endpoint): (&Service, &Endpoint), address: SocketAddr, names: &Names) -> bool {
    let ip = address.ip().to_canonical();
    // Health checks may ask another port.
    let checked = service.health.as_ref().and_then(|health| health.port);
    let asks = |port: u16| port == address.port() || Some(port) == checked;
    // A server that listens on every address is reached at each address of this machine.
    let is_it = |kept: IpAddr| {
        let kept = kept.to_canonical();
        kept == ip || is_machines(kept) && is_machines(ip)
    };
    let mut kept = service.kept_off.iter().filter(|_| endpoint.is_added);
    kept.any(|kept| match kept {
        Address::Socket(kept) => asks(kept.port()) && is_it(kept.ip()),
        Address::Name { host, port } => {
            asks(*port) && names.get(host).is_some_and(|ips| ips.iter().any(|ip| is_it(*ip)))
        }
        Address::Unix(_) => false,
    })
}
