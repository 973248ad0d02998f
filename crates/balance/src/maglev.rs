//! Maglev hashing (Eisenbud et al. 2016, section 3.4), weighted.
//!
//! A table of prime size, in which a key's hash names a place. Each endpoint has an order of preference over the
//! places, which follows from its own id alone. In turns, each claims the first place of its order that is still free,
//! until the table is full. Of equal weights all claim in every turn; else an endpoint claims in as many turns as its
//! weight is of the greatest one, and in the first.
//!
//! So the load follows the weights to within a place, more evenly than on a ring, and a lookup reads one place. The
//! price: when the set or a weight changes, a few keys move that did not have to, because claims meet in another order:
//! 0.2 to 0.6 % of all keys on average, in rare sets several percent (`tests/checks/keyed.rs`). When an endpoint is
//! just not ready, no other key moves.
//!
//! **The next choice** of a key is not the neighbour of its place but a place anywhere, by another hash of the key.
//! Claims go through the table in equal steps, so the same endpoints are neighbours again and again, and the load of
//! one that is out would fall to a few.
//!
//! **Two sizes.** [`SMALL_TABLE`] for as long as each endpoint has a hundred places, [`LARGE_TABLE`] beyond
//! that; keys move at that step.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use crate::hash::{GOLDEN, mix, scale};
use crate::keyed::{FairShare, Order, identities};
use crate::{Balance, Candidate, Pick, Seed};

/// Places of the table, a prime: 256 KiB, shared by all workers.
const SMALL_TABLE: usize = 65_537;
/// And for many endpoints, a prime too: 4 MB.
const LARGE_TABLE: usize = 1_000_003;
/// Places for each endpoint that a small table must have.
const PLACES_PER_ENDPOINT: usize = 100;

/// A place that nobody has claimed. Never an index: a set is much smaller.
const FREE: u32 = u32::MAX;

/// The state for one service on one worker.
#[derive(Debug)]
pub(crate) struct Maglev {
    table: Arc<Table>,
    share: FairShare,
}

pub(crate) fn new(_seed: Seed) -> Maglev {
    Maglev { table: Arc::default(), share: FairShare::default() }
}

impl Balance for Maglev {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        let table = &*self.table;
        let endpoint = |number: usize| {
            let position = mix(pick.hash.wrapping_add(GOLDEN.wrapping_mul(number as u64)));
            table.places.get(scale(position, table.places.len())).copied().unwrap_or(FREE)
        };
        let order = Order { places: table.places.len(), endpoint, identities: &table.identities };
        order.find(pick, &self.share.room(pick))
    }

    fn rebuild(&mut self, candidates: &[Candidate]) {
        self.table = Arc::new(Table::build(candidates));
        self.share = FairShare::default();
    }

    fn fork(&self, _seed: Seed) -> Box<dyn Balance> {
        Box::new(Self { table: Arc::clone(&self.table), share: FairShare::default() })
    }

    fn name(&self) -> &'static str {
        "maglev"
    }
}

#[derive(Default)]
struct Table {
    /// The endpoint of each place. Empty when none has weight.
    places: Vec<u32>,
    identities: Vec<u64>,
}

impl Table {
    fn build(candidates: &[Candidate]) -> Self {
        let identities = identities(candidates);
        let mut claimants: Vec<Claimant> = (0_u32..)
            .zip(candidates)
            .zip(&identities)
            .filter(|((_, candidate), _)| candidate.weight > 0)
            .map(|((index, candidate), identity)| Claimant::new(index, candidate.weight, *identity))
            .collect();
        // By identity, because the order of the list must not matter.
        claimants.sort_unstable_by_key(|claimant| (Reverse(claimant.weight), claimant.identity));
        let size =
            if claimants.len() * PLACES_PER_ENDPOINT > SMALL_TABLE { LARGE_TABLE } else { SMALL_TABLE };
        claimants.iter_mut().for_each(|claimant| claimant.begin(size));
        let places = if claimants.is_empty() { Vec::new() } else { claim_in_turn(size, &mut claimants) };
        Self { places, identities }
    }
}

/// One endpoint on its way through its order of preference.
struct Claimant {
    index: u32,
    weight: u32,
    identity: u64,
    /// The place that it wants next.
    next: usize,
    /// From there to the one after it.
    skip: usize,
}

impl Claimant {
    fn new(index: u32, weight: u32, identity: u64) -> Self {
        Self { index, weight, identity, next: 0, skip: 1 }
    }

    /// Begins its order in a table of this size. Any step but 0 visits every place, because the size is a prime.
    fn begin(&mut self, size: usize) {
        self.next = scale(mix(self.identity ^ 1), size);
        self.skip = scale(mix(self.identity ^ 2), size - 1) + 1;
    }

    /// Takes the first place of its order that is free. There must be one.
    fn claim(&mut self, places: &mut [u32]) {
        while places[self.next] != FREE {
            self.next += self.skip;
            if self.next >= places.len() {
                self.next -= places.len();
            }
        }
        places[self.next] = self.index;
    }
}

/// Lets all claim in turn until the table is full. `claimants`: the greatest weights first.
fn claim_in_turn(size: usize, claimants: &mut [Claimant]) -> Vec<u32> {
    let mut places = vec![FREE; size];
    let mut free = size;
    let Some(greatest) = claimants.first().map(|claimant| u64::from(claimant.weight)) else { return places };
    let mut classes: Vec<&mut [Claimant]> = claimants.chunk_by_mut(|a, b| a.weight == b.weight).collect();
    // What each weight has saved up for its next claim, which costs the greatest weight: all can afford the first.
    let mut saved: Vec<u64> = classes.iter().map(|class| greatest - u64::from(class[0].weight)).collect();
    loop {
        for (class, saved) in classes.iter_mut().zip(&mut saved) {
            *saved += u64::from(class[0].weight);
            if *saved < greatest {
                continue;
            }
            *saved -= greatest;
            for claimant in class.iter_mut() {
                if free == 0 {
                    return places;
                }
                claimant.claim(&mut places);
                free -= 1;
            }
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("places", &self.places.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(weights: &[u32]) -> Vec<usize> {
        let set: Vec<Candidate> =
            (100..).zip(weights).map(|(id, weight)| Candidate { weight: *weight, ready: true, id }).collect();
        let table = Table::build(&set);
        let mut counts = vec![0; weights.len()];
        table.places.iter().for_each(|index| counts[*index as usize] += 1);
        counts
    }

    #[test]
    fn the_sizes_are_primes() {
        for size in [SMALL_TABLE, LARGE_TABLE] {
            assert!((2..=size.isqrt()).all(|divisor| size % divisor != 0), "{size}");
        }
    }

    #[test]
    fn equal_weights_differ_by_one_place() {
        let counts = places(&[4; 7]);
        assert_eq!(counts.iter().sum::<usize>(), SMALL_TABLE);
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
    }

    #[test]
    fn places_follow_the_weights() {
        for weights in [&[1, 2, 3, 0][..], &[10, 7, 7, 1], &[1000, 1, 300]] {
            let total: u32 = weights.iter().sum();
            for (count, weight) in places(weights).into_iter().zip(weights) {
                let due = SMALL_TABLE as f64 * f64::from(*weight) / f64::from(total);
                assert!((count as f64 - due).abs() <= 2.0, "{weights:?}: {count} of {due}");
            }
        }
    }

    #[test]
    fn the_smallest_weight_of_a_large_set_still_has_a_place() {
        let mut weights = vec![1000; 655];
        weights[17] = 1;
        assert_eq!(places(&weights)[17], 1);
        assert_eq!(places(&vec![1; 656]).iter().sum::<usize>(), LARGE_TABLE);
    }

    /// The example of the paper's table 1: three endpoints, seven places, the permutations as given there.
    #[test]
    fn the_table_is_that_of_the_paper() {
        let mut claimants: Vec<Claimant> = (0..3).map(|index| Claimant::new(index, 1, 0)).collect();
        for (claimant, (offset, skip)) in claimants.iter_mut().zip([(3, 4), (0, 2), (3, 1)]) {
            (claimant.next, claimant.skip) = (offset, skip);
        }
        assert_eq!(claim_in_turn(7, &mut claimants), [1, 0, 1, 0, 2, 2, 0]);
        assert_eq!(claim_in_turn(7, &mut []), [FREE; 7]);
    }
}
