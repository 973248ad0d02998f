//! Rendezvous hashing (highest random weight: Thaler and Ravishankar 1998), weighted (Schindelhauer and
//! Schomaker 2005).
//!
//! Key and endpoint together make a random number `u` between 0 and 1; the endpoint with the least `-ln(u) ÷ weight`
//! takes the key. That is exactly proportional to the weights, needs no table, and when an endpoint comes, goes or
//! changes its weight, only its own keys move. The price: every endpoint is looked at for every pick. See
//! [`RENDEZVOUS_ADVISED`].
//!
//! As `-ln(u)` is never below `1 - u`, most endpoints are ruled out without a logarithm. The logarithm is our own: that
//! of a platform's library may differ in its last bit, and then machines would disagree.

use std::sync::Arc;

use crate::hash::mix;
use crate::keyed::{FairShare, Room, identities};
use crate::{Balance, Candidate, Pick, Seed};

/// Most endpoints for which this algorithm is advised: a pick takes time in proportion to their number, and at 200
/// about a microsecond (`cargo xtask bench balance`), where the others take a fraction of that.
pub const RENDEZVOUS_ADVISED: usize = 200;

/// The state for one service on one worker.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    identities: Arc<[u64]>,
    share: FairShare,
}

pub(crate) fn new(_seed: Seed) -> Rendezvous {
    Rendezvous { identities: Arc::default(), share: FairShare::default() }
}

impl Balance for Rendezvous {
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32> {
        let (with_room, any) = highest(pick, &self.identities, &self.share.room(pick));
        with_room.or(any)
    }

    fn rebuild(&mut self, candidates: &[Candidate]) {
        self.identities = identities(candidates).into();
        self.share = FairShare::default();
    }

    fn fork(&self, _seed: Seed) -> Box<dyn Balance> {
        Box::new(Self { identities: Arc::clone(&self.identities), share: FairShare::default() })
    }

    fn name(&self) -> &'static str {
        "rendezvous"
    }
}

/// The first in the key's order that may be used and has room, and the first that may be used at all. The
/// second is only known when there is no first.
pub(crate) fn highest(pick: &Pick<'_>, identities: &[u64], room: &Room) -> (Option<u32>, Option<u32>) {
    let key = mix(pick.hash);
    let (mut with_room, mut least) = (None, f64::INFINITY);
    let (mut any, mut least_of_any) = (None, f64::INFINITY);
    for (index, candidate) in (0_u32..).zip(pick.candidates) {
        // An endpoint that came without a rebuild is known by its id alone.
        let identity = identities.get(index as usize).copied().unwrap_or_else(|| mix(candidate.id));
        let number = mix(key ^ identity);
        let weight = f64::from(candidate.weight);
        if remainder(number) > least * weight || !pick.may_use(index) {
            continue;
        }
        let cost = exponential(number) / weight;
        if cost < least && room.has(pick, index) {
            (with_room, least) = (Some(index), cost);
        } else if cost < least_of_any {
            (any, least_of_any) = (Some(index), cost);
        }
    }
    (with_room, any)
}

/// `1 - u`, where `u` is the number as one of 2^53 that are spread evenly between 0 and 1, without both.
fn remainder(number: u64) -> f64 {
    1.0 - unit(number)
}

fn unit(number: u64) -> f64 {
    ((number >> 12) as f64 + 0.5) * 2_f64.powi(-52)
}

/// `-ln(u)`, from additions, multiplications and divisions alone, which give the same bits everywhere.
fn exponential(number: u64) -> f64 {
    const SQRT_2: f64 = std::f64::consts::SQRT_2;
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = unit(number).to_bits();
    // u = mantissa × 2^exponent with the mantissa between √½ and √2.
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | 1.0_f64.to_bits());
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln(m) = 2 artanh(s); the series ends where it is below 2^-45.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut series = 1.0 / 15.0;
    for odd in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * square + 1.0 / odd;
    }
    -(f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * s * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_library_to_a_part_in_10_to_the_12() {
        let mut seed = Seed(9);
        let spread: Vec<u64> = (0..100_000).map(|_| seed.next()).collect();
        for number in spread.into_iter().chain([0, 1, 1 << 63, u64::MAX, u64::MAX - (1 << 12), u64::MAX >> 1])
        {
            let (ours, theirs) = (exponential(number), -unit(number).ln());
            assert!((ours - theirs).abs() <= theirs * 1e-12, "{number:x}: {ours} {theirs}");
            assert!(ours > 0.0 && ours.is_finite());
        }
    }

    #[test]
    fn ruling_out_by_the_remainder_changes_nothing() {
        let set: Vec<Candidate> =
            (0..40).map(|id| Candidate { weight: 1 + id as u32 % 9 * 50, ready: true, id }).collect();
        let (identities, mut seed) = (identities(&set), Seed(4));
        for _ in 0..10_000 {
            let hash = seed.next();
            let cost = |index: &u32| {
                let number = mix(mix(hash) ^ identities[*index as usize]);
                exponential(number) / f64::from(set[*index as usize].weight)
            };
            let expected = (0..40).min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let pick =
                Pick { candidates: &set, tried: &[], hash, bounded_load: None, loads: &crate::NoLoads };
            let found = highest(&pick, &identities, &FairShare::default().room(&pick));
            assert_eq!(found.0, expected);
        }
    }
}
