//! `cargo xtask bench`: the product side by side with others, on this machine, in one run.
//!
//! `small` is the yardstick of small kept-alive exchanges: interleaved rounds, the proxy pinned to one CPU,
//! load and backend to another, CPU time per exchange as the figure that is judged. Order of a run: build or
//! find the contestants ([`contestant`]) → rounds ([`rounds`]) → start, idle, system calls, routes
//! ([`single`]) → [`report`]. What is measured in the kernel's files stands in [`process`], the load
//! generator in [`load`]. [`stream`] is the yardstick of large bodies, with the same pinning and rounds, [`slow`] that
//! of small requests beside thousands of slow readers, [`ab`] the table of a published load balancer, [`gateways`] that
//! of published gateways, [`ramp`] that of a published proxy under a fixed rate, [`tls`] that of TLS and HTTP/2,
//! [`connections`] that of whole connections of TCP, [`sealed`] that of a published relay with sealed
//! destinations, [`dashboard`] that of people who look at the dashboard, [`compress`] that of compressed responses,
//! [`discovery`] that of endpoints that change, [`cache`] that of stored responses, [`costs`] that of features,
//! [`growth`] that of configurations that grow; [`balance`] measures the balancers
//! alone, without a proxy; [`all`] runs them all.

mod ab;
mod all;
mod balance;
mod cache;
mod compress;
pub(crate) mod configs;
mod connections;
pub(crate) mod contestant;
mod costs;
mod dashboard;
mod discovery;
mod entrant;
mod envoy;
mod figures;
mod frame;
mod gateways;
mod growth;
mod java;
mod latency;
mod layout;
mod load;
mod machine;
mod namespace;
mod order;
mod package;
mod priority;
pub(crate) mod process;
mod proxies;
mod ramp;
mod report;
mod reported;
mod rounds;
mod sealed;
mod single;
mod slow;
mod stream;
mod tls;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::command::exists;
use contestant::{Filters, Kind, Place};
use frame::{Conditions, Use};
use report::Report;

/// The CPU of the proxy under test.
const PROXY_CPU: &str = "0";
/// The CPU of the backend and the load generator.
const LOAD_CPU: &str = "1";

#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Every bench, one after the other, and one report of them all
    All(all::All),
    /// Small kept-alive HTTP/1.1 exchanges: CPU, latency, memory, system calls
    Small(Small),
    /// Large bodies: downloads over a long link, CPU per gigabyte on loopback
    Stream(stream::Stream),
    /// Small requests beside thousands of clients that read slowly: latency, memory of proxy and kernel
    Slow(slow::Slow),
    /// The choice of an endpoint: nanoseconds per pick of every algorithm as the set grows
    Balance(balance::Balance),
    /// ab before five backends, from few connections at once to thousands: requests per second, CPU
    Ab(ab::Ab),
    /// Gateways before one service: their share of what it does without them, with wrk and ab; CPU, memory, threads
    Gateways(gateways::Gateways),
    /// A fixed rate of requests through gateways: mean, deviation, least and most time, CPU, threads, memory, bytes
    Ramp(ramp::Ramp),
    /// TLS and HTTP/2: small exchanges, handshakes, streams, memory of idle connections
    Tls(tls::Tls),
    /// Compression of responses: bytes of text per CPU second, beside nginx
    Compress(compress::Compress),
    /// A cache: hits per CPU second, memory, hit ratio, beside nginx and Varnish
    Cache(cache::Cache),
    /// Connections of TCP: CPU for each and for a gigabyte, memory, beside HAProxy
    Connections(connections::Connections),
    /// Open dashboards beside a steady load over 1,000 routes: long tasks and memory of pages, p99 with and without
    Dashboard(dashboard::Dashboard),
    /// Endpoints that change a thousand times a second: latency, CPU of the control thread and of workers, memory
    Discovery(discovery::Discovery),
    /// Latency of small exchanges at a fixed rate, 70 % of what nginx can do: percentiles beside others
    Latency(latency::Latency),
    /// Features: CPU per exchange and latency with each of them, beside the plain exchange of the same program
    Costs(costs::Costs),
    /// More and more routes, services, endpoints, connections: CPU per exchange, memory, start; reloads under load
    Growth(growth::Growth),
    /// Sealed destinations: seconds over the number of servers and clients, most sessions, beside relays in Go and Node
    Sealed(sealed::Sealed),
}

#[derive(clap::Args)]
pub(crate) struct Small {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per contestant and round
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Numbers of client connections, each measured on its own
    #[arg(long, value_delimiter = ',', default_value = "50,500")]
    connections: Vec<usize>,
    /// Who takes part; ratios are those of the first one that is there
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,nginx,haproxy,floor")]
    peers: Vec<Kind>,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// Another binary of the product, of an earlier commit: it takes part as `before`
    #[arg(long, value_name = "BINARY")]
    before: Option<PathBuf>,
    /// The product takes part once more for each of these, with filters on its route
    #[arg(long, value_delimiter = ',', value_enum)]
    filters: Vec<Filters>,
    /// The floor's binary (default: built with the profile dist)
    #[arg(long)]
    floor: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); it is the backend too
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// The HAProxy to measure (default: the one in the search path)
    #[arg(long, default_value = "haproxy")]
    haproxy: PathBuf,
    /// Idle connections for the measurement of memory; 0 skips it
    #[arg(long, default_value_t = 7000)]
    idle: usize,
    /// Only the rounds: no start, idle, system-call and route measurements
    #[arg(long)]
    only_rounds: bool,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// Runs what the command line asks for.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::All(args) => all::run(args),
        Bench::Small(args) => small(args),
        Bench::Stream(args) => stream::run(args),
        Bench::Slow(args) => slow::run(args),
        Bench::Balance(args) => balance::run(args),
        Bench::Ab(args) => ab::run(args),
        Bench::Gateways(args) => gateways::run(args),
        Bench::Ramp(args) => ramp::run(args),
        Bench::Tls(args) => tls::run(args),
        Bench::Compress(args) => compress::run(args),
        Bench::Cache(args) => cache::run(args),
        Bench::Connections(args) => connections::run(args),
        Bench::Dashboard(args) => dashboard::run(args),
        Bench::Discovery(args) => discovery::run(args),
        Bench::Latency(args) => latency::run(args),
        Bench::Costs(args) => costs::run(args),
        Bench::Growth(args) => growth::run(args),
        Bench::Sealed(args) => sealed::run(args),
    }
}

fn small(args: &Small) -> Result<()> {
    for program in ["taskset", "setpriv", "wrk", &args.nginx.to_string_lossy()] {
        if !exists(program) {
            bail!(
                "{program} is not installed\nhelp: apt-get install util-linux wrk nginx-light haproxy strace"
            );
        }
    }
    if args.rounds == 0 || args.connections.is_empty() || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one round, one number of connections and two CPUs");
    }
    let descriptors = process::raise_descriptors()?;
    if args.idle as u64 * 2 + 1000 > descriptors {
        bail!("{} idle connections need a descriptor limit of {}", args.idle, args.idle * 2 + 1000);
    }
    let folder = Folder::new()?;
    let mut place = Place::new(folder.0.clone())?;
    let backend = contestant::backend(&args.nginx, LOAD_CPU, &mut place)?;
    place.backend = backend.address;
    let contestants = contestant::find_for(args)?;
    if contestants.is_empty() {
        bail!("none of the contestants is there");
    }
    let conditions = Conditions::begin()?;
    let rounds = rounds::interleaved(args, &contestants, &mut place)?;
    let single = if args.only_rounds {
        single::Single::default()
    } else {
        single::measure(args, &contestants, &mut place)?
    };
    let run = conditions.end()?;
    drop(backend);
    let report = Report { args, contestants: &contestants, rounds: &rounds, single: &single };
    let has = |kind: &Kind| contestants.iter().any(|contestant| contestant.kind == *kind);
    let keep = !args.only_rounds && args.idle > 0 && Kind::value_variants().iter().all(has);
    run.finish("small", &report, Use { keep, gate: args.gate })
}

/// A TCP setting of this machine.
fn kernel_setting(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Small {
    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// A folder for configurations, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("thalweg-bench-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// One whose files are in memory, where the system has such a place.
    fn in_memory() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        if !memory.is_dir() {
            println!("bench: no /dev/shm: the files of caches are on a disk");
            return Self::new();
        }
        // What a run that was killed has left there takes memory.
        for entry in fs::read_dir(memory)?.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix("thalweg-bench-"));
            if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let path = memory.join(format!("thalweg-bench-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
