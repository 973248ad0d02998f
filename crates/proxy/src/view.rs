//! A plan as one worker runs it: the plan itself, and the live state and meters that belong to it.
//!
//! Workers and exchanges hold it by a local pointer, so using a plan costs no atomic operation. An
//! exchange keeps the view it began with until it ends.

use crate::doors::Door;
use crate::fleet::Eviction;
use crate::load::Loads;
use crate::plan::{Plan, Route, ServiceId};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use thalweg_http::HeadLimits;
use thalweg_observe::{EndpointMeters, Gauge, Registry, RouteMeters, ServiceMeters};
use thalweg_route::RouteId;
use thalweg_upstream::{Entrance, Gates, Roster, ServiceGates, ServiceState};

/// A service with its number in the worker's [`Slots`] and its meters.
#[derive(Debug)]
pub(crate) struct LocalService {
    pub(crate) state: Rc<ServiceState>,
    pub(crate) slot: u32,
    /// By endpoint.
    pub(crate) meters: Vec<Arc<EndpointMeters>>,
    /// By endpoint: 1 while it accepts connections, as far as is known.
    pub(crate) up: Vec<Arc<Gauge>>,
    pub(crate) gates: ServiceGates,
    /// Of the service as a whole.
    totals: Rc<Totals>,
}

impl LocalService {
    fn is_of(&self, name: &str) -> bool {
        *self.state.service.name == *name
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

/// A plan on one worker.
#[derive(Debug)]
pub(crate) struct PlanView {
    pub(crate) plan: Arc<Plan>,
    pub(crate) services: Vec<LocalService>,
    pub(crate) routes: Vec<Arc<RouteMeters>>,
    /// By route; empty when none has a bound.
    route_gates: Vec<Option<Entrance>>,
    /// For requests that no route takes.
    pub(crate) no_route: Arc<RouteMeters>,
    pub(crate) listeners: Vec<Rc<Door>>,
    pub(crate) head_limits: HeadLimits,
}

/// What a view is made of, besides the plan.
pub(crate) struct Ground<'a> {
    pub(crate) worker: usize,
    pub(crate) registry: &'a Registry,
    pub(crate) gates: &'a Gates,
    pub(crate) loads: &'a Arc<Loads>,
    pub(crate) rosters: &'a [Arc<Roster>],
    pub(crate) slots: &'a Slots,
}

impl PlanView {
    /// The view of `plan`; services that `old` has in the same form keep their state.
    pub(crate) fn new(plan: Arc<Plan>, ground: &Ground<'_>, old: Option<&Self>) -> Self {
        let Ground { worker, registry, gates, loads, rosters, slots } = *ground;
        let door = |(listener, name): (usize, &str)| {
            let (listener, meters) = (listener as u16, registry.listener(worker, name));
            Rc::new(Door { loads: loads.clone(), worker, listener, meters })
        };
        let listeners = plan.listeners.iter().map(|listener| &*listener.name);
        let services = plan.services.iter().zip(rosters).map(|(service, roster)| {
            let known = old.and_then(|old| old.services.iter().find(|known| known.is_of(&service.name)));
            let kept = known.filter(|known| known.state.service == *service);
            let (state, slot) = match (kept, known) {
                (Some(kept), _) => {
                    kept.state.update(roster);
                    (kept.state.clone(), kept.slot)
                }
                (None, Some(known)) => {
                    let state = ServiceState::new(roster.clone(), worker, Some(&known.state));
                    let state = Rc::new(state);
                    slots.replace(known.slot, &state);
                    (state, known.slot)
                }
                (None, None) => {
                    let state = Rc::new(ServiceState::new(roster.clone(), worker, None));
                    let slot = slots.add(&state);
                    (state, slot)
                }
            };
            let meters = service.endpoints.iter().map(|e| registry.endpoint(worker, &service.name, &e.url));
            let up = service.endpoints.iter().map(|e| registry.endpoint_up(&service.name, &e.url));
            let up: Vec<_> = up.collect();
            if known.is_none() {
                up.iter().for_each(|gauge| gauge.set(1));
            }
            let totals = Rc::new(Totals(registry.service(worker, &service.name)));
            let gates = gates.service(service);
            LocalService { state, slot, meters: meters.collect(), up, gates, totals }
        });
        let bounded = plan.routes.iter().any(|route| route.limits.max_in_flight.is_some());
        let route_gates = plan.routes.iter().filter(|_| bounded);
        let route_gates = route_gates
            .map(|route| route.limits.max_in_flight.and_then(|_| gates.route(&route.name)))
            .collect();
        Self {
            services: services.collect(),
            routes: plan.routes.iter().map(|route| registry.route(worker, &route.name)).collect(),
            route_gates,
            no_route: registry.route(worker, ""),
            listeners: listeners.enumerate().map(door).collect(),
            head_limits: plan.head_limits(),
            plan,
        }
    }
}

impl PlanView {
    /// The route that was found, with what the plan says of it.
    pub(crate) fn route(&self, found: Option<RouteId>) -> Option<&Route> {
        self.plan.route(found)
    }

    /// The gate of the route that was found, if it has a bound.
    pub(crate) fn route_gate(&self, found: Option<RouteId>) -> Option<&Entrance> {
        self.route_gates.get(found?.0 as usize)?.as_ref()
    }

    /// A service by its position.
    pub(crate) fn service(&self, service: Option<ServiceId>) -> Option<&LocalService> {
        self.services.get(service?.0 as usize)
    }
}

/// Numbers for services, so that an event on an idle connection finds its pool, in whichever plan.
#[derive(Debug, Default)]
pub(crate) struct Slots(RefCell<Vec<Weak<ServiceState>>>);

impl Slots {
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
