//! Least requests: the endpoint with the fewest requests in flight for its weight.
//!
//! Up to [`FEW`] endpoints are all looked at. Of more, two are drawn by weight and the less loaded one is taken:
//! the power of two choices (Mitzenmacher 1996) keeps the most loaded one nearly as low as a look at all, costs the
//! same at any size, and workers whose counts are a moment old do not all run to the same endpoint.
//!
//! Of equals, the one drawn first is taken, so without load the picks follow the weights.

use crate::alias::Sampler;
use crate::{Balance, Candidate, Pick, Seed};

/// Most endpoints that are all looked at.
const FEW: usize = 4;

/// The state for one service on one worker.
#[derive(Debug)]
pub(crate) struct LeastRequests {
    sampler: Sampler,
}

pub(crate) fn new(seed: Seed) -> LeastRequests {
    LeastRequests { sampler: Sampler::new(seed) }
}

impl Balance for LeastRequests {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        if pick.candidates.len() <= FEW {
            return self.least_of_all(pick);
        }
        let (first, second) = self.sampler.draw_two(pick)?;
        let Some(second) = second else { return Some(first) };
        Some(if Load::of(pick, second).is_less(&Load::of(pick, first)) { second } else { first })
    }

    fn rebuild(&mut self, candidates: &[Candidate]) {
        self.sampler.rebuild(candidates);
    }

    fn fork(&self, seed: Seed) -> Box<dyn Balance> {
        Box::new(Self { sampler: self.sampler.fork(seed) })
    }

    fn name(&self) -> &'static str {
        "least_requests"
    }
}

impl LeastRequests {
    /// The least loaded one; of equals one at random by weight.
    fn least_of_all(&mut self, pick: &Pick<'_>) -> Option<u32> {
        let mut least: Option<(u32, Load)> = None;
        // The weight of those that are as little loaded as the least.
        let mut tied = 0;
        for index in (0..pick.candidates.len() as u32).filter(|index| pick.may_use(*index)) {
            let load = Load::of(pick, index);
            match &least {
                Some((_, best)) if best.is_less(&load) => {}
                Some((_, best)) if !load.is_less(best) => {
                    tied += load.weight;
                    let lot = (u128::from(self.sampler.next()) * u128::from(tied)) >> 64;
                    if lot < u128::from(load.weight) {
                        least = Some((index, load));
                    }
                }
                _ => {
                    tied = load.weight;
                    least = Some((index, load));
                }
            }
        }
        least.map(|(index, _)| index)
    }
}

/// Requests in flight for a weight.
struct Load {
    in_flight: u64,
    weight: u64,
}

impl Load {
    fn of(pick: &Pick<'_>, index: u32) -> Self {
        let weight = pick.candidates.get(index as usize).map_or(0, |candidate| candidate.weight);
        Self { in_flight: u64::from(pick.loads.in_flight(index)), weight: u64::from(weight) }
    }

    fn is_less(&self, other: &Self) -> bool {
        self.in_flight * other.weight < other.in_flight * self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loads;

    struct InFlight(Vec<u32>);

    impl Loads for InFlight {
        fn in_flight(&self, index: u32) -> u32 {
            self.0[index as usize]
        }

        fn total_in_flight(&self) -> u32 {
            self.0.iter().sum()
        }

        fn latency(&self, _index: u32) -> Option<f32> {
            None
        }
    }

    /// Sends so many requests that never end, and says where they are.
    fn pile_up(weights: &[u32], requests: usize) -> Vec<u32> {
        let set: Vec<Candidate> =
            weights.iter().map(|weight| Candidate { weight: *weight, ready: true, id: 0 }).collect();
        let mut balancer = new(Seed(3));
        balancer.rebuild(&set);
        let mut loads = InFlight(vec![0; set.len()]);
        for _ in 0..requests {
            let pick = Pick { candidates: &set, tried: &[], hash: 0, bounded_load: None, loads: &loads };
            let index = balancer.pick(&pick).unwrap();
            loads.0[index as usize] += 1;
        }
        loads.0
    }

    #[test]
    fn of_a_few_the_least_loaded_is_taken_whichever_it_is() {
        assert_eq!(pile_up(&[1, 1, 1, 1], 400), [100; 4]);
        assert_eq!(pile_up(&[1, 3], 400), [100, 300]);
    }

    #[test]
    fn of_many_none_is_far_above_its_share() {
        let found = pile_up(&[1; 100], 10_000);
        // One choice alone would leave the most loaded one near 125; two leave it within log2(ln 100) + O(1).
        assert!(found.iter().all(|load| (94..=104).contains(load)), "{found:?}");
        let weighted = pile_up(&[1, 2, 3, 4, 10, 20], 4000);
        let share = [100, 200, 300, 400, 1000, 2000];
        assert!(
            weighted.iter().zip(share).all(|(load, due)| load.abs_diff(due) <= 12 + due / 20),
            "{weighted:?}"
        );
    }
}
