//! The properties, each for any entry of a list of balancers.

pub(crate) mod keyed;
pub(crate) mod sound;
pub(crate) mod weights;

use std::fmt::Debug;

use proptest::prelude::*;
use thalweg_balance::{Balance, Balancer, Candidate, Loads, NoLoads, Pick, Seed};

/// Whether a property held, and if not, what was seen.
pub(crate) type Verdict = Result<(), TestCaseError>;

/// Loads that a test made up.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeUp {
    pub(crate) in_flight: Vec<u32>,
    pub(crate) latency: Vec<Option<f32>>,
}

impl Loads for MadeUp {
    fn in_flight(&self, index: u32) -> u32 {
        self.in_flight.get(index as usize).copied().unwrap_or(0)
    }

    fn total_in_flight(&self) -> u32 {
        self.in_flight.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn latency(&self, index: u32) -> Option<f32> {
        self.latency.get(index as usize).copied().flatten()
    }
}

/// A pick among these, for this key.
pub(crate) fn pick_for(candidates: &[Candidate], hash: u64) -> Pick<'_> {
    Pick { candidates, tried: &[], hash, bounded_load: None, loads: &NoLoads }
}

/// A balancer that knows these endpoints.
pub(crate) fn built(entry: &Balancer, candidates: &[Candidate]) -> Box<dyn Balance> {
    let mut balancer = (entry.new)(Seed(7));
    balancer.rebuild(candidates);
    balancer
}

/// Ready endpoints of these weights, with ids of their own.
pub(crate) fn ready(weights: &[u32]) -> Vec<Candidate> {
    let id = |number: usize| thalweg_balance::endpoint_id(&format!("http://10.0.0.{number}:8080"));
    let candidate =
        |(number, weight): (usize, &u32)| Candidate { weight: *weight, ready: true, id: id(number) };
    weights.iter().enumerate().map(candidate).collect()
}

/// An endpoint with an id of its own.
pub(crate) fn candidate(weight: impl Strategy<Value = u32>) -> impl Strategy<Value = Candidate> {
    (weight, any::<bool>(), any::<u64>()).prop_map(|(weight, ready, id)| Candidate { weight, ready, id })
}
