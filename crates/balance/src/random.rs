//! Weighted random: no memory of what was picked, so workers need not know of each other at all.

use crate::alias::Sampler;
use crate::{Balance, Candidate, Pick, Seed};

/// The state for one service on one worker.
#[derive(Debug)]
pub(crate) struct Random {
    sampler: Sampler,
}

pub(crate) fn new(seed: Seed) -> Random {
    Random { sampler: Sampler::new(seed) }
}

impl Balance for Random {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        self.sampler.draw(pick, None)
    }

    fn rebuild(&mut self, candidates: &[Candidate]) {
        self.sampler.rebuild(candidates);
    }

    fn fork(&self, seed: Seed) -> Box<dyn Balance> {
        Box::new(Self { sampler: self.sampler.fork(seed) })
    }

    fn name(&self) -> &'static str {
        "random"
    }
}
