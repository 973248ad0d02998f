//! Smooth weighted round robin.
//!
//! A rebuild writes one turn down: a ring in which each endpoint stands as often as its weight says (divided
//! by what all weights have in common), interleaved as nginx does: weights 5, 1, 1 give a a b a c a a. A pick
//! takes the next place of the ring.
//!
//! **Endpoints that may not be used** are walked past, and the place moves on past them too. So a turn gives
//! each usable endpoint exactly its own places, and the load of a dead one spreads over all others; its
//! neighbour in the ring gets no more than they do. A walk that has passed as many places as there are endpoints
//! stops, and the pick is made from the candidates themselves by weight, spread by a low-discrepancy
//! sequence; the place stays, so while nothing changes one of both ways is used alone, and each is fair. That
//! keeps the cost of a pick when nearly everything is down at the number of endpoints, not that of the ring.
//!
//! **Further attempts of an exchange** (retries and hedges) go round on a place of their own. If they took
//! the next place of the others, an endpoint whose exchanges are all tried again would be every exchange's first:
//! of two, the other one's turn would always be taken by the second attempt.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use crate::by_weight::pick_by_weight;
use crate::hash::{GOLDEN, scale};
use crate::{Balance, Candidate, Pick, Seed};

/// Most places of a ring; larger weights are scaled down to fit. Only a set of more endpoints than this has
/// a longer ring, of one place each.
/// 256 KiB per service at most, shared by all workers.
const RING_PLACES: usize = 65_536;

/// The state for one service on one worker.
pub(crate) struct RoundRobin {
    ring: Arc<[u32]>,
    /// The next place, below the length of the ring: for first attempts, and for further ones.
    places: [usize; 2],
    /// Moves with every pick from outside the ring.
    spread: u64,
    seed: Seed,
}

pub(crate) fn new(seed: Seed) -> RoundRobin {
    RoundRobin::start(Arc::default(), seed)
}

impl Balance for RoundRobin {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        let which = usize::from(!pick.tried.is_empty());
        let mut place = self.places[which];
        for _ in 0..=pick.candidates.len().min(self.ring.len()) {
            let Some(index) = self.ring.get(place).copied() else { break };
            place = if place + 1 == self.ring.len() { 0 } else { place + 1 };
            if pick.may_use(index) {
                self.places[which] = place;
                return Some(index);
            }
        }
        self.spread = self.spread.wrapping_add(GOLDEN);
        pick_by_weight(pick, self.spread, |index| pick.may_use(index))
    }

    fn rebuild(&mut self, candidates: &[Candidate]) {
        // Another start each time: rebuilds in quick succession must not favour the first endpoints.
        *self = Self::start(interleave(&places(candidates)).into(), self.seed);
    }

    fn fork(&self, seed: Seed) -> Box<dyn Balance> {
        Box::new(Self::start(Arc::clone(&self.ring), seed))
    }

    fn name(&self) -> &'static str {
        "round_robin"
    }
}

impl RoundRobin {
    /// Begins anywhere in the ring.
    fn start(ring: Arc<[u32]>, mut seed: Seed) -> Self {
        let (place, spread) = (scale(seed.next(), ring.len()), seed.next());
        Self { ring, places: [place; 2], spread, seed }
    }
}

impl fmt::Debug for RoundRobin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundRobin").field("places", &self.ring.len()).finish_non_exhaustive()
    }
}

/// The places of each endpoint in a turn: its weight without the common divisor, scaled to the ring.
fn places(candidates: &[Candidate]) -> Vec<u32> {
    let weights = || candidates.iter().map(|candidate| u64::from(candidate.weight));
    let divisor = weights().fold(0, common_divisor).max(1);
    let total: u64 = weights().sum::<u64>() / divisor;
    // One place is kept back for each endpoint, so that rounding up never makes the ring too long.
    let used = weights().filter(|weight| *weight > 0).count();
    let room = RING_PLACES.saturating_sub(used) as u64;
    let scaled = |weight: u64| match weight / divisor {
        share if total <= RING_PLACES as u64 => share,
        0 => 0,
        share => (share * room / total).max(1),
    };
    weights().map(|weight| scaled(weight) as u32).collect()
}

fn common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

/// Endpoints with the same number of places: they follow each other in turn.
struct Class {
    places: i64,
    members: Vec<u32>,
    /// The member that is due next.
    next: usize,
    /// How far that member is behind its due: nginx's current weight.
    lag: i64,
}

impl Class {
    fn due(&self) -> u32 {
        self.members[self.next]
    }

    /// Takes the member that is due. All others of its class are as far behind as it was, until each had a place.
    fn take(&mut self, total: i64) -> u32 {
        let taken = self.due();
        self.next += 1;
        if self.next == self.members.len() {
            self.next = 0;
            self.lag -= total;
        }
        taken
    }
}

/// One turn: at each place stands the endpoint that is furthest behind its due, the first of several. That is
/// nginx's smooth order; as endpoints of equal weight are due in turn, only one of each weight is looked
/// at per place. There are at most 361 different numbers of places in a full ring (1 + 2 + … + 361 is its length).
fn interleave(places: &[u32]) -> Vec<u32> {
    let mut by_places: Vec<(u32, u32)> = places.iter().copied().zip(0..).filter(|(n, _)| *n > 0).collect();
    by_places.sort_unstable();
    let members = |chunk: &[(u32, u32)]| chunk.iter().map(|(_, index)| *index).collect();
    let mut classes: Vec<Class> = by_places
        .chunk_by(|one, other| one.0 == other.0)
        .map(|chunk| Class { places: i64::from(chunk[0].0), members: members(chunk), next: 0, lag: 0 })
        .collect();
    let total: i64 = places.iter().copied().map(i64::from).sum();
    let mut ring = Vec::with_capacity(total as usize);
    for _ in 0..total {
        classes.iter_mut().for_each(|class| class.lag += class.places);
        let behind = classes.iter_mut().max_by_key(|class| (class.lag, Reverse(class.due())));
        ring.extend(behind.map(|class| class.take(total)));
    }
    ring
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoLoads;

    fn candidates(weights: &[u32]) -> Vec<Candidate> {
        weights.iter().map(|weight| Candidate { weight: *weight, ready: true, id: 0 }).collect()
    }

    fn of(candidates: &[Candidate]) -> Pick<'_> {
        Pick { candidates, tried: &[], hash: 0, bounded_load: None, loads: &NoLoads }
    }

    fn built(candidates: &[Candidate]) -> RoundRobin {
        let mut balancer = new(Seed(7));
        balancer.rebuild(candidates);
        balancer
    }

    fn counts(balancer: &mut RoundRobin, candidates: &[Candidate], picks: usize) -> Vec<usize> {
        let mut counts = vec![0; candidates.len()];
        for _ in 0..picks {
            counts[balancer.pick(&of(candidates)).unwrap() as usize] += 1;
        }
        counts
    }

    /// nginx's algorithm as its authors wrote it.
    fn nginx(weights: &[i64]) -> Vec<u32> {
        let total: i64 = weights.iter().sum();
        let mut current = vec![0; weights.len()];
        (0..total)
            .map(|_| {
                current.iter_mut().zip(weights).for_each(|(current, weight)| *current += weight);
                let best = (0..current.len()).rev().max_by_key(|i| current[*i]).unwrap();
                current[best] -= total;
                best as u32
            })
            .collect()
    }

    #[test]
    fn the_order_is_that_of_nginx() {
        assert_eq!(*built(&candidates(&[5, 1, 1])).ring, [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(*built(&candidates(&[7, 7, 7])).ring, [0, 1, 2]);
        for weights in
            [&[5, 1, 1][..], &[1, 2, 3, 2, 1], &[3, 3, 2, 7, 1, 7], &[1, 1000], &[4, 3, 2, 1, 4, 3]]
        {
            let signed: Vec<i64> = weights.iter().map(|weight| i64::from(*weight)).collect();
            assert_eq!(*built(&candidates(weights)).ring, nginx(&signed), "{weights:?}");
        }
    }

    #[test]
    fn a_turn_gives_each_endpoint_exactly_its_weight() {
        let set = candidates(&[10, 0, 30, 20]);
        assert_eq!(counts(&mut built(&set), &set, 6 * 5), [5, 0, 15, 10]);
    }

    #[test]
    fn the_load_of_a_dead_endpoint_spreads_over_all_others() {
        let mut set = candidates(&[1; 10]);
        let mut balancer = built(&set);
        set[3].ready = false;
        assert_eq!(counts(&mut balancer, &set, 9 * 8), [8, 8, 8, 0, 8, 8, 8, 8, 8, 8]);
    }

    /// All exchanges of one endpoint are tried again or hedged: its turn comes no more often for it, and the others
    /// share what is tried again.
    #[test]
    fn further_attempts_take_nobodys_turn() {
        for count in [2_u32, 3, 5] {
            let set = candidates(&vec![1; count as usize]);
            let mut balancer = built(&set);
            let (mut first, mut again) = (vec![0; count as usize], vec![0; count as usize]);
            for _ in 0..count * (count - 1) * 10 {
                let index = balancer.pick(&of(&set)).unwrap();
                first[index as usize] += 1;
                if index == 1 {
                    let other = balancer.pick(&Pick { tried: &[1], ..of(&set) }).unwrap();
                    again[other as usize] += 1;
                }
            }
            let each = 10 * (count - 1);
            assert_eq!(first, vec![each; count as usize]);
            let expected: Vec<_> = (0..count).map(|at| if at == 1 { 0 } else { 10 }).collect();
            assert_eq!(again, expected);
        }
    }

    #[test]
    fn a_small_part_that_is_ready_shares_evenly() {
        let mut set = candidates(&[1; 100]);
        let mut balancer = built(&set);
        set.iter_mut().for_each(|candidate| candidate.ready = false);
        for ready in [4, 5, 50] {
            set[ready].ready = true;
        }
        let found = counts(&mut balancer, &set, 3000);
        assert!([4, 5, 50].iter().all(|i| (990..=1010).contains(&found[*i])), "{found:?}");
    }

    #[test]
    fn behind_a_long_gap_of_the_ring_the_load_still_follows_the_weights() {
        let mut set = candidates(&[1000, 1, 3]);
        let mut balancer = built(&set);
        set[0].ready = false;
        let found = counts(&mut balancer, &set, 4000);
        assert!((980..=1020).contains(&found[1]), "{found:?}");
    }

    #[test]
    fn large_sets_are_scaled_into_the_ring() {
        let mut weights = vec![1000; 9_999];
        weights.push(1);
        let balancer = built(&candidates(&weights));
        assert!(balancer.ring.len() <= RING_PLACES);
        assert_eq!(balancer.ring.iter().filter(|index| **index == 9_999).count(), 1);
        let huge = built(&candidates(&[u32::MAX, u32::MAX - 1, 1]));
        assert!(huge.ring.len() <= RING_PLACES);
        assert_eq!(built(&candidates(&vec![1; RING_PLACES + 1])).ring.len(), RING_PLACES + 1);
    }

    #[test]
    fn workers_start_at_different_places() {
        let set = candidates(&[1; 100]);
        let built = built(&set);
        let mut starts: Vec<u32> =
            (0..16).map(|worker| built.fork(Seed(worker)).pick(&of(&set)).unwrap()).collect();
        starts.sort_unstable();
        starts.dedup();
        assert!(starts.len() > 10, "{starts:?}");
    }

    #[test]
    fn an_endpoint_that_came_without_a_rebuild_is_found() {
        let mut balancer = new(Seed(1));
        let set = candidates(&[1]);
        assert_eq!(balancer.pick(&of(&set)), Some(0));
        balancer.rebuild(&candidates(&[1, 1, 1]));
        assert_eq!(balancer.pick(&of(&set)), Some(0));
        balancer.rebuild(&[]);
        assert_eq!(balancer.pick(&of(&[])), None);
    }
}
