//! Checks changes by API for addresses that only the file on disk may name (decision 0105), and added endpoints for
//! ways past a filter of the file or of an operator's configuration (0078, 0108).
//!
//! The data plane does not connect to addresses of the first kind either; this check tells the sender the reason.

use super::admin::Shared;
use super::base::Base;
use super::configuration::{tree, unprotected};
use super::operator::Supplied;
use super::origin::Origin;
use super::reload_result::TOLD;
use std::net::SocketAddr;
use std::sync::Arc;
use thalweg_admin::Refusal;
use thalweg_config::Loaded;
use thalweg_config::own_addresses::{OwnAddress, WrittenAddress, arrived_addresses, written_addresses};
use thalweg_config::protections::{at_port, lost_by_added};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::OwnAddresses;
use thalweg_upstream::{Address, Service};

impl Shared {
    /// Refuses an endpoint for a service, unless the service as `written` in the configuration already has it.
    pub(super) fn check_endpoint(
        &self,
        written: Option<&Arc<Service>>,
        service: &str,
        (url, address): (&str, &Address),
    ) -> Result<(), Refusal> {
        if written.is_some_and(|it| it.endpoints.iter().any(|known| known.address == *address)) {
            return Ok(());
        }
        let own = self.worker_pool().own_addresses();
        let takes_datagrams = url.starts_with("udp://");
        let bars = |address: &Address, takes_datagrams: bool| {
            own.bars(address, takes_datagrams).or_else(|| match address {
                Address::Name { host, port } => {
                    let names = self.worker_pool().names();
                    let each = names.get(host).into_iter().flatten();
                    let mut each = each.map(|ip| Address::Socket(SocketAddr::new(*ip, *port)));
                    each.find_map(|it| own.bars(&it, takes_datagrams))
                }
                Address::Socket(_) | Address::Unix(_) => None,
            })
        };
        let port = written.and_then(|it| it.health.as_ref()?.port);
        let checked = || port.and_then(|_| bars(&at_port(address, port), false));
        let why = match bars(address, takes_datagrams) {
            Some(barred) => Some(format!("it is {barred}")),
            None => checked().map(|barred| format!("health checks would ask a port of it that is {barred}")),
        };
        why.map_or(Ok(()), |why| {
            Err(Refusal::Barred {
                keys: vec![format!("services.{service}.endpoints")],
                detail: format!("only the file on disk may name `{url}`: {why}"),
            })
        })
    }

    /// Refuses an endpoint that the file, or the last configuration of an operator, leads to through filters, where a
    /// way to this service lacks one of them.
    pub(super) fn check_ways(
        (base, operator): (&Base, Option<&Supplied>),
        position: usize,
        address: &Address,
    ) -> Result<(), Refusal> {
        let added = [(position, address)];
        let lost = |known: &Plan| lost_by_added(known, base, &added).into_iter().flatten().collect();
        unprotected("only the file on disk may take protections away", lost(base))?;
        let Some(operator) = operator else { return Ok(()) };
        unprotected(
            "an operator's configuration leads to this endpoint through filters",
            lost(&operator.plan(base)?),
        )
    }

    /// Refuses a configuration with such addresses that the file on disk does not name.
    pub(super) fn check_addresses(
        &self,
        origin: &Origin,
        (on_disk, other): (&str, Option<&Loaded>),
        (text, plan): (&str, &Plan),
    ) -> Result<(), Refusal> {
        let running = self.worker_pool().own_addresses();
        let judged = |alone: &Plan| (arrived_addresses(alone, plan, &running), OwnAddresses::written(alone));
        let (found, file) = match other {
            Some(loaded) => judged(&loaded.plan),
            None => judged(&self.runtime().base),
        };
        let trees = tree(&origin.name(), on_disk).zip(tree(&origin.name(), text));
        let written =
            trees.map(|(known, arrived)| written_addresses(&known, &arrived, &[running.clone(), file]));
        let written = written.unwrap_or_default();
        if found.is_empty() && written.is_empty() {
            return Ok(());
        }
        let told = found.iter().map(ToString::to_string);
        let told =
            told.chain(written.iter().map(|WrittenAddress { key, barred }| format!("`{key}` is {barred}")));
        let told: Vec<String> = told.take(TOLD).collect();
        let mut keys: Vec<String> = found.iter().map(OwnAddress::key).collect();
        keys.extend(written.into_iter().map(|it| it.key));
        keys.dedup();
        let detail = format!("only the file on disk may name such addresses: {}", told.join("; "));
        Err(Refusal::Barred { keys, detail })
    }
}
