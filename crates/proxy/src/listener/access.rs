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
    worker.blocked(address).or_else(|| local_listener.refusal(address))
}
