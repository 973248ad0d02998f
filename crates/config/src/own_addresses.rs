//! Finds addresses that only the file on disk may name: those of the process itself, and link-local ones.
//!
//! The address of the admin API and the metrics limits their clients: on the loopback, to processes of this machine.
//! A route to them would publish them. Called for additions to the file by documents and the admin API
//! ([`own_addresses`], [`arrived_addresses`]); [`OwnAddresses`] knows the addresses (decision 0105). The addresses of
//! host names other than `localhost`, and of discovered endpoints, are checked by the same rules once they are known.

mod written;

use std::fmt;
use std::sync::Arc;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Barred, OwnAddresses, Route, SealedRoute, To};
use thalweg_sealed::reach::Entry;
use thalweg_upstream::{Address, Endpoint};

pub(crate) use written::{Called, called, called_addresses, link_local_in};
pub use written::{WrittenAddress, written_addresses};

/// An endpoint, or an entry of `allow`, with an address that only the file may name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnAddress {
    /// The service that has it.
    pub service: Arc<str>,
    /// Names of the routes that lead to that service.
    pub routes: Vec<Arc<str>>,
    /// Its URL, or the entry.
    pub endpoint: Arc<str>,
    /// Why the address is forbidden.
    pub barred: Barred,
    /// It is an entry of `allow` of a route with sealed labels.
    pub is_allowed: bool,
}

impl OwnAddress {
    /// Its path in a configuration.
    pub fn key(&self) -> String {
        match (self.is_allowed, self.routes.first()) {
            (true, Some(route)) => format!("routes.{route}.to.sealed.allow"),
            _ => format!("services.{}.endpoints", self.service),
        }
    }
}

impl fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, endpoint, barred, .. } = self;
        match self.is_allowed {
            true => write!(f, "the entry `{endpoint}` of `allow` opens {barred}"),
            false => write!(f, "the endpoint `{endpoint}` of the service `{service}` is {barred}"),
        }
    }
}

/// The addresses in `with` that only the file may name and that the file `alone` does not have. Endpoints that a
/// service of the same name has in the file are exempt.
pub fn own_addresses(alone: &Plan, with: &Plan) -> Vec<OwnAddress> {
    arrived_addresses(alone, with, &OwnAddresses::default())
}

/// The same for a process that listens at the addresses `running`.
pub fn arrived_addresses(alone: &Plan, with: &Plan, running: &OwnAddresses) -> Vec<OwnAddress> {
    let gates = [OwnAddresses::written(alone), OwnAddresses::written(with), running.clone()];
    let bars =
        |address: &Address, takes_datagrams| gates.iter().find_map(|own| own.bars(address, takes_datagrams));
    let mut found = Vec::new();
    for (at, service) in with.services.iter().enumerate() {
        for endpoint in &service.endpoints {
            let Some(barred) = bars(&endpoint.address, endpoint.takes_datagrams()) else { continue };
            // The file may name the admin API. An arriving configuration may not move the admin API to an address
            // that it names.
            let has_come = barred == Barred::Beside
                && ![&gates[0], running].into_iter().any(|own| own.bars(&endpoint.address, false).is_some());
            if endpoint.is_added || is_in_file(alone, &service.name, endpoint) && !has_come {
                continue;
            }
            let leads = with.routes.iter().filter(|route| route.all_services().any(|id| id.0 as usize == at));
            found.push(OwnAddress {
                service: service.name.as_ref().into(),
                routes: leads.map(|route| route.name.as_ref().into()).collect(),
                endpoint: endpoint.url.clone(),
                barred,
                is_allowed: false,
            });
        }
    }
    found.extend(opened(alone, with, &bars));
    found
}

/// Whether the service has the endpoint in the file.
fn is_in_file(alone: &Plan, service: &str, endpoint: &Endpoint) -> bool {
    let mut known = alone.services.iter().filter(|known| *known.name == *service);
    known.any(|known| known.endpoints.iter().any(|it| !it.is_added && it.address == endpoint.address))
}

/// Entries of `allow` that open such addresses, and that the file's route of the same name lacks.
fn opened(alone: &Plan, with: &Plan, bars: &impl Fn(&Address, bool) -> Option<Barred>) -> Vec<OwnAddress> {
    let mut found = Vec::new();
    for (route, sealed) in sealed(with) {
        let known = sealed_of(alone, &route.name);
        let is_known = |entry: &Entry| known.is_some_and(|known| known.allow.entries().any(|it| it == entry));
        for entry in sealed.allow.entries() {
            let one = entry.one().and_then(|address| bars(&Address::Socket(address), false));
            let Some(barred) = one.or_else(|| entry.opens().and_then(Barred::of)) else { continue };
            if !is_known(entry) {
                let service = with.services.get(sealed.service.0 as usize);
                found.push(OwnAddress {
                    service: service
                        .map_or_else(|| route.name.as_ref().into(), |service| service.name.clone()),
                    routes: vec![route.name.as_ref().into()],
                    endpoint: entry.to_string().into(),
                    barred,
                    is_allowed: true,
                });
            }
        }
    }
    found
}

fn sealed(plan: &Plan) -> impl Iterator<Item = (&Route, &SealedRoute)> {
    plan.routes.iter().filter_map(|route| match &route.to {
        To::Sealed(sealed) => Some((route, &**sealed)),
        _ => None,
    })
}

fn sealed_of<'a>(plan: &'a Plan, name: &str) -> Option<&'a SealedRoute> {
    sealed(plan).find(|(route, _)| *route.name == *name).map(|(_, sealed)| sealed)
}

#[cfg(test)]
mod tests;
