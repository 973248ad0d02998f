//! Phase 5: have the request answered by an endpoint; on failure, where it is safe, by another.
//!
//! What is safe: a request that was never sent may always be tried again. One that was sent may be
//! when it is idempotent (RFC 9110 §9.2.2), its body can be sent again, and no byte of a response
//! has come. A connection that was reused and turns out dead is the commonest case (the endpoint
//! closed it in the same moment): it costs no attempt.

use crate::await_response::await_response;
use crate::choose::{Chosen, choose};
use crate::compose::{check_loop, compose};
use crate::connect::{Upstream, connect, service};
use crate::exchange::{Client, Exchange};
use crate::worker::Worker;
use thalweg_core::fault::Retry;
use thalweg_core::{Fault, FaultKind};
use thalweg_upstream::ServiceState;

/// Tries of one exchange in all, whatever they count for.
const TRIES: usize = 16;

/// Sends the request and returns when the head of the final response has been composed for the client.
pub(crate) async fn forward(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<Upstream, Fault> {
    check_loop(x)?;
    let view = x.view().clone();
    let local = service(&view, x)?;
    let state = &local.state;
    let mut left = state.service.retry.attempts;
    let mut fresh = false;
    let mut last = None;
    loop {
        let Some(chosen) = choose(worker, client, x, local).await? else {
            return Err(none_left(state, last));
        };
        let member = chosen.member.clone();
        let fault = match attempt(worker, client, x, chosen, fresh).await {
            Ok(upstream) => return Ok(upstream),
            Err(fault) => fault,
        };
        let reused = x.attempts.fail(fault);
        if !may_retry(x, &fault) || x.attempts.len() >= TRIES {
            return Err(fault);
        }
        if reused {
            // Its sisters in the pool are likely to be dead too.
            member.pool.sweep();
            fresh = true;
        } else {
            x.tried.push(member.index);
            let cheap =
                matches!(fault.kind, FaultKind::ConnectionRefused | FaultKind::DestinationIpUnroutable);
            left -= u32::from(!cheap);
            if left == 0 {
                return Err(fault);
            }
        }
        last = Some(fault);
        if let Some(meters) = local.meters.get(member.endpoint as usize) {
            meters.retries.add(1);
        }
    }
}

async fn attempt(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    chosen: Chosen,
    fresh: bool,
) -> Result<Upstream, Fault> {
    let view = x.view().clone();
    let local = service(&view, x)?;
    // Before the connection is there: a malformed body must not cost one.
    let endpoint = chosen.member.endpoint;
    compose(worker, client, x, &local.state.service, endpoint);
    let head = x.request.len;
    x.consumed = head + x.upward.feed(&x.received[head..], None, &worker.chunks)?;
    x.replayable = true;
    let mut upstream = connect(worker, client, x, chosen, fresh).await?;
    if let Some(meters) = local.meters.get(endpoint as usize) {
        meters.requests.add(1);
        meters.reused.add(u64::from(upstream.connection.is_reused()));
    }
    await_response(worker, client, x, &mut upstream).await?;
    Ok(upstream)
}

/// Whether another attempt is safe.
fn may_retry(x: &Exchange, fault: &Fault) -> bool {
    match fault.retry() {
        Retry::Always => true,
        Retry::Never | Retry::IfReused => false,
        Retry::IfIdempotent => {
            let unsent = x.upward.bytes() == 0;
            x.answered.is_empty() && x.replayable && (unsent || x.request.method.is_idempotent())
        }
    }
}

/// The fault when no member is left to try.
fn none_left(state: &ServiceState, last: Option<Fault>) -> Fault {
    if state.is_unresolved() {
        return Fault::new(FaultKind::DnsError, "no host name of the service has been resolved");
    }
    let detail = match last.map(|fault| fault.kind) {
        Some(FaultKind::ConnectionRefused) => "every endpoint refused the connection",
        Some(FaultKind::ConnectionTimeout) => "no endpoint accepted a connection in time",
        Some(_) => "every endpoint failed",
        None => "the service has no endpoint that takes requests",
    };
    Fault::new(FaultKind::DestinationUnavailable, detail)
}
