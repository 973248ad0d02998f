//! `cargo xtask bench costs`: what each feature costs per exchange, in CPU time and latency.
//!
//! Every program takes part once plain and once for each feature that it has ([`feature`]). Order of a run: a backend,
//! a sink of traces, a certificate → all entrants start and stay up → interleaved rounds at a fixed rate, which is
//! below what one CPU can do → [`report`]: CPU per exchange as a multiple of that of the same program without the
//! feature, round by round. The proxy is pinned to one CPU, load and backend to the other.

mod configs;
mod feature;
mod poll;
mod report;

use std::fs;
use std::net::TcpStream;

use anyhow::{Context, Result, bail};

use super::contestant::{self, Kind, Place, Running, backend};
use super::frame::{Conditions, Use};
use super::load::rate::{self, Outcome, Urls};
use super::order::order;
use super::proxies::Proxies;
use super::tls::certificate::{self, Certificate};
use super::{Folder, LOAD_CPU, PROXY_CPU, entrant, process};
use crate::command::{exists, locate};
use configs::Site;
use feature::Feature;
use report::Report;

/// Fewer rounds or shorter ones are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_SECONDS: u64 = 3;

#[derive(clap::Args)]
pub(crate) struct Costs {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per entrant and round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Exchanges per second
    #[arg(long, default_value_t = 5000)]
    rate: usize,
    /// Client connections
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Features that are measured; the plain exchange always is
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Feature::ALL)]
    only: Vec<Feature>,
    /// Who takes part
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,nginx,haproxy")]
    peers: Vec<Peer>,
    #[command(flatten)]
    proxies: Proxies,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum Peer {
    Thalweg,
    Nginx,
    Haproxy,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Thalweg, Self::Nginx, Self::Haproxy];

    fn kind(self) -> Kind {
        match self {
            Self::Thalweg => Kind::Thalweg,
            Self::Nginx => Kind::Nginx,
            Self::Haproxy => Kind::Haproxy,
        }
    }
}

impl entrant::Peer for Peer {
    fn name(self) -> &'static str {
        self.kind().name()
    }
}

/// A program that takes part.
pub(super) type Entrant = entrant::Program<Peer>;

/// One run of a load.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// CPU time per exchange, in microseconds.
    cpu_us: f64,
    outcome: Outcome,
}

/// A program with a feature, and its rounds.
struct Rounds {
    /// Whose: a place in the list of entrants.
    of: usize,
    feature: Feature,
    samples: Vec<Sample>,
}

/// One that runs.
struct Started {
    running: Running,
    site: Site,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Costs) -> Result<()> {
    let programs = ["taskset", "setpriv", "openssl", "h2load", &args.proxies.nginx.to_string_lossy()];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!(
            "{program} is not installed\nhelp: apt-get install util-linux openssl nghttp2-client nginx-light"
        );
    }
    let counts = [args.rounds, args.connections, args.rate / args.connections.max(1), args.peers.len()];
    if counts.contains(&0) || args.seconds == 0 || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs a round, a second, an exchange per connection and second, and two CPUs");
    }
    process::raise_descriptors()?;
    let entrants = find(&args.peers, &args.proxies)?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.path())?;
    let service = backend(&args.proxies.nginx, LOAD_CPU, &mut place)?;
    // It answers whatever it is told, and so do collectors.
    let sink = backend(&args.proxies.nginx, LOAD_CPU, &mut place)?;
    place.backend = service.address;
    let certificate = certificate::make(&folder.path())?;
    let conditions = Conditions::begin()?;
    let rounds = interleaved(args, &entrants, (&certificate, &sink), &mut place)?;
    let report = Report { args, entrants: &entrants, rounds: &rounds };
    let everybody = entrants.len() == Peer::ALL.len() && args.only.len() == Feature::ALL.len();
    let keep = everybody && args.rounds >= LEAST_ROUNDS && args.seconds >= LEAST_SECONDS;
    conditions.end()?.finish("costs", &report, Use { keep, gate: args.gate })
}

/// Builds or finds those that the command line names; says which are missing. The product has to be there.
pub(super) fn find(peers: &[Peer], proxies: &Proxies) -> Result<Vec<Entrant>> {
    let mut found = Vec::new();
    for &peer in peers {
        let program = match peer {
            Peer::Thalweg => contestant::built("thalweg", proxies.thalweg.as_deref())?,
            Peer::Nginx => proxies.nginx.clone(),
            Peer::Haproxy => proxies.haproxy.clone(),
        };
        match locate(&program) {
            Some(path) => {
                let version = contestant::version(peer.kind(), &path)?;
                found.push(Entrant { peer, path, version });
            }
            None if peer == Peer::Thalweg => bail!("{} is not here", program.display()),
            None => println!("bench: {} is not here, left out", program.display()),
        }
    }
    Ok(found)
}

/// Runs everything in turn, each round in another order; all stay up between their turns.
fn interleaved(
    args: &Costs,
    entrants: &[Entrant],
    (certificate, sink): (&Certificate, &Running),
    place: &mut Place,
) -> Result<Vec<Rounds>> {
    let (mut rounds, mut started) = (Vec::new(), Vec::new());
    for (of, entrant) in entrants.iter().enumerate() {
        let wanted = Feature::ALL.into_iter().filter(|feature| args.only.contains(feature));
        for feature in [Feature::Plain].into_iter().chain(wanted.filter(|one| *one != Feature::Plain)) {
            let site = Site::new(place, certificate, sink.address)?;
            let Some(text) = configs::of(entrant.peer, feature, &site) else { continue };
            let running = start(entrant, &text, &site, place)
                .with_context(|| format!("{}, {}", entrant.name(), feature.name()))?;
            started.push(Started { running, site });
            rounds.push(Rounds { of, feature, samples: Vec::new() });
        }
    }
    for round in 0..=args.rounds {
        for i in order(round, rounds.len()) {
            let (name, feature) = (entrants[rounds[i].of].name(), rounds[i].feature);
            let sample = sample(args, feature, &started[i], place)
                .with_context(|| format!("{name}, {}", feature.name()))?;
            let Outcome { p50, p99, failed, .. } = sample.outcome;
            println!(
                "bench: round {round}: {name:<8} {:<18} {:6.2} µs, p50 {p50:.2} ms, p99 {p99:.2} ms, {failed} failed",
                feature.name(),
                sample.cpu_us
            );
            if round > 0 {
                rounds[i].samples.push(sample);
            }
        }
    }
    Ok(rounds)
}

/// Starts a program with a configuration and waits until it accepts connections.
fn start(entrant: &Entrant, text: &str, site: &Site, place: &Place) -> Result<Running> {
    let file = site.folder.join("configuration.yaml");
    fs::write(&file, text)?;
    let mut command = place.command(PROXY_CPU, &entrant.path);
    match entrant.peer {
        Peer::Thalweg => command.args(["run", "--config"]).arg(&file),
        Peer::Nginx => command.arg("-p").arg(&site.folder).arg("-c").arg(&file),
        Peer::Haproxy => command.args(["-db", "-f"]).arg(&file),
    };
    // What it answers without credentials, or to another protocol, is not the question.
    let is_open = || Ok(TcpStream::connect(site.listen).map(|_| 200)?);
    place.start_and_ask(command, &site.folder, site.listen, is_open)
}

/// Runs the load of a feature and takes the CPU time that the proxy spent on it.
fn sample(args: &Costs, feature: Feature, on: &Started, place: &Place) -> Result<Sample> {
    let url = format!("{}://{}/", feature.scheme(), on.site.listen);
    let load = rate::Load {
        urls: Urls::One(&url),
        rate: args.rate,
        connections: args.connections,
        seconds: args.seconds,
        is_h1: feature.is_h1(),
        fields: feature.fields(),
    };
    let before = on.running.program.cpu();
    let outcome = poll::beside(feature.polls(), on.site.side, || load.run(place))?;
    let spent = on.running.program.cpu().saturating_sub(before).as_secs_f64();
    Ok(Sample { cpu_us: spent * 1e6 / outcome.requests.max(1) as f64, outcome })
}
