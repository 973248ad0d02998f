//! Part of phase 2, where requests name their destination themselves: the label is opened, and leads to an address or a service.
//!
//! Whatever is wrong with a label, and wherever it leads that it may not lead, its client is told the same, byte for byte, as where no
//! route matches. The true reason is for the log, the records and whoever asks `explain`. A client that comes with many labels that are
//! refused is told to come back later; its good ones go on.

use crate::listener::client_limits::Prefix;
use crate::plan::{ListenerProtocol, To};
use crate::sealed::{Leads, SealedRoute};
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::LocalPlan;
use crate::worker::Worker;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use thalweg_core::{Fault, FaultKind};
use thalweg_net::connect::{PeerAddress, is_machines};
use thalweg_upstream::{Address, AttemptGuard};

/// What a client is told, whatever is wrong.
pub(crate) const UNTOLD: &str = "no route matches the request";
/// Labels that a client may have refused at once, by each worker.
const GUESSES: u32 = 100;
/// The time after which it may have another one refused.
const GUESS_EVERY: Duration = Duration::from_millis(100);
/// Clients of whom that is known, by each worker.
const GUESSERS: usize = 4096;

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

/// Whether a label may lead to this member of a service. Not where a host name of the service stands for an address that the label could not
/// have named: names may come to mean what nobody has allowed. Addresses that the configuration itself says were allowed by it.
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
    let beside = worker.shared.beside.get();
    view.current.own.contains(address, is_machines)
        || beside.is_some_and(|own| own.contains(address, is_machines))
}

/// The fault of a label that is good and leads to a service whose endpoints it may not reach.
pub(crate) fn keep_from(worker: &Worker, x: &mut Exchange, reason: &'static str) -> Fault {
    x.conceal_reason = true;
    let fault = Fault::new(FaultKind::DestinationNotFound, reason);
    worker.report(&fault, x.route().map_or("", |route| &route.name), x.id.as_ref());
    fault
}

fn refuse(worker: &Worker, x: &mut Exchange, reason: &'static str) -> Fault {
    if !worker.guesses.may_guess(x.client_ip.into(), worker.reactor.now()) {
        x.retry_after = GUESS_EVERY.as_secs().max(1);
        return Fault::request(429, "too many labels of this client were refused");
    }
    // The first of a while is reported; all stand in the access log and in the records.
    keep_from(worker, x, reason)
}

/// How often clients have come with labels that were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedLabels(RefCell<HashMap<Prefix, Instant>>);

impl RefusedLabels {
    /// Counts one more; `false`: there were too many.
    fn may_guess(&self, client: Prefix, now: Instant) -> bool {
        let mut clients = self.0.borrow_mut();
        if clients.len() >= GUESSERS && !clients.contains_key(&client) {
            clients.retain(|_, made_good| *made_good > now);
            if clients.len() >= GUESSERS {
                return false;
            }
        }
        // All that it has had refused is made good at that time.
        let made_good = clients.entry(client).or_insert(now);
        let next = (*made_good).max(now) + GUESS_EVERY;
        let may = next <= now + GUESS_EVERY * GUESSES;
        if may {
            *made_good = next;
        }
        may
    }
}

/// What logs and records may show of an exchange's texts: no label.
#[derive(Debug)]
pub(crate) struct LabelRedactor(Option<Rc<LocalPlan>>);

impl LabelRedactor {
    /// As the plan in force has it.
    pub(crate) fn of(worker: &Worker) -> Self {
        // Most have nothing to hide.
        Self(worker.has_labels().then(|| worker.view()))
    }

    /// The text without labels.
    pub(crate) fn over<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.0 {
            Some(view) => view.current.redactor.redact(text),
            None => Cow::Borrowed(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn a_client_may_guess_so_often_and_then_as_time_allows() {
        let (guesses, start) = (RefusedLabels::default(), Instant::now());
        let (one, other) = (IpAddr::from([192, 0, 2, 1]).into(), IpAddr::from([192, 0, 2, 2]).into());
        let count = |client, now| (0..1000).filter(|_| guesses.may_guess(client, now)).count();
        assert_eq!(count(one, start), 100);
        assert_eq!(count(other, start), 100);
        assert_eq!(count(one, start + GUESS_EVERY * 7), 7);
        assert_eq!(count(one, start + Duration::from_secs(3600)), 100);
    }

    #[test]
    fn as_many_clients_are_known_as_may_be() {
        let (guesses, start) = (RefusedLabels::default(), Instant::now());
        let client = |at: u32| IpAddr::from(at.to_be_bytes()).into();
        assert!((0..GUESSERS as u32).all(|at| guesses.may_guess(client(at), start)));
        assert!(!guesses.may_guess(client(u32::MAX), start));
        assert!(guesses.may_guess(client(0), start), "those that are known go on");
        assert!(guesses.may_guess(client(u32::MAX), start + Duration::from_secs(1)));
        assert!(guesses.0.borrow().len() <= 2);
    }
}
