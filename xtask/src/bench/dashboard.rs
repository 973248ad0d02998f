//! `cargo xtask bench dashboard`: 1,000 routes under a steady load, and people who look at them.
//!
//! Order of a run: the proxy on one CPU, backend, load and dashboards on the other → two real pages in Chromium and
//! clients that ask what those pages ask, for five minutes: long tasks and memory of the pages → rounds with all
//! dashboards as such clients, and without, in turn: latency of the load, CPU time of the proxy → [`report`]. In the
//! rounds no browser runs, because it would take the CPU from the load, which on a machine of its own it does not.

mod report;

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::contestant::{Kind, Place, Running, backend, built, version};
use super::frame::{Conditions, Use};
use super::load::rate::{self, Outcome, Urls};
use super::order::order;
use super::priority::Priority;
use super::{Folder, LOAD_CPU, PROXY_CPU, process};
use crate::command::{exists, root, target};
use report::Report;

/// Fewer rounds or shorter ones are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_SECONDS: u64 = 300;
/// Real pages among the dashboards.
const PAGES: usize = 2;
/// Services that the routes share.
const SERVICES: usize = 100;
/// What drives the browser.
const DRIVER: &str = "playwright-core@1.65.1";
const TOKEN: &str = "token-of-the-bench-0123456789";
/// Seconds between the start of clients and that of the load, so that all have begun.
const LEAD: u64 = 3;

#[derive(clap::Args)]
pub(crate) struct Dashboard {
    /// Rounds that count, each with and without dashboards; one more runs before them and is dropped
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of load in each half of a round
    #[arg(long, default_value_t = 15)]
    round_seconds: u64,
    /// Seconds for which the pages are watched
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Requests per second
    #[arg(long, default_value_t = 10_000)]
    rate: usize,
    /// Connections of the load
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Routes
    #[arg(long, default_value_t = 1000)]
    routes: usize,
    /// Open dashboards
    #[arg(long, default_value_t = 20)]
    dashboards: usize,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The nginx that is the backend (default: the one in the search path)
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One half of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Requests per second that were answered.
    rate: f64,
    failed: u64,
    /// Percentiles of the time of a request, in milliseconds.
    p50: f64,
    p99: f64,
    p999: f64,
    /// CPU time of the proxy, as a share of its CPU.
    busy: f64,
    /// Questions of the dashboards per second.
    asked: f64,
}

/// Everything that was measured.
struct Measured {
    /// What the program with the pages says.
    pages: Value,
    /// The load beside it.
    beside: Sample,
    with: Vec<Sample>,
    without: Vec<Sample>,
}

/// What runs during the whole measurement.
struct Scene<'a> {
    args: &'a Dashboard,
    folder: PathBuf,
    place: Place,
    /// Where the program of the dashboards and its packages are.
    program: PathBuf,
    admin: SocketAddr,
    proxy: Running,
    _backend: Running,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Dashboard) -> Result<()> {
    let programs =
        ["taskset", "setpriv", "chrt", "h2load", "node", "npm", "chromium", &args.nginx.to_string_lossy()];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!(
            "{program} is not installed\nhelp: apt-get install util-linux nghttp2-client nodejs npm chromium nginx-light"
        );
    }
    let counts = [args.rounds, args.rate / args.connections.max(1), args.routes];
    if counts.contains(&0) || args.dashboards < PAGES || std::thread::available_parallelism()?.get() < 2 {
        bail!(
            "the bench needs a round, a request per connection and second, a route, two dashboards and two CPUs"
        );
    }
    process::raise_descriptors()?;
    let thalweg = built("thalweg", args.thalweg.as_deref())?;
    let priority = Priority::first();
    let version = version(Kind::Thalweg, &thalweg)?;
    let folder = Folder::new()?;
    let conditions = Conditions::begin()?;
    let scene = Scene::new(args, &folder.0, &thalweg)?;
    let measured = scene.measure()?;
    drop(scene);
    let report = Report { args, measured: &measured, version: &version, goes_first: priority.is_first };
    let keep = args.rounds >= LEAST_ROUNDS && args.seconds >= LEAST_SECONDS;
    conditions.end()?.finish("dashboard", &report, Use { keep, gate: args.gate })
}

impl<'a> Scene<'a> {
    fn new(args: &'a Dashboard, folder: &Path, thalweg: &Path) -> Result<Self> {
        let program = driver()?;
        let mut place = Place::new(folder.to_owned())?;
        let backend = backend(&args.nginx, LOAD_CPU, &mut place)?;
        let (address, admin, files) = (place.address()?, place.address()?, place.next_folder()?);
        let file = files.join("thalweg.yaml");
        fs::write(&file, configuration(args.routes, address, admin, backend.address))?;
        let paths = (0..args.routes).fold(String::new(), |mut paths, route| {
            let _ = writeln!(paths, "http://{address}/r{route}/item");
            paths
        });
        fs::write(folder.join("paths"), paths)?;
        let mut command = place.command(PROXY_CPU, thalweg);
        command.args(["run", "--config"]).arg(&file);
        let proxy = place.start(command, &files, address, ("bench", "/r0/item"))?;
        Ok(Self { args, folder: folder.to_owned(), place, program, admin, proxy, _backend: backend })
    }

    fn measure(&self) -> Result<Measured> {
        let args = self.args;
        println!("bench: {PAGES} pages and {} clients for {} s", args.dashboards - PAGES, args.seconds);
        // The load begins with the pages, which are watched for a while before the clients follow them.
        let pages = self.dashboards("pages", args.seconds, args.dashboards - PAGES)?;
        let beside = self.load(args.seconds + report::WATCHED)?;
        let pages = answer(pages)?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 0..=args.rounds {
            for half in order(round, 2) {
                let sample = if half == 0 { self.with()? } else { self.load(args.round_seconds)? };
                println!(
                    "bench: round {round}: {:<7} {:6.0}/s, p50 {:.2} ms, p99 {:.2} ms, {:.0} % of the proxy's CPU",
                    if half == 0 { "with" } else { "without" },
                    sample.rate,
                    sample.p50,
                    sample.p99,
                    sample.busy * 100.0
                );
                if round > 0 {
                    if half == 0 { with.push(sample) } else { without.push(sample) }
                }
            }
        }
        Ok(Measured { pages, beside, with, without })
    }

    /// The load with all dashboards as clients.
    fn with(&self) -> Result<Sample> {
        let seconds = self.args.round_seconds + 2 * LEAD;
        let clients = self.dashboards("clients", seconds, self.args.dashboards)?;
        std::thread::sleep(std::time::Duration::from_secs(LEAD));
        let sample = self.load(self.args.round_seconds)?;
        let told = answer(clients)?;
        if told["failed"] != 0 {
            bail!("questions of the dashboards failed: {told}");
        }
        Ok(Sample { asked: told["questions"].as_f64().unwrap_or(0.0) / seconds as f64, ..sample })
    }

    fn dashboards(&self, mode: &str, seconds: u64, clients: usize) -> Result<Child> {
        // Both are on machines of their own in use: how long a task of a page takes is not for the load to say, and
        // what clients do with an answer is not to keep the load waiting.
        let policy = if mode == "pages" { ["--rr", "1", "node"] } else { ["--idle", "0", "node"] };
        let mut command = self.place.command(LOAD_CPU, Path::new("chrt"));
        command.args(policy).arg(&self.program).arg(mode).arg(format!("http://{}", self.admin)).arg(TOKEN);
        command.arg(seconds.to_string()).arg(clients.to_string()).arg(self.folder.join("traces"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().context("node does not start")
    }

    /// The load alone: as many requests per second as were asked for, over all routes in turn.
    fn load(&self, seconds: u64) -> Result<Sample> {
        let Dashboard { rate, connections, .. } = *self.args;
        let paths = self.folder.join("paths");
        let load =
            rate::Load { urls: Urls::File(&paths), rate, connections, seconds, is_h1: true, fields: &[] };
        let before = self.proxy.program.cpu();
        let Outcome { requests, failed, p50, p99, p999 } = load.run(&self.place)?;
        let spent = self.proxy.program.cpu().saturating_sub(before).as_secs_f64();
        let seconds = seconds as f64;
        Ok(Sample {
            rate: requests as f64 / seconds,
            failed,
            p50,
            p99,
            p999,
            busy: spent / seconds,
            asked: 0.0,
        })
    }
}

/// What a program of dashboards has printed.
fn answer(program: Child) -> Result<Value> {
    let done = program.wait_with_output()?;
    if !done.status.success() {
        bail!("the dashboards ended with {}", done.status);
    }
    serde_json::from_slice(&done.stdout).context("the dashboards say something else than JSON")
}

/// The routes, and the admin address that dashboards ask.
fn configuration(routes: usize, listen: SocketAddr, admin: SocketAddr, backend: SocketAddr) -> String {
    let mut text = format!(
        "listeners: {{ web: {{ address: \"{listen}\" }} }}\nadmin: {{ address: \"{admin}\", token: {{ value: {TOKEN} }} }}\nservices:\n"
    );
    for service in 0..SERVICES {
        let _ = writeln!(text, "  s{service}: {{ endpoints: \"http://{backend}\" }}");
    }
    text.push_str("routes:\n");
    for route in 0..routes {
        let service = route % SERVICES;
        let _ = writeln!(text, "  - {{ name: r{route}, match: {{ path: /r{route}/* }}, to: s{service} }}");
    }
    text
}

/// The program of the dashboards, beside what drives the browser.
fn driver() -> Result<PathBuf> {
    let folder = target()?.join("tools/bench-dashboard");
    if !folder.join("node_modules").is_dir() {
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("package.json"), "{\"private\": true, \"type\": \"module\"}")?;
        let words = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", DRIVER];
        crate::command::run(Command::new("npm").args(words).current_dir(&folder))?;
    }
    let program = folder.join("dashboards.mjs");
    fs::copy(root().join("bench/dashboard/dashboards.mjs"), &program)?;
    Ok(program)
}
