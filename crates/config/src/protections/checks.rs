//! Health checks, which are requests too: no filter runs before them, and their result tells what was answered.
//!
//! So a check that a change by API brings may not ask what the earlier plan reaches through guards alone, unless an
//! earlier check asks the same there.

use super::LostProtection;
use super::known::{Known, KnownPlaces};
use super::places::{Place, at_port};
use std::collections::{BTreeSet, HashMap};
use thalweg_proxy::Plan;
use thalweg_upstream::{Address, Check, HealthPolicy, Service};

/// How the keys of their losses begin.
pub(super) const SERVICES: &str = "services.";

/// The checks of the earlier plan, by the places that they ask.
type Asked<'p> = HashMap<Place, Vec<&'p Check>>;

/// Finds checks of `after` that ask guarded places of `before`.
pub(super) fn lost(
    before: &Plan,
    (after, known): (&Plan, &KnownPlaces),
    lost: &mut BTreeSet<LostProtection>,
) {
    let mut asked: Asked<'_> = HashMap::new();
    for (service, health) in checked(before) {
        for endpoint in &service.endpoints {
            let place = Place::of(&at_port(&endpoint.address, health.port));
            asked.entry(place).or_default().push(&health.check);
        }
    }
    for (service, health) in checked(after) {
        for endpoint in &service.endpoints {
            lost.extend(lost_by((known, &asked), (service, health), &endpoint.address));
        }
    }
}

/// What checks of a service lose with an endpoint that the admin API adds to it.
pub(super) fn lost_by_added(
    (before, known): (&Plan, &KnownPlaces),
    service: &Service,
    address: &Address,
) -> Option<LostProtection> {
    let health = service.health.as_deref()?;
    let place = Place::of(&at_port(address, health.port));
    let asks = |(of, health): &(&Service, &HealthPolicy)| {
        of.endpoints.iter().any(|it| Place::of(&at_port(&it.address, health.port)) == place)
    };
    let there: Vec<&Check> = checked(before).filter(asks).map(|(_, health)| &health.check).collect();
    lost_by((known, &[(place.clone(), there)].into()), (service, health), address)
}

fn checked(plan: &Plan) -> impl Iterator<Item = (&Service, &HealthPolicy)> {
    plan.services.iter().filter_map(|service| Some((&**service, service.health.as_deref()?)))
}

fn lost_by(
    (known, asked): (&KnownPlaces, &Asked<'_>),
    (service, health): (&Service, &HealthPolicy),
    address: &Address,
) -> Option<LostProtection> {
    let place = Place::of(&at_port(address, health.port));
    if asked.get(&place).is_some_and(|known| known.iter().any(|check| asks_same(check, &health.check))) {
        return None;
    }
    let mut guarded = known.at(&place).into_iter();
    let (place, of) = guarded.find(|(_, of)| is_closed(of, &health.check))?;
    Some(LostProtection {
        key: format!("{SERVICES}{}.health", service.name),
        guard: of.first_guard()?.to_string(),
        of: format!("every way to {place}"),
        is_other: false,
    })
}

/// Whether a place is closed to clients that would ask what a check asks.
fn is_closed(known: &Known, check: &Check) -> bool {
    match check {
        Check::Http { path, .. } => !known.leaves_open(path),
        Check::Tcp | Check::Grpc { .. } => !known.is_free(),
    }
}

/// Whether two checks send the same request and read the same of the response, its status apart.
fn asks_same(one: &Check, other: &Check) -> bool {
    match (one, other) {
        (
            Check::Http { path, method, headers, body, .. },
            Check::Http { path: p, method: m, headers: h, body: b, .. },
        ) => {
            let text = |body: &Option<_>| body.as_ref().map(ToString::to_string);
            (path, method, headers, text(body)) == (p, m, h, text(b))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::told;

    /// The service `a` behind a guard, with additions to both services.
    fn of(a: &str, b: &str) -> String {
        format!(
            "services: {{ a: {{ endpoints: 'http://10.0.0.1:1'{a} }}, b: {{ endpoints: 'http://10.0.0.1:2'{b} }} }}\n\
             routes: [ {{ name: a, match: {{ host: a.test }}, filters: [ AUTH ], to: a }}, {{ name: b, match: {{ host: b.test }}, to: b }} ]"
        )
    }

    #[test]
    fn no_new_health_check_asks_what_is_reached_through_a_guard_alone() {
        let forged = ", health: { port: 1, path: /vault/flag, method: DELETE, headers: { X-User: admin }, body: '^a' }";
        for check in [forged, ", health: { port: 1, path: /up }", ", health: { port: 1, tcp: true }"] {
            assert_eq!(
                told(&of("", ""), &of("", check)),
                "`services.b.health` has no `auth`, which every way to the endpoint 10.0.0.1:1 has until now",
                "{check}"
            );
        }
        // At the endpoint of the service itself, with or without its port.
        for check in [forged, ", health: /up"] {
            assert!(
                told(&of("", ""), &of(check, "")).starts_with("`services.a.health` has no `auth`"),
                "{check}"
            );
        }
        for check in [", health: /up", ", health: { port: 3, path: /up }"] {
            assert_eq!(told(&of("", ""), &of("", check)), "", "{check}");
        }
    }

    #[test]
    fn a_health_check_may_ask_what_an_earlier_one_has_asked() {
        let before = of(", health: { path: /up, headers: { X-User: probe }, body: ok }", "");
        let same = ", health: { path: /up, headers: { X-User: probe }, body: ok, interval: 9s, expect: [ 200-499 ] }";
        assert_eq!(told(&before, &of(same, "")), "");
        for other in [
            same.replace("/up", "/down"),
            same.replace("probe", "admin"),
            same.replace("body: ok", "body: '^a'"),
            same.replace("path: /up", "path: /up, method: POST"),
        ] {
            assert!(
                told(&before, &of(&other, "")).starts_with("`services.a.health` has no `auth`"),
                "{other}"
            );
        }
        // Paths that are open to clients are open to checks.
        let open =
            |a: &str| of(a, "").replace("match: { host: b.test }, to: b", "match: { path: /up }, to: a");
        let open = |a: &str| open(a).replace("match: { host: a.test }", "match: { path: /in/* }");
        assert_eq!(told(&open(""), &open(", health: /up")), "");
        assert!(told(&open(""), &open(", health: /in/up")).contains("`services.a.health`"));
    }
}
