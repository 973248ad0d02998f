//! Part of phase 5: prevents new connections to the admin API or the metrics of the process itself.
//!
//! Endpoint sets exclude such members; this second check covers addresses that this machine has gained since
//! (decision 0105). Pooled connections are not checked.

use crate::plan::own_addresses::is_named_by_file;
use crate::state::exchange::Exchange;
use crate::state::worker::Worker;
use thalweg_core::{Fault, FaultKind};
use thalweg_net::connect::PeerAddress;
use thalweg_net::interfaces::is_machines;
use thalweg_upstream::Member;

/// Whether a new connection may be made to the member.
///
/// # Errors
/// The address now belongs to the admin API or the metrics, and the file does not name it.
pub(crate) fn check_own(worker: &Worker, x: &Exchange, member: &Member) -> Result<(), Fault> {
    let (Some(beside), PeerAddress::Tcp(address)) = (worker.shared.beside.get(), member.address()) else {
        return Ok(());
    };
    if !beside.contains(*address, is_machines) {
        return Ok(());
    }
    let Some(service) = x.service().map(|local| &local.state.service) else { return Ok(()) };
    // The address of a sealed label is checked at each exchange.
    let is_judged = service.destinations.is_some();
    let endpoint = service.endpoints.get(member.endpoint as usize);
    match is_judged || endpoint.is_some_and(is_named_by_file) {
        true => Ok(()),
        false => Err(Fault::new(
            FaultKind::DestinationIpUnroutable,
            "the address of the endpoint is that of the admin API or the metrics, and only the file may name it",
        )),
    }
}
