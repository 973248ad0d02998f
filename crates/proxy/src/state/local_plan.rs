//! A plan as one worker runs it: the plan itself, and the live state and meters that belong to it.
//!
//! The worker holds it by a local pointer, so using a plan costs no atomic operation. An exchange asks it once, when
//! its head is here, and then holds only its own route and service: however long it lasts, it keeps no plan alive.

use crate::plan::{Plan, Route, ServiceId};
use crate::state::active_config::{ActiveConfig, SharedRoute};
use crate::state::labels::ServiceLabels;
use crate::state::shared::Eviction;
use std::cell::{OnceCell, Ref, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use thalweg_http::HeadLimits;
use thalweg_observe::{EndpointMeters, FilterMeters, Gauge, Registry, RouteMeters, ServiceMeters};
use thalweg_route::RouteId;
use thalweg_upstream::{EndpointSet, LimitHandle, LimitRegistry, ServiceConcurrency, ServiceState};

/// A service with its number in the worker's [`ServiceSlots`] and its meters.
#[derive(Debug)]
pub(crate) struct LocalService {
    pub(crate) state: Rc<ServiceState>,
    pub(crate) slot: u32,
    /// By endpoint.
    urls: Vec<Arc<str>>,
    /// By endpoint.
    pub(crate) meters: Vec<Arc<EndpointMeters>>,
    /// By endpoint: 1 while it accepts connections, as far as is known.
    pub(crate) up: Vec<Arc<Gauge>>,
    pub(crate) concurrency_limits: ServiceConcurrency,
    /// What it is called in decision records.
    pub(crate) labels: ServiceLabels,
    /// Of the service as a whole.
    totals: Rc<Totals>,
}

impl LocalService {
    /// The service of this endpoint set. State and connections are those of `known`, where there is one.
    fn new(endpoint_set: &Arc<EndpointSet>, ground: &LocalContext<'_>, known: Option<&Self>) -> Self {
        let LocalContext { worker, registry, concurrency_limits, slots } = *ground;
        let service = &endpoint_set.service;
        let urls = service.endpoints.iter().map(|endpoint| endpoint.url.clone()).collect();
        let (state, slot) = match known {
            Some(known) if known.state.service == *service => {
                known.state.update(endpoint_set);
                (known.state.clone(), known.slot)
            }
            Some(known) => {
                let state = Rc::new(ServiceState::new(endpoint_set.clone(), worker, Some(&known.state)));
                slots.replace(known.slot, &state);
                (state, known.slot)
            }
            None => {
                let state = Rc::new(ServiceState::new(endpoint_set.clone(), worker, None));
                let slot = slots.add(&state);
                (state, slot)
            }
        };
        // What is known already is not looked up again: of many endpoints few come and go at a time.
        let before: HashMap<&str, _> = known.map(LocalService::meters_by_url).unwrap_or_default();
        let meters = |url: &str| match before.get(url) {
            Some((meters, up)) => (Arc::clone(meters), Arc::clone(up)),
            None => (registry.endpoint(worker, &service.name, url), registry.endpoint_up(&service.name, url)),
        };
        let (meters, up): (Vec<_>, Vec<_>) = service.endpoints.iter().map(|e| meters(&e.url)).unzip();
        if known.is_none() {
            up.iter().for_each(|gauge| gauge.set(1));
        }
        let totals = known.map(|known| known.totals.clone());
        let totals = totals.unwrap_or_else(|| Rc::new(Totals(registry.service(worker, &service.name))));
        let (concurrency_limits, labels) = (concurrency_limits.service(service), ServiceLabels::of(service));
        LocalService { state, slot, urls, meters, up, concurrency_limits, labels, totals }
    }

    fn meters_by_url(&self) -> HashMap<&str, (&Arc<EndpointMeters>, &Arc<Gauge>)> {
        let meters = self.meters.iter().zip(&self.up);
        self.urls.iter().zip(meters).map(|(url, both)| (&**url, both)).collect()
    }

    /// The meters of the service as a whole.
    pub(crate) fn meters_of_all(&self) -> &ServiceMeters {
        &self.totals.0
    }

    /// Counts an exchange under way.
    pub(crate) fn under_way(&self) -> Tally {
        Tally::new(&self.totals, |meters| &meters.active)
    }

    /// Counts an exchange that waits.
    pub(crate) fn queued(&self) -> Tally {
        Tally::new(&self.totals, |meters| &meters.queued)
    }
}

/// The meters of a service, pointed at without an atomic step.
#[derive(Debug)]
struct Totals(Arc<ServiceMeters>);

/// One more in a gauge of a service, until it is dropped.
#[derive(Debug)]
pub(crate) struct Tally {
    totals: Rc<Totals>,
    gauge: fn(&ServiceMeters) -> &Gauge,
}

impl Tally {
    fn new(totals: &Rc<Totals>, gauge: fn(&ServiceMeters) -> &Gauge) -> Self {
        gauge(&totals.0).add(1);
        Self { totals: totals.clone(), gauge }
    }

    /// The meters that the gauge belongs to.
    pub(crate) fn meters(&self) -> &ServiceMeters {
        &self.totals.0
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        (self.gauge)(&self.totals.0).sub(1);
    }
}

/// A route on one worker.
#[derive(Debug)]
pub(crate) struct LocalRoute {
    shared: Arc<SharedRoute>,
    pub(crate) meters: Arc<RouteMeters>,
    /// Where it has a bound.
    pub(crate) concurrency: Option<LimitHandle>,
    /// Of its filters, by the position of the chain among its variants; made when the first of them acts.
    filter_meters: RefCell<Vec<(u8, ChainMeters)>>,
    /// Of its services, where it has a canary; likewise.
    target_meters: RefCell<Vec<(ServiceId, Arc<RouteMeters>)>>,
}

/// The meters of a chain's filters, in their order.
type ChainMeters = Rc<[Arc<FilterMeters>]>;

impl LocalRoute {
    fn new(shared: &Arc<SharedRoute>, meters: impl FnOnce(&str) -> Arc<RouteMeters>) -> Self {
        Self {
            meters: meters(&shared.route.name),
            concurrency: shared.concurrency.clone().map(LimitHandle::new),
            filter_meters: RefCell::default(),
            target_meters: RefCell::default(),
            shared: shared.clone(),
        }
    }

    /// The meters of what goes to one of its services.
    pub(crate) fn target_meters(
        &self,
        (service, name): (ServiceId, &str),
        registry: &Registry,
        worker: usize,
    ) -> Arc<RouteMeters> {
        let mut known = self.target_meters.borrow_mut();
        if let Some((_, meters)) = known.iter().find(|(of, _)| *of == service) {
            return meters.clone();
        }
        let meters = registry.target(worker, &self.route().name, name);
        known.push((service, meters.clone()));
        meters
    }

    /// The meters of the filters of one of its chains.
    pub(crate) fn filter_meters(&self, variant: u8, registry: &Registry, worker: usize) -> ChainMeters {
        let mut known = self.filter_meters.borrow_mut();
        if let Some((_, meters)) = known.iter().find(|(of, _)| *of == variant) {
            return meters.clone();
        }
        let route = self.route();
        let steps = route.chain_of(variant).steps().iter();
        let meters: ChainMeters =
            steps.map(|step| registry.filter(worker, &route.name, step.name())).collect();
        known.push((variant, meters.clone()));
        meters
    }

    /// What the plan says of it.
    pub(crate) fn route(&self) -> &Route {
        &self.shared.route
    }
}

/// A plan on one worker.
#[derive(Debug)]
pub(crate) struct LocalPlan {
    pub(crate) plan: Arc<Plan>,
    pub(crate) current: Arc<ActiveConfig>,
    /// In the order of the plan. Each changes by itself when its members do.
    services: RefCell<Vec<Rc<LocalService>>>,
    /// Made when the first exchange comes: of ten thousand routes few are used between two reloads.
    routes: Vec<OnceCell<Rc<LocalRoute>>>,
    /// Of requests that filters send by themselves, by the service's name; likewise.
    calls: RefCell<HashMap<Arc<str>, Rc<LocalRoute>>>,
    /// Of requests that fetch for the cache, by the name of the route that they are for; likewise.
    fills: RefCell<HashMap<Arc<str>, Rc<LocalRoute>>>,
    pub(crate) head_limits: HeadLimits,
}

/// What a view is made of, besides the plan.
pub(crate) struct LocalContext<'a> {
    pub(crate) worker: usize,
    pub(crate) registry: &'a Registry,
    pub(crate) concurrency_limits: &'a LimitRegistry,
    pub(crate) slots: &'a ServiceSlots,
}

impl LocalPlan {
    /// The view of what is in force; services that `old` has in the same form are taken over as they are.
    pub(crate) fn new(
        (current, endpoint_sets): (Arc<ActiveConfig>, &[Arc<EndpointSet>]),
        ground: &LocalContext<'_>,
        old: Option<&Self>,
    ) -> Self {
        let services = endpoint_sets.iter().map(|endpoint_set| {
            let known = old.and_then(|old| {
                let at = old.current.position(&endpoint_set.service.name)?;
                old.services.borrow().get(at).cloned()
            });
            match known {
                Some(known) if known.state.is_of(endpoint_set) => known,
                known => Rc::new(LocalService::new(endpoint_set, ground, known.as_deref())),
            }
        });
        let plan = current.plan.clone();
        Self {
            services: RefCell::new(services.collect()),
            routes: current.routes.iter().map(|_| OnceCell::new()).collect(),
            calls: RefCell::default(),
            fills: RefCell::default(),
            head_limits: plan.head_limits(),
            plan,
            current,
        }
    }

    /// A route that was found. Its meters are asked for when the first exchange comes.
    pub(crate) fn route(
        &self,
        found: RouteId,
        meters: impl FnOnce(&str) -> Arc<RouteMeters>,
    ) -> Option<&Rc<LocalRoute>> {
        let place = self.routes.get(found.0 as usize)?;
        if let Some(known) = place.get() {
            return Some(known);
        }
        let shared = self.current.routes.get(found.0 as usize)?;
        Some(place.get_or_init(|| Rc::new(LocalRoute::new(shared, meters))))
    }

    /// The route of requests that filters send to a service by themselves, and the service; `None`: no filter names it.
    pub(crate) fn call(
        &self,
        service: &Arc<str>,
        meters: impl FnOnce(&str) -> Arc<RouteMeters>,
    ) -> Option<(Rc<LocalRoute>, ServiceId)> {
        let position = self.current.position(service)?;
        let shared = self.current.calls.get(service)?;
        let mut calls = self.calls.borrow_mut();
        let local = calls.entry(service.clone()).or_insert_with(|| Rc::new(LocalRoute::new(shared, meters)));
        Some((local.clone(), ServiceId(position as u32)))
    }

    /// The route as requests see it that fetch responses of it for the cache: what it allows and bounds, with meters of
    /// their own.
    pub(crate) fn fills(
        &self,
        route: &LocalRoute,
        meters: impl FnOnce(&str) -> Arc<RouteMeters>,
    ) -> Rc<LocalRoute> {
        let mut fills = self.fills.borrow_mut();
        let known = fills.get(&route.route().name).filter(|known| Arc::ptr_eq(&known.shared, &route.shared));
        if let Some(known) = known {
            return known.clone();
        }
        let own = |name: &str| meters(&format!("cache of {name}"));
        let local = Rc::new(LocalRoute::new(&route.shared, own));
        fills.insert(route.route().name.clone(), local.clone());
        local
    }

    /// A service by its name.
    pub(crate) fn service_named(&self, name: &str) -> Option<Rc<LocalService>> {
        self.service(ServiceId(self.current.position(name)? as u32))
    }

    /// A service by its position.
    pub(crate) fn service(&self, service: ServiceId) -> Option<Rc<LocalService>> {
        self.services.borrow().get(service.0 as usize).cloned()
    }

    /// All services.
    pub(crate) fn services(&self) -> Ref<'_, [Rc<LocalService>]> {
        Ref::map(self.services.borrow(), |services| &services[..])
    }

    /// These are the members of a service from now on. Nothing else is touched; exchanges under way keep what they
    /// have.
    pub(crate) fn set_endpoint_set(
        &self,
        service: ServiceId,
        endpoint_set: &Arc<EndpointSet>,
        ground: &LocalContext<'_>,
    ) {
        let Some(known) = self.service(service).filter(|known| !known.state.is_of(endpoint_set)) else {
            return;
        };
        if *known.state.service.name != *endpoint_set.service.name {
            // Of another plan: its own message is on the way.
            return;
        }
        let new = Rc::new(LocalService::new(endpoint_set, ground, Some(&known)));
        if let Some(place) = self.services.borrow_mut().get_mut(service.0 as usize) {
            *place = new;
        }
    }
}

/// Numbers for services, so that an event on an idle connection finds its pool, in whichever plan.
#[derive(Debug, Default)]
pub(crate) struct ServiceSlots(RefCell<Vec<Weak<ServiceState>>>);

impl ServiceSlots {
    /// The state with this number, unless it is gone.
    pub(crate) fn find(&self, slot: u32) -> Option<Rc<ServiceState>> {
        self.0.borrow().get(slot as usize)?.upgrade()
    }

    /// Lets idle connections of the service, or of the one endpoint, go to those who wait for one, or else
    /// for their places; in whichever plan the connections are.
    pub(crate) fn give_way(&self, eviction: &Eviction) {
        let slots = self.0.borrow();
        let states = slots.iter().filter_map(Weak::upgrade);
        let states = states.filter(|state| state.service.name == eviction.service);
        states.for_each(|state| match &eviction.endpoint {
            None => state.give_way(None),
            Some(url) => {
                let at = state.service.endpoints.iter().position(|endpoint| endpoint.url == *url);
                at.inspect(|at| state.give_way(Some(*at as u32)));
            }
        });
    }

    fn add(&self, state: &Rc<ServiceState>) -> u32 {
        let mut slots = self.0.borrow_mut();
        let slot = slots.iter().position(|known| known.strong_count() == 0).unwrap_or(slots.len());
        if slot == slots.len() {
            slots.push(Weak::new());
        }
        slots[slot] = Rc::downgrade(state);
        slot as u32
    }

    /// The state has taken another one's connections over, and is called for them from now on.
    fn replace(&self, slot: u32, state: &Rc<ServiceState>) {
        if let Some(place) = self.0.borrow_mut().get_mut(slot as usize) {
            *place = Rc::downgrade(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ClientTimeouts, Limits, Shutdown};
    use thalweg_sealed::Redactor;
    use thalweg_upstream::{Address, Endpoint, EndpointLimits, EndpointSets, Mode, Names, Notifier, Service};

    /// A process with one worker, on paper.
    struct House {
        registry: Registry,
        concurrency_limits: LimitRegistry,
        endpoint_sets: EndpointSets,
        slots: ServiceSlots,
    }

    impl House {
        fn new() -> Self {
            let (concurrency_limits, endpoint_sets) =
                (LimitRegistry::default(), EndpointSets::new(1, Notifier::default()));
            Self {
                registry: Registry::new(1),
                concurrency_limits,
                endpoint_sets,
                slots: ServiceSlots::default(),
            }
        }

        /// The view of a plan with these services, each with endpoints of these weights.
        fn view(&self, services: &[(&str, &[u32])], old: Option<&LocalPlan>) -> LocalPlan {
            let services: Vec<_> = services.iter().map(|(name, weights)| service(name, weights)).collect();
            let endpoint_sets = self.endpoint_sets.update(&services, &Names::new());
            let plan = Plan {
                cache: crate::plan::CachePlan::default(),
                requests: crate::plan::RequestsPolicy::default(),
                tracing: None,
                error_details: true,
                access: crate::plan::AccessPolicy::default(),
                beside: Vec::new(),
                secrets: crate::plan::PlanSecrets::default(),
                listeners: Vec::new(),
                connections: Arc::default(),
                calls: Vec::new(),
                table: Arc::new(thalweg_route::Table::build(&[]).unwrap()),
                routes: Vec::new(),
                services,
                trusted_proxies: Vec::new(),
                limits: Limits::default(),
                client_timeouts: ClientTimeouts::default(),
                shutdown: Shutdown::default(),
            };
            let plan = (plan.into(), &Redactor::default());
            let current = ActiveConfig::new(plan, Arc::default(), (&self.registry, &self.concurrency_limits));
            let (registry, concurrency_limits, slots) =
                (&self.registry, &self.concurrency_limits, &self.slots);
            LocalPlan::new(
                (current.into(), &endpoint_sets),
                &LocalContext { worker: 0, registry, concurrency_limits, slots },
                old,
            )
        }
    }

    fn service(name: &str, weights: &[u32]) -> Arc<Service> {
        let endpoint = |(port, weight): (u16, &u32)| Endpoint {
            url: format!("http://192.0.2.1:{port}").into(),
            address: Address::Socket(([192, 0, 2, 1], port).into()),
            weight: *weight,
            tier: 0,
            mode: Mode::Ready,
            labels: thalweg_upstream::Labels::default(),
            limits: EndpointLimits::default(),
            is_added: false,
        };
        let endpoints = (1..).zip(weights).map(endpoint).collect();
        Arc::new(Service { name: name.into(), endpoints, ..Service::default() })
    }

    /// Pools, latencies, retry budget, balancer and meters: it is all in what is taken over.
    #[test]
    fn a_service_that_is_the_same_is_taken_over_whole_wherever_it_stands() {
        let house = House::new();
        let before = house.view(&[("a", &[1]), ("b", &[1, 1]), ("c", &[1])], None);
        let after = house.view(&[("new", &[1]), ("c", &[1]), ("b", &[1, 2]), ("a", &[1])], Some(&before));
        assert!(Rc::ptr_eq(&before.services()[0], &after.services()[3]), "a");
        assert!(Rc::ptr_eq(&before.services()[2], &after.services()[1]), "c");
        let (old, new) = (&before.services()[1], &after.services()[2]);
        assert!(!Rc::ptr_eq(&old.state, &new.state), "b has changed");
        assert_eq!(old.slot, new.slot, "and is called for its old connections");
        assert!(Rc::ptr_eq(&old.state.retries, &new.state.retries), "and keeps its retry budget");
        let pool = |local: &LocalService| local.state.member_of(0).unwrap().pool.clone();
        assert!(Rc::ptr_eq(&pool(old), &pool(new)), "and the connections of a member that stays");
    }

    #[test]
    fn what_was_in_force_is_freed_when_it_is_looked_at_after_its_last_view_has_gone() {
        let (house, living) = (House::new(), crate::state::active_config::RetiredConfigs::default());
        let one = house.view(&[("a", &[1])], None);
        living.add(&one.current);
        let two = house.view(&[("a", &[1])], Some(&one));
        living.add(&two.current);
        assert_eq!(living.reclaim(), 2);
        let plan = Arc::downgrade(&one.plan);
        drop(one);
        assert!(plan.upgrade().is_some(), "not by who drops the view");
        assert_eq!(living.reclaim(), 1);
        assert!(plan.upgrade().is_none());
        drop(two);
        assert_eq!(living.reclaim(), 0);
    }

    #[test]
    fn a_service_that_has_been_away_is_a_new_one() {
        let house = House::new();
        let one = house.view(&[("a", &[1]), ("b", &[1])], None);
        let two = house.view(&[("b", &[1])], Some(&one));
        let three = house.view(&[("a", &[1]), ("b", &[1])], Some(&two));
        assert!(!Rc::ptr_eq(&one.services()[0].state, &three.services()[0].state));
        assert!(Rc::ptr_eq(&one.services()[1], &three.services()[1]));
    }
}
