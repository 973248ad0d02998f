//! One exchange as a worker remembers it: 256 bytes, and a box for what the ordinary exchange does not have.

use super::decision::{Decision, DecisionAttempt, Notable, RecordQuery};
use crate::plan::RequestsPolicy;
use crate::records::LabelRedactor;
use crate::state::exchange::{Attempt, Exchange, Origin};
use crate::state::labels::Label;
use crate::state::local_plan::LocalRoute;
use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use thalweg_core::{Fault, FaultKind, RequestId, Side};
use thalweg_observe::trace::TraceId;
use thalweg_observe::{redact_path, redact_query};

/// Bytes of method, host, path and query that every entry has room for.
const TEXT: usize = 90;
/// The same of one that is kept longer.
const LONG_TEXT: usize = 512;
/// In place of a time that there is none of.
const NEVER: u32 = u32::MAX;

const _: () = assert!(size_of::<Entry>() == 256, "four cache lines");

/// One exchange.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    began_us: u64,
    total_us: u64,
    bytes_in: u64,
    bytes_out: u64,
    listener: Option<Label>,
    route: Option<Rc<LocalRoute>>,
    service: Option<Label>,
    /// Of the attempt, where there was one and nothing went wrong with it.
    endpoint: Option<Label>,
    trouble: Option<Box<Trouble>>,
    attempted_us: u32,
    connect_us: u32,
    tls_us: u32,
    wait_us: u32,
    /// [`NEVER`]: none came.
    first_byte_us: u32,
    /// A bit for each of the first 32 filters.
    filters_acted: u32,
    /// Which variant of the route's filters it had: its position plus one; 0 for none, or one beyond the 254th.
    variant: u8,
    status: u16,
    /// 0: the client's connection is a proxy's.
    port: u16,
    /// Lengths of method, host, path and query, in this order in the text.
    lengths: [u16; 4],
    client: IpAddr,
    id: Option<RequestId>,
    pub(super) notable: Option<Notable>,
    reused: bool,
    has_query: bool,
    text: [u8; TEXT],
}

/// What the ordinary exchange does not have.
#[derive(Debug)]
struct Trouble {
    fault: Option<Fault>,
    /// The trace that tells of it.
    trace: Option<TraceId>,
    /// As a filter has verified it; may be empty.
    user: Box<str>,
    /// Why a filter refused it, or would have; may be empty.
    reason: Box<str>,
    ended_idle: bool,
    /// In the order of their beginning; empty where the entry itself has the only one.
    attempts: Box<[Tried]>,
    /// In place of the entry's own, when that is too small; else empty.
    text: Box<[u8]>,
}

#[derive(Debug)]
struct Tried {
    endpoint: Option<Label>,
    attempt: Attempt,
    /// No other one followed it.
    is_last: bool,
}

/// What of an exchange stands in a record and not in the exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    /// When it began, in microseconds since the Unix epoch.
    pub(super) began_us: u64,
    /// How long it took.
    pub(super) total: Duration,
    /// Whether queries may be kept.
    pub(super) has_queries: bool,
    /// Over what nobody is to see.
    pub(super) veil: &'a LabelRedactor,
}

impl Entry {
    /// What is remembered of an exchange.
    pub(super) fn of(origin: Origin<'_>, x: &Exchange, around: Around<'_>, policy: RequestsPolicy) -> Self {
        let notable = notable(x, around.total, policy);
        let bytes = &x.received[..];
        let query = x.query().filter(|_| around.has_queries);
        let method = x.request.method_text.of(bytes).into();
        let said = [x.authority(), x.path.of(bytes), query.unwrap_or_default()];
        let [host, path, said_query] = said.map(|text| around.veil.over(text));
        let shown = [method, host, path, said_query];
        let parts = shown.each_ref().map(|part: &Cow<'_, [u8]>| &**part);
        let mut text = [0; TEXT];
        let mut lengths = write(parts, &mut text);
        let is_cut = parts.iter().map(|part| part.len()).sum::<usize>() > TEXT;
        let last = x.attempts.last();
        let is_plain = x.fault.is_none() && x.attempts.failed().is_empty() && !x.ended_idle;
        let is_known = x.user().is_some() || x.reason().is_some() || trace(x).is_some();
        let trouble = match is_plain && !is_known && (notable.is_none() || !is_cut) {
            true => None,
            false => Some(trouble(x, is_plain, (parts, is_cut && notable.is_some()), &mut lengths)),
        };
        let endpoint = last.filter(|_| is_plain);
        Self {
            began_us: around.began_us,
            total_us: whole_micros(around.total),
            bytes_in: x.upward.body(),
            bytes_out: x.downward.body(),
            listener: Some(origin.local_listener.label.clone()),
            route: x.route.clone(),
            service: x.service().map(|service| service.labels.name.clone()),
            endpoint: endpoint.and_then(|last| label(x, last)),
            trouble,
            attempted_us: last.map_or(NEVER, |last| micros(last.began)),
            connect_us: last.map_or(0, |last| micros(last.connect)),
            tls_us: last.map_or(0, |last| micros(last.tls)),
            wait_us: micros(x.waited),
            first_byte_us: x.first_byte.map_or(NEVER, micros),
            filters_acted: x.filters_acted,
            variant: x.route().map_or(0, |route| route.variant(x.listener, x.target)),
            status: x.status,
            port: if x.client_ip == origin.peer { origin.port } else { 0 },
            lengths,
            client: x.client_ip,
            id: x.id,
            notable,
            reused: last.is_some_and(|last| last.reused),
            has_query: query.is_some(),
            text,
        }
    }

    /// One of nothing in particular.
    #[cfg(test)]
    pub(super) fn sample(ended_us: u64, notable: Option<Notable>) -> Self {
        Self {
            began_us: ended_us,
            total_us: 0,
            bytes_in: 0,
            bytes_out: 0,
            listener: None,
            route: None,
            service: None,
            endpoint: None,
            trouble: None,
            attempted_us: NEVER,
            connect_us: 0,
            tls_us: 0,
            wait_us: 0,
            first_byte_us: NEVER,
            filters_acted: 0,
            variant: 0,
            status: 200,
            port: 0,
            lengths: [0; 4],
            client: IpAddr::from([127, 0, 0, 1]),
            id: None,
            notable,
            reused: false,
            has_query: false,
            text: [0; TEXT],
        }
    }

    /// When it was over, in microseconds since the Unix epoch.
    pub(super) fn ended_us(&self) -> u64 {
        self.began_us.saturating_add(self.total_us)
    }

    fn fault(&self) -> Option<Fault> {
        self.trouble.as_ref()?.fault
    }

    /// Whether it is one of those that are asked for.
    pub(super) fn is_asked_for(&self, inquiry: &RecordQuery) -> bool {
        let is = |name: Option<&Arc<str>>, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| name.is_some_and(|name| **name == *wanted))
        };
        inquiry
            .id
            .is_none_or(|id| self.id.is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(id.as_bytes())))
            && inquiry.status.as_ref().is_none_or(|statuses| statuses.contains(&self.status))
            && inquiry.slower_than.is_none_or(|least| u128::from(self.total_us) >= least.as_micros())
            && inquiry.fault.is_none_or(|kind| self.has_met(kind))
            && is(self.route.as_ref().map(|route| &route.route().name), &inquiry.route)
            && is(self.service.as_deref(), &inquiry.service)
    }

    /// Whether it or one of its attempts ended with such a fault.
    fn has_met(&self, kind: FaultKind) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| {
            let attempts = trouble.attempts.iter().map(|tried| &tried.attempt.fault);
            attempts.chain([&trouble.fault]).flatten().any(|fault| fault.kind == kind)
        })
    }

    /// The whole of it, for other threads.
    pub(super) fn tell(&self, worker: usize, is_open: bool) -> Decision {
        let long = self.trouble.as_ref().map(|trouble| &trouble.text[..]).filter(|text| !text.is_empty());
        let mut rest = long.unwrap_or(&self.text);
        let [method, host, path, query] = self.lengths.map(|length| {
            let (part, behind) = rest.split_at(usize::from(length).min(rest.len()));
            rest = behind;
            part.to_vec()
        });
        let filters = self.route.iter().flat_map(|route| route.route().chain_of(self.variant).steps());
        let filters_acted = |at: u32| self.filters_acted & 1_u32.checked_shl(at).unwrap_or(0) != 0;
        Decision {
            id: self.id,
            trace: self.trouble.as_ref().and_then(|trouble| trouble.trace),
            worker,
            began: UNIX_EPOCH + Duration::from_micros(self.began_us),
            duration: Duration::from_micros(self.total_us),
            is_open,
            listener: self.listener.as_deref().cloned(),
            client: self.client,
            port: Some(self.port).filter(|port| *port != 0),
            method,
            host,
            path: redact_path(&path),
            query: self.has_query.then(|| redact_query(&query)),
            route: self.route.as_ref().map(|route| route.route().name.clone()),
            filters: (0..).zip(filters).map(|(at, filter)| (filter.name(), filters_acted(at))).collect(),
            service: self.service.as_deref().cloned(),
            attempts: self.attempts(),
            waited: Duration::from_micros(self.wait_us.into()),
            first_byte: Some(self.first_byte_us).filter(|us| *us != NEVER).map(after),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            status: self.status,
            fault: self.fault(),
            user: self.words(|trouble| &trouble.user),
            reason: self.words(|trouble| &trouble.reason),
            ended_idle: self.trouble.as_ref().is_some_and(|trouble| trouble.ended_idle),
            notable: self.notable,
        }
    }

    fn words(&self, of: impl Fn(&Trouble) -> &Box<str>) -> Option<String> {
        let text = of(self.trouble.as_ref()?);
        (!text.is_empty()).then(|| text.to_string())
    }

    fn attempts(&self) -> Vec<DecisionAttempt> {
        let tried = self.trouble.iter().flat_map(|trouble| &trouble.attempts).map(|tried| {
            let attempt = &tried.attempt;
            DecisionAttempt {
                endpoint: tried.endpoint.as_deref().cloned(),
                began: attempt.began,
                connect: attempt.connect,
                tls: attempt.tls,
                reused: attempt.reused,
                is_copy: attempt.is_copy,
                answered: tried.is_last && attempt.fault.is_none(),
                fault: attempt.fault,
                failed: attempt.fault.map(|_| attempt.ended),
            }
        });
        let only = self.endpoint.as_ref().map(|endpoint| DecisionAttempt {
            endpoint: Some(Arc::clone(endpoint)),
            began: after(self.attempted_us),
            connect: after(self.connect_us),
            tls: after(self.tls_us),
            reused: self.reused,
            is_copy: false,
            answered: true,
            fault: None,
            failed: None,
        });
        tried.chain(only).collect()
    }
}

/// Why it is kept longer than others, if it is.
fn notable(x: &Exchange, total: Duration, policy: RequestsPolicy) -> Option<Notable> {
    // What the proxy refuses with such a status is no failure of the proxy or a service.
    let is_refusal = |fault: &Fault| fault.side() == Side::Downstream || (400..500).contains(&fault.status);
    let has_failed = match &x.fault {
        Some(fault) => !is_refusal(fault),
        None => x.status >= 500,
    };
    if has_failed || x.attempts.failed().iter().any(|attempt| attempt.fault.is_some()) {
        return Some(Notable::Failed);
    }
    // Tunnels and connections are long by their nature; and who says its request slowly waits for nobody.
    if total >= policy.slow && x.service.is_some() && x.status != 101 && !x.is_connection {
        return Some(Notable::Slow);
    }
    x.fault.is_some().then_some(Notable::Refused)
}

/// The endpoint of an attempt.
fn label(x: &Exchange, attempt: &Attempt) -> Option<Label> {
    let listed = x.service().and_then(|local| local.labels.endpoint(&local.state.service, attempt.endpoint));
    listed.or_else(|| Some(Rc::new(x.aim?.to_string().into())))
}

/// The trace that tells of it, or will.
fn trace(x: &Exchange) -> Option<TraceId> {
    x.trace.get().filter(|context| context.is_told || context.sampled).map(|context| context.trace)
}

#[cold]
fn trouble(
    x: &Exchange,
    is_plain: bool,
    (parts, is_long): ([&[u8]; 4], bool),
    lengths: &mut [u16; 4],
) -> Box<Trouble> {
    let tried = |(attempt, is_last): (&Attempt, bool)| Tried {
        endpoint: label(x, attempt),
        attempt: *attempt,
        is_last,
    };
    let failed = x.attempts.failed().iter().map(|attempt| (attempt, false));
    let all = failed.chain(x.attempts.last().map(|last| (last, true)));
    let mut attempts: Vec<_> = all.filter(|_| !is_plain).map(tried).collect();
    // One that was called off is noted when the other has ended.
    attempts.sort_by_key(|tried| tried.attempt.began);
    let mut text = Vec::new();
    if is_long {
        text.resize(LONG_TEXT.min(parts.iter().map(|part| part.len()).sum()), 0);
        *lengths = write(parts, &mut text);
    }
    Box::new(Trouble {
        fault: x.fault,
        trace: trace(x),
        user: x.user().unwrap_or_default().into(),
        reason: x.reason().unwrap_or_default().into(),
        ended_idle: x.ended_idle,
        attempts: attempts.into(),
        text: text.into(),
    })
}

/// Writes the parts one behind the other, as far as there is room; says how much of each.
fn write(parts: [&[u8]; 4], text: &mut [u8]) -> [u16; 4] {
    let mut at = 0;
    parts.map(|part| {
        let length = part.len().min(text.len() - at);
        if length > 0 {
            text[at..at + length].copy_from_slice(&part[..length]);
            at += length;
        }
        length as u16
    })
}

/// Whole microseconds; more than there is room for is as much as there is, 71 minutes.
fn micros(time: Duration) -> u32 {
    whole_micros(time).min(u64::from(NEVER - 1)) as u32
}

/// As [`Duration::as_micros`], in fewer steps.
fn whole_micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into())
}

fn after(us: u32) -> Duration {
    Duration::from_micros(us.into())
}
