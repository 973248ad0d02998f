//! The filters of the route on the head of a final response: those of a service's, and of the proxy's own from when a
//! route has taken the request.

use crate::exchange::filter_facts::{Surroundings, split};
use crate::exchange::upstream::request_head::write_host;
use crate::state::exchange::Exchange;
use std::mem;
use thalweg_core::Fault;
use thalweg_filter::{Fetched, FieldView, HeadFields, Hooks, ResponseCx, ResponseOutcome};
use thalweg_http::FieldSet;

/// What is known of a response beside its fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) status: u16,
    pub(crate) fault: Option<Fault>,
    /// Whether the client may know of the fault.
    pub(crate) tells_details: bool,
    pub(crate) has_body: bool,
    pub(crate) content_length: Option<u64>,
    /// Whether it can wait for what a filter fetches.
    pub(crate) can_wait: bool,
}

/// A response that has waited, with what its filters had asked for before.
#[derive(Debug)]
pub(crate) struct Waited {
    /// The filter that has asked.
    pub(crate) at: usize,
    pub(crate) got: Result<Fetched, Fault>,
    pub(crate) outcome: ResponseOutcome,
}

impl About {
    /// An answer of the proxy's own without a body.
    pub(crate) fn own(status: u16, fault: Option<Fault>) -> Self {
        Self { status, fault, tells_details: true, has_body: false, content_length: None, can_wait: false }
    }
}

/// Whether the route has filters of responses that see this one. What comes for the cache they see as it goes to a
/// client.
pub(crate) fn has_response_filters(x: &Exchange) -> bool {
    !x.is_fill && x.chain().is_some_and(|chain| chain.has(Hooks::RESPONSE))
}

/// Calls the filters of responses, which there are ([`has_response_filters`]), on one of an endpoint that was stored or
/// comes by way of the store; its fields are `lines`.
pub(crate) fn filter_stored(
    around: &Surroundings<'_>,
    x: &mut Exchange,
    lines: &mut Vec<u8>,
    about: (About, Option<Waited>),
) -> ResponseOutcome {
    let mut host = mem::take(&mut x.filtering.get_or_insert_default().upstream_host);
    host.clear();
    if let Some(local) = x.service() {
        write_host(&mut host, x, &local.state.service, None);
    }
    let mut known = FieldSet::default();
    let outcome = call(around, x, HeadFields::new(&mut [], &[], (lines, 0), &mut known), Some(&host), about);
    x.filtering.get_or_insert_default().upstream_host = host;
    outcome
}

/// Calls the filters, from the last one to the first, on the response of an endpoint, which begins with `head`: what
/// they add is in `x.filtering.response_added`, and fields whose place that takes are not kept.
pub(crate) fn filter_upstream(
    around: &Surroundings<'_>,
    x: &mut Exchange,
    head: &[u8],
    about: (About, Option<Waited>),
) -> ResponseOutcome {
    let filtering = x.filtering.get_or_insert_default();
    let mut host = mem::take(&mut filtering.upstream_host);
    let mut added = mem::take(&mut filtering.response_added);
    host.clear();
    if about.1.is_none() {
        added.clear();
    }
    if let Some(local) = x.service() {
        let service = &local.state.service;
        let last = x.attempts.last().and_then(|last| service.endpoints.get(last.endpoint as usize));
        write_host(&mut host, x, service, last);
    }
    let mut fields = mem::take(&mut x.response.fields);
    let mut known = FieldSet::default();
    let lines = HeadFields::new(&mut fields, head, (&mut added, 0), &mut known);
    let outcome = call(around, x, lines, Some(&host), about);
    x.response.fields = fields;
    let filtering = x.filtering.get_or_insert_default();
    (filtering.response_added, filtering.upstream_host) = (added, host);
    outcome
}

/// The same for an own answer.
pub(crate) fn filter_own(
    around: &Surroundings<'_>,
    x: &mut Exchange,
    lines: &mut Vec<u8>,
    about: (About, Option<Waited>),
) -> ResponseOutcome {
    let mut known = FieldSet::default();
    call(around, x, HeadFields::new(&mut [], &[], (lines, 0), &mut known), None, about)
}

fn call(
    around: &Surroundings<'_>,
    x: &mut Exchange,
    fields: HeadFields<'_>,
    upstream_host: Option<&[u8]>,
    (about, waited): (About, Option<Waited>),
) -> ResponseOutcome {
    let Some(found) = x.route.clone() else { return ResponseOutcome::default() };
    let route = found.route();
    let chain = route.chain(x.listener, x.target);
    let below = x.filtering.as_ref().and_then(|filtering| filtering.below).unwrap_or(usize::MAX);
    let is_secret = x.conceal_reason && upstream_host.is_none();
    let (mut facts, parts) = split(x, route, around);
    // By an id, answers that are to be the same could be told apart.
    facts.request_id = facts.request_id.filter(|_| !is_secret);
    let filtering = parts.filtering;
    let request = FieldView::new(&parts.request.fields, parts.received, &filtering.added);
    let mut cx = ResponseCx::new(facts, request, fields, &mut filtering.states);
    cx.identity = filtering.outcome.identity.as_deref();
    (cx.status, cx.fault, cx.tells_details) = (about.status, about.fault, about.tells_details);
    (cx.has_body, cx.content_length, cx.can_wait) = (about.has_body, about.content_length, about.can_wait);
    cx.is_upstream = upstream_host.is_some();
    cx.upstream_host = upstream_host.unwrap_or_default();
    cx.target = filtering.is_begun.then_some(&filtering.target);
    let (mut acted, mut last) = (0_u32, None);
    let mut seen = |at, cx: &mut ResponseCx<'_>| {
        last = Some(at);
        if cx.fields.take_changed() || cx.has_asked() {
            acted |= u32::try_from(at).ok().and_then(|at: u32| 1_u32.checked_shl(at)).unwrap_or(0);
        }
    };
    match waited {
        None => chain.on_response_below(below, &mut cx, &mut seen),
        Some(waited) => {
            cx = cx.again(waited.outcome);
            chain.resume_response(waited.at, &mut cx, waited.got, &mut seen);
        }
    }
    let outcome = cx.into_outcome();
    if outcome.replaced.is_some() {
        // Filters before it are asked about what it has put in the place.
        filtering.below = last;
    }
    filtering.outcome.failed |= outcome.failed;
    x.filters_acted |= acted;
    outcome
}
