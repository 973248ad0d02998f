//! Finds addresses that only the file on disk may name: those of the process itself, and link-local ones.
//!
//! The address of the admin API and the metrics limits their clients: on the loopback, to processes of this machine.
//! A route to them would publish them. Called for additions to the file by documents and the admin API
//! ([`own_addresses`], [`arrived_addresses`]); [`OwnAddresses`] knows the addresses (decision 0105). The addresses of
//! host names other than `localhost`, and of discovered endpoints, are checked by the same rules once they are known.

mod written;

use crate::protections::at_port;
use std::fmt;
use std::sync::Arc;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Barred, OwnAddresses, Route, SealedRoute, To};
use thalweg_sealed::reach::Entry;
use thalweg_upstream::{Address, Endpoint, Service};

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
    /// Health checks of the service ask this port of it, and that address is forbidden.
    pub checked: Option<u16>,
}

impl OwnAddress {
    /// Its path in a configuration.
    pub fn key(&self) -> String {
        match (self.is_allowed, self.routes.first(), self.checked) {
            (true, Some(route), _) => format!("routes.{route}.to.sealed.allow"),
            (_, _, Some(_)) => format!("services.{}.health.port", self.service),
            _ => format!("services.{}.endpoints", self.service),
        }
    }
}

impl fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, endpoint, barred, checked, .. } = self;
        if let Some(port) = checked {
            return write!(
                f,
                "the port {port} of `{endpoint}`, which health checks of the service `{service}` ask, is {barred}"
            );
        }
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
    // The file may name the admin API. An arriving configuration may not move the admin API to an address that the
    // file names.
    let has_come = |barred: Barred, address: &Address| {
        let is_known = |own: &OwnAddresses| own.bars(address, false).is_some();
        barred == Barred::Beside && !is_known(&gates[0]) && !is_known(running)
    };
    for (at, service) in with.services.iter().enumerate() {
        for (endpoint, address, checked) in service.endpoints.iter().flat_map(|it| asked(service, it)) {
            let takes_datagrams = checked.is_none() && endpoint.takes_datagrams();
            let Some(barred) = bars(&address, takes_datagrams) else { continue };
            let is_exempt = endpoint.is_added && checked.is_none()
                || is_in_file(alone, &service.name, (endpoint, checked)) && !has_come(barred, &address);
            if is_exempt {
                continue;
            }
            let leads = with.routes.iter().filter(|route| route.all_services().any(|id| id.0 as usize == at));
            found.push(OwnAddress {
                service: service.name.as_ref().into(),
                routes: leads.map(|route| route.name.as_ref().into()).collect(),
                endpoint: endpoint.url.clone(),
                barred,
                is_allowed: false,
                checked,
            });
        }
    }
    found.extend(opened(alone, with, &bars));
    found
}

/// The addresses that requests to an endpoint go to, with the port where only health checks ask it.
fn asked<'s>(
    service: &Service,
    endpoint: &'s Endpoint,
) -> impl Iterator<Item = (&'s Endpoint, Address, Option<u16>)> {
    let port = service.health.as_ref().and_then(|health| health.port);
    let checked = port.map(|_| (endpoint, at_port(&endpoint.address, port), port));
    let checked = checked.filter(|(_, address, _)| *address != endpoint.address);
    std::iter::once((endpoint, endpoint.address.clone(), None)).chain(checked)
}

/// Whether the service has the endpoint in the file, with the same port for health checks if these ask it.
fn is_in_file(alone: &Plan, service: &str, (endpoint, checked): (&Endpoint, Option<u16>)) -> bool {
    let mut known = alone.services.iter().filter(|known| *known.name == *service);
    known.any(|known| {
        let port = known.health.as_ref().and_then(|health| health.port);
        let has_endpoint = || known.endpoints.iter().any(|it| !it.is_added && it.address == endpoint.address);
        let is_known = || endpoint.is_added && checked.is_some() || has_endpoint();
        (checked.is_none() || checked == port) && is_known()
    })
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
                    checked: None,
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
