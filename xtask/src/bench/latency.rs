//! `cargo xtask bench latency`: how long small exchanges take while they arrive at a fixed rate.
//!
//! Order of a run: a backend → the contestants, which all stay up → what nginx can do at the most, and from that a
//! rate which it keeps up with → interleaved rounds, with the backend alone as one more contestant → [`report`]. The
//! client (`bench/peers/ends`) sends each request at its own time whatever the pace of answers, and counts from then,
//! so that a stall counts in every request that was due within it; its test holds it against a server that stalls for
//! a known time. The proxy is pinned to one CPU, client and backend to the other.

mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::contestant::{self, Contestant, Kind, Place, Programs, Running, backend, built};
use super::entrant::Entrant;
use super::figures::spread;
use super::frame::{Conditions, Use};
use super::order::order;
use super::proxies::Proxies;
use super::reported::{numbers, result};
use super::{Folder, LOAD_CPU, configs, process, rounds};
use crate::command::{exists, output};
use report::Report;

/// What the client tells, in this order: `PERCENTILES` of `ends small`.
const PERCENTILES: [&str; 8] = ["p50", "p75", "p90", "p95", "p99", "p99.5", "p99.9", "p99.99"];
/// Fewer rounds or shorter ones are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 9;
const LEAST_SECONDS: u64 = 3;
/// Times that nginx is asked what it can do; the median counts.
const PROBES: usize = 5;
/// A median of so many microseconds is a queue: the rate is more than nginx keeps up with, and says nothing of latency.
const BEHIND: f64 = 2_000.0;
/// Times in a row that nginx has to keep up with a rate.
const PROOFS: usize = 3;
/// Rates that are tried, each nine tenths of the one before.
const STEPS: usize = 6;
/// The name of the backend without a proxy.
const ALONE: &str = "no proxy";

#[derive(clap::Args)]
pub(crate) struct Latency {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Seconds of load per contestant and round, after a second that is dropped
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Requests per second, as a percentage of what nginx can do
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u64).range(1..=100))]
    share: u64,
    /// Kept connections that requests are sent on, in turn
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Who takes part; nginx has to
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,nginx,haproxy")]
    peers: Vec<Kind>,
    #[command(flatten)]
    proxies: Proxies,
    /// The program of the client (default: built with the profile dist)
    #[arg(long)]
    ends: Option<PathBuf>,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One run of the client.
#[derive(Clone, Debug, Default)]
struct Sample {
    answered: u64,
    failed: u64,
    /// Microseconds, those of [`PERCENTILES`].
    percentiles: Vec<f64>,
    /// Microseconds.
    most: f64,
}

impl Sample {
    fn at(&self, percentile: &str) -> f64 {
        let place = PERCENTILES.iter().position(|name| *name == percentile);
        place.and_then(|place| self.percentiles.get(place)).copied().unwrap_or_default()
    }
}

/// The rounds of everybody.
struct Rounds {
    /// Requests per second.
    rate: u64,
    /// By contestant, then by round.
    contestants: Vec<Vec<Sample>>,
    alone: Vec<Sample>,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Latency) -> Result<()> {
    let nginx = args.proxies.nginx.to_string_lossy();
    if let Some(program) = ["taskset", "setpriv", "wrk", &nginx].iter().find(|name| !exists(name)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux wrk nginx-light");
    }
    let has_counts = args.rounds > 0 && args.seconds > 0 && args.connections > 0;
    if !has_counts || !args.peers.contains(&Kind::Nginx) || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs a round, a second, a connection, nginx and two CPUs");
    }
    process::raise_descriptors()?;
    let ends = built("ends", args.ends.as_deref())?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.path())?;
    let service = backend(&args.proxies.nginx, LOAD_CPU, &mut place)?;
    place.backend = service.address;
    let programs = Programs {
        thalweg: args.proxies.thalweg.as_deref(),
        floor: None,
        nginx: &args.proxies.nginx,
        haproxy: &args.proxies.haproxy,
    };
    let contestants = contestant::find(&args.peers, programs)?;
    let conditions = Conditions::begin()?;
    let rounds = interleaved(args, (&contestants, &ends), &service, &mut place)?;
    let report = Report { args, contestants: &contestants, rounds: &rounds };
    let keep = args.rounds >= LEAST_ROUNDS && args.seconds >= LEAST_SECONDS && contestants.len() >= 3;
    conditions.end()?.finish("latency", &report, Use { keep, gate: args.gate })
}

fn interleaved(
    args: &Latency,
    (contestants, ends): (&[Contestant], &Path),
    service: &Running,
    place: &mut Place,
) -> Result<Rounds> {
    let running: Vec<_> = contestants.iter().map(|it| it.start(place)).collect::<Result<_>>()?;
    let nginx = contestants.iter().position(|it| it.kind == Kind::Nginx).context("nginx is not here")?;
    let rate = rate(args, &running[nginx], (ends, place))?;
    let targets: Vec<_> = running.iter().chain([service]).collect();
    let mut samples = vec![Vec::new(); targets.len()];
    for round in 0..=args.rounds {
        for i in order(round, targets.len()) {
            let name = contestants.get(i).map_or(ALONE, Entrant::name);
            let sample = sample(args, rate, targets[i], (ends, place)).with_context(|| name.to_owned())?;
            println!(
                "bench: round {round}: {name:<8} p50 {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs, {} failed",
                sample.at("p50"),
                sample.at("p99"),
                sample.at("p99.9"),
                sample.failed
            );
            if round > 0 {
                samples[i].push(sample);
            }
        }
    }
    let alone = samples.pop().unwrap_or_default();
    Ok(Rounds { rate, contestants: samples, alone })
}

/// Requests per second: the share of what nginx can do which it keeps up with. What it can do is asked of a client
/// that waits for answers, which is kinder than arrivals that do not; the machine does not do as much in each second.
fn rate(args: &Latency, nginx: &Running, (ends, place): (&Path, &Place)) -> Result<u64> {
    let load = rounds::load(nginx, args.connections, Duration::from_secs(args.seconds));
    // For warming up.
    rounds::sample(nginx, &load, place)?;
    let mut most = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let outcome = rounds::sample(nginx, &load, place)?.outcome;
        most.push(outcome.requests as f64 / outcome.time.as_secs_f64().max(1e-3));
    }
    let (least, middle, most) = spread(&most);
    let mut rate = (middle * args.share as f64 / 100.0) as u64;
    println!("bench: nginx answers {middle:.0} ({least:.0}–{most:.0}) requests/s at the most");
    for _ in 0..STEPS {
        let mut median = 0.0_f64;
        for _ in 0..PROOFS {
            median = median.max(sample(args, rate, nginx, (ends, place))?.at("p50"));
        }
        if median < BEHIND {
            println!("bench: {rate} requests/s are sent, nginx answers within {median:.0} µs in the median");
            return Ok(rate);
        }
        println!("bench: nginx falls behind {rate} requests/s: {median:.0} µs in the median");
        rate = rate * 9 / 10;
    }
    bail!("nginx keeps up with none of the rates, the last was {rate} requests/s: what else runs here?")
}

fn sample(args: &Latency, rate: u64, on: &Running, (ends, place): (&Path, &Place)) -> Result<Sample> {
    // Without priority over the backend: at such a rate one that always came first would leave it no time.
    let mut command = place.command(LOAD_CPU, ends);
    command.arg("small");
    command.args([&on.address.to_string(), configs::BODY, &args.connections.to_string(), &rate.to_string()]);
    // The first second is dropped.
    let text = output(command.args(["1", &args.seconds.to_string()]))?;
    parse(&text).with_context(|| format!("the client said:\n{text}"))
}

/// Reads `PERCENTILES …` and `RESULT count p50 p99 most bad`.
fn parse(text: &str) -> Option<Sample> {
    let [answered, _, _, most, failed] = result(text)?;
    let percentiles = text.lines().find(|line| line.starts_with("PERCENTILES ")).map(numbers)?;
    let percentiles: Vec<_> = percentiles.into_iter().map(|micros| micros as f64).collect();
    let is_whole = percentiles.len() == PERCENTILES.len();
    is_whole.then_some(Sample { answered, failed, percentiles, most: most as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_client_are_read() {
        let sample = parse("SPAN 1 2 3 4\nPERCENTILES 1 2 3 4 5 6 7 8\nRESULT 9 1 5 10 2\n").unwrap();
        assert_eq!((sample.answered, sample.failed, sample.most), (9, 2, 10.0));
        assert_eq!((sample.at("p50"), sample.at("p99.9"), sample.at("p99.99")), (1.0, 7.0, 8.0));
        assert!(parse("PERCENTILES 1 2\nRESULT 9 1 5 10 2\n").is_none());
        assert!(parse("RESULT 9 1 5 10 2\n").is_none());
    }
}
