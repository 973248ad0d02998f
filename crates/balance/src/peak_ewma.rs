//! Peak EWMA: of two endpoints drawn by weight, the one that will answer sooner (Finagle's algorithm).
//!
//! What an endpoint costs is its latency, times one more than what is in flight there, that counted against its
//! weight. The latency itself rises at once with a slow answer and falls slowly; who measures it (see
//! [`crate::Loads::latency`]) lets it fall with time too, so an endpoint that was slow is tried again.
//!
//! **An endpoint of which nothing is known** is tried at once when nothing is in flight there, and hardly ever
//! while its first requests have not been answered: it may be slow, and many workers would find out together.

use crate::alias::Sampler;
use crate::{Balance, Candidate, Pick, Seed};

/// The latency assumed of an endpoint that has not yet answered its first requests, in microseconds: a thousand
/// seconds, above what any answer takes.
const UNANSWERED: f32 = 1e9;

/// The state for one service on one worker.
#[derive(Debug)]
pub(crate) struct PeakEwma {
    sampler: Sampler,
    /// Of the endpoints that have weight.
    mean_weight: f32,
}

pub(crate) fn new(seed: Seed) -> PeakEwma {
    PeakEwma { sampler: Sampler::new(seed), mean_weight: 1.0 }
}

impl Balance for PeakEwma {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        let (first, second) = self.sampler.draw_two(pick)?;
        let Some(second) = second else { return Some(first) };
        Some(if self.cost(pick, second) < self.cost(pick, first) { second } else { first })
    }

    fn rebuild(&mut self, candidates: &[Candidate]) {
        self.sampler.rebuild(candidates);
        let total: u64 = candidates.iter().map(|candidate| u64::from(candidate.weight)).sum();
        let weighty = candidates.iter().filter(|candidate| candidate.weight > 0).count();
        self.mean_weight = total as f32 / weighty.max(1) as f32;
    }

    fn fork(&self, seed: Seed) -> Box<dyn Balance> {
        Box::new(Self { sampler: self.sampler.fork(seed), mean_weight: self.mean_weight })
    }

    fn name(&self) -> &'static str {
        "peak_ewma"
    }
}

impl PeakEwma {
    /// The expected time to an answer, in microseconds, on a scale of its own.
    fn cost(&self, pick: &Pick<'_>, index: u32) -> f32 {
        let weight = pick.candidates.get(index as usize).map_or(1, |candidate| candidate.weight.max(1));
        let in_flight = pick.loads.in_flight(index);
        let latency = match pick.loads.latency(index) {
            Some(known) => known,
            None if in_flight == 0 => return 0.0,
            None => UNANSWERED,
        };
        latency * (1.0 + in_flight as f32 * self.mean_weight / weight as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loads;

    /// Requests in flight and latency of each.
    struct Known(Vec<(u32, Option<f32>)>);

    impl Loads for Known {
        fn in_flight(&self, index: u32) -> u32 {
            self.0[index as usize].0
        }

        fn total_in_flight(&self) -> u32 {
            self.0.iter().map(|known| known.0).sum()
        }

        fn latency(&self, index: u32) -> Option<f32> {
            self.0[index as usize].1
        }
    }

    /// How often each is picked, of 1,000.
    fn picks(weights: &[u32], known: &[(u32, Option<f32>)]) -> Vec<u32> {
        let set: Vec<Candidate> =
            weights.iter().map(|weight| Candidate { weight: *weight, ready: true, id: 0 }).collect();
        let mut balancer = new(Seed(3));
        balancer.rebuild(&set);
        let (loads, mut counts) = (Known(known.to_vec()), vec![0; set.len()]);
        for _ in 0..1000 {
            let pick = Pick { candidates: &set, tried: &[], hash: 0, bounded_load: None, loads: &loads };
            counts[balancer.pick(&pick).unwrap() as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_one_that_answers_sooner_is_taken() {
        assert_eq!(picks(&[1, 1], &[(0, Some(900.0)), (0, Some(1000.0))]), [1000, 0]);
        assert_eq!(picks(&[1, 1], &[(3, Some(500.0)), (0, Some(1000.0))]), [0, 1000], "2,000 with its load");
        assert_eq!(
            picks(&[9, 1], &[(3, Some(500.0)), (1, Some(300.0))]),
            [1000, 0],
            "833 and 1,800 by weight"
        );
    }

    #[test]
    fn an_endpoint_that_nothing_is_known_of_is_tried_once() {
        assert_eq!(picks(&[1, 1], &[(0, None), (0, Some(1.0))]), [1000, 0], "nothing in flight there");
        assert_eq!(picks(&[1, 1], &[(1, None), (50, Some(1e6))]), [0, 1000], "one under way");
        assert_eq!(picks(&[1, 1], &[(2, None), (1, None)]), [0, 1000], "the fewer of two");
    }

    #[test]
    fn the_slowest_of_many_is_never_taken() {
        let known: Vec<_> = (0..6).map(|i| (0, Some(if i == 4 { 9e5 } else { 1e3 }))).collect();
        let found = picks(&[1; 6], &known);
        assert_eq!(found[4], 0);
        assert!(found.iter().enumerate().all(|(i, count)| i == 4 || *count > 120), "{found:?}");
    }
}
