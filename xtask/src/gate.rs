//! `cargo xtask gate`: what one exchange costs in instructions and system calls, against limits that are kept.
//!
//! Times differ from machine to machine and from minute to minute; counts hardly do. The optimised binary runs under
//! callgrind, then under strace, and serves few exchanges and then many on one kept connection: the difference is what
//! the exchanges cost, without the start and the end ([`counts`]). The limits stand in `bench/gate.txt`; a count above
//! its limit by more than [`SLACK`] fails, one far below asks for a lower limit. What an exchange allocates has a test
//! of its own (`tests/steady/allocations.rs`: nothing).
//!
//! A gate that cannot fail is none: each run also measures a route with five filters against the limits of a plain
//! exchange, and fails if that passes.

mod backend;
mod counts;
mod limits;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::bench::configs;
use crate::command::{exists, locate, target};
use backend::Backend;
use counts::{Counts, Run};
use limits::{Limits, Verdict};

/// Most by which a count may be above its limit, as a share: what differs between processors and compilers' patch
/// versions.
const SLACK: f64 = 0.05;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The product's binary (default: built with the profile release)
    #[arg(long)]
    thalweg: Option<PathBuf>,
    /// Write what is measured as the new limits
    #[arg(long)]
    write: bool,
}

/// What is measured, and what its route looks like.
struct Case {
    name: &'static str,
    filters: &'static str,
}

/// The first one is the plain exchange; the last one is more than it by far.
const CASES: &[Case] = &[
    Case { name: "plain", filters: "" },
    Case { name: "rate_limit", filters: configs::RATE_LIMIT },
    Case { name: "cache_hit", filters: "      - cache: {}\n" },
    Case { name: "five_filters", filters: configs::FIVE_FILTERS },
];

/// Measures every case of this binary and compares.
pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = match &args.thalweg {
        Some(path) => std::path::absolute(path)?,
        None => {
            crate::command::run(&mut crate::command::cargo("build --release --package thalweg"))?;
            target()?.join("release/thalweg")
        }
    };
    check(&binary, args.write)
}

/// The same for a binary that has been built; what CI calls. Without valgrind or strace it says so.
pub(crate) fn check(binary: &std::path::Path, write: bool) -> Result<()> {
    if let Some(missing) = ["valgrind", "strace"].into_iter().find(|program| !exists(program)) {
        if std::env::var_os("CI").is_some() {
            bail!("{missing} is not installed\nhelp: apt-get install valgrind strace");
        }
        println!("gate: {missing} is not installed: nothing is measured");
        return Ok(());
    }
    let binary = locate(binary).with_context(|| format!("{} is not there", binary.display()))?;
    let backend = Backend::start()?;
    let mut measured = Vec::new();
    for case in CASES {
        let run = Run { binary: &binary, backend: backend.address(), filters: case.filters };
        let counts = run.measure().with_context(|| format!("gate: case `{}`", case.name))?;
        println!("gate: {:<13} {counts}", case.name);
        measured.push((case.name.to_owned(), counts));
    }
    if write {
        return Limits::write(&measured);
    }
    judge(&Limits::read()?, &measured)
}

fn judge(limits: &Limits, measured: &[(String, Counts)]) -> Result<()> {
    let mut failed = Vec::new();
    for (name, counts) in measured {
        match limits.judge(name, counts) {
            Verdict::Holds => {}
            Verdict::Lower(told) => println!("gate: {name}: {told}; `cargo xtask gate --write` keeps that"),
            Verdict::Above(told) => failed.push(format!("{name}: {told}")),
        }
    }
    // The seeded regression: a plain exchange that costs what one with five filters does.
    if let (Some((plain, _)), Some((seeded, dear))) = (measured.first(), measured.last())
        && !matches!(limits.judge(plain, dear), Verdict::Above(_))
    {
        failed.push(format!("the cost of `{seeded}` passes as that of `{plain}`: the gate sees nothing"));
    }
    if !failed.is_empty() {
        bail!(
            "one exchange costs more than its limit in bench/gate.txt:\n  {}\n\
             help: find out why (callgrind_annotate), or say why in the commit that writes new limits",
            failed.join("\n  ")
        );
    }
    Ok(())
}
