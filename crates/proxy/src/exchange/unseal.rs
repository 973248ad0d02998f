//! Part of phase 2, where requests name their destination themselves: the label is opened, and leads to an address or a
//! service.
//!
//! Whatever is wrong with a label, and wherever it leads that it may not lead, its client is told the same, byte for
//! byte, as where no route matches. The true reason is for the log, the records and whoever asks `explain`. A client
//! that comes with many labels that are refused is told to come back later; its good ones go on.

use crate::plan::sealed::{Leads, SealedRoute};
use crate::plan::{ListenerProtocol, To};
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::LocalPlan;
use crate::state::refused_labels::GUESS_EVERY;
use crate::state::worker::Worker;
use std::net::SocketAddr;
use std::time::SystemTime;
use thalweg_core::{Fault, FaultKind};
use thalweg_net::connect::PeerAddress;
use thalweg_upstream::{Address, AttemptGuard};

/// What a client is told, whatever is wrong.
pub(crate) const UNTOLD: &str = "no route matches the request";

/// Opens the label, where the route wants one.
///
/// # Errors
/// Why it leads nowhere; the client is told less.
pub(crate) fn unseal(
    worker: &Worker,
    view: &LocalPlan,
    client: &Client,
    x: &mut Exchange,
    sealed: &SealedRoute,
) -> Result<(), Fault> {
    let opened = sealed.open(x.host(), SystemTime::now(), |address| is_own(worker, view, address));
    match opened {
        Ok((Leads::Service(service), _)) => x.send_to(view, Some(service)),
        Ok((Leads::Aim(mut aim), _)) => {
            // Its client speaks TLS with it through us.
            aim.secure &= client.listener().protocol() != ListenerProtocol::TlsPassthrough;
            x.aim = Some(aim);
        }
        Err(reason) => return Err(refuse(worker, x, reason)),
    }
    Ok(())
}

/// Whether a label may lead to this member of a service. Not where a host name of the service stands for an address
/// that the label could not have named: names may come to mean what nobody has allowed. Addresses that the
/// configuration itself says were allowed by it.
///
/// # Errors
/// Why not, for logs.
pub(crate) fn check_reach(
    worker: &Worker,
    x: &Exchange,
    attempt_guard: &AttemptGuard,
) -> Result<(), &'static str> {
    let Some(To::Sealed(sealed)) = x.route().map(|route| &route.to) else { return Ok(()) };
    let PeerAddress::Tcp(address) = *attempt_guard.address() else { return Ok(()) };
    let endpoints = x.service().map_or(&[][..], |local| &local.state.service.endpoints[..]);
    let endpoint = endpoints.get(attempt_guard.endpoint as usize);
    if attempt_guard.is_guest() || !endpoint.is_some_and(|it| matches!(it.address, Address::Name { .. })) {
        return Ok(());
    }
    let view = worker.view();
    let judged = sealed.permitted(address, |address| is_own(worker, &view, address))?;
    // It is connected to as it is: what was judged has to be that.
    match judged.ip() == address.ip().to_canonical() {
        true => Ok(()),
        false => Err("the address stands for another one"),
    }
}

/// Whether the proxy listens there itself.
fn is_own(worker: &Worker, view: &LocalPlan, address: SocketAddr) -> bool {
    view.current.own_addresses(&worker.shared.beside).contains(address)
}

/// The fault of a label that is good and leads to a service whose endpoints it may not reach.
pub(crate) fn keep_from(worker: &Worker, x: &mut Exchange, reason: &'static str) -> Fault {
    x.conceal_reason = true;
    let fault = Fault::new(FaultKind::DestinationNotFound, reason);
    worker.report(&fault, x.describe(), x.id.as_ref());
    fault
}

fn refuse(worker: &Worker, x: &mut Exchange, reason: &'static str) -> Fault {
    if !worker.guesses.may_guess(x.client_ip.into(), worker.reactor.now()) {
        x.retry_after = GUESS_EVERY.as_secs().max(1) as u32;
        return Fault::request(429, "too many labels of this client were refused");
    }
    // The first of a while is reported; all stand in the access log and in the records.
    keep_from(worker, x, reason)
}
