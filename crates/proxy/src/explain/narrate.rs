//! From what the phases decided to an [`Explanation`].

use super::explanation::{
    Because, EndpointSeen, Explanation, FilterStep, OtherRoute, Outcome, RetrySeen, RouteLimitsSeen,
    SealedSeen, SeenRequest, ServicePart, TakenRoute, TimeoutsSeen,
};
use super::trace::{Trace, lossy};
use super::words::{failed, listener_name};
use super::{Live, Question};
use crate::exchange::find_route::with_query;
use crate::exchange::redirect_https;
use crate::exchange::sticky::kept_at;
use crate::plan::{Plan, Route, Timeouts, To};
use std::collections::HashSet;
use std::time::Duration;
use thalweg_balance::endpoint_id;
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::FieldView;
use thalweg_route::{Candidate, RouteId};
use thalweg_upstream::{HashKey, Mode, Service};

/// Routes listed whose host and path match.
const CANDIDATES: usize = 20;
/// Routes listed whose host or path does not.
const NEAREST: usize = 5;
/// Endpoints listed of a service.
const ENDPOINTS: usize = 20;

/// Puts a trace into words.
pub(super) fn narrate(
    plan: &Plan,
    question: &Question,
    trace: &Trace,
    (all, live): (bool, Option<Live<'_>>),
) -> Explanation {
    let (other_routes, more_routes) =
        if is_looked_for(trace) { others(plan, trace, all) } else { (Vec::new(), plan.routes.len()) };
    Explanation {
        request: seen(plan, question, trace),
        route: plan.route(trace.route).map(|route| taken(plan, route, trace, (all, live))),
        other_routes,
        more_routes,
        outcome: outcome(plan, trace),
        origins: Vec::new(),
    }
}

/// Why the route at this position does not take the request.
pub(super) fn why_not(plan: &Plan, trace: &Trace, route: usize) -> Option<String> {
    if !is_looked_for(trace) || trace.route.is_some_and(|taken| taken.0 as usize == route) {
        return None;
    }
    let (others, _) = listed(plan, trace, usize::MAX);
    let because = others.into_iter().find(|(id, _)| id.0 as usize == route).map(|(_, because)| because);
    because.map(|because| because.to_string())
}

/// Whether it came so far that a route was looked for: a request that is refused before is a matter of no route.
fn is_looked_for(trace: &Trace) -> bool {
    let is_unrouted = |fault: Fault| fault.kind == FaultKind::DestinationNotFound;
    trace.route.is_some() || (trace.redirect.is_none() && trace.fault.is_none_or(is_unrouted))
}

fn seen(plan: &Plan, question: &Question, trace: &Trace) -> SeenRequest {
    let x = &trace.x;
    SeenRequest {
        method: question.method.clone(),
        url: question.url.clone(),
        host: lossy(x.host()),
        path: lossy(x.path.of(&x.received)),
        query: x.query().map(lossy),
        client: x.client_ip.to_string(),
        listener: listener_name(plan, trace.listener),
    }
}

fn outcome(plan: &Plan, trace: &Trace) -> Outcome {
    if let Some(fault) = trace.fault {
        return Outcome::Answered { status: fault.status, fault: fault.kind.name(), detail: fault.detail };
    }
    if let Some(location) = &trace.redirect {
        return Outcome::Redirected { status: redirect_https::STATUS, location: location.clone() };
    }
    if let (Some(reply), Some((filter, ..))) = (&trace.reply, trace.filters.last()) {
        let location = FieldView::new(&[], &[], &reply.fields).get("Location").map(lossy);
        let location = location.map(|location| trace.with_shown_query(&location));
        return Outcome::Replied { status: reply.status, filter: (*filter).to_owned(), location };
    }
    let services = trace.services(plan);
    let mut hosts = services.iter().map(|service| trace.host(plan.services.get(service.0 as usize)?));
    let host = hosts.next().flatten();
    let host = host.filter(|host| hosts.all(|other| other.as_ref() == Some(host)));
    let service = match services[..] {
        [service] => plan.services.get(service.0 as usize).map(|service| service.name.to_string()),
        _ => None,
    };
    Outcome::Forwarded { service, target: trace.target(), host }
}

/// The routes that do not take the request, with reasons, and how many more there are.
fn others(plan: &Plan, trace: &Trace, all: bool) -> (Vec<OtherRoute>, usize) {
    let (found, more) = listed(plan, trace, if all { usize::MAX } else { NEAREST });
    let most = if all { usize::MAX } else { CANDIDATES + NEAREST };
    let cut = found.len().saturating_sub(most);
    let other = |(id, because)| {
        let route = plan.route(Some(id))?;
        Some(OtherRoute { name: route.name.to_string(), matches: route.matches.to_string(), because })
    };
    (found.into_iter().take(most).filter_map(other).collect(), more + cut)
}

/// Candidates, then at most `nearest` others, and how many others there are beyond.
fn listed(plan: &Plan, trace: &Trace, nearest: usize) -> (Vec<(RouteId, Because)>, usize) {
    let taken = trace.route;
    with_query(&trace.x, trace.listener, |query| {
        let mut known = HashSet::new();
        let because = |Candidate { id, outcome }| match (outcome, taken) {
            (Err(miss), _) => Some((id, Because::Fails(failed(plan, trace, id, miss)))),
            (Ok(()), Some(taken)) if taken != id => {
                let ahead = plan.table.advantage(taken, id, (query.host, query.path));
                let winner = plan.route(Some(taken)).map(|route| route.name.to_string()).unwrap_or_default();
                let ahead = ahead.map(|ahead| format!(": {ahead}")).unwrap_or_default();
                Some((id, Because::After(format!("`{winner}` goes before it{ahead}"))))
            }
            (Ok(()), _) => None,
        };
        let candidates = plan.table.candidates(query).filter(|candidate| known.insert(candidate.id));
        let mut found: Vec<_> = candidates.filter_map(because).collect();
        let (excluded, number) = plan.table.excluded(query, nearest);
        let more = number - excluded.len();
        found.extend(excluded.into_iter().filter_map(because));
        (found, more)
    })
}

fn taken(plan: &Plan, route: &Route, trace: &Trace, (all, live): (bool, Option<Live<'_>>)) -> TakenRoute {
    let mut before = lossy(trace.x.path.of(&trace.x.received));
    let filters = trace.filters.iter().map(|(name, after, changed)| {
        let before = std::mem::replace(&mut before, after.clone());
        FilterStep { name: (*name).to_owned(), before, after: after.clone(), changed: *changed }
    });
    let filters = filters.collect();
    let parts = match &route.to {
        To::Sealed(_) => trace.service.map(|service| (service, None)).into_iter().collect(),
        To::Service(service) => vec![(*service, None)],
        To::Split(split) => split.parts.iter().map(|(service, weight)| (*service, Some(*weight))).collect(),
        To::Nowhere => Vec::new(),
    };
    let total: u32 = parts.iter().filter_map(|(_, weight)| *weight).sum();
    let services = parts.into_iter().filter_map(|(id, weight)| {
        let service = plan.services.get(id.0 as usize)?;
        let chosen = (!trace.by_chance && trace.fault.is_none()).then(|| trace.service == Some(id));
        let share = weight.map_or(100.0, |weight| 100.0 * f64::from(weight) / f64::from(total.max(1)));
        let own = route.timeouts_to(Some(id));
        let timeouts = (own != route.timeouts).then(|| times(&own));
        Some(ServicePart { timeouts, ..part(service, trace, (weight, share, chosen), (all, live)) })
    });
    TakenRoute {
        name: route.name.to_string(),
        matches: route.matches.to_string(),
        origin: None,
        filters,
        cache: trace.cache.clone(),
        split_by: match &route.to {
            To::Split(split) if !trace.by_chance => split.key.as_ref().map(key),
            _ => None,
        },
        sealed: trace
            .expires
            .map(|expires| SealedSeen { destination: trace.x.aim.map(|aim| aim.to_string()), expires }),
        services: services.collect(),
        timeouts: times(&route.timeouts),
        limits: RouteLimitsSeen {
            max_body: route.limits.max_body,
            max_in_flight: route.limits.max_in_flight,
        },
        allow_encoded: route.allow_encoded.names().map(str::to_owned).collect(),
    }
}

fn times(timeouts: &Timeouts) -> TimeoutsSeen {
    TimeoutsSeen {
        connect_ms: ms(timeouts.connect),
        first_byte_ms: ms(timeouts.first_byte),
        idle_ms: ms(timeouts.idle),
        request_ms: timeouts.request.map(ms),
    }
}

fn part(
    service: &Service,
    trace: &Trace,
    (weight, share, chosen): (Option<u32>, f64, Option<bool>),
    (all, live): (bool, Option<Live<'_>>),
) -> ServicePart {
    let most = if all { usize::MAX } else { ENDPOINTS };
    let kept = service.sticky.as_ref().and_then(|policy| kept_at(policy, &service.name, &trace.x));
    let mut by_id = service.endpoints.iter();
    let sticky_to = kept.and_then(|id| by_id.find(|endpoint| endpoint_id(&endpoint.url) == id));
    let endpoints = service.endpoints.iter().enumerate().take(most).map(|(at, endpoint)| {
        let now = live.and_then(|live| live(&service.name, at));
        let cause = now.as_ref().map(|now| now.cause.clone()).filter(|cause| !cause.is_empty());
        let put_aside = match endpoint.mode {
            Mode::Ready => None,
            Mode::Draining => Some("draining".to_owned()),
            Mode::Maintenance => Some("maintenance".to_owned()),
        };
        EndpointSeen {
            url: endpoint.url.to_string(),
            weight: endpoint.weight,
            tier: endpoint.tier,
            state: now.as_ref().map(|now| now.state.clone()).or(put_aside),
            cause,
            in_flight: now.map(|now| now.in_flight),
            origin: None,
        }
    });
    let endpoints: Vec<_> = endpoints.collect();
    ServicePart {
        name: service.name.to_string(),
        weight,
        share: (share * 100.0).round() / 100.0,
        chosen,
        host: trace.host(service),
        balance: match service.destinations {
            Some(_) => "sealed".to_owned(),
            None => service.balance.algorithm.name.to_owned(),
        },
        key: service.balance.key.as_ref().map(key),
        sticky_to: sticky_to.map(|endpoint| endpoint.url.to_string()),
        more_endpoints: service.endpoints.len() - endpoints.len(),
        source: None,
        endpoints,
        retry: RetrySeen {
            attempts: service.retry.attempts,
            budget_percent: service.retry.budget,
            per_try_timeout_ms: service.retry.per_try_timeout.map(ms),
            hedge_after_ms: service.retry.hedge.map(|hedge| ms(hedge.after)),
        },
        max_in_flight: service.limits.max_in_flight,
        timeouts: None,
    }
}

fn key(key: &HashKey) -> String {
    match key {
        HashKey::ClientIp => "client_ip".to_owned(),
        HashKey::Path => "path".to_owned(),
        HashKey::Header(name) => format!("header {name}"),
        HashKey::Cookie(name) => format!("cookie {name}"),
        HashKey::Query(name) => format!("query {name}"),
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
