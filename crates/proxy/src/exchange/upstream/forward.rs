//! Phase 5: have the request answered by an endpoint; on failure, where it is safe, by another.
//!
//! What is safe: a request that was never sent may always be tried again. One that was sent may be
//! when it is idempotent (RFC 9110 §9.2.2), its body can be sent again, and no byte of a response
//! has come. A connection that was reused and turns out dead is the commonest case (the endpoint
//! closed it in the same moment): it costs no attempt. Nor does an endpoint that an operator has just
//! taken away: that is nobody's failure.

use crate::exchange::grpc::status_of_endpoint;
use crate::exchange::sticky::note_kept;
use crate::exchange::unseal::{check_reach, keep_from};
use crate::exchange::upstream::await_response::{Awaited, await_response};
use crate::exchange::upstream::circuit_breaker::{ask_breaker, end_trial};
use crate::exchange::upstream::connect::{Upstream, connect, is_multiplexed, service};
use crate::exchange::upstream::hedge::hedge;
use crate::exchange::upstream::pick::{Chosen, choose};
use crate::exchange::upstream::request_head::{check_loop, write_request};
use crate::h2;
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::worker::Worker;
use std::time::Instant;
use thalweg_core::fault::Retry;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::Upgrade;
use thalweg_observe::Limit;
use thalweg_upstream::{AttemptGuard, ServiceState, Transition};

/// What a connection that was served to its end is counted as.
pub(crate) const SERVED: u16 = 200;
/// Tries of one exchange in all, whatever they count for.
pub(crate) const TRIES: usize = 16;
/// Tries up to which an endpoint that has not begun to work on the request may be asked again.
const REFUSALS: usize = 4;

/// Sends the request and returns when the head of the final response has been composed for the client.
pub(crate) async fn forward(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<Upstream, Fault> {
    check_loop(x)?;
    if let Some(fault) = x.overdue(worker.reactor.now()) {
        return Err(fault);
    }
    let local = &service(x)?;
    let trial = ask_breaker(worker, x, local)?;
    let outcome = try_endpoints(worker, client, x, local).await;
    if let Some(trial) = trial {
        end_trial(worker, x, local, (trial, outcome.as_ref().err()));
    }
    outcome
}

/// Makes one attempt after the other.
async fn try_endpoints(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
) -> Result<Upstream, Fault> {
    let state = &local.state;
    let policy = &state.service.retry;
    x.left = policy.attempts;
    let mut fresh = false;
    let (mut last, mut forbidden) = (None, None);
    state.retries.sent();
    loop {
        let Some(chosen) = choose(worker, client, x, local).await? else {
            let forbidden = forbidden.filter(|_| last.is_none());
            return Err(
                forbidden.map_or_else(|| none_left(state, last), |reason| keep_from(worker, x, reason))
            );
        };
        if let Err(reason) = check_reach(worker, x, &chosen.attempt_guard) {
            forbidden = Some(reason);
            x.tried.push(chosen.attempt_guard.index);
            continue;
        }
        let member = chosen.attempt_guard.member().clone();
        let fault = match attempt(worker, client, x, chosen, fresh).await {
            Ok(upstream) => return Ok(upstream),
            Err(fault) => fault,
        };
        let reused = x.attempts.fail(fault, x.age(worker.reactor.now()));
        if !may_retry(x, &fault) || x.attempts.len() >= TRIES || x.overdue(worker.reactor.now()).is_some() {
            return Err(fault);
        }
        // Who was waited for until a copy was sent has not ended in the moment in which it was asked.
        let is_hedged = x.tried.contains(&member.index);
        if member.standing.is_cut() {
            // Never again, not even on a connection of its own: what is under way to it is to end.
            if !is_hedged {
                x.tried.push(member.index);
            }
        } else if fault.kind == FaultKind::StreamRefused && !is_hedged && x.attempts.len() <= REFUSALS {
            // Its next connection may take it.
        } else if is_race(&fault, reused) && !is_hedged && !fresh {
            // Its sisters in the pool are likely to be dead too. Once: a stream of a connection that somebody else has
            // opened since counts as reused, too.
            member.pool.sweep();
            fresh = true;
        } else {
            if !is_hedged {
                x.tried.push(member.index);
            }
            let cheap = is_cheap(&fault);
            x.left = x.left.saturating_sub(u32::from(!cheap));
            if x.left == 0 {
                return Err(fault);
            }
            let is_paid = cheap || fault.kind == FaultKind::HttpResponseStatus;
            if !is_paid && !pay(worker, state) {
                return Err(fault);
            }
        }
        last = Some(fault);
        // It was this attempt's: the next one, on a kept connection, would be late before it has begun.
        client.socket.set_deadline(None);
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
    if x.is_connection {
        return reach(worker, client, x, chosen).await;
    }
    let local = &service(x)?;
    // Before the connection is there: a malformed body must not cost one.
    let (endpoint, is_framed) =
        (chosen.attempt_guard.endpoint, is_multiplexed(x, local, &chosen.attempt_guard));
    let composed = worker.reactor.now();
    let number = x.attempts.next();
    if let Some(trace) = x.trace.get_mut() {
        trace.attempt = number;
    }
    let mut head = write(worker, client, x, local, (endpoint, is_framed))?;
    x.replayable = true;
    note_kept(x, &local.state.service, &chosen.attempt_guard);
    let mut upstream = connect(worker, client, x, chosen, fresh).await?;
    let call = h2::call(&upstream.connection.socket);
    let has_waited = x.call_ends_at.is_some() && worker.reactor.now() != composed;
    if call.is_some() != is_framed || has_waited {
        // It speaks what it did not speak the last time, or the call has less time than it had.
        head = write(worker, client, x, local, (endpoint, call.is_some()))?;
    }
    if let Some(call) = call {
        if x.upgrade == Upgrade::WebSocket {
            // In a box because it is rare: every task would be larger for it.
            Box::pin(call.await_websockets(worker, client, x)).await?;
        }
        x.upward.seal_first(call, head);
        if !call.is_staged() {
            return Err(h2::UNSAYABLE);
        }
    }
    if let Some(meters) = local.meters.get(endpoint as usize) {
        meters.requests.add(1);
        meters.reused.add(u64::from(upstream.connection.is_reused()));
    }
    let began = worker.reactor.now();
    let fault = match await_response(worker, client, x, &mut upstream).await {
        Ok(Awaited::Response) => None,
        // In a box because it is rare: every task would be larger for it.
        Ok(Awaited::Rival(rival)) => {
            return Box::pin(hedge(worker, client, x, (upstream, began), rival)).await;
        }
        Err(fault) => Some(fault),
    };
    let reused = x.attempts.last().is_some_and(|attempt| attempt.reused);
    tell(worker, local, x, (&upstream.attempt_guard, began, reused), fault.as_ref());
    fault.map_or(Ok(upstream), Err)
}

/// A connection to an endpoint for one of a client. Whoever speaks first on it, that it is there is all that an
/// endpoint has to say.
async fn reach(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    chosen: Chosen,
) -> Result<Upstream, Fault> {
    let upstream = connect(worker, client, x, chosen, true).await?;
    let local = &service(x)?;
    // Without what it has waited for a place.
    let took = x.attempts.last().map(|attempt| attempt.connect).unwrap_or_default();
    let now = worker.reactor.now();
    let began = now.checked_sub(took).unwrap_or(now);
    if let Some(meters) = local.meters.get(upstream.attempt_guard.endpoint as usize) {
        meters.requests.add(1);
    }
    x.status = SERVED;
    tell(worker, local, x, (&upstream.attempt_guard, began, false), None);
    Ok(upstream)
}

/// Composes the request, with what is here of its body; gives the bytes of its head.
fn write(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (endpoint, is_framed): (u32, bool),
) -> Result<usize, Fault> {
    let composed = write_request(worker, client, x, &local.state.service, (endpoint, is_framed));
    let head = x.request.len;
    if let Some(file) = x.filtered().and_then(|filtering| Some(filtering.spooled.as_ref()?.file.clone())) {
        x.upward.set_spool(file, worker.reactor.now());
        x.consumed = head;
        return Ok(composed);
    }
    if x.upward.pace().is_none() {
        x.consumed = head + x.upward.feed(&x.received[head..], None, &worker.chunks)?;
        return Ok(composed);
    }
    // What an earlier attempt has received goes at once. The rest waits for its time, and comes back when it is sent.
    let known = x.consumed.max(head);
    x.consumed = head + x.upward.feed(&x.received[head..known], None, &worker.chunks)?;
    if !x.upward.is_received() {
        x.upward.hold_early(&x.received[known..]);
        x.received.truncate(known);
    }
    Ok(composed)
}

/// Whether a connection that was used before turned out dead: that says nothing of the endpoint.
pub(crate) fn is_race(fault: &Fault, reused: bool) -> bool {
    reused && fault.kind == FaultKind::ConnectionTerminated && fault.detail != h2::RESET
}

/// Whether the response has a status for which it is to be had from another endpoint instead of this member's, and
/// that may be; then it has been paid for. Asked before the response is given up: where no other attempt can
/// follow, it is what the client gets.
pub(crate) fn calls_for_another(worker: &Worker, x: &Exchange, member: u32, is_race: bool) -> bool {
    let Some(local) = x.service() else { return false };
    let policy = &local.state.service.retry;
    let is_listed = !policy.statuses.is_empty() && policy.statuses.contains(x.response.status);
    let ends_so = x.grpc_status.is_some_and(|code| policy.grpc_statuses.contains(code.number()));
    if !is_listed && !ends_so {
        return false;
    }
    if is_race {
        // It is there already.
        return true;
    }
    let now = worker.reactor.now();
    // Who lists an end of calls says that they may be made again.
    let may = x.left > 1 && x.replayable && (ends_so || x.request.method.is_idempotent());
    may && x.attempts.len() < TRIES
        && x.overdue(now).is_none()
        && local.state.has_other(now, &x.tried, member)
        && pay(worker, &local.state)
}

/// Whether the attempt reached no endpoint: it is no load on any, and counts for nothing.
pub(crate) fn is_cheap(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::ConnectionRefused | FaultKind::DestinationIpUnroutable)
}

/// Pays for another attempt, where the budget allows one.
fn pay(worker: &Worker, state: &ServiceState) -> bool {
    let paid = state.retries.may_retry(worker.reactor.now());
    if !paid {
        worker.meters.limit(Limit::Retries);
    }
    paid
}

/// Tells what came of an attempt to all who choose members.
pub(crate) fn tell(
    worker: &Worker,
    local: &LocalService,
    x: &Exchange,
    (attempt_guard, began, reused): (&AttemptGuard, Instant, bool),
    fault: Option<&Fault>,
) {
    let (service, now) = (&local.state.service, worker.reactor.now());
    let latency = now.saturating_duration_since(began);
    let told = match fault {
        None => attempt_guard.answered(service, (status_of_endpoint(x, x.status), latency), now),
        Some(fault) if fault.kind == FaultKind::HttpResponseStatus => {
            attempt_guard.answered(service, (status_of_endpoint(x, x.response.status), latency), now)
        }
        // What is cut when a drain is over is not the endpoint's fault.
        Some(fault) if fault.kind.rule().hurts_endpoint && !attempt_guard.standing.is_cut() => {
            if is_race(fault, reused) {
                Transition::Nothing
            } else {
                attempt_guard.failed(service, now, fault.detail)
            }
        }
        // How long a client waits is its own matter: no failure.
        Some(fault) if fault.kind == FaultKind::CallDeadline => {
            attempt_guard.outlasted(latency, now);
            Transition::Nothing
        }
        Some(_) => Transition::Nothing,
    };
    match told {
        Transition::Nothing => {}
        Transition::Back => {
            worker.inform(|| format!("{}: it is used again", worker.name_of(local, attempt_guard)))
        }
        Transition::Ejected => {
            let cause = attempt_guard.standing.cause();
            worker.notice(|| format!("{}: {cause}; ejected", worker.name_of(local, attempt_guard)));
        }
    }
}

/// Whether another attempt is safe.
fn may_retry(x: &Exchange, fault: &Fault) -> bool {
    let unsent = x.upward.is_unsent();
    match fault.retry() {
        Retry::Never | Retry::IfReused => false,
        Retry::Unprocessed => x.answered.is_empty() && (unsent || x.replayable),
        Retry::Always if unsent => true,
        // What allows it was asked before the response was given up.
        Retry::IfIdempotent if fault.kind == FaultKind::HttpResponseStatus => x.replayable,
        Retry::Always | Retry::IfIdempotent => {
            x.answered.is_empty() && x.replayable && (unsent || x.request.method.is_idempotent())
        }
    }
}

/// The fault when no member is left to try.
pub(crate) fn none_left(state: &ServiceState, last: Option<Fault>) -> Fault {
    if state.is_unresolved() {
        return Fault::new(FaultKind::DnsError, "no host name of the service has resolved to an address");
    }
    let Some(last) = last else {
        return Fault::new(FaultKind::DestinationUnavailable, "the service has no available endpoint");
    };
    let detail = match last.kind {
        FaultKind::ConnectionRefused => "every endpoint refused the connection",
        FaultKind::ConnectionTimeout => "no endpoint accepted a connection in time",
        FaultKind::DestinationIpUnroutable => "no endpoint can be reached",
        FaultKind::StreamRefused | FaultKind::HttpResponseStatus => "every endpoint failed",
        // An endpoint was reached, and what it did says more than that no other one is left.
        _ => return last,
    };
    Fault::new(FaultKind::DestinationUnavailable, detail)
}
