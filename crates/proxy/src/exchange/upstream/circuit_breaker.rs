//! Part of phase 5: the service's breaker is asked before the first attempt, and told how a trial ended.
//!
//! A trial is the exchange as a whole: where another endpoint answers after one has failed, the service has
//! done what was asked of it.

use crate::exchange::grpc::status_of_endpoint;
use crate::state::exchange::Exchange;
use crate::state::local_plan::LocalService;
use crate::state::worker::Worker;
use thalweg_core::{Fault, FaultKind};
use thalweg_upstream::{BreakerChange, TrialGuard};

/// Lets the exchange through, perhaps as a trial.
///
/// # Errors
/// When the breaker is open, or trials are under way that decide.
pub(crate) fn ask_breaker(
    worker: &Worker,
    x: &mut Exchange,
    local: &LocalService,
) -> Result<Option<TrialGuard>, Fault> {
    local.state.admit(worker.reactor.now()).map_err(|refused| {
        local.meters_of_all().refused.add(1);
        x.retry_after = refused.after.as_millis().div_ceil(1000).clamp(1, u128::from(u32::MAX)) as u32;
        Fault::new(FaultKind::DestinationUnavailable, "the circuit breaker of the service is open")
    })
}

/// Tells the breaker what came of a trial, and the operator what came of the breaker.
pub(crate) fn end_trial(
    worker: &Worker,
    x: &Exchange,
    local: &LocalService,
    (trial, fault): (TrialGuard, Option<&Fault>),
) {
    let (service, now) = (&local.state.service, worker.reactor.now());
    let change = match fault {
        None if service.ejection.statuses.contains(status_of_endpoint(x, x.status)) => trial.failed(now),
        None => trial.succeeded(now),
        Some(fault) if is_failure(fault) => trial.failed(now),
        // It says nothing of the service: dropped, it makes room for another.
        Some(_) => None,
    };
    let of_service = |words: &str| format!("service `{}`: {words}", service.name);
    match change {
        Some(BreakerChange::Closed) => {
            worker.inform(|| of_service("its breaker is closed: every trial was answered"));
        }
        Some(BreakerChange::Opened) => {
            worker.notice(|| of_service("its breaker is open again: a trial failed"));
        }
        None => {}
    }
}

fn is_failure(fault: &Fault) -> bool {
    let nobody = matches!(fault.kind, FaultKind::DestinationUnavailable | FaultKind::DnsError);
    nobody || fault.kind.rule().hurts_endpoint
}
