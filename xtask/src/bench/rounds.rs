//! Interleaved rounds, the first one dropped.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Small;
use super::contestant::{Contestant, Place, Running};
use super::entrant::Entrant;
use super::load::wrk::{Load, Outcome};
use super::order::order;

/// One run of load against one contestant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// CPU time per exchange, in microseconds.
    pub(crate) cpu_us: f64,
    /// Share of its CPU that was in use, 0–1.
    pub(crate) busy: f64,
    pub(crate) outcome: Outcome,
}

/// All rounds with one number of connections.
pub(crate) struct Rounds {
    pub(crate) connections: usize,
    /// By contestant, then by round.
    pub(crate) samples: Vec<Vec<Sample>>,
}

/// What the rounds gave: the tables, and the memory of each contestant before and after them.
pub(crate) struct Interleaved {
    pub(crate) rounds: Vec<Rounds>,
    pub(crate) resident_at_start: Vec<u64>,
    pub(crate) resident_after: Vec<u64>,
}

/// Runs everything in turn; all contestants stay up between their turns.
pub(crate) fn interleaved(
    args: &Small,
    contestants: &[Contestant],
    place: &mut Place,
) -> Result<Interleaved> {
    let running: Vec<_> = contestants.iter().map(|c| c.start(place)).collect::<Result<_>>()?;
    let resident = || running.iter().map(|running| running.program.resident()).collect();
    let resident_at_start = resident();
    let mut rounds = Vec::new();
    for &connections in &args.connections {
        let mut samples = vec![Vec::new(); contestants.len()];
        for round in 0..=args.rounds {
            for i in order(round, running.len()) {
                let running = &running[i];
                let load = load(running, connections, args.time());
                let sample =
                    sample(running, &load, place).with_context(|| contestants[i].name().to_owned())?;
                println!(
                    "bench: {connections} connections, round {round}: {:<12} {:6.2} µs",
                    contestants[i].name(),
                    sample.cpu_us
                );
                if round > 0 {
                    samples[i].push(sample);
                }
            }
        }
        rounds.push(Rounds { connections, samples });
    }
    Ok(Interleaved { rounds, resident_at_start, resident_after: resident() })
}

/// The plain load: the root of the default host.
pub(crate) fn load(running: &Running, connections: usize, time: Duration) -> Load<'static> {
    Load { port: running.address.port(), path: "/", host: "", connections, time, accepts: "", tls: None }
}

/// Runs a load and takes the CPU time that the contestant spent on it.
pub(crate) fn sample(running: &Running, load: &Load<'_>, place: &Place) -> Result<Sample> {
    let before = running.program.cpu();
    let outcome = load.run(&place.folder)?;
    let spent = running.program.cpu().saturating_sub(before);
    Ok(Sample {
        cpu_us: spent.as_secs_f64() * 1e6 / outcome.requests.max(1) as f64,
        busy: spent.as_secs_f64() / outcome.time.as_secs_f64().max(1e-3),
        outcome,
    })
}
