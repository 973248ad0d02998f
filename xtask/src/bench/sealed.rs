//! `cargo xtask bench sealed`: a published experiment, run again: destinations in the encrypted sub-domain, beside a
//! relay in Go and one in Node.
//!
//! Order of a run: start the echo servers ([`ends`]) and the entrants ([`entrant`]), which all stay up → the [`table`]
//! of seconds over the number of servers and of clients, in interleaved rounds → many addresses in a [`sequence`] → the
//! most sessions at once ([`limits`]) → [`report`], with a [`plot`] for each table. All programs share both CPUs, as in
//! the publication.

mod configs;
mod ends;
mod entrant;
mod limits;
mod plot;
mod report;
mod sequence;
mod table;

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::contestant::{Place, built};
use super::frame::{self, Conditions, Use};
use super::{Folder, process};
use crate::command::exists;
use ends::{Ends, Mode};
use entrant::{Entrant, Peer, Started};
use limits::Limit;
use report::Report;
use sequence::Sequence;
use table::Rounds;

/// Less than this is a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 5;
const LEAST_MESSAGES: u32 = 50;
const LEAST_ROWS: usize = 10;
const LEAST_SERVERS: usize = 275;
const LEAST_ADDRESSES: usize = 50_000;
/// Descriptors that the limits are about.
const DESCRIPTORS: u64 = 20_000;
/// Descriptors beyond two for each session.
const SPARE: u64 = 1000;

#[derive(clap::Args)]
pub(crate) struct Sealed {
    /// Rounds that count, best an odd number; a table begins with one more run of each, which is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Numbers of servers with --clients each, and of clients of each of --clients servers
    #[arg(long, value_delimiter = ',', default_value = "50,75,100,125,150,175,200,225,250,275")]
    servers: Vec<usize>,
    /// The same for all tables but those of the first mode with the last size
    #[arg(long, value_delimiter = ',', default_value = "50,275")]
    others: Vec<usize>,
    /// Clients of each server, and servers where clients are counted
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// Sizes of messages, in bytes
    #[arg(long, value_delimiter = ',', default_value = "20,1024")]
    sizes: Vec<usize>,
    /// Messages of each client, one after the other; the published tables have 1000
    #[arg(long, default_value_t = 50)]
    messages: u32,
    /// What messages travel in
    #[arg(long, value_delimiter = ',', value_enum, default_value = "websocket,raw")]
    modes: Vec<Mode>,
    /// Only a part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Addresses of the sequence
    #[arg(long, default_value_t = 50_000)]
    addresses: usize,
    /// Who takes part; ratios are those of the first one
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,go,node")]
    peers: Vec<Peer>,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The Go that builds the Go proxy (default: the one in the search path)
    #[arg(long, default_value = "go")]
    go: PathBuf,
    /// The Node that runs the Node proxy (default: the one in the search path)
    #[arg(long, default_value = "node")]
    node: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// A part of the bench.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Seconds over the number of servers and of clients
    Table,
    /// The most sessions at once, and what comes beyond
    Limits,
    /// Many addresses, one after the other
    Sequence,
}

/// Everything that was measured.
#[derive(Default)]
struct Measured {
    tables: Vec<Rounds>,
    sequences: Vec<Sequence>,
    limits: Vec<Limit>,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Sealed) -> Result<()> {
    if let Some(program) = ["taskset", "setpriv"].iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux");
    }
    let lists = [&args.servers, &args.others, &args.sizes];
    let nothing = lists.iter().any(|list| list.is_empty() || list.contains(&0)) || args.modes.is_empty();
    let counts = [args.rounds, args.clients, args.addresses, args.messages as usize, args.peers.len()];
    if nothing || counts.contains(&0) || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one of everything and two CPUs");
    }
    let sessions = args.servers.iter().chain(&args.others).max().unwrap_or(&0) * args.clients;
    let (limit, needed) = (process::raise_descriptors()?, sessions as u64 * 2 + SPARE);
    if limit < needed {
        bail!("{sessions} sessions need a descriptor limit of {needed}, and it is {limit}");
    }
    let program = built("echo_ends", None)?;
    let folder = Folder::new()?;
    let mut place = Place::new(folder.0.clone())?;
    let entrants = entrant::find(args, &mut place)?;
    let ends = Ends::start(program, args, &place)?;
    let conditions = Conditions::begin()?;
    let start = |entrant: &Entrant| entrant.start(&mut place, &ends);
    let started: Vec<Started> = entrants.iter().map(start).collect::<Result<_>>()?;
    let measured = measure(args, &ends, &started)?;
    let run = conditions.end()?;
    drop((started, ends));
    let report = Report { args, entrants: &entrants, measured: &measured, date: frame::today()? };
    let keep = args.is_whole() && limit >= DESCRIPTORS;
    run.finish("sealed", &report, Use { keep, gate: args.gate })
}

/// Runs all parts that are asked for. The limits come last: what they leave behind would burden the others.
fn measure(args: &Sealed, ends: &Ends, started: &[Started]) -> Result<Measured> {
    let mut measured = Measured::default();
    if args.does(Part::Table) {
        measured.tables = table::measure(args, ends, started)?;
    }
    if args.does(Part::Sequence) {
        measured.sequences = sequence::measure(args, ends, started)?;
    }
    if args.does(Part::Limits) {
        measured.limits = limits::measure(args, ends, started)?;
    }
    Ok(measured)
}

impl Sealed {
    fn does(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Whether everybody does everything, and no less of it than a result has.
    fn is_whole(&self) -> bool {
        let all = Peer::ALL.iter().all(|peer| self.peers.contains(peer))
            && Mode::ALL.iter().all(|mode| self.modes.contains(mode));
        let rows = self.servers.len() >= LEAST_ROWS && self.servers.iter().any(|n| *n >= LEAST_SERVERS);
        let long = self.rounds >= LEAST_ROUNDS && self.messages >= LEAST_MESSAGES;
        all && rows && long && self.addresses >= LEAST_ADDRESSES && self.only.is_none()
    }
}
