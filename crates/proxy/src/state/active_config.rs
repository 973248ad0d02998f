//! What is in force, as the control thread makes it ready for the workers.
//!
//! A reload must not hold up exchanges, so all that can be made once is made here, on the control thread: the
//! concurrency limits of every route, and where a service is found by its name. A worker then takes over what is
//! the same by its pointer. What is large (tables, lists) is freed here too: [`RetiredConfigs`] keeps everything that
//! has been in force until no worker holds it any more, so that the last pointer is never dropped by a worker.

use crate::plan::{OwnAddresses, Plan, Route, To};
use crate::state::listener_sockets::OpenListener;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use thalweg_observe::Registry;
use thalweg_sealed::Redactor;
use thalweg_sealed::reach::Own;
use thalweg_upstream::{ConcurrencyLimit, EndpointSet, LimitRegistry, Names};

/// What is in force at this moment: the last plan, and the members that its services have had since.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) current: Arc<ActiveConfig>,
    /// What host names stand for.
    pub(crate) names: Names,
    /// Of the plan's services, in their order. Each changes by itself, without a plan.
    pub(crate) endpoint_sets: Vec<Arc<EndpointSet>>,
    /// One more with each of them that has been replaced.
    pub(crate) changes: u64,
}

/// The endpoint sets of all services of a plan, in their order.
pub(crate) type EndpointSetList = Arc<[Arc<EndpointSet>]>;

/// What is in force.
#[derive(Clone, Debug)]
pub(crate) struct ActiveConfig {
    pub(crate) plan: Arc<Plan>,
    /// In the order of the plan.
    pub(crate) listeners: Arc<[OpenListener]>,
    /// In the order of the plan.
    pub(crate) routes: Arc<[Arc<SharedRoute>]>,
    /// Of requests that filters send by themselves, by the service's name.
    pub(crate) calls: Arc<HashMap<Arc<str>, Arc<SharedRoute>>>,
    /// Positions of the plan's services.
    pub(crate) services: Arc<HashMap<Arc<str>, u32>>,
    /// The port of the first listener with TLS, for `redirect_https`; `None`: there is none.
    pub(crate) https_port: Option<u16>,
    /// Its listening addresses for connections: neither a label nor an endpoint that is not in the file may lead
    /// there.
    pub(crate) own: Arc<Own>,
    /// Where it listens for datagrams: nobody's answers go there.
    pub(crate) own_ports: Arc<Own>,
    /// Keeps labels out of logs and records, also those of routes that are gone.
    pub(crate) redactor: Arc<Redactor>,
}

impl ActiveConfig {
    /// A plan with what belongs to it, after one with the redactor `former`. Its bounds have been adopted by
    /// `concurrency_limits`.
    pub(crate) fn new(
        (plan, former): (Arc<Plan>, &Redactor),
        listeners: Arc<[OpenListener]>,
        (registry, concurrency_limits): (&Registry, &LimitRegistry),
    ) -> Self {
        let shared = |route: &Route| {
            registry.declare_route(&route.name);
            let bound = route.limits.max_in_flight.and_then(|_| concurrency_limits.route(&route.name));
            let concurrency = bound.map(|limit_handle| limit_handle.concurrency().clone());
            Arc::new(SharedRoute { route: route.clone(), concurrency })
        };
        let routes = plan.routes.iter().map(shared);
        let calls = plan.calls.iter().filter_map(|call| {
            let service = plan.services.get(call.service.0 as usize)?;
            Some((service.name.clone(), shared(&call.route)))
        });
        let positions = (0..).zip(&plan.services).map(|(at, service)| (service.name.clone(), at));
        let https = plan.https_listener().and_then(|at| listeners.get(at));
        let sealed = plan.routes.iter().filter_map(|route| match &route.to {
            To::Sealed(sealed) => Some(sealed.keyring.domain()),
            _ => None,
        });
        let own = Own::new(listeners.iter().filter_map(|open| open.sockets.tcp()));
        let own_ports = Own::new(listeners.iter().filter_map(|open| open.sockets.udp()));
        Self {
            own: own.into(),
            own_ports: own_ports.into(),
            redactor: Redactor::new(sealed).after(former).into(),
            https_port: https.and_then(|open| open.sockets.port()),
            routes: routes.collect(),
            calls: Arc::new(calls.collect()),
            services: Arc::new(positions.collect()),
            plan,
            listeners,
        }
    }

    /// The listening addresses of the process; those of the admin API and the metrics as bound, or else as written in
    /// the plan.
    pub(crate) fn own_addresses(&self, beside: &OnceLock<Arc<Own>>) -> OwnAddresses {
        let written = || Own::new(self.plan.beside.iter().copied()).into();
        let beside = beside.get().cloned().unwrap_or_else(written);
        OwnAddresses::new(self.own.clone(), self.own_ports.clone(), beside)
    }

    /// The position of the service with this name.
    pub(crate) fn position(&self, service: &str) -> Option<usize> {
        self.services.get(service).map(|at| *at as usize)
    }
}

/// A route with what all workers share of it. Exchanges hold it, not the plan: it is small.
#[derive(Debug)]
pub(crate) struct SharedRoute {
    pub(crate) route: Route,
    /// Where it has a bound.
    pub(crate) concurrency: Option<Arc<ConcurrencyLimit>>,
}

/// All that is or was in force and may still be in use.
#[derive(Debug, Default)]
pub(crate) struct RetiredConfigs {
    plans: Mutex<Vec<Arc<ActiveConfig>>>,
    /// Endpoint sets that others have replaced.
    endpoint_sets: Mutex<Vec<Arc<EndpointSet>>>,
    /// Those that workers are told of with a plan.
    told: Mutex<Vec<EndpointSetList>>,
}

/// So many replaced endpoint sets are kept before it is looked which of them are free.
const REPLACED: usize = 64;

impl RetiredConfigs {
    /// Something takes over.
    pub(crate) fn add(&self, current: &Arc<ActiveConfig>) {
        self.lock().push(current.clone());
    }

    /// Workers are told of these: the list is freed when all have taken it over.
    pub(crate) fn add_list(&self, list: &EndpointSetList) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(list.clone());
    }

    /// An endpoint set has been replaced: it is freed when no worker holds it. Looks at some of them at a time, so that
    /// what a change costs does not depend on how many are still held.
    pub(crate) fn retire(&self, endpoint_set: Arc<EndpointSet>) {
        let mut endpoint_sets = self.endpoint_sets.lock().unwrap_or_else(PoisonError::into_inner);
        endpoint_sets.push(endpoint_set);
        if endpoint_sets.len().is_multiple_of(REPLACED) {
            let free = take_free(&mut endpoint_sets);
            drop(endpoint_sets);
            drop(free);
        }
    }

    /// Frees what nobody else holds, and counts the plans that are left. Not to be called by a worker.
    pub(crate) fn reclaim(&self) -> usize {
        let all = std::mem::take(&mut *self.lock());
        let (held, free): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| Arc::strong_count(one) > 1);
        let plans: HashSet<_> = held.iter().map(|one| Arc::as_ptr(&one.plan)).collect();
        self.lock().extend(held);
        drop(free);
        let endpoint_sets = take_free(&mut self.endpoint_sets.lock().unwrap_or_else(PoisonError::into_inner));
        let told = take_free(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
        drop((told, endpoint_sets));
        plans.len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ActiveConfig>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out what nobody else holds.
fn take_free<T: ?Sized>(all: &mut Vec<Arc<T>>) -> Vec<Arc<T>> {
    let (held, free) = std::mem::take(all).into_iter().partition(|one| Arc::strong_count(one) > 1);
    *all = held;
    free
}
