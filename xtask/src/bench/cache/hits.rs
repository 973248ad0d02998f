//! CPU per hit: interleaved rounds over objects that are stored before they are counted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Cache;
use super::asker::{How, ask};
use super::configs::Setup;
use super::entrant::{Entrant, Started};
use super::load::Load;
use super::origin::{LARGE, LARGE_BYTES, Origin, SMALL, SMALL_BYTES};
use crate::bench::contestant::Place;
use crate::bench::layout::Layout;
use crate::bench::load::wrk::Outcome;
use crate::bench::order::order;

/// Objects of each size; all of them together fit into what every entrant has.
const OBJECTS: usize = 1000;
/// Where they are, and their size.
const SIZES: [(&str, usize); 2] = [(SMALL, SMALL_BYTES), (LARGE, LARGE_BYTES)];
/// Time in which they must all be stored.
const STORE: Duration = Duration::from_secs(60);
/// Memory for them, in MiB: several times their size.
const MEMORY: u64 = 512;

/// One run of load against one entrant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// CPU time per response, in microseconds.
    pub(super) cpu_us: f64,
    /// CPUs of the proxy that were in use, 0–2.
    pub(super) busy: f64,
    /// Share of the responses that the origin was not asked for, 0–1.
    pub(super) hits: f64,
    pub(super) outcome: Outcome,
}

/// All rounds with objects of one size.
pub(super) struct Rounds {
    pub(super) layout: Layout,
    pub(super) bytes: usize,
    /// By entrant, then by round.
    pub(super) samples: Vec<Vec<Sample>>,
}

/// Measures in every layout and with every size.
pub(super) fn measure(args: &Cache, entrants: &[Entrant], place: &mut Place) -> Result<Vec<Rounds>> {
    let mut all = Vec::new();
    for &layout in &args.layouts {
        let origin = Origin::start(&args.nginx, layout.load_cpus(), place)?;
        let setup = Setup { memory: MEMORY, objects: OBJECTS * SIZES.len(), workers: layout.workers() };
        let start = |entrant: &Entrant| entrant.start(setup, layout.proxy_cpus(), place);
        let running: Vec<_> = entrants.iter().map(start).collect::<Result<_>>()?;
        for (prefix, bytes) in SIZES {
            let (connections, seconds) = (args.connections, args.seconds);
            let load = Load { layout, connections, seconds, prefix, count: OBJECTS };
            for (entrant, on) in entrants.iter().zip(&running) {
                store(on, prefix).with_context(|| entrant.name().to_owned())?;
            }
            let mut samples = vec![Vec::new(); entrants.len()];
            for round in 0..=args.rounds {
                for i in order(round, entrants.len()) {
                    let name = entrants[i].name();
                    let sample = sample(&running[i], &load, &origin, place);
                    let sample = sample.with_context(|| name.to_owned())?;
                    println!(
                        "bench: {}, {bytes} bytes, round {round}: {name:<18} {:6.2} µs, {:7.0}/s, {:5.1} % hits, {} \
                         failed",
                        layout.name(),
                        sample.cpu_us,
                        sample.rate(),
                        sample.hits * 100.0,
                        sample.outcome.errors
                    );
                    if round > 0 {
                        samples[i].push(sample);
                    }
                }
            }
            all.push(Rounds { layout, bytes, samples });
        }
    }
    Ok(all)
}

/// Asks for every object, so that it is stored; twice, as a cache may want to see it asked for again.
fn store(on: &Started, prefix: &'static str) -> Result<()> {
    let objects: Vec<u32> = (0..OBJECTS as u32).flat_map(|object| [object; 2]).collect();
    let how = How { prefix, only_if_cached: false, until: Instant::now() + STORE };
    let tally = ask(on.running.address, &objects, how)?;
    ensure!(tally.ok == objects.len() as u64, "the objects cannot be stored: {tally:?}");
    Ok(())
}

/// Runs a load and takes the CPU time that the entrant spent on it.
fn sample(on: &Started, load: &Load<'_>, origin: &Origin, place: &Place) -> Result<Sample> {
    let (before, reached) = (on.running.program.cpu(), origin.requests()?);
    let outcome = load.run(on.running.address, &place.folder)?;
    let spent = on.running.program.cpu().saturating_sub(before).as_secs_f64();
    if outcome.requests == 0 || spent <= 0.0 {
        bail!("nothing got through");
    }
    let (requests, seconds) = (outcome.requests as f64, outcome.time.as_secs_f64().max(1e-3));
    let misses = origin.requests()?.saturating_sub(reached) as f64;
    let hits = (1.0 - misses / requests).max(0.0);
    Ok(Sample { cpu_us: spent * 1e6 / requests, busy: spent / seconds, hits, outcome })
}

impl Sample {
    /// Responses per second of wall time.
    pub(super) fn rate(&self) -> f64 {
        self.outcome.requests as f64 / self.outcome.time.as_secs_f64().max(1e-3)
    }

    /// Responses per second of CPU time.
    pub(super) fn per_cpu_second(&self) -> f64 {
        if self.cpu_us > 0.0 { 1e6 / self.cpu_us } else { 0.0 }
    }
}
