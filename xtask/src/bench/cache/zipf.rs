//! The hit ratio on requests of Zipf's law: one sequence through each entrant, and through simulated caches of as many
//! objects as the entrant held at its end.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::asker::{How, ask};
use super::configs::Setup;
use super::entrant::Entrant;
use super::origin::{Origin, SMALL};
use super::{Cache, memory, simulated};
use crate::bench::contestant::Place;
use crate::bench::layout::Layout;

/// The exponents.
const EXPONENTS: [f64; 2] = [0.9, 1.0];
/// Most time for one sequence.
const LIMIT: Duration = Duration::from_secs(300);

/// One sequence through one entrant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ratio {
    pub(super) exponent: f64,
    /// Index of the entrant.
    pub(super) entrant: usize,
    pub(super) requests: u64,
    /// Share of the requests that the origin was not asked for, 0–1.
    pub(super) hits: f64,
    /// Objects that the entrant held at the end, from a sample.
    pub(super) held: u64,
    /// The same share in simulated caches of so many objects.
    pub(super) lru: f64,
    pub(super) s3_fifo: f64,
}

/// Sends both sequences through one entrant after the other, each of which is new every time.
pub(super) fn measure(args: &Cache, entrants: &[Entrant], place: &mut Place) -> Result<Vec<Ratio>> {
    let layout = Layout::Shared;
    let setup = Setup { memory: args.zipf_memory, objects: args.zipf_objects, workers: layout.workers() };
    let all: Vec<u32> = (0..u32::try_from(args.zipf_objects)?).collect();
    let mut ratios = Vec::new();
    for exponent in EXPONENTS {
        let sequence = sequence(args.zipf_objects, args.zipf_requests, exponent);
        for (index, entrant) in entrants.iter().enumerate() {
            let origin = Origin::start(&args.nginx, layout.load_cpus(), place)?;
            let on = entrant.start(setup, layout.proxy_cpus(), place)?;
            let reached = origin.requests()?;
            let how = How { prefix: SMALL, only_if_cached: false, until: Instant::now() + LIMIT };
            let tally = ask(on.running.address, &sequence, how).with_context(|| entrant.name().to_owned())?;
            ensure!(tally.ok == tally.all() && tally.ok > 0, "{}: {tally:?}", entrant.name());
            let misses = origin.requests()?.saturating_sub(reached);
            let held = memory::held(&on, &origin, &all)?;
            let capacity = usize::try_from(held)?.max(1);
            let seen = &sequence[..usize::try_from(tally.all())?.min(sequence.len())];
            let ratio = Ratio {
                exponent,
                entrant: index,
                requests: tally.all(),
                hits: 1.0 - misses as f64 / tally.all() as f64,
                held,
                lru: simulated::lru(seen, capacity),
                s3_fifo: simulated::s3_fifo(seen, capacity),
            };
            println!(
                "bench: Zipf {exponent}: {:<18} {:.2} % hits, {held} objects held; LRU {:.2} %, S3-FIFO {:.2} %",
                entrant.name(),
                ratio.hits * 100.0,
                ratio.lru * 100.0,
                ratio.s3_fifo * 100.0
            );
            ratios.push(ratio);
            let folder = on.folder.clone();
            drop(on);
            let _ = fs::remove_dir_all(folder);
        }
    }
    Ok(ratios)
}

/// Requests for objects whose share falls with their rank to the power of the exponent; the same in every
/// run.
fn sequence(objects: usize, requests: usize, exponent: f64) -> Vec<u32> {
    let mut sum = 0.0;
    let shares: Vec<f64> = (1..=objects)
        .map(|rank| {
            sum += 1.0 / (rank as f64).powf(exponent);
            sum
        })
        .collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut one = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        shares.partition_point(|share| *share <= at).min(objects - 1) as u32
    };
    (0..requests).map(|_| one()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_is_asked_for_as_often_as_its_share() {
        let sequence = sequence(2, 30_000, 1.0);
        let first = sequence.iter().filter(|object| **object == 0).count();
        assert!((19_500..20_500).contains(&first), "{first} of 30,000, not two thirds");
        assert!(sequence.iter().all(|object| *object < 2));
    }
}
