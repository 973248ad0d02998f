//! What all algorithms that pick by key share: identities, the bound on load, and the way past endpoints that
//! may not be used.
//!
//! A key has an order of endpoints, the algorithm's own. The first of it that may be used and has room takes the
//! key. So a key moves only when its own endpoint is not ready, was tried or is full, and moves back afterwards.

use std::collections::HashMap;

use crate::hash::mix;
use crate::{Candidate, Pick, rendezvous};

/// Places of a table that are looked at, for each endpoint, before the rest is left to rendezvous hashing.
const PLACES_PER_ENDPOINT: usize = 4;
/// Candidates are summed again after so many picks for each: at every pick in sets of up to as many.
const ENDPOINTS_PER_PICK: usize = 16;

/// The hash by which an algorithm knows each endpoint: its id, mixed. Those with the same id are told apart by
/// their order.
pub(crate) fn identities(candidates: &[Candidate]) -> Vec<u64> {
    let mut seen: HashMap<u64, u64> = HashMap::with_capacity(candidates.len());
    let mut identity = |candidate: &Candidate| {
        let before = seen.entry(candidate.id).or_default();
        let twin = *before;
        *before += 1;
        if twin == 0 { mix(candidate.id) } else { mix(mix(candidate.id) ^ mix(twin)) }
    };
    candidates.iter().map(&mut identity).collect()
}

/// The order of endpoints for one key, by an algorithm's table.
pub(crate) struct Order<'a, F> {
    /// Places of the table.
    pub(crate) places: usize,
    /// The endpoint after so many others; the same one may come again.
    pub(crate) endpoint: F,
    /// For rendezvous hashing, which ends a long search.
    pub(crate) identities: &'a [u64],
}

impl<F: Fn(usize) -> u32> Order<'_, F> {
    /// The first endpoint that may be used and has room; the first that may be used, when all are full; `None` when
    /// none may be used.
    pub(crate) fn find(&self, pick: &Pick<'_>, room: &Room) -> Option<u32> {
        let mut full = None;
        for number in 0..self.places.min(pick.candidates.len() * PLACES_PER_ENDPOINT) {
            let index = (self.endpoint)(number);
            if pick.may_use(index) {
                if room.has(pick, index) {
                    return Some(index);
                }
                full = full.or(Some(index));
            }
        }
        // Nearly nothing may be used. Rendezvous hashing finds what there is, and moves no other key either.
        let (with_room, any) = rendezvous::highest(pick, self.identities, room);
        with_room.or(full).or(any)
    }
}

/// Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016): what share of the requests in
/// flight is one endpoint's, by its weight among those that are ready.
///
/// The weight of those is summed again every so many picks, so a pick costs the same at any size: up to 16 endpoints
/// the sum is exact, above that it is behind by at most a sixteenth as many picks as there are endpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairShare {
    ready_weight: u64,
    /// Picks for which the sum is still good.
    good_for: usize,
}

impl FairShare {
    /// The bound for one pick.
    pub(crate) fn room(&mut self, pick: &Pick<'_>) -> Room {
        let Some(percent) = pick.bounded_load else { return Room { allowed: 0, of: 0 } };
        match self.good_for.checked_sub(1) {
            Some(left) => self.good_for = left,
            None => {
                let ready = pick.candidates.iter().filter(|candidate| candidate.ready);
                self.ready_weight = ready.map(|candidate| u64::from(candidate.weight)).sum();
                self.good_for = pick.candidates.len().saturating_sub(1) / ENDPOINTS_PER_PICK;
            }
        }
        let total = u128::from(pick.loads.total_in_flight()) + 1;
        Room { allowed: u128::from(percent) * total, of: 100 * u128::from(self.ready_weight) }
    }
}

/// Which endpoints have room: those with fewer in flight than ⌈percent ÷ 100 × (total + 1) × weight ÷ all weight⌉.
pub(crate) struct Room {
    /// Percent × (total + 1): what is allowed for all weight.
    allowed: u128,
    /// 100 × all weight; 0: no bound.
    of: u128,
}

impl Room {
    /// Whether one more request is within the bound.
    pub(crate) fn has(&self, pick: &Pick<'_>, index: u32) -> bool {
        if self.of == 0 {
            return true;
        }
        let weight = pick.candidates.get(index as usize).map_or(0, |candidate| candidate.weight);
        // n < ⌈a ÷ b⌉ is n × b < a, without a division.
        u128::from(pick.loads.in_flight(index)) * self.of < self.allowed * u128::from(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loads;

    #[derive(Clone, Copy)]
    struct Even(u32, u32);

    impl Loads for Even {
        fn in_flight(&self, _index: u32) -> u32 {
            self.0
        }

        fn total_in_flight(&self) -> u32 {
            self.1
        }

        fn latency(&self, _index: u32) -> Option<f32> {
            None
        }
    }

    fn has_room(weights: &[(u32, bool)], loads: Even, percent: Option<u32>) -> bool {
        let set: Vec<Candidate> = weights
            .iter()
            .map(|(weight, ready)| Candidate { weight: *weight, ready: *ready, id: 0 })
            .collect();
        let pick = Pick { candidates: &set, tried: &[], hash: 0, bounded_load: percent, loads: &loads };
        FairShare::default().room(&pick).has(&pick, 0)
    }

    #[test]
    fn the_bound_is_rounded_up() {
        // 1.25 × 10 ÷ 4 = 3.125: the fourth request fits.
        let four = [(1, true); 4];
        assert!(has_room(&four, Even(3, 9), Some(125)));
        assert!(!has_room(&four, Even(4, 9), Some(125)));
        // 1 × 8 ÷ 4 = 2 exactly.
        assert!(has_room(&four, Even(1, 7), Some(100)));
        assert!(!has_room(&four, Even(2, 7), Some(100)));
        assert!(has_room(&four, Even(0, 0), Some(100)), "the first request always fits");
        assert!(has_room(&four, Even(999, 9), None));
    }

    #[test]
    fn the_share_is_that_of_the_weight_among_those_that_are_ready() {
        assert!(has_room(&[(3, true), (1, true)], Even(5, 7), Some(100)));
        assert!(!has_room(&[(3, true), (1, true)], Even(6, 7), Some(100)));
        assert!(has_room(&[(3, true), (1, true), (9, false)], Even(5, 7), Some(100)));
        assert!(has_room(&[(u32::MAX, true)], Even(u32::MAX, u32::MAX), Some(u32::MAX)), "nothing overflows");
    }

    #[test]
    fn twins_have_identities_of_their_own() {
        let set = [7, 7, 8, 7].map(|id| Candidate { weight: 1, ready: true, id });
        let found = identities(&set);
        let mut different = found.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 4);
        assert_eq!(found[..1], identities(&set[..1]), "the first of them is as if it were alone");
    }
}
