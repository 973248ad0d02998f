//! Traces: an exchange finds its place in one, services are told of it, and at its end it may be told of.
//!
//! `read_request.rs` begins, `upstream/request_head.rs` writes the field, `record.rs` judges and tells. See
//! [`thalweg_observe::trace`]. Invariant: a worker waits for no exporter; what its queue has no room for is counted.

use crate::exchange::grpc::status_of_endpoint;
use crate::exchange::record::{Said, line};
use crate::records::LabelRedactor;
use crate::state::exchange::{Attempt, Exchange, Origin};
use crate::state::worker::Worker;
use std::time::Duration;
use thalweg_core::{Fault, Side};
use thalweg_http::FieldId;
use thalweg_http::grpc::Code;
use thalweg_observe::Limit;
use thalweg_observe::meters::FIRST_ERROR;
use thalweg_observe::trace::{
    AttemptSpan, Beside, ExchangeSpan, GrpcStatus, Parent, SpanFault, TraceContext, TracingPolicy, passes_on,
};

/// Finds the place of a request in a trace. What its client said of one is not passed on by itself.
pub(crate) fn begin(worker: &Worker, policy: &TracingPolicy, x: &mut Exchange) {
    let random = {
        let mut random = worker.random.borrow_mut();
        (random.u128(..), random.u64(..))
    };
    let context = policy.begin(parent(x), x.trusted_peer, random);
    x.request.strip(FieldId::Traceparent);
    if context.parent.is_none() || !passes_on(x.request.values(&x.received, FieldId::Tracestate)) {
        // It is about a trace that does not go on, or more than is passed on.
        x.request.strip(FieldId::Tracestate);
    }
    x.trace.set(context);
}

/// What the client says of its trace. Of two fields neither is to be believed.
fn parent(x: &Exchange) -> Option<Parent> {
    let mut values = x.request.values(&x.received, FieldId::Traceparent);
    let only = values.next().filter(|_| values.next().is_none());
    only.and_then(Parent::parse)
}

/// Writes the field that tells services.
pub(crate) fn write(out: &mut Vec<u8>, context: &TraceContext) {
    out.extend_from_slice(b"Traceparent: ");
    context.write(out);
    out.extend_from_slice(b"\r\n");
}

/// Decides whether an exchange that is over is told of.
pub(crate) fn judge(worker: &Worker, x: &mut Exchange, took: Duration) {
    let view = worker.view();
    let Some(tracing) = &view.plan.tracing else { return };
    let failed = has_failed(x);
    // Tunnels are long by their nature.
    let took = if x.status == 101 { Duration::ZERO } else { took };
    if let Some(context) = x.trace.get_mut() {
        context.is_told = tracing.policy.tells(context, failed, took);
    }
}

/// Whether the proxy or a service failed: not where a client was refused, or left.
fn has_failed(x: &Exchange) -> bool {
    let is_refusal = |fault: &Fault| fault.side() == Side::Downstream || (400..500).contains(&fault.status);
    match &x.fault {
        Some(fault) => !is_refusal(fault),
        None => status_of_endpoint(x, x.status) >= FIRST_ERROR,
    }
}

/// Tells of an exchange that is over, where it was judged so.
pub(crate) fn tell(
    worker: &Worker,
    (veil, origin): (&LabelRedactor, Origin<'_>),
    x: &Exchange,
    (grpc_status, took): (Option<Code>, Duration),
) {
    let Some(context) = x.trace.get().copied().filter(|context| context.is_told) else { return };
    let Ok(place) = worker.shared.spans.try_reserve() else {
        worker.meters.limit(Limit::Spans);
        worker.meters.spans_dropped.add(1 + x.attempts.len() as u64);
        return;
    };
    // Spans have the whole microseconds of the line.
    let took = Duration::from_micros(took.as_micros() as u64);
    let said = Said::of(x, veil);
    let record = line(origin, x, &said, took);
    let (path, query) = (veil.over(x.upstream_path()), x.upstream_query().map(|query| veil.over(query)));
    let beside = Beside {
        context,
        failed: has_failed(x),
        grpc: grpc_status.map(|code| GrpcStatus { number: code.number(), name: code.name() }),
        attempts: attempts(x, took),
    };
    place.send(Box::new(ExchangeSpan::of(&record, (&path, query.as_deref()), beside)));
}

/// The attempts in the order in which they began.
fn attempts(x: &Exchange, took: Duration) -> Vec<AttemptSpan> {
    let followed = x.attempts.failed().iter().map(|attempt| (attempt, false));
    let mut all: Vec<_> = followed.chain(x.attempts.last().map(|last| (last, true))).collect();
    all.sort_by_key(|(attempt, _)| attempt.number);
    let spans = all.into_iter().map(|(attempt, is_last)| {
        let of_exchange = x.fault.filter(|fault| is_last && fault.side() != Side::Downstream);
        let fault = attempt.fault.or(of_exchange);
        let is_answered = is_last && fault.is_none() && x.first_byte.is_some();
        let ended = if attempt.ended.is_zero() { took } else { attempt.ended };
        AttemptSpan {
            number: attempt.number,
            endpoint: endpoint(x, attempt),
            began: attempt.began,
            took: ended.saturating_sub(attempt.began),
            status: is_answered.then_some(x.response.status),
            fault: fault.as_ref().map(SpanFault::from),
            reused: attempt.reused,
            is_copy: attempt.is_copy,
            is_called_off: !is_last && fault.is_none(),
            connect: attempt.connect,
            tls: attempt.tls,
        }
    });
    spans.collect()
}

/// The URL of its endpoint; of a sealed destination nothing is said.
fn endpoint(x: &Exchange, attempt: &Attempt) -> String {
    let endpoints = x.service().map_or(&[][..], |local| &local.state.service.endpoints[..]);
    endpoints.get(attempt.endpoint as usize).map_or_else(String::new, |endpoint| endpoint.url.to_string())
}
