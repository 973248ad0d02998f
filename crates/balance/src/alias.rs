//! Samples endpoints at random by weight, in one step each: the alias method (Walker 1974, Vose 1991).
//!
//! One column per endpoint, all of the same width. A column belongs to its endpoint up to its cut, and beyond
//! that to one endpoint of more than mean weight. All in whole numbers; a cut is rounded to 2^-32 of its column.

use std::fmt;
use std::sync::Arc;

use crate::by_weight::pick_by_weight;
use crate::hash::scale;
use crate::{Candidate, Pick, Seed};

/// Draws before every candidate is looked at instead, at least; and one more for so many endpoints: so a draw
/// from a small part that may be used seldom costs a look at all of a large set.
const DRAWS: usize = 16;
const ENDPOINTS_PER_DRAW: usize = 4;

/// The table with a worker's own randomness.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    table: Arc<AliasTable>,
    seed: Seed,
}

impl Sampler {
    pub(crate) fn new(seed: Seed) -> Self {
        Self { table: Arc::default(), seed }
    }

    pub(crate) fn rebuild(&mut self, candidates: &[Candidate]) {
        self.table = Arc::new(AliasTable::build(candidates));
    }

    /// The same table with other randomness.
    pub(crate) fn fork(&self, seed: Seed) -> Self {
        Self { table: Arc::clone(&self.table), seed }
    }

    /// A random number, for decisions beside the draws.
    pub(crate) fn next(&mut self) -> u64 {
        self.seed.next()
    }

    /// One endpoint that may be used and is not `except`, as likely as its weight says; `None`: there is none.
    pub(crate) fn draw(&mut self, pick: &Pick<'_>, except: Option<u32>) -> Option<u32> {
        let may = |index: u32| Some(index) != except && pick.may_use(index);
        for _ in 0..DRAWS.max(pick.candidates.len() / ENDPOINTS_PER_DRAW) {
            let Some(index) = self.table.at(self.seed.next()) else { break };
            if may(index) {
                return Some(index);
            }
        }
        pick_by_weight(pick, self.seed.next(), may)
    }

    /// Two different endpoints drawn one after the other; the second is `None` when only one may be used.
    pub(crate) fn draw_two(&mut self, pick: &Pick<'_>) -> Option<(u32, Option<u32>)> {
        let first = self.draw(pick, None)?;
        let second = if pick.candidates.len() > 1 { self.draw(pick, Some(first)) } else { None };
        Some((first, second))
    }
}

#[derive(Default)]
struct AliasTable {
    columns: Vec<Column>,
}

struct Column {
    /// The part of the column that is its endpoint's, of 2^32.
    cut: u32,
    /// Whose the rest is.
    alias: u32,
}

impl AliasTable {
    fn build(candidates: &[Candidate]) -> Self {
        let total: u128 = candidates.iter().map(|candidate| u128::from(candidate.weight)).sum();
        if total == 0 {
            return Self::default();
        }
        // Widths are scaled so that a column is `total` wide.
        let scaled = |candidate: &Candidate| u128::from(candidate.weight) * candidates.len() as u128;
        let mut widths: Vec<u128> = candidates.iter().map(scaled).collect();
        let mut columns: Vec<Column> =
            (0..candidates.len() as u32).map(|own| Column { cut: u32::MAX, alias: own }).collect();
        let (mut narrow, mut wide): (Vec<u32>, Vec<u32>) =
            (0..candidates.len() as u32).partition(|index| widths[*index as usize] < total);
        // As long as one is too narrow for its column, another is wider than its own.
        while let (Some(poor), Some(rich)) = (narrow.pop(), wide.last().copied()) {
            let (poor, giver) = (poor as usize, rich as usize);
            columns[poor] = Column { cut: ((widths[poor] << 32) / total) as u32, alias: rich };
            widths[giver] -= total - widths[poor];
            if widths[giver] < total {
                wide.pop();
                narrow.push(rich);
            }
        }
        Self { columns }
    }

    /// The endpoint at `position` of 2^64.
    fn at(&self, position: u64) -> Option<u32> {
        let number = scale(position, self.columns.len());
        let column = self.columns.get(number)?;
        let within = (position.wrapping_mul(self.columns.len() as u64) >> 32) as u32;
        Some(if within < column.cut { number as u32 } else { column.alias })
    }
}

impl fmt::Debug for AliasTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AliasTable").field("columns", &self.columns.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of 2^64 that each endpoint has, by what the columns say.
    fn shares(weights: &[u32]) -> Vec<f64> {
        let candidates: Vec<Candidate> =
            weights.iter().map(|weight| Candidate { weight: *weight, ready: true, id: 0 }).collect();
        let table = AliasTable::build(&candidates);
        let mut shares = vec![0.0; weights.len()];
        for (own, column) in table.columns.iter().enumerate() {
            let cut = f64::from(column.cut) / 2_f64.powi(32);
            shares[own] += cut / weights.len() as f64;
            shares[column.alias as usize] += (1.0 - cut) / weights.len() as f64;
        }
        shares
    }

    #[test]
    fn the_columns_give_each_endpoint_exactly_its_weight() {
        for weights in
            [&[1][..], &[1, 1, 1], &[5, 0, 1, 1], &[1000, 1, 0, 999, 3], &[0, 0, 7], &[u32::MAX, 1]]
        {
            let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for (share, weight) in shares(weights).iter().zip(weights) {
                assert!((share - f64::from(*weight) / total).abs() < 1e-9, "{weights:?}: {share}");
            }
        }
    }

    #[test]
    fn one_without_weight_has_no_part_of_any_column() {
        let table = AliasTable::build(&[3, 0, 2].map(|weight| Candidate { weight, ready: true, id: 0 }));
        let mut seed = Seed(5);
        assert!((0..10_000).all(|_| table.at(seed.next()) != Some(1)));
        assert_eq!(AliasTable::build(&[]).at(7), None);
    }
}
