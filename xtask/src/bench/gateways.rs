//! `cargo xtask bench gateways`: the table of published gateways, run again: the share of a service's throughput that
//! is left behind each of them.
//!
//! Everything runs on both CPUs, as in the published table, where load and gateway shared a machine: what a gateway
//! takes is missing elsewhere. Order of a run: start the service and the entrants ([`entrant`]), which all stay up →
//! warm each → for each load, interleaved rounds, the service itself among them → [`report`]. Three loads: wrk with
//! 200 kept connections, HTTP/1.1; ab with 200 at once, HTTP/1.0 and a connection for each request; and, of those that
//! speak HTTP/2 without TLS, h2load with 200 streams at once on 20 connections.

pub(super) mod entrant;
mod report;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::contestant::{Place, Running, backend_with_h2, beside};
use super::frame::{Conditions, Use};
use super::layout::Layout;
use super::load::ab::{self, Way};
use super::load::{flood, wrk};
use super::order::order;
use super::{Folder, process};
use crate::command::exists;
use entrant::{Entrant, Gateway};
use report::Report;

/// Connections at once, as in the published table.
const CONNECTIONS: usize = 200;
/// Streams at once on each connection of HTTP/2.
const STREAMS: usize = 10;
/// Fewer rounds are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
/// Requests of a load before the first round, so that virtual machines have compiled what they run.
const WARM_UP: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Gateways {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of wrk and h2load per entrant and round
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Requests of ab per entrant and round
    #[arg(long, default_value_t = 50_000)]
    requests: usize,
    /// Who takes part
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Gateway::ALL)]
    peers: Vec<Gateway>,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); it is the service too
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

impl Gateways {
    /// What finds entrants for another bench.
    pub(super) fn of(peers: Vec<Gateway>, thalweg: Option<PathBuf>, nginx: PathBuf) -> Self {
        Self { rounds: 0, seconds: 0, requests: 0, peers, thalweg, nginx, gate: false }
    }
}

/// By what the load is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Load {
    Wrk,
    Ab,
    H2load,
}

impl Load {
    const ALL: [Self; 3] = [Self::Wrk, Self::Ab, Self::H2load];

    fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::H2load => "h2load",
        }
    }
}

/// One run of a load.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Requests per second.
    rate: f64,
    p99: Duration,
    failed: u64,
    /// CPU time of the gateway per request, in microseconds.
    cpu_us: f64,
}

/// What a gateway holds after the rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    resident: u64,
    threads: usize,
}

/// All that was measured. Who is asked: the service itself, then the entrants.
struct Measured {
    /// By load, then by who is asked, then by round.
    samples: Vec<Vec<Vec<Sample>>>,
    /// By entrant.
    held: Vec<Held>,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Gateways) -> Result<()> {
    let programs = ["taskset", "setpriv", "wrk", "ab", "h2load"];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!(
            "{program} is not installed\nhelp: apt-get install util-linux wrk apache2-utils nghttp2-client"
        );
    }
    if args.rounds == 0 || args.seconds == 0 || args.requests < CONNECTIONS {
        bail!("the bench needs a round, a second and {CONNECTIONS} requests");
    }
    process::raise_descriptors()?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.path())?;
    let entrants = entrant::find(args, &mut place)?;
    let conditions = Conditions::begin()?;
    let measured = measure(args, &entrants, &mut place)?;
    let report = Report { args, entrants: &entrants, measured: &measured };
    let keep = entrants.len() == Gateway::ALL.len() && args.rounds >= LEAST_ROUNDS;
    conditions.end()?.finish("gateways", &report, Use { keep, gate: args.gate })
}

fn measure(args: &Gateways, entrants: &[Entrant], place: &mut Place) -> Result<Measured> {
    let service = backend_with_h2(&args.nginx, Layout::Shared.load_cpus(), place)?;
    place.backend = service.address;
    let mut asked = vec![("direct", service, Some(beside(place.backend)))];
    for entrant in entrants {
        let running = entrant.start(place)?;
        let h2 = entrant.h2(running.address);
        asked.push((entrant.name(), running, h2));
    }
    for (name, running, _) in &asked[1..] {
        println!("bench: {name} is warmed for {} s", WARM_UP.as_secs());
        wrk(running, WARM_UP, place).with_context(|| (*name).to_owned())?;
    }
    let mut samples = Vec::new();
    for load in Load::ALL {
        let mut of_load = vec![Vec::new(); asked.len()];
        for round in 0..=args.rounds {
            for i in order(round, asked.len()) {
                let (name, running, h2) = &asked[i];
                if load == Load::H2load && h2.is_none() {
                    continue;
                }
                let sample = sample(args, load, (running, *h2), place).with_context(|| (*name).to_owned())?;
                println!(
                    "bench: {}, round {round}: {name:<22} {:7.0}/s, {:6.1} µs, {} failed",
                    load.name(),
                    sample.rate,
                    sample.cpu_us,
                    sample.failed
                );
                if round > 0 {
                    of_load[i].push(sample);
                }
            }
        }
        samples.push(of_load);
    }
    let held = asked[1..].iter().map(|(_, running, _)| held(running)).collect();
    Ok(Measured { samples, held })
}

fn wrk(running: &Running, time: Duration, place: &Place) -> Result<wrk::Outcome> {
    let port = running.address.port();
    let load =
        wrk::Load { port, path: "/", host: "", connections: CONNECTIONS, time, accepts: "", tls: None };
    load.run_on(Layout::Shared.load_cpus(), &place.folder)
}

fn sample(
    args: &Gateways,
    load: Load,
    (running, h2): (&Running, Option<SocketAddr>),
    place: &Place,
) -> Result<Sample> {
    let before = running.program.cpu();
    let (requests, time, p99, failed) = match load {
        Load::Wrk => {
            let outcome = wrk(running, Duration::from_secs(args.seconds), place)?;
            (outcome.requests, outcome.time, outcome.p99, outcome.errors)
        }
        Load::Ab => {
            let cpus = Layout::Shared.load_cpus();
            let load = ab::Load { cpus, way: Way::Each, concurrency: CONNECTIONS, requests: args.requests };
            let outcome = load.run(running.address)?;
            (outcome.requests, outcome.time, outcome.p99, outcome.failed)
        }
        Load::H2load => {
            let address = h2.context("it does not speak HTTP/2")?;
            let time = Duration::from_secs(args.seconds);
            let load = flood::Load { connections: CONNECTIONS / STREAMS, streams: STREAMS, time };
            let outcome = load.run(address, Layout::Shared.load_cpus(), place)?;
            (outcome.requests, time, outcome.p99, outcome.failed)
        }
    };
    let spent = running.program.cpu().saturating_sub(before).as_secs_f64();
    let (requests, seconds) = (requests.max(1) as f64, time.as_secs_f64().max(1e-3));
    Ok(Sample { rate: requests / seconds, p99, failed, cpu_us: spent * 1e6 / requests })
}

fn held(running: &Running) -> Held {
    let threads = |pid| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let threads = running.program.pids().into_iter().map(threads).sum();
    Held { resident: running.program.resident(), threads }
}
