//! What the configuration says and sources have found, below the changes of the admin API.

use super::discovered::{FoundSets, endpoints_of};
use super::operator::Supplied;
use super::overlay::secure;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use thalweg_config::Provenance;
use thalweg_config::protections::{Apart, KeptPlaces, at_port};
use thalweg_config::settings::Discover;
use thalweg_discovery::Found;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{OwnAddresses, Traffic};
use thalweg_upstream::{Address, Endpoint, Service};

/// The plan as the configuration says, with what sources have found, and what is asked of it at each change of
/// endpoints.
#[derive(Debug)]
pub(crate) struct Base {
    plan: Plan,
    traffic: Vec<Traffic>,
    /// The process's own addresses as configured, which discovered endpoints may not use.
    own: OwnAddresses,
    /// The sources of services, by the positions of these.
    discover: BTreeMap<usize, Discover>,
    found: FoundSets,
    /// What cannot be used of what was found last, by the positions of services.
    flaws: BTreeMap<usize, String>,
    /// What documents in the plan and changes by API may not lead to.
    apart: Apart,
    /// A service of a document writes an endpoint that it may not have.
    has_crossed: bool,
    /// The operator's last configuration, if tokens have changed it.
    pub(crate) operator: Option<Arc<Supplied>>,
    /// Where the configuration is written.
    pub(crate) provenance: Arc<Provenance>,
}

/// What a set that was found has become.
#[derive(Debug, Default)]
pub(crate) struct TakenSet {
    /// The services that have it now.
    pub(crate) services: Vec<Arc<str>>,
    /// The last of what cannot be used of it.
    pub(crate) flaw: Option<String>,
    /// What cannot be used and could the last time, a line for each service.
    pub(crate) said: Vec<String>,
}

impl Deref for Base {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Base {
    /// A plan that takes over, with the sources of its services; what is known of them goes on.
    pub(crate) fn new(plan: Plan, discover: &BTreeMap<Arc<str>, Discover>, found: &FoundSets) -> Self {
        Self::with_documents(plan, (discover, found), Apart::default())
    }

    /// [`Self::new`] with documents, whose services do not have what stands behind a protection of the file.
    pub(crate) fn with_documents(
        plan: Plan,
        (discover, found): (&BTreeMap<Arc<str>, Discover>, &FoundSets),
        apart: Apart,
    ) -> Self {
        let positions = plan.services.iter().enumerate();
        let discover: BTreeMap<_, _> =
            positions.filter_map(|(at, service)| Some((at, discover.get(&service.name)?.clone()))).collect();
        let sources = discover.iter().filter_map(|(at, it)| Some((&plan.services.get(*at)?.name, it)));
        let found = found.of(sources);
        let mut base = Self {
            traffic: plan.traffic(),
            own: OwnAddresses::written(&plan),
            plan,
            found,
            discover,
            flaws: BTreeMap::new(),
            apart,
            has_crossed: false,
            operator: None,
            provenance: Arc::default(),
        };
        let all: Vec<usize> = base.discover.keys().copied().collect();
        all.into_iter().for_each(|at| drop(base.fill(at)));
        // Again, now that it is known what those have that they are kept from.
        let open: Vec<usize> = base.apart.open().collect();
        open.iter().for_each(|at| drop(base.fill(*at)));
        open.iter().for_each(|at| drop(base.keep_off(*at)));
        base.look_for_crossed(&open);
        base
    }

    /// The plan as the configuration says, without what sources have found.
    pub(crate) fn as_written(&self) -> Plan {
        let mut plan = self.plan.clone();
        for (at, discover) in &self.discover {
            if let Some(place) = plan.services.get_mut(*at) {
                *place = Arc::new(Service { endpoints: discover.written.clone(), ..Service::clone(place) });
            }
        }
        plan
    }

    /// The same sources, below another plan with the same services.
    pub(crate) fn with_plan(&self, plan: Plan) -> Self {
        Self {
            traffic: plan.traffic(),
            own: OwnAddresses::written(&plan),
            plan,
            discover: self.discover.clone(),
            found: self.found.clone(),
            flaws: self.flaws.clone(),
            apart: self.apart.clone(),
            has_crossed: self.has_crossed,
            operator: self.operator.clone(),
            provenance: self.provenance.clone(),
        }
    }

    /// What sources have found.
    pub(crate) fn found(&self) -> &FoundSets {
        &self.found
    }

    /// What documents in the plan and changes by API may not lead to.
    pub(crate) fn apart(&self) -> &Apart {
        &self.apart
    }

    /// Whether a document has turned out to lead past a protection of the file. Says it once.
    pub(crate) fn take_crossed(&mut self) -> bool {
        std::mem::take(&mut self.has_crossed)
    }

    /// The sources of its services, and which services these are.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&Arc<Service>, &Discover)> {
        self.discover.iter().filter_map(|(at, discover)| Some((self.plan.services.get(*at)?, discover)))
    }

    /// The services that have the endpoints that are written, and no others.
    pub(crate) fn written_services(&self) -> Vec<Arc<Service>> {
        let services = self.plan.services.iter().enumerate();
        services
            .filter(|(at, _)| !self.discover.contains_key(at))
            .map(|(_, service)| service.clone())
            .collect()
    }

    /// The endpoints of the service at this position that the configuration writes.
    pub(crate) fn written(&self, service: usize) -> &[Endpoint] {
        match (self.discover.get(&service), self.plan.services.get(service)) {
            (Some(discover), _) => &discover.written,
            (None, Some(service)) => &service.endpoints,
            (None, None) => &[],
        }
    }

    /// The source of the service at this position.
    pub(crate) fn source_of(&self, service: usize) -> Option<&Discover> {
        self.discover.get(&service)
    }

    /// What goes to the service at this position.
    pub(crate) fn traffic_to(&self, service: usize) -> Traffic {
        self.traffic.get(service).copied().unwrap_or_default()
    }

    /// A source says that the service at this position has these endpoints.
    pub(crate) fn set_endpoints(&mut self, service: usize, endpoints: Vec<Endpoint>) {
        if let Some(place) = self.plan.services.get_mut(service) {
            *place = Arc::new(Service { endpoints, ..Service::clone(place) });
        }
    }

    /// A source has found these endpoints now, and no others.
    pub(crate) fn take_found(&mut self, source: &Arc<str>, found: Arc<[Found]>) -> TakenSet {
        let of_source = self.discover.iter().filter(|(_, discover)| discover.id == *source);
        let positions: Vec<usize> = of_source.map(|(at, _)| *at).collect();
        if positions.is_empty() {
            return TakenSet::default();
        }
        self.found.put(source, found);
        let mut taken = TakenSet::default();
        // Those of documents after those that they are kept from, whichever source these have.
        let beside = self.apart.open_beside(&positions);
        let own = positions.iter().filter(|at| !beside.contains(at));
        for at in own.chain(&beside).copied().filter(|at| self.discover.contains_key(at)).collect::<Vec<_>>()
        {
            let flaw = self.fill(at);
            let Some(service) = self.plan.services.get(at) else { continue };
            match &flaw {
                Some(flaw) if self.flaws.get(&at) != Some(flaw) => {
                    taken.said.push(format!("service `{}`: {flaw}", service.name));
                    self.flaws.insert(at, flaw.clone());
                }
                Some(_) => {}
                None => drop(self.flaws.remove(&at)),
            }
            taken.services.push(service.name.clone());
            taken.flaw = flaw.filter(|_| positions.contains(&at)).or(taken.flaw);
        }
        for at in &beside {
            let service = self.keep_off(*at).filter(|service| !taken.services.contains(service));
            taken.services.extend(service);
        }
        self.look_for_crossed(&beside);
        taken
    }

    /// Sets the addresses that endpoints of a document's service may not have, nor their host names resolve to. Gives
    /// the service's name if they changed and it has such endpoints: they are out of use at once, before a merge leaves
    /// the document out.
    fn keep_off(&mut self, at: usize) -> Option<Arc<str>> {
        let gone = self.apart.kept_from_gone(at).map(|(address, ..)| address.clone());
        let gone: Vec<Address> = gone.collect();
        let guarded: BTreeSet<usize> = self.apart.kept_from(at).map(|(guarded, _)| guarded).collect();
        let guarded = guarded.into_iter().filter(|guarded| *guarded != at);
        let services = guarded.filter_map(|guarded| self.plan.services.get(guarded));
        let addresses = services.flat_map(|service| &service.endpoints).map(|it| it.address.clone());
        let kept_off: Arc<[Address]> = addresses.chain(gone).collect();
        let place = self.plan.services.get_mut(at).filter(|service| service.kept_off != kept_off)?;
        *place = Arc::new(Service { kept_off, ..Service::clone(place) });
        place.endpoints.iter().any(|endpoint| endpoint.is_added).then(|| place.name.clone())
    }

    /// Notes whether one of these services of documents writes an endpoint that it may not have: a merge takes it out.
    fn look_for_crossed(&mut self, open: &[usize]) {
        let mut of_documents = open.iter().filter(|at| self.apart.is_of_document(**at));
        let has_crossed = of_documents.any(|at| {
            let kept = self.kept_from(*at);
            let checked = self.plan.services.get(*at).and_then(|service| checked_port(service));
            self.written(*at).iter().any(|endpoint| kept.why(&endpoint.address, checked).is_some())
        });
        self.has_crossed |= has_crossed;
    }

    /// The addresses that a service of documents may not have, and why.
    fn kept_from(&self, at: usize) -> KeptPlaces {
        let mut kept = KeptPlaces::default();
        for (guarded, why) in self.apart.kept_from(at).filter(|(guarded, _)| *guarded != at) {
            let Some(service) = self.plan.services.get(guarded) else { continue };
            for endpoint in &service.endpoints {
                kept.add(&endpoint.address, || format!("{why}; it is one of the service `{}`", service.name));
            }
        }
        for (address, service, why) in self.apart.kept_from_gone(at) {
            kept.add(address, || format!("{why}; it was one of the service `{service}`"));
        }
        kept
    }

    /// Why health checks of a service may not ask an endpoint that the file does not have, at their own port.
    pub(crate) fn bars_checks(&self, at: usize, address: &Address) -> Option<String> {
        let port = checked_port(self.plan.services.get(at)?)?;
        let barred = self.own.bars(&at_port(address, Some(port)), false)?;
        Some(format!("health checks would ask its port {port}, which is {barred}"))
    }

    /// Gives a service the endpoints that are written and those that are found. Tells what cannot be used.
    fn fill(&mut self, at: usize) -> Option<String> {
        let (discover, service) = (self.discover.get(&at)?, self.plan.services.get(at)?);
        let found = self.found.get(&discover.id).map_or(&[][..], |set| &set[..]);
        let traffic = self.traffic.get(at).copied().unwrap_or_default();
        let (mut endpoints, mut flaw) = endpoints_of(service, discover, traffic, found);
        let (written, kept) = (discover.written.len(), self.kept_from(at));
        let mut place = 0;
        endpoints.retain(|endpoint| {
            place += 1;
            if place <= written {
                return true;
            }
            let barred = || self.own.bars(&endpoint.address, endpoint.takes_datagrams());
            let checked = || self.bars_checks(at, &endpoint.address);
            let why = match kept.why(&endpoint.address, checked_port(service)) {
                Some(why) => Some(why.to_owned()),
                None => barred().map(|barred| format!("it is {barred}")).or_else(checked),
            };
            if let Some(why) = &why {
                flaw = Some(format!("`{}` is left out: {why}", endpoint.url));
            }
            why.is_none()
        });
        let mut service = Service { endpoints, ..Service::clone(service) };
        if let Some(endpoint) = service.endpoints.iter().find(|endpoint| endpoint.is_secure()).cloned()
            && let Err(error) = secure(&mut service, &endpoint)
        {
            flaw = Some(format!("endpoints cannot be verified: {error}"));
            service.endpoints.retain(|endpoint| !endpoint.is_secure());
        }
        self.plan.services[at] = Arc::new(service);
        flaw
    }
}

/// The port that health checks ask in place of that of the endpoint.
fn checked_port(service: &Service) -> Option<u16> {
    service.health.as_ref().and_then(|health| health.port)
}

#[cfg(test)]
mod tests;
