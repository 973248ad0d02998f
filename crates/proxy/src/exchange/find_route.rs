//! Phase 2: which route takes the request, and which of its services.

use crate::exchange::hash_key::request_key;
use crate::exchange::other_readings::check_readings;
use crate::exchange::unseal::{UNTOLD, unseal};
use crate::plan::{Plan, Route, ServiceId, Split, To};
use crate::relay::too_large;
use crate::state::exchange::{Client, Exchange};
use crate::state::local_listener::{LISTENER_GONE, Standing};
use crate::state::local_plan::LocalPlan;
use crate::state::worker::Worker;
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_http::rules::may_decide;
use thalweg_http::{Escapes, Framing, RequestHead};
use thalweg_route::{FieldLookup, Query, RouteId};

/// Finds the route by host, path, method, fields, query and client address, and applies its bounds.
pub(crate) fn find_route(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<(), Fault> {
    let Standing { view, position } = worker.standing_of(client)?;
    x.listener = position;
    let found = take_route(&view.plan, position, x, || worker.chance() as u64)?;
    take(worker, &view, x, found);
    match x.route.clone() {
        Some(route) => {
            if let To::Sealed(sealed) = &route.route().to {
                unseal(worker, &view, client, x, sealed)?;
            }
            // A reload may have turned an HTTP listener into an L4 listener.
            if !route.route().has_chain(position, x.target) {
                return Err(LISTENER_GONE);
            }
            bound(route.route(), x)
        }
        None => Ok(()),
    }
}

/// Notes what was found.
fn take(worker: &Worker, view: &LocalPlan, x: &mut Exchange, (route, service): (RouteId, Option<ServiceId>)) {
    let meters = |name: &str| worker.shared.registry.route(worker.id, name);
    x.route = view.route(route, meters).cloned();
    x.send_to(view, service);
}

/// The same for a connection whose client asks for `x.host()`, if for any.
pub(crate) fn find_route_of_connection(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
) -> Result<(), Fault> {
    let standing = worker.standing_of(client)?;
    let Standing { view, .. } = &standing;
    find_route_from(worker, &standing, x)?;
    let found = x.route.clone();
    match found.as_ref().map(|found| &found.route().to) {
        Some(To::Sealed(sealed)) => unseal(worker, view, client, x, sealed),
        Some(To::Service(_) | To::Split(_) | To::Nowhere) | None => Ok(()),
    }
}

/// The same without unsealing: also for UDP sessions.
pub(crate) fn find_route_from(
    worker: &Worker,
    Standing { view, position }: &Standing,
    x: &mut Exchange,
) -> Result<(), Fault> {
    let found = view.plan.route_of_connection(*position, x.host(), x.client_ip);
    let Some((found, route)) = found.and_then(|found| Some((found, view.plan.route(Some(found))?))) else {
        return Err(Fault::new(FaultKind::DestinationNotFound, "the listener knows no service for the name"));
    };
    let service = service_of(&route.to, x, || worker.chance() as u64);
    take(worker, view, x, (found, service));
    Ok(())
}

/// The route that takes a request, and its service, or the one drawn of several: for workers, and for `explain`, which
/// has a plan and no worker. `chance` is asked where a split leaves it open.
pub(crate) fn take_route(
    plan: &Plan,
    listener: u16,
    x: &Exchange,
    chance: impl FnOnce() -> u64,
) -> Result<(RouteId, Option<ServiceId>), Fault> {
    let found = with_query(x, listener, |query| plan.table.find(query));
    let Some((found, route)) = found.and_then(|found| Some((found, plan.route(Some(found))?))) else {
        x.escapes.check(Escapes::NONE)?;
        return Err(Fault::new(FaultKind::DestinationNotFound, UNTOLD));
    };
    let service = service_of(&route.to, x, chance);
    if let Some(readings) = x.path.readings() {
        check_readings(plan, (listener, x), (found, service), readings)?;
    }
    Ok((found, service))
}

/// The service that a route sends the exchange to.
fn service_of(to: &To, x: &Exchange, chance: impl FnOnce() -> u64) -> Option<ServiceId> {
    match to {
        To::Service(service) => Some(*service),
        To::Split(split) => draw(split, x, chance),
        // Until its label says another one.
        To::Sealed(sealed) => Some(sealed.service),
        To::Nowhere => None,
    }
}

/// Asks something of the table about the request.
pub(crate) fn with_query<T>(x: &Exchange, listener: u16, ask: impl FnOnce(&Query<'_>) -> T) -> T {
    with_path(x, x.matched_path(), listener, ask)
}

/// The same with another path.
pub(crate) fn with_path<T>(x: &Exchange, path: &[u8], listener: u16, ask: impl FnOnce(&Query<'_>) -> T) -> T {
    ask(&Query {
        listener,
        host: x.host(),
        path,
        query: x.query().unwrap_or_default(),
        method: x.request.method_text.of(&x.received),
        client: x.client_ip,
        fields: &Fields { head: &x.request, bytes: &x.received, trusted_peer: x.trusted_peer },
    })
}

/// One of the services, as often as its weight says: by the key where there is one, which so stays with
/// one service, else by chance.
fn draw(split: &Split, x: &Exchange, chance: impl FnOnce() -> u64) -> Option<ServiceId> {
    let key = split.key.as_ref().and_then(|key| request_key(key, x));
    let total: u64 = split.parts.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut left = ((u128::from(key.unwrap_or_else(chance)) * u128::from(total)) >> 64) as u64;
    let found = split.parts.iter().find(|(_, weight)| {
        let weight = u64::from(*weight);
        let is_it = left < weight;
        left = left.saturating_sub(weight);
        is_it
    });
    found.map(|(service, _)| *service)
}

/// What the route allows: escapes in the path, time for the whole exchange, and bytes of body where they are declared.
pub(crate) fn bound(route: &Route, x: &mut Exchange) -> Result<(), Fault> {
    x.escapes.check(route.allow_encoded)?;
    let end = route.timeouts_to(x.target).request.and_then(|time| x.started.checked_add(time));
    x.ends_at = [end, x.call_ends_at].into_iter().flatten().min();
    match (x.framing, route.limits.max_body) {
        (Framing::Length(length), Some(most)) if length > most => Err(too_large(Side::Downstream)),
        _ => Ok(()),
    }
}

/// The request's fields as the router asks for them: also those that end at this hop, such as `Upgrade`, but none that
/// only a trusted peer may set, unless it has.
struct Fields<'a> {
    head: &'a RequestHead,
    bytes: &'a [u8],
    trusted_peer: bool,
}

impl FieldLookup for Fields<'_> {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut named = self
            .head
            .fields
            .iter()
            .filter(|field| field.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes()));
        named.any(|field| may_decide(field.id, self.trusted_peer) && test(field.value.of(self.bytes)))
    }
}
