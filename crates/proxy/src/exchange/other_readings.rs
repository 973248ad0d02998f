//! Checks the other readings of a path, so that no interpretation by an endpoint bypasses a protection.
//!
//! Called by [`crate::exchange::find_route`] for the few requests whose path has more than one reading (decision
//! 0005). The route is that of the decoded path. Another reading may match another route, with filters that restrict
//! requests. The endpoint would then answer as if those filters had passed the request, so the request is refused.

use crate::exchange::find_route::with_path;
use crate::plan::{Plan, Route, ServiceId};
use crate::state::exchange::Exchange;
use std::iter::once;
use std::sync::Arc;
use thalweg_core::Fault;
use thalweg_filter::Step;
use thalweg_http::{Doubts, PathReadings};
use thalweg_route::RouteId;

/// Checks that the route has all restricting filters of the routes of the other readings.
///
/// # Errors
/// 400 if one of these routes has a restricting filter that `found` lacks.
pub(crate) fn check_readings(
    plan: &Plan,
    (listener, x): (u16, &Exchange),
    (found, service): (RouteId, Option<ServiceId>),
    readings: PathReadings<'_>,
) -> Result<(), Fault> {
    let Some(route) = plan.route(Some(found)) else { return Ok(()) };
    let mut readings = readings.settle(route.allow_encoded.settles()).others();
    let unguarded = readings.find(|(_, path)| {
        let other =
            with_path(x, path, listener, |query| plan.table.find(query)).filter(|other| *other != found);
        plan.route(other).is_some_and(|other| !has_all_of(route, other, (listener, service)))
    });
    unguarded.map_or(Ok(()), |(ways, _)| Err(read_otherwise(ways)))
}

/// The refusal of a path with these constructs, with the words by which a route declares that its endpoint does not
/// read them so.
fn read_otherwise(ways: Doubts) -> Fault {
    macro_rules! fault {
        ($what:literal, $words:literal) => {
            Fault::request(
                400,
                concat!(
                    $what,
                    " in a path that can be read as that of a protected route; `allow_encoded` of the route taken lacks ",
                    $words
                ),
            )
        };
    }
    match [Doubts::EMPTY, Doubts::PARAMETERS, Doubts::SEPARATORS].map(|one| ways.contains(one)) {
        [true, false, false] => fault!("an empty segment", "`double_slash`"),
        [false, true, false] => fault!("a parameter", "`semicolon`"),
        [true, true, false] => fault!("an empty segment and a parameter", "`double_slash` or `semicolon`"),
        [false, false, _] => fault!("an encoded slash", "`slash`"),
        [true, false, true] => fault!("an empty segment and an encoded slash", "`double_slash` or `slash`"),
        [false, true, true] => fault!("a parameter and an encoded slash", "`semicolon` or `slash`"),
        [true, true, true] => fault!(
            "an empty segment, a parameter and an encoded slash",
            "`double_slash`, `semicolon` or `slash`"
        ),
    }
}

/// Whether `route` has every restricting filter of `other`, for this listener and these services.
fn has_all_of(route: &Route, other: &Route, (listener, service): (u16, Option<ServiceId>)) -> bool {
    let there = route.chain(listener, service).steps();
    let ways = other.all_services().map(Some).chain(once(None));
    let mut wanted = ways.flat_map(|service| other.chain(listener, service).steps());
    wanted.all(|step| !step.filter.restricts() || there.iter().any(|known| is_same(known, step)))
}

/// Whether `one`, a filter of another route, decides the same as `other` about the same request, and runs whenever
/// `other` does. Steps of a configuration are compared by the digests of their text: `Filter::argument` omits secrets,
/// and two filters with different keys may show the same.
fn is_same(one: &Step, other: &Step) -> bool {
    if other.filter.decides_by_route() {
        return false;
    }
    let when = |step: &Step| step.when.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (is_argument, is_when) = match (one.written, other.written) {
        (Some(one), Some(other)) => (one.argument == other.argument, one.when == other.when),
        (None, None) => (one.filter.argument() == other.filter.argument(), when(one) == when(other)),
        _ => (false, false),
    };
    let is_filter = Arc::ptr_eq(&one.filter, &other.filter) || (one.name() == other.name() && is_argument);
    is_filter && (one.when.is_empty() || is_when)
}
