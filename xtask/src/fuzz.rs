//! `cargo xtask fuzz [TARGET] [--seconds N]`: libFuzzer over the targets of `fuzz/`.
//!
//! Builds `fuzz/libfuzzer` with the flags that cargo-fuzz would set, then runs the targets one after the other on the
//! seeds that are committed and the corpus that earlier runs left. A finding does not keep the next target from
//! running; all are named at the end, with the executions of each target. A step of `cargo xtask ci --full`; what `ci`
//! runs without it are the tests in `fuzz/src/smoke.rs`.
//!
//! No address sanitizer, which wants a nightly compiler: the crates under test hold no `unsafe`, and without it there
//! are twice the executions.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{built, cargo, output, root, run as run_command};

/// Seconds for one target when `--seconds` is not given.
const SECONDS: u64 = 60;
/// Largest resident memory of a target, in MiB; a parser that needs more has a bound missing.
const MEMORY_MIB: u32 = 1024;
/// Longest time for one input, in seconds; a parser that needs more does not work in linear time. This is
/// wall time, and virtual machines pause: a finding of this kind counts when it comes again.
const INPUT_SECONDS: u32 = 60;
/// Counters at every edge, which libFuzzer reads, and the operands of comparisons.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// Lines of a target's output that are shown with a finding.
const SHOWN: usize = 30;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The target; without it, every target in turn
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
}

/// Fuzzes as the command line asks.
pub(crate) fn run(args: &Args) -> Result<()> {
    run_command(&mut cargo("build --quiet --package thalweg-fuzz"))?;
    let list = output(&mut Command::new(built("thalweg-fuzz")?))?;
    let known: Vec<&str> = list.lines().collect();
    let chosen = match &args.target {
        Some(name) if known.contains(&name.as_str()) => vec![name.as_str()],
        Some(name) => bail!("no fuzz target `{name}`; there are: {}", known.join(", ")),
        None => known,
    };
    each(&chosen, Duration::from_secs(args.seconds))
}

/// Every target for the usual time.
pub(crate) fn all() -> Result<()> {
    run(&Args { target: None, seconds: SECONDS })
}

/// Runs each target for `time`; findings are an error once all have run.
fn each(targets: &[&str], time: Duration) -> Result<()> {
    let binary = build()?;
    let mut outcomes = Vec::new();
    for target in targets {
        println!("fuzz: {target}, {} s", time.as_secs());
        let outcome = one(target, &binary, time).with_context(|| format!("fuzz target {target}"))?;
        if let Some(shown) = &outcome.failure {
            println!("{shown}");
        }
        outcomes.push((target, outcome));
    }
    println!();
    for (target, outcome) in &outcomes {
        let word = if outcome.failure.is_none() { "ok" } else { "FOUND" };
        println!("fuzz: {target:<16} {:>12} executions  {word}", outcome.executions);
    }
    let found: Vec<_> = outcomes.iter().filter(|(_, o)| o.failure.is_some()).map(|(t, _)| **t).collect();
    if !found.is_empty() {
        bail!("findings in {}; the inputs are in fuzz/artifacts/<target>", found.join(", "));
    }
    Ok(())
}

/// What a run of one target came to.
struct Outcome {
    executions: u64,
    /// The end of its output, if it found something.
    failure: Option<String>,
}

/// Runs a target; its output goes to a log beside the binary.
fn one(target: &str, binary: &Path, time: Duration) -> Result<Outcome> {
    let folder = |name: &str| -> Result<PathBuf> {
        let path = root().join("fuzz").join(name).join(target);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    };
    let (corpus, artifacts) = (folder("corpus")?, folder("artifacts")?);
    let options = output(Command::new(built("thalweg-fuzz")?).arg(target).arg(&corpus))?;
    let log = binary.with_file_name(format!("{target}.log"));
    let file = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut command = Command::new(binary);
    command.arg(corpus).args(options.lines()).current_dir(root()).env("THALWEG_FUZZ_TARGET", target);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.arg(format!("-max_total_time={}", time.as_secs()));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB}")).arg(format!("-timeout={INPUT_SECONDS}"));
    // The panic says what was found; the backtrace comes when the finding is run again.
    command.args(["-print_final_stats=1", "-reload=0"]).env("RUST_BACKTRACE", "0");
    command.stdout(file.try_clone()?).stderr(file);
    let status = command.status().with_context(|| format!("cannot run {}", binary.display()))?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let executions = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let lines: Vec<&str> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    Ok(Outcome {
        executions: executions.and_then(|number| number.trim().parse().ok()).unwrap_or(0),
        failure: (!status.success()).then_some(end),
    })
}

/// Builds the fuzzer; returns its path.
fn build() -> Result<PathBuf> {
    let triple = output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let triple = triple.trim();
    let folder = root().join("fuzz/libfuzzer");
    let mut command = Command::new("cargo");
    // With a target named, build scripts and macros are compiled without the flags.
    command.args(["build", "--release", "--target", triple, "--target-dir"]).arg(root().join("fuzz/target"));
    command.current_dir(folder).env("RUSTFLAGS", FLAGS.join(" "));
    // Cargo sets these for us; for the other workspace they mean nothing.
    command.env_remove("CARGO").env_remove("CARGO_MANIFEST_DIR");
    run_command(&mut command)?;
    Ok(root().join("fuzz/target").join(triple).join("release/thalweg-libfuzzer"))
}
