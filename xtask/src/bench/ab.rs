//! `cargo xtask bench ab`: the table of a published load balancer, run again: `ab` before five backends, from ten
//! connections at once to as many as the descriptors allow, beside nginx and a small balancer in Go.
//!
//! Order of a run: for each layout, start the backends and the entrants ([`entrant`]), which all stay up → for each
//! way of connecting and each number of connections, interleaved rounds of [`ab`](super::load::ab) → [`report`]. ab
//! speaks HTTP/1.0: without `-k` each request has a connection of its own, as in the published table; with it the
//! connection is kept.

mod entrant;
mod report;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::contestant::{Place, Running, backend};
use super::frame::{Conditions, Use};
use super::layout::Layout;
use super::load::ab::{Load, Outcome, Way};
use super::order::order;
use super::{Folder, process};
use crate::command::exists;
use entrant::{Balancer, Entrant};
use report::Report;

/// Backends, as in the published table.
const BACKENDS: usize = 5;
/// Fewer rounds or connections are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_CONCURRENCY: usize = 9500;
/// Descriptors of a proxy beyond two for each connection of ab.
const DESCRIPTORS: u64 = 250;

#[derive(clap::Args)]
pub(crate) struct Ab {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Requests per entrant and round; twice as many where connections are kept
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Numbers of connections at once, each measured on its own
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,2000,5000,9500")]
    concurrency: Vec<usize>,
    /// Who runs on which CPU
    #[arg(long, value_delimiter = ',', value_enum, default_value = "shared,apart")]
    layouts: Vec<Layout>,
    /// How requests share connections
    #[arg(long, value_delimiter = ',', value_enum, default_value = "each,kept")]
    ways: Vec<Way>,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); it is the backend too
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// The Go that builds the Go balancer (default: the one in the search path)
    #[arg(long, default_value = "go")]
    go: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One run of ab against one entrant.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// CPU time per request, in microseconds.
    cpu_us: f64,
    /// Requests per second.
    rate: f64,
    /// CPUs of the proxy that were in use, 0–2.
    busy: f64,
    outcome: Outcome,
}

/// All rounds with one number of connections.
struct Rounds {
    layout: Layout,
    way: Way,
    concurrency: usize,
    /// By entrant, then by round.
    samples: Vec<Vec<Sample>>,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Ab) -> Result<()> {
    if let Some(program) = ["taskset", "setpriv", "ab"].iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux apache2-utils");
    }
    let most = args.concurrency.iter().copied().max().unwrap_or(0);
    let nothing = args.rounds == 0 || args.requests < most || args.concurrency.contains(&0);
    if nothing || most == 0 || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs a round, a connection, no fewer requests than connections, and two CPUs");
    }
    let (limit, needed) = (process::raise_descriptors()?, most as u64 * 2 + DESCRIPTORS);
    if limit < needed {
        bail!("{most} connections need a descriptor limit of {needed}, and it is {limit}");
    }
    let folder = Folder::new()?;
    let mut place = Place::new(folder.0.clone())?;
    let entrants = entrant::find(args, &mut place)?;
    let conditions = Conditions::begin()?;
    let mut rounds = Vec::new();
    for &layout in &args.layouts {
        rounds.extend(interleaved(args, layout, &entrants, &mut place)?);
    }
    let run = conditions.end()?;
    let report = Report { args, entrants: &entrants, rounds: &rounds };
    let whole = entrants.len() == Balancer::ALL.len()
        && Way::ALL.iter().all(|way| args.ways.contains(way))
        && Layout::ALL.iter().all(|layout| args.layouts.contains(layout));
    let keep = whole && args.rounds >= LEAST_ROUNDS && most >= LEAST_CONCURRENCY;
    run.finish("ab", &report, Use { keep, gate: args.gate })
}

/// Runs everything in turn, each round in another order; all entrants stay up between their turns.
fn interleaved(args: &Ab, layout: Layout, entrants: &[Entrant], place: &mut Place) -> Result<Vec<Rounds>> {
    let cpus = layout.load_cpus();
    let backends: Vec<_> = (0..BACKENDS).map(|_| backend(&args.nginx, cpus, place)).collect::<Result<_>>()?;
    let addresses: Vec<SocketAddr> = backends.iter().map(|backend| backend.address).collect();
    let start = |entrant: &Entrant| entrant.start(layout, &addresses, place);
    let running: Vec<_> = entrants.iter().map(start).collect::<Result<_>>()?;
    let mut all = Vec::new();
    for &way in &args.ways {
        for &concurrency in &args.concurrency {
            let load = Load { cpus, way, concurrency, requests: args.requests };
            let mut samples = vec![Vec::new(); entrants.len()];
            for round in 0..=args.rounds {
                for i in order(round, entrants.len()) {
                    let name = entrants[i].name();
                    let sample = sample(&running[i], &load).with_context(|| name.to_owned())?;
                    println!(
                        "bench: {}, {}, {concurrency}, round {round}: {name:<12} {:6.2} µs, {:6.0}/s, {} failed",
                        layout.name(),
                        way.name(),
                        sample.cpu_us,
                        sample.rate,
                        sample.outcome.failed
                    );
                    if round > 0 {
                        samples[i].push(sample);
                    }
                }
            }
            all.push(Rounds { layout, way, concurrency, samples });
        }
    }
    Ok(all)
}

/// Runs ab and takes the CPU time that the entrant spent on it.
fn sample(running: &Running, load: &Load) -> Result<Sample> {
    let before = running.program.cpu();
    let outcome = load.run(running.address)?;
    let spent = running.program.cpu().saturating_sub(before).as_secs_f64();
    let (requests, seconds) = (outcome.requests.max(1) as f64, outcome.time.as_secs_f64().max(1e-3));
    Ok(Sample { cpu_us: spent * 1e6 / requests, rate: requests / seconds, busy: spent / seconds, outcome })
}
