//! `cargo xtask bench discovery`: a hundred services whose endpoints change all the time.
//!
//! Order of a run: backend, a registry in this process ([`registry`]), the proxy → rounds of three cases in turn
//! ([`registry::Changes`]): nothing changes, weights change, instances leave and others come; in each the same small
//! requests over all services, and what the threads of the proxy have used ([`threads`]) → [`report`].
//!
//! The proxy has a CPU for itself, control thread and worker together. Backend and client have the other one and
//! real-time priority before the registry: what it does delays no request.

mod registry;
mod report;
mod threads;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::contestant::{Kind, Place, Running, built, version};
use super::frame::{Conditions, Use};
use super::order::order;
use super::priority::Priority;
use super::{Folder, LOAD_CPU, PROXY_CPU, configs, process, reported};
use crate::command::{exists, locate, output};
use registry::{Changes, Registry, prefix};
use report::Report;
use threads::Spent;

/// Fewer rounds or other sizes are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const USUAL: (usize, usize, u32) = (100, 100, 1000);
/// Spans of a case that count, after one for warming up.
const SPANS: usize = 3;
/// Priority among real-time processes of backend and client.
const PRIORITY: &str = "1";
/// Time in which the proxy must know all endpoints.
const START: Duration = Duration::from_secs(10);
/// The most services: each has a network of its own among loopback addresses.
const SERVICES: usize = 250;

#[derive(clap::Args)]
pub(crate) struct Discovery {
    /// Rounds that count, each with all cases; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a span; a case is four of them, the first for warming up
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Services, each found by a source of its own
    #[arg(long, default_value_t = USUAL.0)]
    services: usize,
    /// Endpoints of each
    #[arg(long, default_value_t = USUAL.1)]
    endpoints: usize,
    /// Changes per second, over all services
    #[arg(long, default_value_t = USUAL.2)]
    changes: u32,
    /// Small requests per second, over all services
    #[arg(long, default_value_t = 4000)]
    requests: u32,
    /// Connections of the client
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The program of the client (default: built with the profile dist)
    #[arg(long)]
    ends: Option<PathBuf>,
    /// The nginx that is the backend (default: the one in the search path)
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One case of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Times of requests in microseconds, from the moment at which each was to be sent.
    p50: f64,
    p99: f64,
    most: f64,
    answered: u64,
    /// Connections of the client that failed.
    bad: u64,
    /// Shares of a CPU.
    control: f64,
    others: f64,
    /// CPU time of the workers for a request, in microseconds.
    worker_us: f64,
    /// Sets of endpoints per second that sources told of.
    sets: f64,
    /// Resident bytes at the end.
    resident: u64,
}

/// What runs during the whole measurement.
struct Scene<'a> {
    args: &'a Discovery,
    place: Place,
    ends: PathBuf,
    registry: Registry,
    metrics: SocketAddr,
    proxy: Running,
    _backend: Running,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Discovery) -> Result<()> {
    let programs = ["taskset", "setpriv", "chrt", &args.nginx.to_string_lossy()];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux nginx-light");
    }
    let counts = [args.rounds, args.services, args.endpoints, args.connections, args.requests as usize];
    if counts.contains(&0) || args.services > SERVICES || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one of everything, at most {SERVICES} services, and two CPUs");
    }
    process::raise_descriptors()?;
    let (ends, thalweg) = (built("ends", args.ends.as_deref())?, built("thalweg", args.thalweg.as_deref())?);
    let version = version(Kind::Thalweg, &thalweg)?;
    // The registry is part of this process.
    let status = fs::read_to_string("/proc/self/status")?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0-1");
    run_on(LOAD_CPU)?;
    let priority = Priority::first();
    let folder = Folder::new()?;
    let conditions = Conditions::begin()?;
    let scene = Scene::new(args, &folder.0, ends, &thalweg)?;
    let at_start = scene.proxy.program.resident();
    let cases = scene.measure()?;
    drop(scene);
    run_on(cpus.trim())?;
    let report = Report { args, cases: &cases, at_start, version: &version, goes_first: priority.is_first };
    let is_usual = (args.services, args.endpoints, args.changes) == USUAL;
    let keep = args.rounds >= LEAST_ROUNDS && is_usual;
    conditions.end()?.finish("discovery", &report, Use { keep, gate: args.gate })
}

/// All threads of this process run on these CPUs from now on.
fn run_on(cpus: &str) -> Result<()> {
    output(Command::new("taskset").args(["-a", "-c", "-p", cpus, &std::process::id().to_string()])).map(drop)
}

impl<'a> Scene<'a> {
    fn new(args: &'a Discovery, folder: &Path, ends: PathBuf, thalweg: &Path) -> Result<Self> {
        let mut place = Place::new(folder.to_owned())?;
        let backend = backend(&args.nginx, &mut place)?;
        let registry = Registry::start(args.services, args.endpoints, backend.address.port())?;
        let (address, metrics, files) = (place.address()?, place.address()?, place.next_folder()?);
        let file = files.join("thalweg.yaml");
        fs::write(&file, configuration(args.services, address, metrics, registry.address))?;
        let mut command = place.command(PROXY_CPU, thalweg);
        command.args(["run", "--config"]).arg(&file);
        let proxy = place.start(command, &files, address, ("s0", "/"))?;
        let scene = Self { args, place, ends, registry, metrics, proxy, _backend: backend };
        let (begin, all) = (Instant::now(), (args.services * args.endpoints) as f64);
        while scene.metric("thalweg_source_endpoints{")? < all {
            if begin.elapsed() > START {
                bail!("the proxy does not find all endpoints");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(scene)
    }

    /// The samples of all cases, by case and round.
    fn measure(&self) -> Result<[Vec<Sample>; 3]> {
        let mut cases = [const { Vec::new() }; 3];
        for round in 0..=self.args.rounds {
            for case in order(round, cases.len()) {
                let changes = Changes::ALL[case];
                let sample = self.case(changes)?;
                println!(
                    "bench: round {round}: {:<10} p50 {:4.0} µs, p99 {:5.0} µs, control {:4.1} %, worker {:5.1} µs \
                     per request, {:4.0} sets/s, RSS {:.1} MB",
                    changes.name(),
                    sample.p50,
                    sample.p99,
                    sample.control * 100.0,
                    sample.worker_us,
                    sample.sets,
                    sample.resident as f64 / 1e6
                );
                if round > 0 {
                    cases[case].push(sample);
                }
            }
        }
        Ok(cases)
    }

    /// Small requests while this changes.
    fn case(&self, changes: Changes) -> Result<Sample> {
        let args = self.args;
        // Not while requests are measured: a page of metrics of ten thousand endpoints takes its time.
        let (begun, sets) = (Instant::now(), self.sets()?);
        let changing = self.registry.change(changes, args.changes);
        let mut command = self.place.command(LOAD_CPU, "chrt".as_ref());
        command.args(["--fifo", PRIORITY]).arg(&self.ends);
        command.args(["small", &self.proxy.address.to_string(), configs::BODY]);
        let spans = SPANS.to_string();
        command.args([&args.connections.to_string(), &args.requests.to_string()]);
        command.args([&args.seconds.to_string(), &spans, &args.services.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let from = BufReader::new(child.stdout.take().context("the client has no output")?);
        // From the end of the first span that counts to that of the last.
        let (mut first, mut last, mut sample) = (None, None, Sample::default());
        for line in from.lines() {
            let line = line?;
            if line.starts_with("SPAN ") {
                let seen = (Instant::now(), Spent::now(self.proxy.program.pids()[0])?);
                first.get_or_insert(seen);
                last = Some(seen);
                continue;
            }
            if !line.starts_with("RESULT ") {
                continue;
            }
            let read = reported::result(&line).with_context(|| format!("the client says {line:?}"))?;
            let [answered, p50, p99, most, bad] = read;
            let [p50, p99, most] = [p50, p99, most].map(|time| time as f64);
            sample = Sample { p50, p99, most, answered, bad, ..sample };
        }
        changing.end();
        let sets = (self.sets()? - sets) / begun.elapsed().as_secs_f64();
        let (Some(first), Some(last)) = (first, last) else {
            bail!("the client of small requests broke off")
        };
        if !child.wait()?.success() || sample.answered == 0 {
            bail!("the client of small requests broke off");
        }
        let (time, spent) = ((last.0 - first.0).as_secs_f64(), last.1.since(first.1));
        Ok(Sample {
            control: spent.control.as_secs_f64() / time,
            others: spent.others.as_secs_f64() / time,
            worker_us: spent.workers.as_secs_f64() * 1e6 / (time * f64::from(args.requests)),
            sets,
            resident: self.proxy.program.resident(),
            ..sample
        })
    }

    /// Sets of endpoints that sources have told of.
    fn sets(&self) -> Result<f64> {
        self.metric("thalweg_source_updates_total{")
    }

    /// The sum of all series whose line begins so.
    fn metric(&self, begin: &str) -> Result<f64> {
        let mut stream = TcpStream::connect(self.metrics)?;
        stream.set_read_timeout(Some(START))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let lines = text.lines().filter(|line| line.starts_with(begin));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

/// Starts the backend, on all addresses.
fn backend(nginx: &Path, place: &mut Place) -> Result<Running> {
    let (address, folder) = (place.address()?, place.next_folder()?);
    let file = folder.join("backend.conf");
    let size = configs::Size { connections: 19_000, ..configs::USUAL };
    fs::write(&file, configs::nginx_backend_of(&folder, &format!("0.0.0.0:{}", address.port()), size))?;
    let mut command = place.command(LOAD_CPU, "chrt".as_ref());
    command.args(["--fifo", PRIORITY]).arg(locate(nginx).context("nginx is not here")?);
    command.arg("-p").arg(&folder).arg("-c").arg(&file);
    place
        .start(command, &folder, address, ("bench", "/"))
        .context("the backend does not start, or `chrt` needs root")
}

fn configuration(services: usize, listen: SocketAddr, metrics: SocketAddr, registry: SocketAddr) -> String {
    let mut text = format!(
        "workers: 1\nlisteners: {{ web: {{ address: \"{listen}\" }} }}\nmetrics: {{ address: \"{metrics}\" }}\nservices:\n"
    );
    for service in 0..services {
        let prefix = prefix(service);
        let _ = writeln!(
            text,
            "  s{service}: {{ discover: {{ etcd: {{ prefix: {prefix}, url: \"http://{registry}\" }} }} }}"
        );
    }
    text.push_str("routes:\n");
    for service in 0..services {
        let _ = writeln!(text, "  - {{ name: s{service}, match: {{ host: s{service} }}, to: s{service} }}");
    }
    text
}
