//! Who may connect: asked for each connection before a byte of it is read, or once another proxy has said on whose
//! behalf it connects; and for datagrams.
//!
//! Whoever may not is not answered: the connection closes, the datagram is dropped.

use crate::state::local_listener::LocalListener;
use crate::state::worker::Worker;
use std::net::IpAddr;
use thalweg_core::{Fault, FaultKind};

/// What is logged and counted.
pub(crate) const DENIED: Fault =
    Fault::new(FaultKind::HttpRequestDenied, "the configuration does not let this client connect");

/// Why the address may not connect, in words for the operator; `None`: it may.
pub(crate) fn refusal(worker: &Worker, local_listener: &LocalListener, address: IpAddr) -> Option<String> {
    blocked(worker, address).or_else(|| local_listener.refusal(address))
}

/// Why the address is blocked everywhere; `None`: it is not.
pub(crate) fn blocked(worker: &Worker, address: IpAddr) -> Option<String> {
    let view = worker.view();
    let blocked = &view.plan.access.blocked;
    if blocked.is_empty() {
        return None;
    }
    blocked.find(address).map(|found| format!("{address} is denied: {found}"))
}
