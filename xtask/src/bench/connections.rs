//! `cargo xtask bench connections`: connections of TCP that are passed on as they come, beside HAProxy in its TCP mode.
//!
//! Order of a run: start both backends and the entrants ([`entrant`]), which all stay up → for each [`case`],
//! interleaved rounds of its load → memory of idle connections, in fresh processes → [`report`]. The proxy is pinned to
//! one CPU, load and backends to the other.

mod case;
mod configs;
mod entrant;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::contestant::{Place, Running, backend, built};
use super::frame::{Conditions, Use};
use super::load::bodies::origin;
use super::order::order;
use super::process::{self, CpuTicks};
use super::{Folder, LOAD_CPU, single};
use crate::command::exists;
use case::{Case, Outcome};
use entrant::{Entrant, Peer, Started};
use report::Report;

/// Fewer rounds or shorter ones are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_SECONDS: u64 = 3;
const LEAST_CONNECTIONS: usize = 20_000;
const LEAST_AT_ONCE: usize = 50;
const LEAST_STREAMS: usize = 8;
const LEAST_BYTES: u64 = 50_000_000;
const LEAST_IDLE: usize = 5000;
/// Descriptors beyond two for each idle connection.
const DESCRIPTORS: u64 = 1000;

#[derive(clap::Args)]
pub(crate) struct Connections {
    /// Rounds that count, best an odd number; one more runs before them and is dropped
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Seconds of load per entrant and round, where connections stay
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Connections per entrant and round, where each has one exchange
    #[arg(long, default_value_t = 40_000)]
    requests: usize,
    /// What is measured
    #[arg(long, value_delimiter = ',', value_enum, default_value = "each,kept,download,upload")]
    cases: Vec<Case>,
    /// Who takes part; ratios are those of the first one
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,haproxy,haproxy-splice")]
    peers: Vec<Peer>,
    /// Connections at once with small exchanges
    #[arg(long, default_value_t = 50)]
    concurrency: usize,
    /// Connections side by side with large bodies
    #[arg(long, default_value_t = 8)]
    streams: usize,
    /// Bytes of a body
    #[arg(long, default_value_t = 50_000_000)]
    bytes: u64,
    /// Idle connections for the measurement of memory; 0 skips it
    #[arg(long, default_value_t = 5000)]
    idle: usize,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The HAProxy to measure (default: the one in the search path)
    #[arg(long, default_value = "haproxy")]
    haproxy: PathBuf,
    /// The nginx that is the backend of small exchanges (default: the one in the search path)
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One run of a load against one entrant.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// CPU time for one of what the case counts, in its unit.
    cpu: f64,
    /// The same of both CPUs: the proxy, load, backends, and what the kernel did for any of them.
    both: f64,
    /// How many of them per second.
    rate: f64,
    /// Share of its CPU that was in use, 0–1.
    busy: f64,
    failed: u64,
}

/// All rounds of a case.
struct Rounds {
    case: Case,
    /// By entrant, then by round.
    samples: Vec<Vec<Sample>>,
}

/// What is behind the entrants.
struct Backends {
    small: Running,
    large: Running,
    /// The program of `bench/peers/ends`.
    ends: PathBuf,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Connections) -> Result<()> {
    let programs = ["taskset", "setpriv", "wrk", "ab", &args.nginx.to_string_lossy()];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux wrk apache2-utils nginx-light");
    }
    let counts = [args.rounds, args.requests, args.concurrency, args.streams, args.peers.len()];
    if counts.contains(&0) || args.seconds == 0 || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one of everything and two CPUs");
    }
    let busiest = args.idle.max(args.concurrency).max(args.streams);
    if busiest >= configs::CONNECTIONS {
        bail!("{busiest} connections at once, and HAProxy is told to take {}", configs::CONNECTIONS);
    }
    let (limit, needed) = (process::raise_descriptors()?, args.idle as u64 * 2 + DESCRIPTORS);
    if limit < needed {
        bail!("{} idle connections need a descriptor limit of {needed}, and it is {limit}", args.idle);
    }
    let ends = built("ends", None)?;
    let entrants = entrant::find(args)?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.0.clone())?;
    let (small, large) = (backend(&args.nginx, LOAD_CPU, &mut place)?, origin(&ends, &mut place)?);
    let backends = Backends { small, large, ends };
    let conditions = Conditions::begin()?;
    let rounds = interleaved(args, &entrants, &backends, &mut place)?;
    let mut idle = Vec::new();
    for entrant in entrants.iter().filter(|_| args.idle > 0) {
        let name = entrant.name();
        println!("bench: {name}, {} idle connections", args.idle);
        let started = entrant.start(&mut place, &backends)?;
        let bytes = single::idle(&started.small, args.idle).with_context(|| format!("{name}, idle"))?;
        idle.push(bytes);
    }
    let run = conditions.end()?;
    drop(backends);
    let report = Report { args, entrants: &entrants, rounds: &rounds, idle: &idle };
    run.finish("connections", &report, Use { keep: args.is_whole(), gate: args.gate })
}

/// Runs everything in turn, each round in another order; all entrants stay up between their turns.
fn interleaved(
    args: &Connections,
    entrants: &[Entrant],
    backends: &Backends,
    place: &mut Place,
) -> Result<Vec<Rounds>> {
    let start = |entrant: &Entrant| entrant.start(place, backends);
    let started: Vec<Started> = entrants.iter().map(start).collect::<Result<_>>()?;
    let mut all = Vec::new();
    for &case in &args.cases {
        let mut samples = vec![Vec::new(); entrants.len()];
        for round in 0..=args.rounds {
            for i in order(round, entrants.len()) {
                let name = entrants[i].name();
                let sample = sample(case, args, &backends.ends, &started[i], place)
                    .with_context(|| format!("{name}, {}", case.name()))?;
                println!(
                    "bench: {}, round {round}: {name:<15} {:7.2} {}, {:.2} on both CPUs, busy {:3.0} %, {} failed",
                    case.name(),
                    sample.cpu,
                    case.unit(),
                    sample.both,
                    sample.busy * 100.0,
                    sample.failed
                );
                if round > 0 {
                    samples[i].push(sample);
                }
            }
        }
        all.push(Rounds { case, samples });
    }
    Ok(all)
}

/// Runs a load and takes the CPU time that the entrant spent on it.
fn sample(
    case: Case,
    args: &Connections,
    ends: &std::path::Path,
    on: &Started,
    place: &Place,
) -> Result<Sample> {
    let program = &on.small.program;
    let (before, ticks) = (program.cpu(), CpuTicks::now()?);
    let Outcome { done, time, failed } = case.run(args, ends, on, place)?;
    let (spent, seconds) = (program.cpu().saturating_sub(before).as_secs_f64(), time.as_secs_f64().max(1e-3));
    let both = ticks.worked_until(&CpuTicks::now()?).as_secs_f64();
    if done <= 0.0 {
        bail!("nothing got through");
    }
    let each = |spent: f64| spent * case.scale() / done;
    Ok(Sample { cpu: each(spent), both: each(both), rate: done / seconds, busy: spent / seconds, failed })
}

impl Connections {
    /// Whether everybody does everything, and no less of it than a result has.
    fn is_whole(&self) -> bool {
        let all = Peer::ALL.iter().all(|peer| self.peers.contains(peer))
            && Case::ALL.iter().all(|case| self.cases.contains(case));
        let long = self.rounds >= LEAST_ROUNDS && self.seconds >= LEAST_SECONDS;
        let wide = self.concurrency >= LEAST_AT_ONCE && self.streams >= LEAST_STREAMS;
        let large =
            self.requests >= LEAST_CONNECTIONS && self.bytes >= LEAST_BYTES && self.idle >= LEAST_IDLE;
        all && long && wide && large
    }
}
