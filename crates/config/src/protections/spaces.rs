//! Cache spaces that come to hold responses of a guarded place: routes with one space share what they store, so a way
//! to the space becomes a way to the place.

use super::known::{Known, KnownPlaces};
use super::places::Place;
use super::ways::{Goal, Way, ways};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use thalweg_proxy::Plan;

/// The guarded places whose responses a space stores, by its name.
pub(super) type Stored = HashMap<String, BTreeSet<Place>>;

/// The places whose responses a space stores in `after` and did not in `before`.
pub(super) fn newly_stored((before, after): (&Plan, &Plan), known: &KnownPlaces) -> Stored {
    let mut stored = stored(after, known);
    if stored.is_empty() {
        return stored;
    }
    for (space, places) in self::stored(before, known) {
        if let Some(new) = stored.get_mut(&space) {
            new.retain(|place| !places.contains(place));
        }
    }
    stored
}

/// Calls `each` for every guarded place whose responses a way finds in its space since `stored` says so.
pub(super) fn for_each<'k>(
    (stored, known): (&Stored, &'k KnownPlaces),
    way: &Way<'_>,
    mut each: impl FnMut(&'k Place, &'k Known),
) {
    let Goal::Space(space) = way.goal else { return };
    for place in stored.get(space).into_iter().flatten() {
        known.at(place).into_iter().for_each(|(place, known)| each(place, known));
    }
}

fn stored(plan: &Plan, known: &KnownPlaces) -> Stored {
    let mut spaces: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for way in ways(plan) {
        if let Goal::Space(space) = way.goal {
            spaces.entry(way.at).or_default().insert(space);
        }
    }
    let mut stored = Stored::new();
    if spaces.is_empty() {
        return stored;
    }
    for way in ways(plan) {
        let (Goal::Service(service), Some(of_route)) = (way.goal, spaces.get(&way.at)) else { continue };
        for space in of_route.iter().filter(|space| is_of(space, &service.name)) {
            known.for_each(&way, |place, _| {
                stored.entry((*space).to_owned()).or_default().insert(place.clone());
            });
        }
    }
    stored
}

/// Whether a space holds responses of a service: the space of a route with several names one behind a tab.
fn is_of(space: &str, service: &Arc<str>) -> bool {
    space.split_once('\t').is_none_or(|(_, named)| *named == **service)
}

#[cfg(test)]
mod tests {
    use super::super::tests::told;

    #[test]
    fn a_space_that_comes_to_store_guarded_responses_needs_the_guard() {
        let of = |guarded: &str, more: &str| {
            format!(
                "routes: [ {{ name: vault, match: {{ host: a.test }}, filters: [ AUTH{guarded} ], to: a }}, \
                 {{ name: b, match: {{ host: b.test }}, to: b }}{more} ]"
            )
        };
        let space = "{ cache: { share_verified: true, key: { space: sp } } }";
        let own = format!(", {space}");
        let thief = |filters: &str| {
            format!(", {{ name: thief, match: {{ path: /n }}, filters: [ {filters} ], to: b }}")
        };
        let before = of("", "");
        let lost = "`routes.thief` has no `auth`, which every way to the service `a` has until now";
        assert_eq!(told(&before, &of(&own, &thief(space))), lost);
        assert_eq!(told(&before, &of(&own, &thief(&format!("AUTH, {space}")))), "");
        assert_eq!(told(&before, &of(&own, &thief("{ cache: { key: { space: other } } }"))), "");
        assert_eq!(told(&before, &of(", { cache: {} }", &thief("{ cache: {} }"))), "");
        // The space of a route that stood open, in which guarded responses are stored now; also by the route's name.
        assert_eq!(told(&of("", &thief(space)), &of(&own, &thief(space))), lost);
        let by_name = ", { cache: { share_verified: true, key: { space: thief } } }";
        assert_eq!(told(&before, &of(by_name, &thief("{ cache: {} }"))), lost);
        // As the file has it.
        let shared = of(&own, &thief(space));
        assert_eq!(told(&shared, &shared), "");
        // An existing route keeps what it had when its guard is edited.
        let edited = of(&own, "").replace("AUTH", "{ auth: { network: 10.1.0.0/16 } }");
        assert_eq!(told(&before, &edited), "");
    }
}
