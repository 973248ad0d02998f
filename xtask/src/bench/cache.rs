//! `cargo xtask bench cache`: stored responses. Hits per CPU second, memory with a million small objects, and the hit
//! ratio on requests of Zipf's law, beside nginx and Varnish.
//!
//! Order of a run: an origin that counts what reaches it ([`origin`]) → for each case, the entrants ([`entrant`]) →
//! [`hits`]: interleaved rounds of wrk ([`load`]) over objects that are stored → [`memory`]: many objects once, by
//! clients that pipeline ([`asker`]), then the resident memory → [`zipf`]: one sequence of requests through each
//! entrant, and through simulated caches ([`simulated`]) of as many objects as it held → [`report`]. That an object was
//! stored is known from the origin, which has not been asked again.

mod asker;
mod configs;
mod entrant;
mod hits;
mod load;
mod memory;
mod origin;
mod report;
mod simulated;
mod zipf;

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::contestant::Place;
use super::frame::{Conditions, Use};
use super::layout::Layout;
use super::{Folder, process};
use crate::command::exists;
use entrant::Peer;
use report::Report;

/// Fewer rounds are a trial, which must not replace the day's result.
const LEAST_ROUNDS: usize = 4;
/// So are fewer objects in memory.
const LEAST_OBJECTS: usize = 1_000_000;

#[derive(clap::Args)]
pub(crate) struct Cache {
    /// Rounds that count; one more runs before them and is dropped
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per entrant, round, size and layout
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Client connections
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// What is measured
    #[arg(long, value_delimiter = ',', value_enum, default_value = "hits,memory,zipf")]
    cases: Vec<Case>,
    /// Who runs on which CPU while hits are measured
    #[arg(long, value_delimiter = ',', value_enum, default_value = "shared,apart")]
    layouts: Vec<Layout>,
    /// Who takes part; ratios are those of the first one
    #[arg(long, value_delimiter = ',', value_enum, default_value = "thalweg,nginx,varnish")]
    peers: Vec<Peer>,
    /// Objects of 1 KB with which memory is filled
    #[arg(long, default_value_t = LEAST_OBJECTS)]
    objects: usize,
    /// The configured size of the cache for them, in MiB
    #[arg(long, default_value_t = 1024)]
    memory: u64,
    /// Most seconds for filling one cache
    #[arg(long, default_value_t = 240)]
    fill: u64,
    /// Objects that requests of Zipf's law are for
    #[arg(long, default_value_t = 100_000)]
    zipf_objects: usize,
    /// Requests of each sequence
    #[arg(long, default_value_t = 500_000)]
    zipf_requests: usize,
    /// The configured size of the cache for them, in MiB
    #[arg(long, default_value_t = 16)]
    zipf_memory: u64,
    /// A trial of everything: one short round, fewer objects
    #[arg(long)]
    quick: bool,
    /// The product's binary (default: built with the profile dist)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// The nginx to measure (default: the one in the search path); it is the origin too
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// The Varnish to measure (default: the one in the search path)
    #[arg(long, default_value = "varnishd")]
    varnish: PathBuf,
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Case {
    /// CPU per hit, objects of 1 KB and of 64 KB
    Hits,
    /// Resident memory of a full cache
    Memory,
    /// Hit ratio on requests of Zipf's law
    Zipf,
}

/// Runs what the command line asks for.
pub(crate) fn run(args: &Cache) -> Result<()> {
    let args = &args.in_force();
    let programs = ["taskset", "setpriv", "wrk", &args.nginx.to_string_lossy()];
    if let Some(program) = programs.iter().find(|program| !exists(program)) {
        bail!("{program} is not installed\nhelp: apt-get install util-linux wrk nginx-light");
    }
    let counts = [args.rounds, args.connections, args.objects, args.zipf_objects, args.zipf_requests];
    if counts.contains(&0) || args.seconds == 0 || std::thread::available_parallelism()?.get() < 2 {
        bail!("the bench needs at least one of everything and two CPUs");
    }
    process::raise_descriptors()?;
    let entrants = entrant::find(args)?;
    if entrants.is_empty() {
        bail!("none of the entrants is there");
    }
    let folder = Folder::in_memory()?;
    let mut place = Place::new(folder.path())?;
    let measured = |case| args.cases.contains(&case);
    let conditions = Conditions::begin()?;
    let hits = if measured(Case::Hits) { hits::measure(args, &entrants, &mut place)? } else { Vec::new() };
    let fills =
        if measured(Case::Memory) { memory::measure(args, &entrants, &mut place)? } else { Vec::new() };
    let ratios = if measured(Case::Zipf) { zipf::measure(args, &entrants, &mut place)? } else { Vec::new() };
    let run = conditions.end()?;
    let report = Report { args, entrants: &entrants, hits: &hits, fills: &fills, ratios: &ratios };
    run.finish("cache", &report, Use { keep: args.is_whole(&entrants), gate: args.gate })
}

impl Cache {
    /// What is run: as the command line says, or a trial.
    fn in_force(&self) -> Self {
        let most = |value: usize, quick: usize| if self.quick { value.min(quick) } else { value };
        let seconds = |value: u64, quick: u64| if self.quick { value.min(quick) } else { value };
        Self {
            rounds: most(self.rounds, 1),
            seconds: seconds(self.seconds, 1),
            objects: most(self.objects, 50_000),
            memory: seconds(self.memory, 32),
            fill: seconds(self.fill, 30),
            zipf_objects: most(self.zipf_objects, 20_000),
            zipf_requests: most(self.zipf_requests, 60_000),
            zipf_memory: seconds(self.zipf_memory, 8),
            cases: self.cases.clone(),
            layouts: self.layouts.clone(),
            peers: self.peers.clone(),
            thalweg: self.thalweg.clone(),
            nginx: self.nginx.clone(),
            varnish: self.varnish.clone(),
            ..*self
        }
    }

    /// Whether it is a result, and no trial.
    fn is_whole(&self, entrants: &[entrant::Entrant]) -> bool {
        let all = [Case::Hits, Case::Memory, Case::Zipf].iter().all(|case| self.cases.contains(case));
        let both = [Peer::Thalweg, Peer::Nginx];
        all && both.iter().all(|peer| entrants.iter().any(|entrant| entrant.peer == *peer))
            && Layout::ALL.iter().all(|layout| self.layouts.contains(layout))
            && self.rounds >= LEAST_ROUNDS
            && self.objects >= LEAST_OBJECTS
    }
}
