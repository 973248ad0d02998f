//! `cargo xtask bench ramp`: the table of a published path-routing proxy (Go against Spring Boot), run again: requests
//! at a fixed rate through each gateway, and how long they took.
//!
//! The rates are so small that nobody is busy: what is measured is how evenly a gateway answers, and what it holds and
//! spends meanwhile. Requests leave at their own time whatever the pace of answers, and times count from then
//! (`bench/peers/ends`). Each entrant runs alone, anew in every round, the product first in every other. Entrants are
//! those of [`super::gateways`].

mod report;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::contestant::{Place, Running, backend, built};
use super::frame::{Conditions, Use};
use super::gateways::Gateways;
use super::gateways::entrant::{self, Entrant, Gateway};
use super::layout::Layout;
use super::order::order;
use super::reported::{numbers, result};
use super::{Folder, configs, process};
use crate::command::{exists, output};
use report::Report;

/// Connections that requests are sent on, in turn.
const CONNECTIONS: usize = 20;
/// Fewer rounds, or shorter ones, are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_SECONDS: u64 = 10;

#[derive(clap::Args)]
pub(crate) struct Ramp {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per entrant and round, after a second that is dropped
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Requests per second, each measured on its own; of those of the published table
    #[arg(long, value_delimiter = ',', default_value = "100,200,300")]
    rates: Vec<u32>,
    /// Who takes part
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Gateway::ALL)]
    peers: Vec<Gateway>,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The program of the client (default: built with the profile dist)
    #[arg(long)]
    ends: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); it is the service too
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One entrant under one rate.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    requests: u64,
    failed: u64,
    /// Milliseconds.
    mean: f64,
    deviation: f64,
    least: f64,
    p99: f64,
    most: f64,
    /// CPU seconds.
    cpu: f64,
    threads: usize,
    resident: u64,
    /// Bytes of a response, head and body.
    bytes: usize,
}

/// All rounds with one rate: by entrant, then by round.
struct Rounds {
    rate: u32,
    samples: Vec<Vec<Sample>>,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Ramp) -> Result<()> {
    if let Some(program) = ["taskset", "setpriv", "chrt"].iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux");
    }
    if args.rounds == 0 || args.seconds == 0 || args.rates.is_empty() || args.rates.contains(&0) {
        bail!("the bench needs a round, a second and a rate");
    }
    process::raise_descriptors()?;
    let ends = built("ends", args.ends.as_deref())?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.path())?;
    let entrants = entrant::find(&args.as_gateways(), &mut place)?;
    let conditions = Conditions::begin()?;
    let service = backend(&args.nginx, Layout::Shared.load_cpus(), &mut place)?;
    place.backend = service.address;
    let mut all = Vec::new();
    for &rate in &args.rates {
        all.push(rounds(args, rate, (&entrants, &ends), &mut place)?);
    }
    let report = Report { args, entrants: &entrants, rounds: &all };
    let whole = args.rounds >= LEAST_ROUNDS && args.seconds >= LEAST_SECONDS;
    let keep = whole && entrants.len() == Gateway::ALL.len();
    conditions.end()?.finish("ramp", &report, Use { keep, gate: args.gate })
}

impl Ramp {
    /// What finds the entrants.
    fn as_gateways(&self) -> Gateways {
        Gateways::of(self.peers.clone(), self.thalweg.clone(), self.nginx.clone())
    }
}

fn rounds(
    args: &Ramp,
    rate: u32,
    (entrants, ends): (&[Entrant], &Path),
    place: &mut Place,
) -> Result<Rounds> {
    let mut samples = vec![Vec::new(); entrants.len()];
    for round in 0..=args.rounds {
        for i in order(round, entrants.len()) {
            let name = entrants[i].name();
            let running = entrants[i].start(place)?;
            let sample = sample(args, rate, &running, ends).with_context(|| name.to_owned())?;
            println!(
                "bench: {rate}/s, round {round}: {name:<22} mean {:6.2} ms, σ {:6.2}, most {:7.2}, {:.2} s of CPU, {} failed",
                sample.mean, sample.deviation, sample.most, sample.cpu, sample.failed
            );
            if round > 0 {
                samples[i].push(sample);
            }
        }
    }
    Ok(Rounds { rate, samples })
}

fn sample(args: &Ramp, rate: u32, running: &Running, ends: &Path) -> Result<Sample> {
    let bytes = response(running)?;
    let before = running.program.cpu();
    // The client is never late because others are busy.
    let mut command = std::process::Command::new("chrt");
    command.args(["--fifo", "1", "taskset", "-c", Layout::Shared.load_cpus()]).arg(ends);
    command.args(["small", &running.address.to_string(), configs::BODY, &CONNECTIONS.to_string()]);
    // The first span is dropped.
    let text = output(command.args([&rate.to_string(), "1", &args.seconds.to_string()]))?;
    let cpu = running.program.cpu().saturating_sub(before).as_secs_f64();
    let moments = text.lines().find(|line| line.starts_with("MOMENTS ")).map(numbers);
    let parsed = result::<5>(&text).zip(moments.filter(|moments| moments.len() == 3));
    let Some(([requests, _, p99, most, failed], moments)) = parsed else { bail!("the client said:\n{text}") };
    let ms = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1e3;
    let threads = |pid| std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    Ok(Sample {
        requests,
        failed,
        mean: ms(moments[0]),
        deviation: ms(moments[1]),
        least: ms(moments[2]),
        p99: ms(p99),
        most: ms(most),
        cpu,
        threads: running.program.pids().into_iter().map(threads).sum(),
        resident: running.program.resident(),
        bytes,
    })
}

/// Bytes of a response on the wire.
fn response(running: &Running) -> Result<usize> {
    let mut stream = TcpStream::connect(running.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes.len())
}
