//! `cargo xtask bench compress`: responses of text that are compressed on their way. How many bytes of text a second of
//! CPU time compresses, beside nginx at the same level of gzip, and what is left of them.
//!
//! Order of a run: a text and a backend that serves it → the entrants ([`entrant`]), which all stay up → what one
//! response comes to ([`size`]) → interleaved rounds of load → [`report`]. The proxy is pinned to one CPU, load and
//! backend to the other.

mod entrant;
mod report;
mod size;
mod text;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::contestant::{Place, Running};
use super::frame::{Conditions, Use};
use super::load::wrk::Load;
use super::order::order;
use super::{Folder, LOAD_CPU, configs, process};
use crate::command::{exists, locate};
use entrant::{Entrant, Peer};
use report::Report;

/// Where the text is asked for.
const PATH: &str = "/text.html";
/// Fewer rounds or shorter ones are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 4;
const LEAST_SECONDS: u64 = 3;

#[derive(clap::Args)]
pub(crate) struct Compress {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per entrant and round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Client connections
    #[arg(long, default_value_t = 20)]
    connections: usize,
    /// Bytes of the text
    #[arg(long, default_value_t = 64 * 1024)]
    bytes: usize,
    /// The level of all algorithms, 1 to 9
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=9))]
    level: u8,
    /// Who takes part; ratios are those of the first one
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        default_value = "thalweg,nginx,thalweg-br,thalweg-zstd,thalweg-plain"
    )]
    peers: Vec<Peer>,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); it is the backend too
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One run of load against one entrant.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Megabytes of text per second of CPU time.
    throughput: f64,
    /// CPU time per response, in microseconds.
    cpu_us: f64,
    /// Share of its CPU that was in use, 0–1.
    busy: f64,
    failed: u64,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Compress) -> Result<()> {
    let programs = ["taskset", "setpriv", "wrk", &args.nginx.to_string_lossy()];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux wrk nginx-light");
    }
    let counts = [args.rounds, args.connections, args.bytes, args.peers.len()];
    if counts.contains(&0) || args.seconds == 0 || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one of everything and two CPUs");
    }
    process::raise_descriptors()?;
    let entrants = entrant::find(args)?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.0.clone())?;
    let backend = backend(args, &mut place)?;
    place.backend = backend.address;
    let conditions = Conditions::begin()?;
    let running: Vec<_> = entrants.iter().map(|it| it.start(args, &mut place)).collect::<Result<_>>()?;
    let mut sizes = Vec::new();
    for (entrant, running) in entrants.iter().zip(&running) {
        let size = size::of(running.address, PATH, entrant.peer.coding());
        sizes.push(size.with_context(|| format!("{}, one response", entrant.name()))?);
    }
    let samples = interleaved(args, &entrants, &running, &place)?;
    let run = conditions.end()?;
    drop((running, backend));
    let report = Report { args, entrants: &entrants, sizes: &sizes, samples: &samples };
    run.finish("compress", &report, Use { keep: args.is_whole(), gate: args.gate })
}

/// nginx with the text.
fn backend(args: &Compress, place: &mut Place) -> Result<Running> {
    let (address, folder) = (place.address()?, place.next_folder()?);
    fs::write(folder.join(&PATH[1..]), text::page(args.bytes))?;
    let file = folder.join("backend.conf");
    fs::write(&file, configs::nginx_of_files(&folder, address.port(), &folder))?;
    let mut command = place.command(LOAD_CPU, &locate(&args.nginx).context("nginx is not here")?);
    command.arg("-p").arg(&folder).arg("-c").arg(&file);
    place
        .start_and_ask(command, &folder, address, || size::status(address, PATH))
        .context("the backend does not start")
}

/// Runs everything in turn, each round in another order.
fn interleaved(
    args: &Compress,
    entrants: &[Entrant],
    running: &[Running],
    place: &Place,
) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); entrants.len()];
    for round in 0..=args.rounds {
        for i in order(round, entrants.len()) {
            let name = entrants[i].name();
            let sample =
                sample(args, entrants[i].peer, &running[i], place).with_context(|| name.to_owned())?;
            println!("bench: round {round}: {name:<18} {:7.1} MB per CPU second", sample.throughput);
            if round > 0 {
                samples[i].push(sample);
            }
        }
    }
    Ok(samples)
}

/// Runs a load and takes the CPU time that the entrant spent on it.
fn sample(args: &Compress, peer: Peer, on: &Running, place: &Place) -> Result<Sample> {
    let load = Load {
        port: on.address.port(),
        path: PATH,
        host: "",
        connections: args.connections,
        time: Duration::from_secs(args.seconds),
        accepts: peer.coding(),
        tls: None,
    };
    let before = on.program.cpu();
    let outcome = load.run(&place.folder)?;
    let spent = on.program.cpu().saturating_sub(before).as_secs_f64();
    if outcome.requests == 0 || spent <= 0.0 {
        bail!("nothing got through");
    }
    let requests = outcome.requests as f64;
    Ok(Sample {
        throughput: requests * args.bytes as f64 / 1e6 / spent,
        cpu_us: spent * 1e6 / requests,
        busy: spent / outcome.time.as_secs_f64().max(1e-3),
        failed: outcome.errors,
    })
}

impl Compress {
    /// Whether it is a result, and no trial.
    fn is_whole(&self) -> bool {
        let both = [Peer::Thalweg, Peer::Nginx].iter().all(|peer| self.peers.contains(peer));
        both && self.rounds >= LEAST_ROUNDS && self.seconds >= LEAST_SECONDS
    }
}
