//! Over many picks the load follows the weights of what is ready.

use proptest::prelude::*;
use thalweg_balance::{Balancer, Candidate, key_hash};

use super::{Verdict, built, pick_for, sound};

/// Picks that are counted, at least; and that for each unit of weight.
const PICKS: usize = 4_000;
/// Standard deviations that chance is allowed: far beyond what ever happens by it.
const DEVIATIONS: f64 = 7.0;

/// How far the picks of an endpoint may be from its due: by what the algorithm is based on.
fn allowed(entry: &Balancer, picks: f64, weight: f64, total: f64) -> f64 {
    if weight == 0.0 {
        return 0.0;
    }
    let share = weight / total;
    // As many lots drawn as picks are made, or as a table has places.
    let chance = |lots: f64| picks * DEVIATIONS * (share * (1.0 - share) / lots).sqrt();
    match entry.name {
        // In turn: exact over whole turns; from outside the ring by a sequence without chance.
        "round_robin" => 4.0 + 0.02 * picks * share,
        // 160 points for each unit of weight, each at random; and keys at random.
        "ring" => 4.0 + chance(picks) + picks * share * DEVIATIONS / (160.0 * weight).sqrt(),
        // Exact with all ready; the places of the others fall to the rest at random.
        "maglev" => 4.0 + chance(picks) + chance(65_537.0),
        // At random, or keys at random.
        _ => 4.0 + chance(picks),
    }
}

/// The load of each endpoint is its weight's part, and that of one that is not ready is nothing.
pub(crate) fn follow(entry: &Balancer, candidates: &[Candidate]) -> Verdict {
    let shares: Vec<u32> = candidates.iter().map(|c| if c.ready { c.weight } else { 0 }).collect();
    let total: u32 = shares.iter().sum();
    if total == 0 {
        return Ok(());
    }
    let picks = PICKS.next_multiple_of(total as usize);
    let mut balancer = built(entry, candidates);
    let mut counts = vec![0_u32; candidates.len()];
    for number in 0..picks as u64 {
        let hash = key_hash(&number.to_le_bytes());
        if let Some(index) = sound::pick(balancer.as_mut(), &pick_for(candidates, hash))? {
            counts[index as usize] += 1;
        }
    }
    for (count, share) in counts.iter().zip(&shares) {
        let due = f64::from(*share) * picks as f64 / f64::from(total);
        let allowed = allowed(entry, picks as f64, f64::from(*share), f64::from(total));
        let off = (f64::from(*count) - due).abs();
        prop_assert!(off <= allowed, "{}: {off} > {allowed}: {counts:?} {shares:?}", entry.name);
    }
    Ok(())
}
