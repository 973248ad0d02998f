//! Last phase: what happened is counted, remembered for a while, and written to the access log.

use crate::exchange::grpc::{final_status, status_of_endpoint};
use crate::exchange::upstream::forward::is_race;
use crate::exchange::{bans, trace};
use crate::plan::ListenerProtocol;
use crate::records::LabelRedactor;
use crate::state::exchange::{Attempt, Client, Exchange, Origin};
use crate::state::local_plan::LocalService;
use crate::state::worker::Worker;
use crate::tls::client_cert_fields::subject;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_core::fault::Level;
use thalweg_core::{Fault, Side};
use thalweg_filter::{EndCx, Hooks, LogEdit};
use thalweg_http::FieldId;
use thalweg_http::grpc::Code;
use thalweg_observe::meters::FIRST_ERROR;
use thalweg_observe::{FailedAttempt, Limit, LogRecord, Timers};
use thalweg_observe::{FilterOutcome, RouteMeters};

/// Counts what an exchange has moved since it was counted last: a long one does not wait for its end.
pub(crate) fn count_bytes(worker: &Worker, x: &mut Exchange) {
    let (bytes_in, bytes_out) = (x.request.len as u64 + x.upward.body(), x.downward.bytes());
    // Another attempt begins anew: only what it moves beyond the last one counts.
    let (more_in, more_out) = (bytes_in.saturating_sub(x.counted.0), bytes_out.saturating_sub(x.counted.1));
    let meters = meters(worker, x);
    meters.bytes_in.add(more_in);
    meters.bytes_out.add(more_out);
    if let Some(service) = x.service() {
        let of_all = service.meters_of_all();
        of_all.bytes_in.add(more_in);
        of_all.bytes_out.add(more_out);
        if let Some(endpoint) = x.attempts.last().and_then(|last| service.meters.get(last.endpoint as usize))
        {
            endpoint.bytes_in.add(more_in);
            endpoint.bytes_out.add(more_out);
        }
    }
    x.counted = (bytes_in.max(x.counted.0), bytes_out.max(x.counted.1));
}

fn meters<'a>(worker: &'a Worker, x: &'a Exchange) -> &'a RouteMeters {
    x.route.as_ref().map_or(&worker.no_route, |route| &route.meters)
}

/// Counts what became of a request of a route with a canary, by its service.
fn count_target(worker: &Worker, x: &Exchange, duration: Duration) {
    let (Some(route), Some(target), Some(local)) = (&x.route, x.target, x.service()) else { return };
    let is_broken = x.fault.is_some_and(|fault| fault.kind.rule().side == Side::Upstream);
    if x.attempts.len() == 0 && !is_broken {
        // It was refused or answered here: that says nothing of the service.
        return;
    }
    let name = (target, &*local.state.service.name);
    let meters = route.target_meters(name, &worker.shared.registry, worker.id);
    // A response that breaks off has a good status, and so has a gRPC call that failed.
    meters.codes.add(if is_broken { 502 } else { status_of_endpoint(x, x.status) });
    // How slow a client is, or how long a stream lasts, says nothing of the service.
    meters.duration.record(x.first_byte.map_or(duration, |first| first.saturating_sub(x.waited)));
}

/// Counts what each filter did.
fn count_filters(worker: &Worker, x: &Exchange) {
    let Some(local) = &x.route else { return };
    let variant = local.route().variant(x.listener, x.target);
    let meters = local.filter_meters(variant, &worker.shared.registry, worker.id);
    let ended_by = x.filtering.as_ref().and_then(|filtering| filtering.below);
    let failed = x.filtering.as_ref().map_or(0, |filtering| filtering.outcome.failed);
    let mut left = x.filters_acted | failed;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        let outcome = match (ended_by == Some(at), x.fault.is_some()) {
            _ if failed & (1 << at) != 0 => FilterOutcome::Failed,
            (false, _) => FilterOutcome::Changed,
            (true, false) => FilterOutcome::Answered,
            (true, true) => FilterOutcome::Refused,
        };
        if let Some(meters) = meters.get(at) {
            meters.outcomes[outcome as usize].add(1);
        }
    }
}

/// Tells filters that want to know that the exchange is over, and drops what they have kept for it: what is held for
/// requests in flight is free from here on, not only when the next request comes.
fn end_filters(worker: &Worker, x: &mut Exchange) {
    let Some(filtering) = x.filtering.as_deref().filter(|filtering| !filtering.states.is_empty()) else {
        return;
    };
    if let Some(chain) = x.chain().filter(|chain| chain.has(Hooks::END)) {
        let bytes = (x.upward.body(), x.downward.body());
        chain.on_end(&mut EndCx::new(bytes, x.status, worker.reactor.now(), &filtering.states));
    }
    if let Some(filtering) = &mut x.filtering {
        filtering.states.clear();
    }
}

/// Counts a finished exchange; gives how its gRPC call ended.
pub(crate) fn count(worker: &Worker, x: &mut Exchange, duration: Duration) -> Option<Code> {
    let grpc_status = final_status(x);
    count_bytes(worker, x);
    let meters = meters(worker, x);
    meters.count(x.status, duration);
    let now_ms = worker.meters.ms_of(worker.reactor.now());
    if let Some(id) = x.id.as_ref().filter(|_| worker.shared.registry.wants_exemplars(now_ms)) {
        meters.exemplars.note(duration, id, now_ms);
    }
    if let Some(result) = x.cache_use {
        meters.cache[result as usize].add(1);
    }
    if let Some(code) = grpc_status {
        meters.grpc.add(code.number());
    }
    if x.route().is_some_and(|route| route.canary.is_some()) {
        count_target(worker, x, duration);
    }
    if x.filters_acted != 0 || x.filtering.as_ref().is_some_and(|filtering| filtering.outcome.failed != 0) {
        count_filters(worker, x);
    }
    end_filters(worker, x);
    if let Some(fault) = &x.fault {
        worker.meters.fault(fault.kind);
        if matches!(fault.status, 414 | 431) {
            worker.meters.limit(Limit::Head);
        }
        if fault.kind.rule().level != Level::Debug {
            worker.report(fault, x.describe(), x.id.as_ref());
        }
    }
    if let Some(service) = x.service() {
        service.meters_of_all().count(x.status, duration);
        count_attempts(service, x);
    }
    grpc_status
}

/// Counts what came of the attempts, by endpoint.
fn count_attempts(service: &LocalService, x: &Exchange) {
    let meters = |attempt: &Attempt| service.meters.get(attempt.endpoint as usize);
    for attempt in x.attempts.failed() {
        // One that was called off for another has no fault.
        let is_error = attempt.fault.is_some_and(|fault| is_of_endpoint(&fault, attempt.reused));
        meters(attempt).filter(|_| is_error).inspect(|meters| meters.errors.add(1));
    }
    let Some((last, meters)) = x.attempts.last().and_then(|last| Some((last, meters(last)?))) else { return };
    let fault = last.fault.or(x.fault);
    if fault.map_or(x.status >= FIRST_ERROR, |fault| is_of_endpoint(&fault, last.reused)) {
        meters.errors.add(1);
    }
    if last.fault.is_none() && !last.reused {
        meters.connect.record(last.connect);
    }
    if let (None, Some(first_byte)) = (last.fault, x.first_byte) {
        meters.response.record(first_byte.saturating_sub(x.waited));
    }
}

/// Whether it is an error of an endpoint: not when a connection that had been used before was closed meanwhile.
fn is_of_endpoint(fault: &Fault, reused: bool) -> bool {
    fault.kind.rule().side == Side::Upstream && !is_race(fault, reused)
}

/// Records a finished exchange.
pub(crate) fn record(worker: &Worker, client: &Client, x: &mut Exchange) {
    record_of(worker, client.origin(), x, || subject(client));
}

/// The same of one whose client may have no connection. `subject`: of the client's certificate.
pub(crate) fn record_of(
    worker: &Worker,
    origin: Origin<'_>,
    x: &mut Exchange,
    subject: impl FnOnce() -> Option<Arc<str>>,
) {
    let duration = x.started.elapsed();
    let grpc_status = count(worker, x, duration);
    bans::note(worker, x);
    let veil = LabelRedactor::of(worker);
    if x.trace.get().is_some() {
        trace::judge(worker, x, duration);
    }
    worker.decisions.note((worker, &veil), origin, x, duration);
    if worker.taps.is_on() {
        worker.tap(&veil, origin, x, duration);
    }
    if x.trace.get().is_some() {
        trace::tell(worker, (&veil, origin), x, (grpc_status, duration));
    }
    let edit = x.filtering.as_ref().and_then(|filtering| filtering.states.log());
    if edit.is_some_and(LogEdit::is_off) {
        return;
    }
    if let Some(log) = &mut *worker.log.borrow_mut() {
        let fields = edit.map(|edit| edit.fields().map(|(name, value)| (name, veil.over(value))).collect());
        let fields: Vec<_> = fields.unwrap_or_default();
        let aim = x.aim.map(|aim| aim.to_string());
        let failed = failed_attempts(x, aim.as_deref());
        let subject = subject();
        let client_cert_subject = subject.as_deref();
        let grpc_status = grpc_status.map(Code::name);
        let said = Said::of(x, &veil);
        let line = line(origin, x, &said, duration);
        log.push(&LogRecord {
            failed: &failed,
            fields: &fields,
            client_cert_subject,
            grpc_status,
            endpoint: line.endpoint.or(aim.as_deref().filter(|_| x.attempts.len() > 0)),
            ..line
        });
    }
}

/// The attempts that others followed; the rule is none, and then nothing is allocated. `aim`: where a label led.
fn failed_attempts<'a>(x: &'a Exchange, aim: Option<&'a str>) -> Vec<FailedAttempt<'a>> {
    let endpoints = x.service().map_or(&[][..], |local| &local.state.service.endpoints[..]);
    let failed = x.attempts.failed().iter().map(|attempt| FailedAttempt {
        endpoint: endpoints
            .get(attempt.endpoint as usize)
            .map_or(aim.unwrap_or(""), |endpoint| &endpoint.url),
        fault: attempt.fault.as_ref(),
        reused: attempt.reused,
        connect_us: attempt.connect.as_micros() as u64,
    });
    failed.collect()
}

/// What the client has said, without labels.
pub(super) struct Said<'a> {
    host: Cow<'a, [u8]>,
    path: Cow<'a, [u8]>,
    query: Option<Cow<'a, [u8]>>,
    referer: Option<Cow<'a, [u8]>>,
    user_agent: Option<Cow<'a, [u8]>>,
}

impl<'a> Said<'a> {
    pub(super) fn of(x: &'a Exchange, veil: &LabelRedactor) -> Self {
        let bytes = &x.received[..];
        let field = |id| x.request.value(bytes, id).filter(|_| x.request.len > 0).map(|text| veil.over(text));
        Self {
            host: veil.over(x.authority()),
            path: veil.over(x.path.of(bytes)),
            query: x.query().map(|query| veil.over(query)),
            referer: field(FieldId::Referer),
            user_agent: field(FieldId::UserAgent),
        }
    }
}

pub(super) fn line<'a>(
    origin: Origin<'a>,
    x: &'a Exchange,
    said: &'a Said<'_>,
    duration: Duration,
) -> LogRecord<'a> {
    let bytes = &x.received[..];
    let service = x.service();
    let last = x.attempts.last();
    let endpoint = service.zip(last).and_then(|(service, last)| {
        service.state.service.endpoints.get(last.endpoint as usize).map(|endpoint| &*endpoint.url)
    });
    LogRecord {
        unix_us: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64),
        id: x.id.as_ref(),
        trace: x.trace.get().map(|context| context.trace),
        listener: &origin.local_listener.state.name,
        client: Some(if x.id.is_some() { x.client_ip } else { origin.peer }),
        client_port: Some(origin.port),
        peer: Some(origin.peer),
        method: x.request.method_text.of(bytes),
        client_cert_subject: None,
        user: x.user(),
        scheme: if origin.local_listener.protocol() == ListenerProtocol::Udp { "udp" } else { x.scheme() },
        host: Some(&*said.host).filter(|authority| !authority.is_empty()),
        path: &said.path,
        query: said.query.as_deref(),
        proto: if x.request.len > 0 { x.request.version.label() } else { "" },
        status: x.status,
        grpc_status: None,
        bytes_in: x.upward.body(),
        bytes_out: x.downward.body(),
        route: x.route().map(|route| &*route.name),
        service: service.map(|service| &*service.state.service.name),
        endpoint,
        attempts: x.attempts.len() as u32,
        failed: &[],
        fields: &[],
        reused: last.is_some_and(|last| last.reused),
        timers: Timers {
            wait: (!x.waited.is_zero()).then_some(x.waited.as_micros() as u64),
            connect: last.map(|last| last.connect.as_micros() as u64),
            tls: last.filter(|last| !last.tls.is_zero()).map(|last| last.tls.as_micros() as u64),
            first_byte: x.first_byte.map(|time| time.as_micros() as u64),
            total: duration.as_micros() as u64,
        },
        fault: x.fault.as_ref(),
        reason: x.reason(),
        ended: x.ended_idle.then_some("idle"),
        unlogged: 0,
        user_agent: said.user_agent.as_deref(),
        referer: said.referer.as_deref(),
        share: "",
    }
}
