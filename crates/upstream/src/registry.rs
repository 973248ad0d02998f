//! The concurrency limits of the running configuration, by what they guard.
//!
//! One per process. The control thread takes a plan over with [`LimitRegistry::adopt`] before workers hear of
//! it; every worker then asks for the concurrency limits of its view. So all workers share one concurrency limit per
//! bound, and a reload keeps who is inside and who waits: only the numbers change.

use crate::adaptive::Adaptive;
use crate::concurrency::{Alternative, ConcurrencyLimit, LimitHandle, WaitQueue};
use crate::connection_handoff::Handover;
use crate::policy::{AdaptivePolicy, QueuePolicy};
use crate::service::Service;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The concurrency limits of all routes, services and endpoints that have bounds.
#[derive(Debug)]
pub struct LimitRegistry<T: Alternative = Handover>(Mutex<Book<T>>);

#[derive(Debug)]
struct Book<T: Alternative> {
    concurrency_limits: HashMap<Guarded, Arc<ConcurrencyLimit<T>>>,
    /// Where one waits for any endpoint of a service.
    lines: HashMap<Arc<str>, Arc<WaitQueue<T>>>,
    /// The limits that follow the latency of their endpoints.
    adaptive: HashMap<Guarded, Adapted>,
}

#[derive(Debug)]
struct Adapted {
    /// What was learnt.
    limit: u32,
    /// `max_in_flight` of the endpoint: it is never above.
    most: Option<u32>,
}

impl Adapted {
    fn bound(&self) -> u32 {
        self.most.map_or(self.limit, |most| most.min(self.limit))
    }
}

impl<T: Alternative> Default for LimitRegistry<T> {
    fn default() -> Self {
        Self(Mutex::new(Book {
            concurrency_limits: HashMap::new(),
            lines: HashMap::new(),
            adaptive: HashMap::new(),
        }))
    }
}

/// What a concurrency limit guards.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Guarded {
    Route(Arc<str>),
    Service(Arc<str>),
    ServiceConnections(Arc<str>),
    Endpoint(Arc<str>, Arc<str>),
    EndpointConnections(Arc<str>, Arc<str>),
}

/// Of what may be guarded of a service, so much comes first and is not of its endpoints.
const OWN: usize = 2;

/// All that may be guarded of a service.
fn guarded_of(service: &Service) -> impl Iterator<Item = Guarded> {
    let name = &service.name;
    let own: [_; OWN] = [Guarded::Service(name.clone()), Guarded::ServiceConnections(name.clone())];
    let of_endpoints = service.endpoints.iter().flat_map(|endpoint| {
        let url = &endpoint.url;
        let in_flight = Guarded::Endpoint(name.clone(), url.clone());
        [in_flight, Guarded::EndpointConnections(name.clone(), url.clone())]
    });
    own.into_iter().chain(of_endpoints)
}

/// The bound of a route as a plan has it.
#[derive(Clone, Debug)]
pub struct RouteBound {
    /// The route's name.
    pub name: Arc<str>,
    /// Exchanges under way; `None`: no bound.
    pub max_in_flight: Option<u32>,
    /// Who may wait for a place.
    pub queue: QueuePolicy,
}

/// A worker's entrances to the concurrency limits of a service; each is `None` where nothing is configured.
#[derive(Debug)]
pub struct ServiceConcurrency<T: Alternative = Handover> {
    /// Exchanges under way to the service.
    pub in_flight: Option<LimitHandle<T>>,
    /// Connections open to the service.
    pub connections: Option<LimitHandle<T>>,
    /// By endpoint; empty when no endpoint has a bound.
    pub endpoints: Vec<EndpointConcurrency<T>>,
}

/// A worker's entrances to the concurrency limits of an endpoint.
#[derive(Debug)]
pub struct EndpointConcurrency<T: Alternative = Handover> {
    /// Exchanges under way to the endpoint, all its addresses together.
    pub in_flight: Option<LimitHandle<T>>,
    /// Connections open to the endpoint, all its addresses together.
    pub connections: Option<LimitHandle<T>>,
}

impl<T: Alternative> LimitRegistry<T> {
    /// The bounds of these routes and services hold from now on. A bound that is gone holds nobody
    /// any more; its concurrency limit is kept while somebody is inside.
    pub fn adopt<'a>(
        &self,
        routes: impl Iterator<Item = RouteBound>,
        services: impl Iterator<Item = &'a Service>,
    ) {
        let mut book = self.lock();
        let mut current = HashSet::new();
        for RouteBound { name, max_in_flight, queue } in routes {
            book.set(Guarded::Route(name), max_in_flight, (queue, None), &mut current);
        }
        let mut lines = HashMap::new();
        for service in services {
            book.adopt_service(service, &mut current, &mut lines);
        }
        book.concurrency_limits.retain(|guarded, concurrency| {
            if current.contains(guarded) {
                return true;
            }
            concurrency.set_limit(u32::MAX);
            Arc::strong_count(concurrency) > 1
        });
        book.adaptive.retain(|guarded, _| current.contains(guarded));
        // A bound that comes back meets those inside, and their concurrency limits, in the line that it had.
        book.lines.retain(|_, line| Arc::strong_count(line) > 1);
        book.lines.extend(lines);
    }

    /// The bounds of this service, in another form than before, hold from now on. All others stay as they are, and what
    /// it costs does not depend on how many there are.
    pub fn adopt_service(&self, before: &Service, service: &Service) {
        let mut book = self.lock();
        let (mut current, mut lines) = (HashSet::new(), HashMap::new());
        book.adopt_service(service, &mut current, &mut lines);
        // Where no endpoint had a bound there is none to take away.
        let most = if before.bounds_endpoints() { usize::MAX } else { OWN };
        for guarded in guarded_of(before).take(most).filter(|guarded| !current.contains(guarded)) {
            book.adaptive.remove(&guarded);
            let Some(concurrency) = book.concurrency_limits.get(&guarded) else { continue };
            concurrency.set_limit(u32::MAX);
            if Arc::strong_count(concurrency) == 1 {
                book.concurrency_limits.remove(&guarded);
            }
        }
        book.lines.extend(lines);
    }

    /// The concurrency limit of a route, if its bound was adopted.
    pub fn route(&self, name: &Arc<str>) -> Option<LimitHandle<T>> {
        self.lock().limit_handle(Guarded::Route(name.clone()))
    }

    /// The concurrency limits of a service, as far as they were adopted.
    pub fn service(&self, service: &Service) -> ServiceConcurrency<T> {
        let book = self.lock();
        let name = &service.name;
        let bounded = |bound: Option<u32>, guarded| bound.and_then(|_| book.limit_handle(guarded));
        let limits = &service.limits;
        let endpoints = service.endpoints.iter().map(|endpoint| {
            let (limits, url) = (endpoint.limits, &endpoint.url);
            let guarded = Guarded::EndpointConnections(name.clone(), url.clone());
            let in_flight = limits.max_in_flight.or(service.limits.adaptive.map(|policy| policy.max));
            EndpointConcurrency {
                in_flight: bounded(in_flight, Guarded::Endpoint(name.clone(), url.clone())),
                connections: bounded(limits.max_connections, guarded),
            }
        });
        ServiceConcurrency {
            in_flight: bounded(limits.max_in_flight, Guarded::Service(name.clone())),
            connections: bounded(limits.max_connections, Guarded::ServiceConnections(name.clone())),
            endpoints: if service.bounds_endpoints() { endpoints.collect() } else { Vec::new() },
        }
    }

    /// The adaptive limit of an endpoint is this from now on, or its `max_in_flight` where that is less. Places that
    /// are new go to those who wait. An endpoint without such a limit is left alone.
    pub fn set_adaptive(&self, service: &Arc<str>, url: &Arc<str>, limit: u32) {
        let mut book = self.lock();
        let guarded = Guarded::Endpoint(service.clone(), url.clone());
        let Some(adapted) = book.adaptive.get_mut(&guarded) else { return };
        if adapted.limit == limit {
            return;
        }
        adapted.limit = limit;
        let bound = adapted.bound();
        if let Some(concurrency) = book.concurrency_limits.get(&guarded) {
            concurrency.set_limit(bound);
        }
    }

    /// The concurrency limit of what is under way to an endpoint, if it has a bound.
    pub fn endpoint(&self, service: &Arc<str>, url: &Arc<str>) -> Option<Arc<ConcurrencyLimit<T>>> {
        self.lock().concurrency_limits.get(&Guarded::Endpoint(service.clone(), url.clone())).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Book<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Alternative> Book<T> {
    fn adopt_service(
        &mut self,
        service: &Service,
        current: &mut HashSet<Guarded>,
        lines: &mut HashMap<Arc<str>, Arc<WaitQueue<T>>>,
    ) {
        let (name, limits) = (&service.name, &service.limits);
        let own = (limits.queue, None);
        self.set(Guarded::Service(name.clone()), limits.max_in_flight, own, current);
        self.set(Guarded::ServiceConnections(name.clone()), limits.max_connections, own, current);
        if !service.bounds_endpoints() {
            return;
        }
        let line = self.lines.remove(name).unwrap_or_else(|| Arc::new(WaitQueue::new(limits.queue)));
        for endpoint in &service.endpoints {
            let (limits, url) = (endpoint.limits, &endpoint.url);
            let shared = (service.limits.queue, Some(&line));
            let guarded = Guarded::Endpoint(name.clone(), url.clone());
            let bound = self.in_flight(&guarded, limits.max_in_flight, service.limits.adaptive);
            self.set(guarded, bound, shared, current);
            let guarded = Guarded::EndpointConnections(name.clone(), url.clone());
            self.set(guarded, limits.max_connections, own, current);
        }
        lines.insert(name.clone(), line);
    }

    /// What bounds an endpoint: what is configured, what was learnt, or the smaller of both.
    fn in_flight(
        &mut self,
        guarded: &Guarded,
        most: Option<u32>,
        policy: Option<AdaptivePolicy>,
    ) -> Option<u32> {
        let Some(policy) = policy else {
            self.adaptive.remove(guarded);
            return most;
        };
        let learnt = self.adaptive.get(guarded).map_or_else(|| Adaptive::first(policy), |known| known.limit);
        let min = policy.min.max(1);
        let adapted = Adapted { limit: learnt.clamp(min, policy.max.max(min)), most };
        let bound = adapted.bound();
        self.adaptive.insert(guarded.clone(), adapted);
        Some(bound)
    }

    /// Makes a concurrency limit with this bound, or gives the bound to the one there is.
    fn set(
        &mut self,
        guarded: Guarded,
        limit: Option<u32>,
        (queue, line): (QueuePolicy, Option<&Arc<WaitQueue<T>>>),
        current: &mut HashSet<Guarded>,
    ) {
        let Some(limit) = limit else { return };
        let new =
            || ConcurrencyLimit::new(limit, line.cloned().unwrap_or_else(|| Arc::new(WaitQueue::new(queue))));
        let concurrency = self.concurrency_limits.entry(guarded.clone()).or_insert_with(new);
        concurrency.line().set_policy(queue);
        concurrency.set_limit(limit);
        current.insert(guarded);
    }

    fn limit_handle(&self, guarded: Guarded) -> Option<LimitHandle<T>> {
        self.concurrency_limits.get(&guarded).cloned().map(LimitHandle::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Labels;
    use crate::policy::Priority;
    use crate::service::{Address, Endpoint, EndpointLimits, Mode};
    use std::task::{Context, Poll, Waker};

    fn adopt(
        concurrency_limits: &LimitRegistry,
        max_in_flight: Option<u32>,
    ) -> Option<LimitHandle<Handover>> {
        let queue = QueuePolicy::default();
        let bound = RouteBound { name: "r".into(), max_in_flight, queue };
        concurrency_limits.adopt([bound].into_iter(), [].into_iter());
        concurrency_limits.route(&"r".into())
    }

    #[test]
    fn every_worker_gets_the_same_gate() {
        let concurrency_limits = LimitRegistry::default();
        let one = adopt(&concurrency_limits, Some(1)).unwrap();
        let other = concurrency_limits.route(&"r".into()).unwrap();
        let _held = one.enter().unwrap();
        assert!(other.enter().is_none());
    }

    #[test]
    fn a_reload_keeps_who_is_inside_and_lets_those_who_wait_have_the_new_places() {
        let concurrency_limits = LimitRegistry::default();
        let concurrency = adopt(&concurrency_limits, Some(1)).unwrap();
        let _held = concurrency.enter().unwrap();
        let mut wait = concurrency.concurrency().line().join(Priority::Normal, Waker::noop()).unwrap();
        let after = adopt(&concurrency_limits, Some(2)).unwrap();
        let Poll::Ready(Ok(_place)) = wait.poll(&Context::from_waker(Waker::noop())) else {
            panic!("the new place was not given to who waited")
        };
        assert_eq!(after.concurrency().taken(), 2);
        assert!(after.enter().is_none());
    }

    fn service(max_in_flight: [Option<u32>; 2]) -> Service {
        let endpoint = |(at, max_in_flight)| Endpoint {
            url: format!("http://192.0.2.{at}").into(),
            address: Address::Socket(([192, 0, 2, at], 80).into()),
            weight: 1,
            tier: 0,
            mode: Mode::default(),
            labels: Labels::default(),
            limits: EndpointLimits { max_connections: None, max_in_flight },
            is_added: false,
        };
        let endpoints = (1..).zip(max_in_flight).map(endpoint).collect();
        Service { name: "s".into(), endpoints, ..Service::default() }
    }

    /// The concurrency limits of the endpoints with these bounds.
    fn endpoints(
        concurrency_limits: &LimitRegistry,
        max_in_flight: [Option<u32>; 2],
    ) -> Vec<LimitHandle<Handover>> {
        let service = service(max_in_flight);
        concurrency_limits.adopt([].into_iter(), [&service].into_iter());
        concurrency_limits
            .service(&service)
            .endpoints
            .into_iter()
            .filter_map(|concurrency_limits| concurrency_limits.in_flight)
            .collect()
    }

    #[test]
    fn endpoints_whose_bounds_were_away_share_one_line_with_those_that_are_new() {
        let concurrency_limits = LimitRegistry::default();
        let held = endpoints(&concurrency_limits, [Some(1), None])[0].enter().unwrap();
        endpoints(&concurrency_limits, [None, None]);
        let both = endpoints(&concurrency_limits, [Some(1), Some(1)]);
        let other = both[1].enter().unwrap();
        assert!(both[0].enter().is_none(), "the one inside is still counted");
        let mut wait = both[0].concurrency().line().join(Priority::Normal, Waker::noop()).unwrap();
        drop(other);
        assert!(wait.poll(&Context::from_waker(Waker::noop())).is_ready(), "a place at either will do");
        drop(held);
    }

    #[test]
    fn what_an_adaptive_limit_has_learnt_outlasts_a_reload() {
        let concurrency_limits: LimitRegistry = LimitRegistry::default();
        let adopt = |service: &Service| concurrency_limits.adopt([].into_iter(), [service].into_iter());
        let limits = |service: &Service| {
            let concurrency_limits = concurrency_limits.service(service).endpoints.into_iter();
            concurrency_limits
                .map(|concurrency_limits| {
                    concurrency_limits.in_flight.map(|concurrency| concurrency.concurrency().limit())
                })
                .collect::<Vec<_>>()
        };
        let mut service = service([None, Some(50)]);
        service.limits.adaptive = Some(AdaptivePolicy::default());
        adopt(&service);
        assert_eq!(limits(&service), [Some(100), Some(50)], "the smaller of both");
        let urls: Vec<_> = service.endpoints.iter().map(|endpoint| endpoint.url.clone()).collect();
        concurrency_limits.set_adaptive(&service.name, &urls[0], 70);
        concurrency_limits.set_adaptive(&service.name, &urls[1], 70);
        assert_eq!(limits(&service), [Some(70), Some(50)]);
        service.endpoints[1].limits.max_in_flight = None;
        adopt(&service);
        assert_eq!(limits(&service), [Some(70), Some(70)]);
        service.limits.adaptive = Some(AdaptivePolicy { max: 60, ..AdaptivePolicy::default() });
        adopt(&service);
        assert_eq!(limits(&service), [Some(60), Some(60)]);
        service.limits.adaptive = None;
        adopt(&service);
        assert!(concurrency_limits.service(&service).endpoints.is_empty(), "no endpoint has a bound");
        concurrency_limits.set_adaptive(&service.name, &urls[0], 1);
        assert!(concurrency_limits.endpoint(&service.name, &urls[0]).is_none());
    }

    #[test]
    fn the_peak_is_the_most_that_was_inside_since_the_last_look() {
        let concurrency_limits = LimitRegistry::default();
        let concurrency = adopt(&concurrency_limits, Some(3)).unwrap();
        let inside: Vec<_> = (0..4).map(|_| concurrency.enter()).collect();
        drop(inside);
        let held = concurrency.enter();
        assert_eq!((concurrency.concurrency().take_peak(), concurrency.concurrency().take_peak()), (3, 1));
        drop(held);
        assert_eq!((concurrency.concurrency().take_peak(), concurrency.concurrency().take_peak()), (1, 0));
    }

    #[test]
    fn a_bound_that_is_gone_holds_nobody_and_its_gate_goes_with_the_last_inside() {
        let concurrency_limits = LimitRegistry::default();
        let concurrency = adopt(&concurrency_limits, Some(1)).unwrap();
        let held = concurrency.enter().unwrap();
        assert!(adopt(&concurrency_limits, None).is_some(), "kept for those inside");
        assert!(concurrency.enter().is_some(), "no bound any more");
        drop((concurrency, held));
        assert!(adopt(&concurrency_limits, None).is_none());
    }
}
