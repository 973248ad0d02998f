//! `cargo xtask bench stream`: large bodies. Over a long link, how much longer than directly; on loopback, how much
//! CPU per gigabyte; and what a relay without any thought, or one that splices, would need.
//!
//! Order of a run: build or find the entrants ([`entrant`]) → [`link`] (over [`mod@line`]) → [`loopback`], which
//! measures the floors too → [`report`]. Both ends are `bench/peers/ends`, which checks every byte.

mod entrant;
mod line;
mod link;
mod loopback;
mod report;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Folder;
use super::contestant::built;
use super::frame::{Conditions, Use};
use super::proxies::Proxies;
use crate::command::{exists, locate};
use report::Report;

/// Fewer rounds are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;

#[derive(clap::Args)]
pub(crate) struct Stream {
    /// Rounds that count; one more runs before them and is dropped. Twice as many where packets are lost
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per entrant and round on loopback
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Connections side by side on loopback
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Bytes of a body
    #[arg(long, default_value_t = 50_000_000)]
    bytes: u64,
    /// What to measure
    #[arg(long, value_delimiter = ',', value_enum, default_value = "link,published,loopback,floor")]
    only: Vec<Part>,
    #[command(flatten)]
    proxies: Proxies,
    /// Delay of the long link, one way, in milliseconds
    #[arg(long, default_value_t = 35)]
    delay: u64,
    /// Rate of the long link, in Mbit/s
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// Percentages of packets that the long link loses, each measured on its own
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    drop: Vec<f64>,
    /// Congestion control on the long link (default: the machine's)
    #[arg(long)]
    congestion: Option<String>,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Part {
    /// Downloads over the long link
    Link,
    /// The same beside the loop of a published proxy, which waits for acknowledgements, and its decoupled form
    Published,
    /// CPU per gigabyte on loopback
    Loopback,
    /// CPU per gigabyte of relays that only copy or splice
    Floor,
}

/// The programs of the bench itself.
struct Programs {
    ends: PathBuf,
    delay_line: PathBuf,
    copy_loop: PathBuf,
}

impl Stream {
    fn measures(&self, part: Part) -> bool {
        self.only.contains(&part)
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Whether everything is measured as the result of a day is.
    fn whole(&self) -> bool {
        let parts = [Part::Link, Part::Published, Part::Loopback, Part::Floor];
        parts.iter().all(|part| self.measures(*part)) && self.rounds >= LEAST_ROUNDS
    }
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Stream) -> Result<()> {
    if let Some(program) = ["taskset", "setpriv"].iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux");
    }
    if args.rounds == 0 || args.connections == 0 || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one round, one connection and two CPUs");
    }
    if (args.measures(Part::Link) || args.measures(Part::Published))
        && let Some(cause) = super::namespace::missing()
    {
        bail!("{cause}\nhelp: `--only loopback,floor` needs none of this");
    }
    let [ends, delay_line, copy_loop] = ["ends", "delay_line", "copy_loop"].map(|name| built(name, None));
    let programs = Programs { ends: ends?, delay_line: delay_line?, copy_loop: copy_loop? };
    let entrants = entrant::find(args, &programs)?;
    let folder = Folder::new()?;
    let conditions = Conditions::begin()?;
    let mut links = Vec::new();
    if args.measures(Part::Link) {
        for drop in &args.drop {
            links.push(link::measure(args, &programs, &entrants, (Part::Link, *drop), &folder.0)?);
        }
    }
    if args.measures(Part::Published) {
        links.push(link::measure(args, &programs, &entrants, (Part::Published, 0.0), &folder.0)?);
    }
    let loopback = loopback::measure(args, &programs, &entrants, &folder.0)?;
    let report = Report { args, entrants: &entrants, links: &links, loopback: &loopback };
    conditions.end()?.finish("stream", &report, Use { keep: args.whole(), gate: args.gate })
}

/// `perf` if it is here.
fn perf() -> Option<Command> {
    locate("perf".as_ref()).map(Command::new)
}
