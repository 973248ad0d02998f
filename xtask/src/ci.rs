//! `cargo xtask ci`: everything that must pass before a change lands, cheapest first.
//!
//! Called by `.ci/run` and by people. Stops at the first step that fails and always prints what each took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::command::{cargo, exists, run as run_command};
use crate::{fuzz, generate, tidy};

/// Time for each fuzz target in the fast tier: enough to notice a broken target or a shallow bug.
const FUZZ_SMOKE: Duration = Duration::from_secs(5);
/// Programs that scenarios need; a test whose program is missing says that it was skipped.
const PROGRAMS: &[&str] = &["nginx", "ab", "wrk", "curl", "python3", "node", "strace", "go", "javac"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also the slow tier (reserved: nothing stands in it yet)
    #[arg(long)]
    full: bool,
}

type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[
    ("fmt", || run_command(&mut cargo("fmt --all --check"))),
    ("tidy", tidy::run),
    ("clippy", || run_command(&mut cargo("clippy --workspace --all-targets -- -D warnings"))),
    ("gen", || generate::run(&generate::Args { check: true })),
    ("test", || crate::test::run(&crate::test::Args::default())),
    ("docs", docs),
    ("release", || run_command(&mut cargo("build --release --package thalweg"))),
    ("fuzz", smoke),
];

/// Runs every step.
pub(crate) fn run(args: &Args) -> Result<()> {
    for program in PROGRAMS.iter().filter(|program| !exists(program)) {
        println!("ci: {program} is not installed: the tests that need it are skipped");
    }
    if args.full {
        println!("ci: --full is reserved: the slow tier has no steps yet");
    }
    let begin = Instant::now();
    let mut times = Vec::new();
    let mut result = Ok(());
    for (name, step) in STEPS {
        println!("ci: {name}");
        let start = Instant::now();
        result = step().with_context(|| format!("step `{name}`"));
        times.push((name, start.elapsed(), result.is_ok()));
        if result.is_err() {
            break;
        }
    }
    println!();
    for (name, time, passed) in times {
        let word = if passed { "ok" } else { "FAILED" };
        println!("ci: {name:<8} {:>7.1} s  {word}", time.as_secs_f64());
    }
    println!("ci: total    {:>7.1} s", begin.elapsed().as_secs_f64());
    result
}

fn docs() -> Result<()> {
    run_command(cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"))
}

fn smoke() -> Result<()> {
    let targets = fuzz::targets()?;
    if targets.is_empty() {
        println!("ci: no fuzz targets yet");
        return Ok(());
    }
    fuzz::each(&targets, FUZZ_SMOKE)
}
