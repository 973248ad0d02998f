//! Phase 3: the filters of the route on the request, in order.
//!
//! A chain is plain calls. A filter that has to wait returns a job; the exchange runs it (`run_job`) and resumes the
//! chain where it stopped.

use crate::exchange::buffer_body::body_for_filter;
use crate::exchange::filter_facts::{Surroundings, split};
use crate::exchange::grpc::begin_bridge;
use crate::exchange::subrequest::fetch;
use crate::plan::{Route, To};
use crate::state::exchange::{Client, Exchange};
use crate::state::local_listener::Standing;
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::{Call, Chain, HeadFields, Hooks, Job, JobResult, Reply, RequestCx, Verdict};
use thalweg_http::{Framing, octet};

/// The longest that filters may keep a request waiting in all.
const WAIT: Duration = Duration::from_secs(60);

/// How far a request came through its filters.
#[derive(Debug)]
pub(crate) enum Filtered {
    /// Through all.
    Through,
    /// One has answered it.
    Answered(Box<Reply>),
    /// One waits.
    Waits(Job),
    /// One has chosen another service of this name: it is the exchange's target now.
    SentTo(Arc<str>),
}

/// From where the filters go on.
#[derive(Debug)]
pub(crate) enum From {
    /// The first one.
    Start,
    /// The one that has waited for this.
    Job(JobResult),
    /// The one behind that which has chosen a service.
    Choice,
}

/// Told of each filter that was called: its name, the request then, and whether the filter has changed it.
pub(crate) type Seen<'s> = &'s mut dyn FnMut(&'static str, &RequestCx<'_>, bool);

/// Calls the filters from the first one on.
pub(crate) fn filter_request(
    around: &Surroundings<'_>,
    x: &mut Exchange,
    seen: Seen<'_>,
) -> Result<Filtered, Fault> {
    let Some(found) = x.route.clone() else { return Ok(Filtered::Through) };
    apply(found.route(), around, (x, From::Start), seen)
}

/// Goes on where they have stopped.
pub(crate) fn resume(
    around: &Surroundings<'_>,
    x: &mut Exchange,
    from: From,
    seen: Seen<'_>,
) -> Result<Filtered, Fault> {
    let Some(found) = x.route.clone() else { return Ok(Filtered::Through) };
    apply(found.route(), around, (x, from), seen)
}

/// Calls the filters of a route.
pub(crate) fn apply(
    route: &Route,
    around: &Surroundings<'_>,
    (x, from): (&mut Exchange, From),
    seen: Seen<'_>,
) -> Result<Filtered, Fault> {
    let chain = route.chain(x.listener, x.target);
    if !chain.has(Hooks::REQUEST) {
        return if matches!(from, From::Start) { Ok(Filtered::Through) } else { through(chain, x) };
    }
    let filtering = x.filtering.get_or_insert_default();
    if matches!(from, From::Start) {
        filtering.is_begun = true;
        filtering.target.begin(x.path.of(&x.received));
    }
    let at = filtering.at;
    let content_length = if let Framing::Length(length) = x.framing { Some(length) } else { None };
    let has_body = !x.framing.is_empty();
    let (facts, parts) = split(x, route, around);
    let filtering = parts.filtering;
    let mut acted = 0_u32;
    let fields = HeadFields::new(
        &mut parts.request.fields,
        parts.received,
        (&mut filtering.added, 0),
        &mut filtering.known,
    );
    let lent = (&mut filtering.states, &mut filtering.outcome);
    let mut cx = RequestCx::new(facts, (&mut filtering.target, fields), lent, (has_body, content_length));
    let mut called = |at: usize, cx: &mut RequestCx<'_>| {
        let is_changed = cx.fields.take_changed() | cx.target.take_changed();
        if is_changed {
            acted |= bit(at);
        }
        if let Some(step) = chain.steps().get(at) {
            seen(step.name(), cx, is_changed);
        }
    };
    let (at, verdict) = match from {
        From::Start => chain.on_request(0, &mut cx, &mut called),
        From::Job(got) => chain.resume(at, &mut cx, got, &mut called),
        From::Choice => chain.on_request(at, &mut cx, &mut called),
    };
    let chosen = cx.outcome_mut().service.take();
    let id = cx.facts.request_id;
    filtering.at = at;
    x.id = id;
    x.filters_acted |= acted;
    match verdict {
        Verdict::Continue => match chosen {
            Some(name) => choose_service(route, x, name),
            None => through(chain, x),
        },
        Verdict::Wait(job) => Ok(Filtered::Waits(job)),
        Verdict::Reply(reply) => {
            ended_by(x, at);
            Ok(Filtered::Answered(reply))
        }
        Verdict::Fault(fault) => {
            ended_by(x, at);
            Err(fault)
        }
    }
}

/// A filter has sent the request to another service: where that is not the one it goes to anyway, those behind it are
/// that one's. Nothing is sent anywhere where a filter of the route answers.
fn choose_service(route: &Route, x: &mut Exchange, name: Arc<str>) -> Result<Filtered, Fault> {
    if matches!(route.to, To::Nowhere) {
        return Ok(Filtered::SentTo(name));
    }
    let mut known = route.choices.iter();
    let Some((_, service)) = known.find(|(known, _)| *known == name) else {
        return Err(Fault::new(FaultKind::ProxyInternalError, "a filter names an unknown service"));
    };
    x.target = Some(*service);
    Ok(Filtered::SentTo(name))
}

fn bit(at: usize) -> u32 {
    u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(0)
}

/// The filter at `at` has answered: those behind it are not asked about the answer, nor is it itself.
fn ended_by(x: &mut Exchange, at: usize) {
    x.note_filter(at);
    if let Some(filtering) = &mut x.filtering {
        filtering.below = Some(at);
    }
}

/// The request goes on: what its filters have made of the target must be one.
fn through(chain: &Chain, x: &mut Exchange) -> Result<Filtered, Fault> {
    let path = x.upstream_path();
    if path.starts_with(b"//") {
        // As in a request target: who reads it next could take it for an authority.
        return Err(Fault::request(400, "a path that begins with two slashes after the filters"));
    }
    let is_target = |text: &[u8]| text.iter().all(|byte| octet::is_target(*byte));
    let is_asterisk = path == b"*";
    let query = x.upstream_query().unwrap_or_default();
    if !(path.starts_with(b"/") || is_asterisk)
        || !is_target(path)
        || path.contains(&b'?')
        || !is_target(query)
    {
        return Err(Fault::request(400, "the filters made no valid target of this request"));
    }
    if let Some(at) = chain.bridge()
        && begin_bridge(x)
    {
        x.note_filter(at);
    }
    Ok(Filtered::Through)
}

/// The exchange goes to the service that a filter has chosen, as it is now.
pub(crate) fn send_to_chosen(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    name: &str,
) -> Result<(), Fault> {
    if x.route().is_some_and(|route| matches!(route.to, To::Nowhere)) {
        return Ok(());
    }
    let gone = || Fault::new(FaultKind::DestinationNotFound, "the service that a filter has chosen is gone");
    let Standing { view, .. } = worker.standing_of(client)?;
    x.service = Some(view.service_named(name).ok_or_else(gone)?);
    let end = x.timeouts().request.and_then(|time| x.started.checked_add(time));
    x.ends_at = end.into_iter().chain(x.call_ends_at).min();
    Ok(())
}

/// Runs what a filter waits for. Cancel-safe.
pub(crate) async fn run_job(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    job: Job,
) -> Result<JobResult, Fault> {
    let began = worker.reactor.now();
    let result = match job {
        Job::Sleep(time) => sleep(worker, client, x, time.min(WAIT)).await.map(|()| JobResult::Slept),
        Job::Fetch(request) => match fetch(worker, client, x, *request).await {
            // Nobody waits for what the filter would make of it.
            Err(fault) if fault.kind == FaultKind::ClientGone => Err(fault),
            got => Ok(JobResult::Fetched(got)),
        },
        Job::Call(call) => self::call(worker, client, x, call).await,
        // It counts its own wait.
        Job::Body(most) => return body_for_filter(worker, client, x, most).await.map(JobResult::Body),
    };
    x.waited += worker.reactor.now().saturating_duration_since(began);
    result
}

/// Has a call run beside the workers. Cancel-safe: it is given up when this is dropped.
async fn call(worker: &Worker, client: &Client, x: &Exchange, call: Call) -> Result<JobResult, Fault> {
    let mut calling = match worker.shared.background.call(call) {
        Ok(calling) => calling,
        Err(fault) => return Ok(JobResult::Called(Err(fault))),
    };
    // It ends in time by itself: the deadline is that of the exchange.
    x.set_deadline(client, worker.reactor.now(), WAIT);
    let result = poll_fn(|context| {
        if let Some(fault) = ended(worker, client, x) {
            return Poll::Ready(Err(fault));
        }
        calling.poll(context).map(|got| Ok(JobResult::Called(got)))
    })
    .await;
    client.socket.set_deadline(None);
    result
}

/// Why a filter need not wait any longer.
pub(crate) fn ended(worker: &Worker, client: &Client, x: &Exchange) -> Option<Fault> {
    if client.socket.is_gone() || (client.has_ended() && x.framing.is_empty()) {
        return Some(Fault::new(FaultKind::ClientGone, "the client left while a filter waited"));
    }
    x.overdue(worker.reactor.now())
}

async fn sleep(worker: &Worker, client: &Client, x: &mut Exchange, time: Duration) -> Result<(), Fault> {
    let end = worker.reactor.now() + time;
    poll_fn(|_| {
        let now = worker.reactor.now();
        if let Some(fault) = ended(worker, client, x) {
            return Poll::Ready(Err(fault));
        }
        if now >= end {
            client.socket.set_deadline(None);
            return Poll::Ready(Ok(()));
        }
        x.set_exact_deadline(client, now, end.saturating_duration_since(now));
        Poll::Pending
    })
    .await
}
