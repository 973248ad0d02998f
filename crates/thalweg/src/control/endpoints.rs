//! What the admin API does to endpoints and weights: each change is one step under the lock of the runtime.

use super::admin::Shared;
use super::endpoint_origins::EndpointOrigins;
use super::endpoint_status::{condition_of, members_of};
use super::overlay::{AddedEndpointSpec, ModeSpec};
use super::route_status::{route_status, route_statuses};
use super::runtime::{Drain, Runtime};
use super::sent_secrets::keeps_its_endpoints;
use super::service_monitor::drain_finished;
use super::traffic::differs;
use super::weights::in_force_of;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_admin::{
    Changed, EndpointChange, EndpointState, EndpointStatus, Expected, NewEndpoint, Refusal, Reweighted,
    RouteStatus, ServiceState, ServiceStatus, Services, WantedState,
};
use thalweg_balance::endpoint_id;
use thalweg_config::{Object, endpoint_address};
use thalweg_core::{EndpointCondition, Notice, limits};
use thalweg_observe::ServiceMeters;
use thalweg_tls::{PeerPolicy, PeerTerms, Trust};
use thalweg_upstream::{Endpoint, EndpointSet, PeerAddress};

/// The id of an endpoint in paths.
fn id_of(url: &str) -> String {
    format!("{:016x}", endpoint_id(url))
}

impl Shared {
    /// Services and their endpoints now.
    pub(super) fn list_services(&self) -> Services {
        let runtime = self.runtime();
        let endpoint_sets = self.worker_pool().endpoint_sets();
        // Who has no endpoints of its own is no service for anybody.
        let listed = endpoint_sets.iter().filter(|endpoint_set| endpoint_set.service.destinations.is_none());
        let services = listed.map(|endpoint_set| self.service_status(&runtime, endpoint_set)).collect();
        Services { version: runtime.version, services }
    }

    fn service_status(&self, runtime: &Runtime, endpoint_set: &EndpointSet) -> ServiceStatus {
        let service = &endpoint_set.service;
        let origins = EndpointOrigins::of(runtime, service, self.worker_pool().position(&service.name));
        let endpoints =
            (0..service.endpoints.len()).map(|at| self.endpoint_status(&origins, endpoint_set, at));
        let endpoints: Vec<EndpointStatus> = endpoints.collect();
        let put_aside =
            |e: &&EndpointStatus| matches!(e.state, EndpointState::Draining | EndpointState::Maintenance);
        let wanted = endpoints.iter().filter(|endpoint| !put_aside(endpoint)).count();
        let up = endpoints
            .iter()
            .filter(|endpoint| matches!(endpoint.state, EndpointState::Ready | EndpointState::SlowStart))
            .count();
        let sum = |count: fn(&ServiceMeters) -> i64| {
            let workers = 0..self.worker_pool().workers();
            let all: i64 = workers.map(|worker| count(&self.registry.service(worker, &service.name))).sum();
            u64::try_from(all).unwrap_or(0)
        };
        ServiceStatus {
            name: service.name.to_string(),
            balance: service.balance.algorithm.name.into(),
            state: match up {
                0 => ServiceState::Down,
                up if up == wanted => ServiceState::Up,
                _ => ServiceState::Degraded,
            },
            insecure_skip_verify: service
                .tls
                .as_ref()
                .is_some_and(|terms| terms.policy().trust == Trust::InsecureSkipVerify),
            endpoints,
            requests_active: sum(|meters| meters.active.value()),
            queued: sum(|meters| meters.queued.value()),
        }
    }

    fn endpoint_status(
        &self,
        origins: &EndpointOrigins<'_>,
        endpoint_set: &EndpointSet,
        at: usize,
    ) -> EndpointStatus {
        let (service, endpoint) = (&endpoint_set.service, &endpoint_set.service.endpoints[at]);
        let stand = condition_of(endpoint_set, at as u32, Instant::now());
        let members: Vec<_> = members_of(endpoint_set, at as u32).collect();
        let sample = members.iter().map(|member| member.sample());
        let (requests, failures, answered, latency) = sample.fold((0, 0, 0, 0), |sum, sample| {
            let answered = sum.2 + sample.answered;
            (sum.0 + sample.requests, sum.1 + sample.failures, answered, sum.3 + sample.latency_us)
        });
        let (source, origin) = origins.get(&endpoint.url);
        let address = |address: &PeerAddress| match address {
            PeerAddress::Tcp(address) => address.to_string(),
            PeerAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        EndpointStatus {
            id: id_of(&endpoint.url),
            url: endpoint.url.to_string(),
            weight: endpoint.weight,
            tier: endpoint.tier,
            state: state_of(stand.condition),
            since: self.since(&service.name, &endpoint.url),
            cause: Some(stand.cause).filter(|cause| !cause.is_empty()),
            source,
            origin,
            addresses: members.iter().map(|member| address(&member.address)).collect(),
            requests_active: members.iter().map(|member| member.active()).sum(),
            requests_total: requests,
            failures_total: failures,
            latency_ms: (answered > 0).then(|| latency as f64 / answered as f64 / 1000.0),
        }
    }

    /// Adds an endpoint; one that was removed comes back.
    pub(super) fn add(
        &self,
        service: &str,
        new: &NewEndpoint,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        let is_sent_secrets = self.is_sent_secrets_on_disk(service);
        let operator = self.origin().operator.supplied();
        let mut runtime = self.runtime();
        let set = self.set_of(service)?;
        let known = &set.service;
        let (mut url, address) = endpoint_address(&new.url).map_err(|error| Refusal::Invalid {
            field: "url".into(),
            detail: error.message,
            help: error.help,
        })?;
        let there = known.endpoints.iter().find(|endpoint| endpoint.address == address);
        let leaves =
            |url: &str| runtime.overlay.services.get(service).is_some_and(|of| of.removed.contains(url));
        if there.is_some_and(|endpoint| !leaves(&endpoint.url)) {
            return Err(Refusal::Duplicate(format!(
                "the service `{service}` has the endpoint {url} already"
            )));
        }
        if url.starts_with("https://") && known.tls.is_none() {
            // It will be asked for what is built in, where the file says nothing.
            PeerTerms::new(PeerPolicy::default()).map_err(|flaw| Refusal::Invalid {
                field: "url".into(),
                detail: format!("the endpoint cannot be verified: {flaw}"),
                help: None,
            })?;
        }
        let position = self.worker_pool().position(service).unwrap_or(usize::MAX);
        self.check_endpoint(runtime.base.services.get(position), service, (&url, &address))?;
        Self::check_ways((&runtime.base, operator.as_deref()), position, &address)?;
        if let Some(detail) = differs(runtime.base.traffic_to(position), known, &url) {
            return Err(Refusal::Conflict(detail));
        }
        if known.endpoints.len() >= limits::ENDPOINTS {
            return Err(Refusal::Conflict(format!("a service has at most {} endpoints", limits::ENDPOINTS)));
        }
        runtime.admit(expected)?;
        let base = runtime.base.services.get(position);
        let in_file = base.and_then(|base| base.endpoints.iter().find(|known| known.address == address));
        if in_file.is_none() && (runtime.base.secrets.are_sent_to(service) || is_sent_secrets?) {
            return Err(keeps_its_endpoints(service));
        }
        // An address has one name, however it is written this time; but nobody gets plain text who wanted TLS.
        if let Some(known) = in_file.or(there) {
            if known.is_secure() != url.starts_with("https://") {
                let known = &known.url;
                return Err(Refusal::Conflict(format!(
                    "the service `{service}` knows this address as {known}"
                )));
            }
            url = known.url.clone();
        }
        let in_file = in_file.is_some();
        runtime.end_drain(service, &url);
        let of = runtime.overlay.of(service);
        of.removed.remove(&*url);
        of.added.retain(|added| *added.url != *url);
        of.changed.remove(&*url);
        if in_file {
            let changed = of.changed.entry(url.to_string()).or_default();
            changed.weight = Some(new.weight);
        } else {
            of.added.push(AddedEndpointSpec { url: url.to_string(), weight: new.weight, tier: new.tier });
        }
        self.commit(&mut runtime, service);
        let endpoint = self.status_of(&runtime, service, &url)?;
        Ok(Changed { version: runtime.version, before: None, endpoint, gone: false })
    }

    /// Changes the weight or the wanted state of an endpoint.
    pub(super) fn change(
        &self,
        service: &str,
        id: &str,
        change: EndpointChange,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        let mut runtime = self.runtime();
        let url = self.find(service, id)?;
        runtime.admit(expected)?;
        let before = self.status_of(&runtime, service, &url)?;
        let of = runtime.overlay.of(service);
        let changed = of.changed.entry(url.to_string()).or_default();
        changed.weight = change.weight.or(changed.weight);
        if let Some(state) = change.state {
            changed.mode = match state {
                WantedState::Ready => None,
                WantedState::Draining => Some(ModeSpec::Draining),
                WantedState::Maintenance => Some(ModeSpec::Maintenance),
            };
            of.removed.remove(&*url);
            runtime.end_drain(service, &url);
            if state == WantedState::Draining {
                runtime.drain(Drain {
                    service: service.into(),
                    url: url.clone(),
                    deadline: None,
                    removes: false,
                });
            }
        }
        self.commit(&mut runtime, service);
        let endpoint = self.status_of(&runtime, service, &url)?;
        Ok(Changed { version: runtime.version, before: Some(before), endpoint, gone: false })
    }

    /// Takes an endpoint out of rotation and, when nothing is under way to it any more, out of its service.
    pub(super) fn remove(
        &self,
        service: &str,
        id: &str,
        drain: Duration,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        let mut runtime = self.runtime();
        let url = self.find(service, id)?;
        runtime.admit(expected)?;
        let before = self.status_of(&runtime, service, &url)?;
        runtime.overlay.of(service).removed.insert(url.to_string());
        let deadline = Instant::now().checked_add(drain);
        runtime.drain(Drain { service: service.into(), url: url.clone(), deadline, removes: true });
        self.commit(&mut runtime, service);
        let mut endpoint = self.status_of(&runtime, service, &url)?;
        let gone = endpoint.requests_active == 0;
        if gone {
            endpoint = before.clone();
            self.finish_drain(&mut runtime, service, &url, false);
        }
        Ok(Changed { version: runtime.version, before: Some(before), endpoint, gone })
    }

    /// Looks after endpoints that drain: who has nothing under way is done, whose time is up is cut. Says
    /// whether there are any left.
    pub(super) fn tend_drains(&self) -> bool {
        let mut runtime = self.runtime();
        let now = Instant::now();
        let mut cuts = false;
        for drain in runtime.drains.clone() {
            let endpoint_set = self.worker_pool().endpoint_set(&drain.service);
            let endpoint = endpoint_set.as_ref().and_then(|endpoint_set| {
                let at = endpoint_set.service.endpoints.iter().position(|endpoint| endpoint.url == drain.url);
                at.map(|at| (endpoint_set, at as u32))
            });
            let members = || endpoint.into_iter().flat_map(|(endpoint_set, at)| members_of(endpoint_set, at));
            let was_cut = members().any(|member| member.is_cut());
            if members().all(|member| member.active() == 0) {
                self.finish_drain(&mut runtime, &drain.service, &drain.url, was_cut);
            } else if drain.deadline.is_some_and(|deadline| deadline <= now) {
                cuts |= members().any(|member| !member.is_cut());
                members().for_each(|member| member.set_cut(true));
            }
        }
        if cuts {
            self.worker_pool().cut();
        }
        !runtime.drains.is_empty()
    }

    fn finish_drain(&self, runtime: &mut Runtime, service: &str, url: &Arc<str>, cut: bool) {
        let removes = runtime.drain_of(service, url).is_some_and(|drain| drain.removes);
        runtime.end_drain(service, url);
        let endpoint_set = self.worker_pool().endpoint_set(service);
        self.publish(drain_finished(endpoint_set.as_ref(), url, cut));
        if removes {
            let position = self.worker_pool().position(service);
            let base = position.and_then(|at| runtime.base.services.get(at));
            let in_file =
                base.is_some_and(|known| known.endpoints.iter().any(|endpoint| endpoint.url == *url));
            let of = runtime.overlay.of(service);
            of.added.retain(|added| *added.url != **url);
            of.changed.remove(&**url);
            if !in_file {
                of.removed.remove(&**url);
            }
            self.commit(runtime, service);
        }
    }

    /// The endpoints of a service have changed: they run from now on, and the change is kept. No other service is
    /// touched, and there is no new plan.
    fn commit(&self, runtime: &mut Runtime, service: &str) {
        runtime.version += 1;
        runtime.overlay.tidy(service);
        self.put_endpoints(runtime, service);
        runtime.keep();
        self.stir();
    }

    pub(super) fn put_endpoints(&self, runtime: &Runtime, service: &str) {
        let at = self.worker_pool().position(service);
        if let Some(changed) = at.and_then(|at| runtime.service(at)) {
            self.worker_pool().set_endpoints(&changed);
        }
        // What is answered next says since when endpoints stand as they do.
        self.look_at(service);
    }

    /// A source says that a service has these endpoints. What the admin API has changed is laid over them.
    pub(super) fn take_endpoints(&self, service: &str, endpoints: Vec<Endpoint>) {
        let mut runtime = self.runtime();
        let Some(at) = self.worker_pool().position(service) else { return };
        runtime.base.set_endpoints(at, endpoints);
        self.put_endpoints(&runtime, service);
    }

    /// Shares of routes have changed: another plan runs from now on, and the change is kept.
    pub(super) fn commit_routes(&self, runtime: &mut Runtime) {
        runtime.version += 1;
        if let Err(error) = self.worker_pool().set_plan(runtime.plan()) {
            // Its listeners are those that run: only workers that do not turn keep it from taking over.
            self.say(&Notice::warn(format!("a change of a route waits for the next one: {error}")));
        }
        runtime.keep();
        self.stir();
    }

    /// The endpoints of a service now.
    fn set_of(&self, service: &str) -> Result<Arc<EndpointSet>, Refusal> {
        let found = self.worker_pool().endpoint_set(service);
        let listed = found.filter(|set| set.service.destinations.is_none());
        listed.ok_or_else(|| Refusal::Unknown(format!("there is no service `{service}`")))
    }

    /// The URL of the endpoint with this id or URL.
    fn find(&self, service: &str, id: &str) -> Result<Arc<str>, Refusal> {
        let set = self.set_of(service)?;
        let mut endpoints = set.service.endpoints.iter();
        let found = endpoints.find(|endpoint| *endpoint.url == *id || id_of(&endpoint.url) == id);
        let unknown = || Refusal::Unknown(format!("the service `{service}` has no endpoint `{id}`"));
        found.map(|endpoint: &Endpoint| endpoint.url.clone()).ok_or_else(unknown)
    }

    fn status_of(&self, runtime: &Runtime, service: &str, url: &str) -> Result<EndpointStatus, Refusal> {
        let endpoint_set = self.worker_pool().endpoint_set(service);
        let found = endpoint_set.and_then(|endpoint_set| {
            let at = endpoint_set.service.endpoints.iter().position(|endpoint| *endpoint.url == *url)?;
            let position = self.worker_pool().position(service);
            let origins = EndpointOrigins::of(runtime, &endpoint_set.service, position);
            Some(self.endpoint_status(&origins, &endpoint_set, at))
        });
        found.ok_or_else(|| Refusal::Unknown(format!("the service `{service}` has no endpoint `{url}`")))
    }

    /// Routes and where they send their requests.
    pub(super) fn list_routes(&self) -> Vec<RouteStatus> {
        let runtime = self.runtime();
        let routes = route_statuses(&self.worker_pool().plan()).into_iter();
        routes.map(|route| with_place(&runtime, route)).collect()
    }

    /// Changes the shares of a route.
    pub(super) fn reweigh(
        &self,
        route: &str,
        weights: &[(String, u32)],
        expected: &Expected<u64>,
    ) -> Result<Reweighted, Refusal> {
        let mut runtime = self.runtime();
        let plan = self.worker_pool().plan();
        let found = plan.routes.iter().find(|known| *known.name == *route);
        let before = found.map(|found| route_status(&plan, found).to);
        let before = before.ok_or_else(|| Refusal::Unknown(format!("there is no route `{route}`")))?;
        let mut after = before.clone();
        for (service, weight) in weights {
            let Some(target) = after.iter_mut().find(|target| target.service == *service) else {
                let detail = format!("the route `{route}` does not go to `{service}`");
                return Err(Refusal::Invalid { field: service.clone(), detail, help: None });
            };
            target.weight = *weight;
        }
        if before.len() < 2 {
            return Err(Refusal::Conflict(format!("the route `{route}` goes to one service alone")));
        }
        if after.iter().all(|target| target.weight == 0) {
            let detail = "one weight at least must be above 0".into();
            return Err(Refusal::Invalid { field: "weights".into(), detail, help: None });
        }
        runtime.admit_weights(route)?;
        runtime.admit(expected)?;
        let of = runtime.overlay.routes.entry(route.to_owned()).or_default();
        of.extend(weights.iter().cloned());
        self.commit_routes(&mut runtime);
        let plan = self.worker_pool().plan();
        if let Some(line) = in_force_of(&runtime.overlay, &runtime.base, route) {
            self.say(&Notice::warn(line));
        }
        let found = plan.routes.iter().find(|known| *known.name == *route);
        let route = found.map(|found| with_place(&runtime, route_status(&plan, found)));
        let route = route.ok_or_else(|| Refusal::Unavailable("the route has just been removed".into()))?;
        Ok(Reweighted { version: runtime.version, before, route })
    }
}

/// With the place where it is written.
pub(super) fn with_place(runtime: &Runtime, route: RouteStatus) -> RouteStatus {
    let place = runtime.base.provenance.place(Object::Route(&route.name));
    RouteStatus { origin: place.map(|place| place.to_string()), ..route }
}

fn state_of(condition: EndpointCondition) -> EndpointState {
    match condition {
        EndpointCondition::Ready => EndpointState::Ready,
        EndpointCondition::SlowStart => EndpointState::SlowStart,
        EndpointCondition::Unhealthy => EndpointState::Unhealthy,
        EndpointCondition::Ejected => EndpointState::Ejected,
        EndpointCondition::Draining => EndpointState::Draining,
        EndpointCondition::Maintenance => EndpointState::Maintenance,
        EndpointCondition::Unchecked => EndpointState::Unchecked,
    }
}
