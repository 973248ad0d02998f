//! `cargo xtask bench growth`: what an exchange costs, and what is held, as a configuration or the clients grow.
//!
//! Order of a run: a backend → for each thing that grows ([`Grows`]) and each program, one process per size →
//! interleaved rounds of load over the sizes → 100 [`reloads`] under load → [`report`]. Memory is that after the
//! rounds. The proxy is pinned to one CPU, load and backend to the other.

mod configs;
mod reloads;
mod report;

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::contestant::{Place, Running, backend_of, built, exchange};
use super::costs::{self, Entrant, Peer};
use super::frame::{Conditions, Use};
use super::load::wrk::Load;
use super::order::order;
use super::proxies::Proxies;
use super::rounds::{Sample, sample};
use super::{Folder, PROXY_CPU, process};
use crate::command::exists;
use configs::Site;
use reloads::Reloads;
use report::Report;

/// Fewer rounds or shorter ones are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_SECONDS: u64 = 2;
const LEAST_SIZE: usize = 10_000;
/// Connections of the load.
const CONNECTIONS: usize = 50;
/// Descriptors beyond two for each of what grows.
const DESCRIPTORS: u64 = 1000;

#[derive(clap::Args)]
pub(crate) struct Growth {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per size and round
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// How many there are of what grows
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000")]
    sizes: Vec<usize>,
    /// What grows
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Grows::ALL)]
    only: Vec<Grows>,
    /// Reloads under load; 0 skips them
    #[arg(long, default_value_t = 100)]
    reloads: u32,
    /// Who takes part
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,nginx,haproxy")]
    peers: Vec<Peer>,
    #[command(flatten)]
    proxies: Proxies,
    /// The client at a fixed rate (default: built with the profile dist)
    #[arg(long)]
    ends: Option<PathBuf>,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// What there is more and more of.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum Grows {
    /// Routes of one service; the one in the middle is asked for
    Routes,
    /// Services of one endpoint, with a route each; the one in the middle is asked for
    Services,
    /// Endpoints of one service, all of which are asked
    Endpoints,
    /// Idle connections of clients, beside the load
    Connections,
}

impl Grows {
    const ALL: [Self; 4] = [Self::Routes, Self::Services, Self::Endpoints, Self::Connections];

    /// The name in tables.
    fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Services => "services",
            Self::Endpoints => "endpoints",
            Self::Connections => "connections",
        }
    }
}

impl std::fmt::Display for Grows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A program with one size of what grows.
struct Sized {
    /// By round.
    samples: Vec<Sample>,
    started_in: Duration,
    /// Resident bytes after the rounds.
    resident: u64,
}

/// All that was measured of one thing that grows: by entrant, then by size.
struct Grown {
    what: Grows,
    of: Vec<Vec<Sized>>,
}

/// One that runs, and who is asked for.
struct Started {
    running: Running,
    host: String,
    path: String,
    /// Held for as long as it runs.
    _idle: Vec<TcpStream>,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Growth) -> Result<()> {
    let programs = ["taskset", "setpriv", "wrk", &args.proxies.nginx.to_string_lossy()];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux wrk nginx-light");
    }
    let most = args.sizes.iter().max().copied().unwrap_or(0);
    if args.rounds == 0 || args.seconds == 0 || args.sizes.contains(&0) || most == 0 || most > configs::MOST {
        bail!("the bench needs a round, a second, and sizes from 1 to {}", configs::MOST);
    }
    let (limit, needed) = (process::raise_descriptors()?, most as u64 + DESCRIPTORS);
    if limit < needed {
        bail!("{most} connections need a descriptor limit of {needed}, and it is {limit}");
    }
    let entrants = costs::find(&args.peers, &args.proxies)?;
    let ends = built("ends", args.ends.as_deref())?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.path())?;
    let service = backend_of(&args.proxies.nginx, configs::SIZE, &mut place)?;
    place.backend = service.address;
    let conditions = Conditions::begin()?;
    let mut grown = Vec::new();
    for &what in &args.only {
        grown.push(Grown { what, of: measure(args, what, &entrants, &mut place)? });
    }
    let mut reloads = Vec::new();
    for entrant in entrants.iter().filter(|_| args.reloads > 0) {
        let name = entrant.name();
        let measured = Reloads::measure(entrant, args.reloads, &ends, &mut place);
        reloads.push(measured.with_context(|| format!("{name}, reloads"))?);
    }
    let report = Report { args, entrants: &entrants, grown: &grown, reloads: &reloads };
    let whole =
        entrants.len() == Peer::ALL.len() && args.only.len() == Grows::ALL.len() && most >= LEAST_SIZE;
    let long = args.rounds >= LEAST_ROUNDS && args.seconds >= LEAST_SECONDS && args.reloads > 0;
    conditions.end()?.finish("growth", &report, Use { keep: whole && long, gate: args.gate })
}

/// One thing that grows, by entrant, then by size. All sizes of one entrant are up at once, entrants one after the
/// other, so that the machine need not hold all of them.
fn measure(args: &Growth, what: Grows, entrants: &[Entrant], place: &mut Place) -> Result<Vec<Vec<Sized>>> {
    let mut all = Vec::new();
    for entrant in entrants {
        let name = entrant.name();
        let mut started = Vec::new();
        for &size in &args.sizes {
            let one = start(entrant, what, size, place);
            started.push(one.with_context(|| format!("{name}, {size} {}", what.name()))?);
        }
        let mut samples = vec![Vec::new(); started.len()];
        for round in 0..=args.rounds {
            for i in order(round, started.len()) {
                let sample = load(args, &started[i], place)?;
                println!(
                    "bench: round {round}: {name:<8} {:>5} {:<11} {:6.2} µs, {} failed",
                    args.sizes[i],
                    what.name(),
                    sample.cpu_us,
                    sample.outcome.errors
                );
                if round > 0 {
                    samples[i].push(sample);
                }
            }
        }
        let sized = |(one, samples): (&Started, Vec<Sample>)| Sized {
            samples,
            started_in: one.running.started_in,
            resident: one.running.program.resident(),
        };
        all.push(started.iter().zip(samples).map(sized).collect());
    }
    Ok(all)
}

fn load(args: &Growth, on: &Started, place: &Place) -> Result<Sample> {
    let load = Load {
        port: on.running.address.port(),
        path: &on.path,
        host: &on.host,
        connections: CONNECTIONS,
        time: Duration::from_secs(args.seconds),
        accepts: "",
        tls: None,
    };
    sample(&on.running, &load, place)
}

fn start(entrant: &Entrant, what: Grows, size: usize, place: &mut Place) -> Result<Started> {
    let site = Site { listen: place.address()?, backend: place.backend, folder: place.next_folder()? };
    let text = configs::of(entrant.peer, what, size, &site)?;
    let (host, path) = configs::asked(what, size);
    let running = start_with(entrant, &text, (&site, &host, &path), place)?;
    let mut idle = Vec::new();
    if what == Grows::Connections {
        for i in 0..size {
            let mut stream =
                TcpStream::connect(site.listen).with_context(|| format!("after {i} connections"))?;
            let status = exchange(&mut stream, &host, &path)?;
            if status != 200 {
                bail!("connection {i} got {status}");
            }
            idle.push(stream);
        }
    }
    Ok(Started { running, host, path, _idle: idle })
}

/// Starts a program with a configuration and waits for its first answer.
fn start_with(
    entrant: &Entrant,
    text: &str,
    (site, host, path): (&Site, &str, &str),
    place: &Place,
) -> Result<Running> {
    let file = configs::file(site);
    fs::write(&file, text)?;
    let mut command = place.command(PROXY_CPU, &entrant.path);
    match entrant.peer {
        Peer::Thalweg => command.args(["run", "--config"]).arg(&file),
        Peer::Nginx => command.arg("-p").arg(&site.folder).arg("-c").arg(&file),
        // With a master, which a reload needs.
        Peer::Haproxy => command.args(["-W", "-f"]).arg(&file),
    };
    place.start(command, &site.folder, site.listen, (host, path))
}
