//! Part of phase 5: which member of the service, with a place at its endpoint.
//!
//! An endpoint whose bound is reached is passed over. When all are that could be used, the exchange
//! waits for whichever has a place first. One that does not accept connections hands on no places
//! until it is worth a try again.

use crate::exchange::hash_key::request_key;
use crate::exchange::sticky::kept_at;
use crate::exchange::upstream::wait_for_permit::{Bound, Queue, wait_for_permit};
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use thalweg_core::{Fault, FaultKind};
use thalweg_upstream::{
    Aim, AttemptGuard, Condition, ConnectionPlaces, LimitHandle, Member, NoAttempt, Permit, WaitFor, Wanted,
};

/// Looks at all members before it counts as full: another worker may take the place just seen.
const LOOKS: usize = 3;

/// An attempt at a member, and the places at its endpoint where that has bounds.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) attempt_guard: AttemptGuard,
    pub(crate) place: Option<Permit>,
    /// For a connection that has to be opened: taken with the choice, so that two workers which choose at the same
    /// moment do not both count on the last one.
    pub(crate) connection: ConnectionPlaces,
}

/// Chooses a member that is not in `x.tried`; `None` when there is none left. Cancel-safe.
///
/// # Errors
/// When every endpoint stayed full, or the client left.
pub(crate) async fn choose(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
) -> Result<Option<Chosen>, Fault> {
    let now = worker.reactor.now();
    if let Some(aim) = x.aim {
        return visit_named(x, local, (aim, now));
    }
    let key = local.state.service.balance.key.as_ref().and_then(|key| request_key(key, x));
    let service = &local.state.service;
    let kept = service.sticky.as_ref().and_then(|policy| kept_at(policy, &service.name, x));
    let attempt_guard = |(member, place, connection)| Chosen {
        attempt_guard: local.state.attempt_guard(member, now),
        place,
        connection,
    };
    let wanted = Wanted { tried: &x.tried, key, kept };
    let Some(member) = local.state.pick(now, &wanted) else { return Ok(None) };
    if local.concurrency_limits.endpoints.is_empty() {
        return Ok(Some(attempt_guard((member, None, ConnectionPlaces::default()))));
    }
    if let Some(found) = look(local, now, &wanted, member) {
        return Ok(Some(attempt_guard(found)));
    }
    let in_flight =
        local.concurrency_limits.endpoints.iter().find_map(|endpoint| endpoint.in_flight.as_ref());
    let Some(any) = in_flight else { return Ok(None) };
    let tried = std::mem::take(&mut x.tried);
    let offer = || {
        let wanted = Wanted { tried: &tried, key, kept };
        let free = local.state.pick_with_room(now, &wanted, |member| has_place(local, member));
        let concurrency = free.and_then(|member| limit_handle(local, &member));
        concurrency.inspect(|concurrency| concurrency.offer());
    };
    // A reload may have added endpoints since: their places are for those who know them.
    // And those of endpoints that take no requests are for nobody.
    let known =
        (0..).zip(&local.concurrency_limits.endpoints).filter(|(endpoint, _)| local.state.takes(*endpoint));
    let known = known.filter_map(|(_, endpoint)| endpoint.in_flight.as_ref());
    let wish = WaitFor {
        thing: None,
        concurrency_limits: Some(known.map(|concurrency| concurrency.concurrency().key()).collect()),
    };
    let queue = Queue { line: any.concurrency().line(), bound: Bound::Endpoints, offer: &offer, wish };
    // In a box because it is rare: every task would be larger for it.
    let place = Box::pin(wait_for_permit(worker, client, x, local, queue)).await;
    x.tried = tried;
    let place = place?;
    let is_it = |concurrency: &LimitHandle| Arc::ptr_eq(concurrency.concurrency(), place.concurrency());
    let mut endpoints = local.concurrency_limits.endpoints.iter();
    let endpoint = endpoints.position(|endpoint| endpoint.in_flight.as_ref().is_some_and(is_it));
    let member = endpoint.and_then(|endpoint| local.state.member_of(endpoint as u32));
    Ok(member.map(|member| attempt_guard((member, Some(place), ConnectionPlaces::default()))))
}

/// An attempt at the endpoint that the request itself has named; `None` when there was one.
///
/// # Errors
/// When as much is under way to it as may be, or it is not known how to reach it.
fn visit_named(
    x: &Exchange,
    local: &LocalService,
    (aim, now): (Aim, Instant),
) -> Result<Option<Chosen>, Fault> {
    let nowhere = Fault::new(FaultKind::ProxyInternalError, "the service takes no destinations of requests");
    let destinations = local.state.destinations().ok_or(nowhere)?;
    let attempt_guard = destinations.attempt_guard(aim, now).map_err(|why| match why {
        NoAttempt::Full => Fault::new(
            FaultKind::ConnectionLimitReached,
            "as much is under way to the destination as may be (`max_in_flight`)",
        ),
        NoAttempt::NoTlsTerms => Fault::new(
            FaultKind::TlsCertificateError,
            "the destination is to be reached through TLS, and the route has no `tls` to verify it with",
        ),
    })?;
    Ok(x.tried.is_empty().then_some(Chosen {
        attempt_guard,
        place: None,
        connection: ConnectionPlaces::default(),
    }))
}

/// A member in good standing that is not in `tried`, with a place at its endpoint and a connection to be had at
/// once; `None` when there is none.
pub(crate) fn choose_at_once(
    worker: &Worker,
    x: &Exchange,
    local: &LocalService,
    tried: &[u32],
) -> Option<Chosen> {
    let now = worker.reactor.now();
    let key = local.state.service.balance.key.as_ref().and_then(|key| request_key(key, x));
    let wanted = Wanted { tried, key, kept: None };
    let is_fit = |member: &Member| {
        let is_well = matches!(member.standing.condition(now), Condition::Ready | Condition::ReadySince(_));
        is_well && has_place(local, member) && has_connection(local, member)
    };
    let first = local.state.pick(now, &wanted)?;
    let member = match is_fit(&first) {
        true => first,
        // Who is picked without a bound is the best there is.
        false if local.concurrency_limits.endpoints.is_empty() => return None,
        false => local.state.pick_with_room(now, &wanted, is_fit)?,
    };
    let (member, place, connection) = take(local, member, false).ok()?;
    Some(Chosen { attempt_guard: local.state.attempt_guard(member, now), place, connection })
}

/// As [`choose`], for who does not wait: `None` also when every endpoint is full.
pub(crate) fn choose_or_leave(worker: &Worker, x: &Exchange, local: &LocalService) -> Option<Chosen> {
    let now = worker.reactor.now();
    let key = local.state.service.balance.key.as_ref().and_then(|key| request_key(key, x));
    let wanted = Wanted { tried: &x.tried, key, kept: None };
    let member = local.state.pick(now, &wanted)?;
    let (member, place, connection) = match local.concurrency_limits.endpoints.is_empty() {
        true => (member, None, ConnectionPlaces::default()),
        false => look(local, now, &wanted, member)?,
    };
    Some(Chosen { attempt_guard: local.state.attempt_guard(member, now), place, connection })
}

type Found = (Rc<Member>, Option<Permit>, ConnectionPlaces);

/// A member with a place: the one picked, else any; rather one to which a connection is to be had.
fn look(local: &LocalService, now: Instant, wanted: &Wanted<'_>, first: Rc<Member>) -> Option<Found> {
    if has_connection(local, &first)
        && let Ok(chosen) = take(local, first, true)
    {
        return Some(chosen);
    }
    for connection in [true, false] {
        let room =
            |member: &Member| has_place(local, member) && (!connection || has_connection(local, member));
        for _ in 0..LOOKS {
            let Some(member) = local.state.pick_with_room(now, wanted, room) else { break };
            if let Ok(chosen) = take(local, member, connection) {
                return Some(chosen);
            }
        }
    }
    None
}

/// Takes a place at the member's endpoint, with `connection` also the one that a connection to it needs, or gives the
/// member back.
fn take(local: &LocalService, member: Rc<Member>, connection: bool) -> Result<Found, Rc<Member>> {
    let place = limit_handle(local, &member).map(LimitHandle::enter);
    if let Some(None) = place {
        return Err(member);
    }
    let mut places = ConnectionPlaces::default();
    if connection && let Some(concurrency) = connections(local, &member).filter(|_| !member.pool.has_room()) {
        match concurrency.enter() {
            Some(permit) => places.endpoint = Some(permit.stay()),
            None => return Err(member),
        }
    }
    Ok((member, place.flatten(), places))
}

/// The member does not accept connections: who waits is not sent to it.
pub(crate) fn shun(local: &LocalService, member: &Member) {
    if let Some(concurrency) = limit_handle(local, member) {
        concurrency.concurrency().shun();
    }
}

fn limit_handle<'a>(local: &'a LocalService, member: &Member) -> Option<&'a LimitHandle> {
    local.concurrency_limits.endpoints.get(member.endpoint as usize)?.in_flight.as_ref()
}

fn has_place(local: &LocalService, member: &Member) -> bool {
    limit_handle(local, member).is_none_or(|concurrency| !concurrency.concurrency().is_full())
}

fn connections<'a>(local: &'a LocalService, member: &Member) -> Option<&'a LimitHandle> {
    local.concurrency_limits.endpoints.get(member.endpoint as usize)?.connections.as_ref()
}

/// Whether a connection is idle here or may be opened.
fn has_connection(local: &LocalService, member: &Member) -> bool {
    connections(local, member)
        .is_none_or(|concurrency| !concurrency.concurrency().is_full() || member.pool.has_room())
}
