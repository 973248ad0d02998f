//! Ring hashing (ketama: Karger et al. 1997, as libketama, nginx and Envoy do it).
//!
//! Each endpoint has points on a ring of 2^64 places, [`POINTS_PER_WEIGHT`] for each unit of its weight, which
//! follow from its own id alone. A key belongs to the first point at or after its hash. So when an endpoint comes, goes
//! or changes its weight, only keys of that endpoint move. An endpoint's share of the keys varies around its
//! weight: by 8 % (one standard deviation) with 160 points, less with more.
//!
//! **Halving.** A ring has about [`RING_POINTS`] points at most. A set that needs more has half as many points for
//! every endpoint, or a quarter and so on, at least one each; at that step half of all points go, and the keys that
//! were theirs move.
//!
//! **Lookup in one step.** The ring is cut into as many equal arcs as it has points, rounded up to a power of two. An
//! index says where the points of an arc begin; there is about one.

use std::fmt;
use std::sync::Arc;

use crate::hash::{GOLDEN, mix};
use crate::keyed::{FairShare, Order, identities};
use crate::{Balance, Candidate, Pick, Seed};

/// Points of an endpoint of weight 1 on a ring that is not halved.
const POINTS_PER_WEIGHT: u64 = 160;
/// Most points of a ring, but for one of each endpoint. 12 MiB, shared by all workers.
const RING_POINTS: u64 = 1 << 20;

/// The state for one service on one worker.
#[derive(Debug)]
pub(crate) struct Ring {
    table: Arc<Table>,
    share: FairShare,
}

pub(crate) fn new(_seed: Seed) -> Ring {
    Ring { table: Arc::default(), share: FairShare::default() }
}

impl Balance for Ring {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        let table = &*self.table;
        let start = table.find(mix(pick.hash));
        let endpoint = |number: usize| {
            let place = start + number;
            let point = table.points.get(place).or_else(|| table.points.get(place - table.points.len()));
            point.map_or(u32::MAX, |point| point.owner)
        };
        let order = Order { places: table.points.len(), endpoint, identities: &table.identities };
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
        "ring"
    }
}

#[derive(Default)]
struct Table {
    /// In the order of the ring.
    points: Vec<Point>,
    /// Where the points of each arc begin; one more entry for the end. Empty without points.
    arcs: Vec<u32>,
    /// Bits of a hash that number the arcs, 1..=32.
    bits: u32,
    identities: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Point {
    /// Where in its arc it lies, of 2^32.
    within: u32,
    owner: u32,
}

impl Table {
    fn build(candidates: &[Candidate]) -> Self {
        let identities = identities(candidates);
        let halvings = halvings(candidates);
        let points = || {
            (0_u32..).zip(candidates).zip(&identities).flat_map(|((owner, candidate), identity)| {
                let number = points_of(candidate, halvings);
                (1..=number).map(move |n| (mix(identity.wrapping_add(n.wrapping_mul(GOLDEN))), owner))
            })
        };
        let count: u64 = candidates.iter().map(|candidate| points_of(candidate, halvings)).sum();
        if count == 0 {
            return Self { identities, ..Self::default() };
        }
        let bits = count.next_power_of_two().trailing_zeros().max(1);
        // Points are spread evenly, so counting sorts them by arc, and within an arc there is next to nothing to sort.
        let mut arcs = vec![0_u32; (1 << bits) + 1];
        points().for_each(|(place, _)| arcs[arc(place, bits) + 1] += 1);
        for number in 1..arcs.len() {
            arcs[number] += arcs[number - 1];
        }
        let mut sorted = vec![Point::default(); count as usize];
        let mut next = arcs.clone();
        for (place, owner) in points() {
            let at = &mut next[arc(place, bits)];
            sorted[*at as usize] = Point { within: within(place, bits), owner };
            *at += 1;
        }
        for ends in arcs.windows(2) {
            // Two points in the same place: the same one comes first on every machine.
            sorted[ends[0] as usize..ends[1] as usize]
                .sort_unstable_by_key(|point| (point.within, identities[point.owner as usize]));
        }
        Self { points: sorted, arcs, bits, identities }
    }

    /// The number of the first point at or after this place of the ring.
    fn find(&self, place: u64) -> usize {
        let number = arc(place, self.bits.max(1));
        let (Some(begin), Some(end)) = (self.arcs.get(number), self.arcs.get(number + 1)) else { return 0 };
        let (begin, within) = (*begin as usize, within(place, self.bits));
        let inside = self.points.get(begin..*end as usize).unwrap_or_default();
        let found = begin + inside.partition_point(|point| point.within < within);
        if found == self.points.len() { 0 } else { found }
    }
}

/// The arc in which a place of the ring lies.
fn arc(place: u64, bits: u32) -> usize {
    (place >> (64 - bits)) as usize
}

/// Where in its arc a place of the ring lies.
fn within(place: u64, bits: u32) -> u32 {
    ((place << bits) >> 32) as u32
}

fn points_of(candidate: &Candidate, halvings: u32) -> u64 {
    match u64::from(candidate.weight) {
        0 => 0,
        weight => ((weight * POINTS_PER_WEIGHT) >> halvings).max(1),
    }
}

/// How often the numbers of points are halved so that they fit.
fn halvings(candidates: &[Candidate]) -> u32 {
    let fits = |halvings: &u32| {
        let points = candidates.iter().map(|c| (u64::from(c.weight) * POINTS_PER_WEIGHT) >> halvings);
        points.sum::<u64>() <= RING_POINTS
    };
    (0..u64::BITS - 1).find(fits).unwrap_or(u64::BITS - 1)
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("points", &self.points.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u32]) -> Vec<Candidate> {
        let candidate = |(id, weight): (u64, &u32)| Candidate { weight: *weight, ready: true, id };
        (100..).zip(weights).map(candidate).collect()
    }

    /// The whole place of every point, and whose it is.
    fn places(table: &Table) -> Vec<(u64, u32)> {
        (0..1_u64 << table.bits)
            .flat_map(|arc| {
                let inside = table.arcs[arc as usize] as usize..table.arcs[arc as usize + 1] as usize;
                let place = move |point: &Point| {
                    let place = (arc << (64 - table.bits)) | (u64::from(point.within) << (32 - table.bits));
                    (place, point.owner)
                };
                table.points[inside].iter().map(place).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn the_index_finds_what_a_search_of_the_whole_ring_finds() {
        for weights in [&[1][..], &[1, 2, 3], &[50, 1, 7, 7, 0, 3]] {
            let table = Table::build(&candidates(weights));
            let places = places(&table);
            assert!(places.is_sorted_by_key(|(place, _)| *place), "{weights:?}");
            let mut seed = Seed(1);
            let spread = (0..20_000).map(|_| seed.next());
            let extremes = [0, 1, u64::MAX, places[0].0, places[places.len() - 1].0];
            for hash in spread.chain(extremes) {
                // What lies below the precision of a point is not compared.
                let hash = hash >> (32 - table.bits) << (32 - table.bits);
                let expected = places.iter().position(|(place, _)| *place >= hash).unwrap_or(0);
                assert_eq!(table.find(hash), expected, "{weights:?} {hash:x}");
            }
        }
    }

    #[test]
    fn an_endpoint_has_160_points_for_each_unit_of_its_weight() {
        let table = Table::build(&candidates(&[1, 0, 5]));
        let of = |owner| table.points.iter().filter(|point| point.owner == owner).count();
        assert_eq!([of(0), of(1), of(2)], [160, 0, 800]);
    }

    #[test]
    fn the_points_of_an_endpoint_depend_on_itself_alone() {
        let set = candidates(&[3, 2, 1]);
        let of = |set: &[Candidate], owner: u32| -> Vec<u64> {
            // Precision depends on the size of the ring; 40 bits are always there.
            let all = places(&Table::build(set)).into_iter();
            all.filter(|(_, of)| *of == owner).map(|(place, _)| place >> 24).collect()
        };
        assert_eq!(of(&set, 1), of(&set[1..2], 0));
        assert_eq!(of(&set, 2), of(&[set[2], set[0]], 0));
    }

    #[test]
    fn a_large_ring_is_halved_for_all_and_nobody_is_left_out() {
        let mut weights = vec![1000; 9_999];
        weights.push(1);
        let table = Table::build(&candidates(&weights));
        assert!(table.points.len() as u64 <= RING_POINTS + 10_000, "{}", table.points.len());
        assert!(table.points.len() as u64 > RING_POINTS / 4, "{}", table.points.len());
        assert_eq!(table.points.iter().filter(|point| point.owner == 9_999).count(), 1);
        assert_eq!(halvings(&candidates(&[1; 6553])), 0);
        assert_eq!(halvings(&candidates(&[1; 6554])), 1);
        assert!(Table::build(&candidates(&[u32::MAX; 3])).points.len() as u64 <= RING_POINTS);
    }
}
