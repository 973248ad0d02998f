//! Draws lots: a ticket for each unit of weight, and one ticket wins. Looks at every endpoint.

use crate::{Balance, Candidate, Pick, Seed};

/// The state for one service on one worker.
#[derive(Debug)]
pub(crate) struct Lottery {
    seed: Seed,
}

pub(crate) fn new(seed: Seed) -> Lottery {
    Lottery { seed }
}

impl Balance for Lottery {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        let usable = || (0..pick.candidates.len() as u32).filter(|index| pick.may_use(*index));
        let tickets = |index: u32| u64::from(pick.candidates[index as usize].weight);
        let sold: u64 = usable().map(tickets).sum();
        let mut winner = self.seed.next().checked_rem(sold)?;
        usable().find(|index| match winner.checked_sub(tickets(*index)) {
            Some(rest) => {
                winner = rest;
                false
            }
            None => true,
        })
    }

    fn rebuild(&mut self, _candidates: &[Candidate]) {
        // Nothing to prepare. Tables would be made here, and kept in an `Arc` that forks share.
    }

    fn fork(&self, seed: Seed) -> Box<dyn Balance> {
        Box::new(Self { seed })
    }

    fn name(&self) -> &'static str {
        "lottery"
    }
}
