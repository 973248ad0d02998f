//! `cargo xtask bench slow`: small requests beside thousands of clients that read large bodies slowly.
//!
//! Order of a run: start the origins and the proxy ([`ends`]) → small requests on the quiet machine → beside slow
//! readers that pass the proxy by, the control → beside slow readers of the proxy, with a look at its memory and the
//! kernel's after each span ([`vitals`]) → quiet again → [`report`]. The ends are `bench/peers/ends`; every byte
//! that a slow reader gets is checked.
//!
//! Both ends of the small requests run on the proxy's CPU and go before it: what is measured is how long the proxy and
//! the kernel below it leave a request waiting there, not how the ends of slow readers hold up others on their CPU.

mod ends;
mod report;
mod vitals;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::contestant::Kind;
use super::contestant::{Place, Running, built, version};
use super::frame::{Conditions, Use};
use super::{Folder, configs, process};
use crate::command::exists;
use ends::{Outcome, Readers, SmallRun};
use report::Report;

/// Spans on the quiet machine, before and after, and of the control.
const QUIET_SPANS: usize = 3;
/// Fewer spans or fewer readers are a trial, which must not replace the day's result.
const LEAST_SPANS: usize = 12;
const LEAST_READERS: usize = 9500;
/// Descriptors beyond two for each slow reader: what the proxy keeps back, and the small requests.
const DESCRIPTORS: u64 = 250;

#[derive(clap::Args)]
pub(crate) struct Slow {
    /// Clients that read slowly
    #[arg(long, default_value_t = 9500)]
    readers: usize,
    /// Bytes per second that each of them reads
    #[arg(long, default_value_t = 1000)]
    rate: usize,
    /// Bytes of the body that each asks for
    #[arg(long, default_value_t = 50_000_000)]
    bytes: u64,
    /// Spans of the measurement beside them that count; before them and all others one more is dropped
    #[arg(long, default_value_t = 12)]
    spans: usize,
    /// Seconds of a span
    #[arg(long, default_value_t = 5)]
    seconds: usize,
    /// Connections of small requests
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Small requests per second, on all of them together
    #[arg(long, default_value_t = 1000)]
    requests: usize,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// What runs during the whole measurement.
struct Scene {
    place: Place,
    ends: PathBuf,
    /// Endpoint of the large bodies.
    feed: Running,
    proxy: Running,
    metrics: std::net::SocketAddr,
    /// Endpoint of the small requests.
    _small: Running,
}

/// Everything that was measured.
struct Measured {
    before: SmallRun,
    /// Beside slow readers that do not pass the proxy.
    control: SmallRun,
    beside: SmallRun,
    after: SmallRun,
    /// What the readers of the control got, and those of the proxy.
    outcomes: [Outcome; 2],
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Slow) -> Result<()> {
    if let Some(program) = ["taskset", "setpriv", "chrt"].iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux");
    }
    let counts = [args.readers, args.rate, args.spans, args.seconds, args.connections, args.requests];
    if counts.contains(&0) || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one of everything and two CPUs");
    }
    let (limit, needed) = (process::raise_descriptors()?, args.readers as u64 * 2 + DESCRIPTORS);
    if limit < needed {
        bail!("{} readers need a descriptor limit of {needed}, and it is {limit}", args.readers);
    }
    let (ends, thalweg) = (built("ends", None)?, built("thalweg", args.thalweg.as_deref())?);
    let version = version(Kind::Thalweg, &thalweg)?;
    let folder = Folder::new()?;
    let conditions = Conditions::begin()?;
    let scene = Scene::new(&folder.0, ends, &thalweg)?;
    let measured = scene.measure(args)?;
    drop(scene);
    let report = Report { args, measured: &measured, version: &version };
    let keep = args.spans >= LEAST_SPANS && args.readers >= LEAST_READERS;
    conditions.end()?.finish("slow", &report, Use { keep, gate: args.gate })
}

impl Scene {
    /// Starts the origins and the proxy.
    fn new(folder: &Path, ends: PathBuf, thalweg: &Path) -> Result<Self> {
        let mut place = Place::new(folder.to_owned())?;
        let feed = ends::start_feed(&mut place, &ends)?;
        let small = ends::start_small_origin(&mut place, &ends)?;
        let (address, metrics, files) = (place.address()?, place.address()?, place.next_folder()?);
        let file = files.join("thalweg.yaml");
        std::fs::write(&file, configs::thalweg_slow(address, metrics, small.address, feed.address))?;
        let mut command = place.command(super::PROXY_CPU, thalweg);
        command.args(["run", "--config"]).arg(&file);
        let proxy = place.start(command, &files, address, ("bench", "/"))?;
        Ok(Self { place, ends, feed, proxy, metrics, _small: small })
    }

    fn measure(&self, args: &Slow) -> Result<Measured> {
        println!("bench: small requests on the quiet machine");
        let before = self.small(args, QUIET_SPANS)?;
        println!("bench: beside {} slow readers that pass the proxy by", args.readers);
        let readers = Readers::start(self, self.feed.address, args)?;
        let control = self.small(args, QUIET_SPANS)?;
        let direct = readers.stop()?;
        println!("bench: beside {} slow readers of the proxy", args.readers);
        let readers = Readers::start(self, self.proxy.address, args)?;
        let beside = self.small(args, args.spans)?;
        let proxied = readers.stop()?;
        println!("bench: on the quiet machine again");
        let after = self.small(args, QUIET_SPANS)?;
        Ok(Measured { before, control, beside, after, outcomes: [direct, proxied] })
    }
}
