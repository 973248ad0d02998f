//! Weights of routes that were set through the admin API: they hold, whatever the file says, until they are taken
//! back. What is said of them, and the way back.

use super::admin::Shared;
use super::overlay::OverlaySpec;
use super::route_status::route_status;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_admin::{Expected, Refusal, WeightsReset, encode};
use thalweg_core::Notice;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::To;

impl Shared {
    /// Forgets the shares that were set of a route: those of the file are in force again. A route of which none were
    /// set stays as it is.
    pub(super) fn reset_shares(
        &self,
        route: &str,
        expected: &Expected<u64>,
    ) -> Result<WeightsReset, Refusal> {
        let mut runtime = self.runtime();
        let shares = || {
            let plan = self.worker_pool().plan();
            let found = plan.routes.iter().find(|known| *known.name == *route);
            found.map(|found| route_status(&plan, found).to)
        };
        let (before, is_set) = (shares(), runtime.overlay.routes.contains_key(route));
        // What was set of a route that the file has no more can be taken back too.
        if before.is_none() && !is_set {
            return Err(Refusal::Unknown(format!("there is no route `{route}`")));
        }
        runtime.admit_weights(route)?;
        runtime.admit(expected)?;
        if is_set {
            runtime.overlay.routes.remove(route);
            self.commit_routes(&mut runtime);
        }
        let version = runtime.version;
        drop(runtime);
        if is_set {
            self.say(&Notice::info(format!("route `{route}`: the weights of the file are in force again")));
        }
        Ok(WeightsReset { version, before: before.unwrap_or_default(), after: shares().unwrap_or_default() })
    }
}

/// A line for each route whose weights are not those of the file `base`.
pub(super) fn in_force(overlay: &OverlaySpec, base: &Plan) -> Vec<String> {
    let by_hand = overlay.routes.keys().filter(|route| !overlay.canaries.contains_key(*route));
    by_hand.filter_map(|route| in_force_of(overlay, base, route)).collect()
}

/// The line of one route; nothing where its weights are those of the file.
pub(super) fn in_force_of(overlay: &OverlaySpec, base: &Plan, route: &str) -> Option<String> {
    let weights = overlay.routes.get(route)?;
    holds(weights, &shares_of(base, route)?).then(|| {
        format!(
            "route `{route}`: weights set through the admin API are in force ({}), not those of the file; {}",
            words(weights),
            way_back(route)
        )
    })
}

/// A line for each route whose weights differ between two files, `before` and `after`, where that changes nothing.
pub(super) fn masked(overlay: &OverlaySpec, (before, after): (&Plan, &Plan)) -> Vec<String> {
    let of_route = |(route, weights): (&String, &BTreeMap<String, u32>)| {
        let (old, new) = (shares_of(before, route).unwrap_or_default(), shares_of(after, route)?);
        let is_masked = |(service, weight): (&String, &u32)| {
            let written = new.get(&**service);
            written.is_some_and(|written| written != weight) && written != old.get(&**service)
        };
        (holds(weights, &new) && weights.iter().any(is_masked)).then(|| {
            format!(
                "route `{route}`: the file has other weights now ({}), which stay without effect: those set through \
                 the admin API are in force ({}); {}",
                words(&new),
                words(weights),
                way_back(route)
            )
        })
    };
    let by_hand = overlay.routes.iter().filter(|(route, _)| !overlay.canaries.contains_key(*route));
    by_hand.filter_map(of_route).collect()
}

/// The shares of a route that is split, by service.
fn shares_of(plan: &Plan, route: &str) -> Option<BTreeMap<Arc<str>, u32>> {
    let route = plan.routes.iter().find(|known| *known.name == *route)?;
    let To::Split(split) = &route.to else { return None };
    let parts = split.parts.iter();
    Some(
        parts
            .filter_map(|(service, weight)| {
                plan.services.get(service.0 as usize).map(|service| (service.name.clone(), *weight))
            })
            .collect(),
    )
}

/// Whether the weights that were set take the place of those of the file: they name one of its services, and
/// something is left of the route with them.
fn holds(set: &BTreeMap<String, u32>, file: &BTreeMap<Arc<str>, u32>) -> bool {
    let of = |(service, weight): (&Arc<str>, &u32)| set.get(&**service).copied().unwrap_or(*weight);
    file.keys().any(|service| set.contains_key(&**service)) && file.iter().any(|part| of(part) > 0)
}

fn words<S: AsRef<str>>(weights: &BTreeMap<S, u32>) -> String {
    let words: Vec<_> =
        weights.iter().map(|(service, weight)| format!("{} {weight}", service.as_ref())).collect();
    words.join(", ")
}

fn way_back(route: &str) -> String {
    format!("`DELETE /api/v1/routes/{}/weights` brings those of the file back", encode(route))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_config::check_text;

    /// A configuration whose route has these weights.
    fn plan(a: u32, b: u32) -> Plan {
        let text = format!(
            "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
             routes: [ {{ name: the split, to: [ {{ service: a, weight: {a} }}, {{ service: b, weight: {b} }} ] }} ]\n\
             services: {{ a: {{ endpoints: ['http://127.0.0.1:1'] }}, b: {{ endpoints: ['http://127.0.0.1:2'] }} }}\n"
        );
        check_text("t.yaml", &text, &|_| None).unwrap().plan
    }

    fn overlay(weights: &[(&str, u32)]) -> OverlaySpec {
        let mut overlay = OverlaySpec::default();
        let of = weights.iter().map(|(service, weight)| ((*service).to_owned(), *weight)).collect();
        overlay.routes.insert("the split".into(), of);
        overlay
    }

    #[test]
    fn what_is_in_force_is_said_with_the_way_back() {
        let said = in_force(&overlay(&[("a", 0), ("b", 9)]), &plan(1, 1));
        assert_eq!(
            said,
            [
                "route `the split`: weights set through the admin API are in force (a 0, b 9), not those of the file; \
              `DELETE /api/v1/routes/the%20split/weights` brings those of the file back"
            ]
        );
        assert!(in_force(&OverlaySpec::default(), &plan(1, 1)).is_empty());
        assert!(in_force(&overlay(&[("c", 1)]), &plan(1, 1)).is_empty(), "the route does not go there");
        assert!(in_force(&overlay(&[("a", 0)]), &plan(1, 0)).is_empty(), "nothing would be left");
    }

    #[test]
    fn a_file_is_masked_where_it_has_changed_what_was_set() {
        let (set, old) = (overlay(&[("a", 5)]), plan(1, 1));
        let said = masked(&set, (&old, &plan(2, 1)));
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("other weights now (a 2, b 1)") && said[0].contains("in force (a 5)"),
            "{said:?}"
        );
        assert!(masked(&set, (&old, &old)).is_empty(), "nothing has changed");
        assert!(masked(&set, (&old, &plan(1, 7))).is_empty(), "what has changed takes effect");
        assert!(masked(&set, (&old, &plan(5, 1))).is_empty(), "both say the same");
    }
}
