//! `cargo xtask ci`: everything that must pass before a change lands, cheapest first.
//!
//! Called by `.ci/run` and by people. Stops at the first step that fails and always prints what each took.
//! `--full` adds what takes long: long variants of tests, and a minute of libFuzzer for each target.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, exists, run as run_command, target};
use crate::{fuzz, gate, generate, test, tidy, ui};

/// Programs that scenarios need; a test whose program is missing says that it was skipped.
const PROGRAMS: &[&str] =
    &["nginx", "ab", "wrk", "curl", "python3", "node", "npm", "strace", "go", "javac", "mvn"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also the slow tier: long variants of the tests, and the fuzzer
    #[arg(long)]
    full: bool,
    /// Begin with this step, where those before it have passed
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
}

type Step = (&'static str, fn() -> Result<()>);

/// Checking and testing name the same packages and targets, so that dependencies are compiled once for each.
const STEPS: &[Step] = &[
    ("fmt", || run_command(&mut cargo("fmt --all --check"))),
    ("tidy", tidy::check),
    ("ui", ui::check),
    ("clippy", || {
        run_command(&mut cargo("clippy --workspace --all-targets --features thalweg/wasm -- -D warnings"))?;
        // What is built without it has lines of its own.
        run_command(&mut cargo("clippy --package thalweg -- -D warnings"))
    }),
    ("build", || {
        test::build()?;
        // Gigabytes that are still to be written would make every test wait that writes a line.
        run_command(&mut Command::new("sync"))
    }),
    ("gen", || generate::pages(true)),
    ("test", || test::all(false)),
    ("docs", docs),
    ("release", release),
    ("gate", || gate::check(&target()?.join("release/thalweg"), false)),
];
/// The slow tier.
const SLOW: &[Step] = &[("long", || test::all(true)), ("fuzz", fuzz::all)];

/// Runs every step.
pub(crate) fn run(args: &Args) -> Result<()> {
    for program in PROGRAMS.iter().filter(|program| !exists(program)) {
        println!("ci: {program} is not installed: the tests that need it are skipped");
    }
    let begin = Instant::now();
    let mut times = Vec::new();
    let mut result = Ok(());
    let slow = if args.full { SLOW } else { &[] };
    let steps: Vec<_> = STEPS.iter().chain(slow).collect();
    let first = match &args.from {
        Some(from) => steps.iter().position(|(name, _)| name == from),
        None => Some(0),
    };
    let Some(first) = first else {
        let names: Vec<_> = steps.iter().map(|(name, _)| *name).collect();
        bail!("no such step\nhelp: {}", names.join(", "));
    };
    for (name, step) in &steps[first..] {
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

/// The optimised binary, which has no features, and what is tested with it.
fn release() -> Result<()> {
    run_command(&mut cargo("build --release --package thalweg"))?;
    test::of_release(&target()?.join("release/thalweg"))
}
