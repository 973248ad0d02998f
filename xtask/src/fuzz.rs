//! `cargo xtask fuzz [TARGET] [--seconds N]`: cargo-fuzz over the targets under `fuzz/`.
//!
//! Builds every target once, then runs them one after the other on the seeds that are committed and
//! the corpus that earlier runs left. A finding does not keep the next target from running; all are
//! named at the end, with the executions of each target. Also the last step of `cargo xtask ci`.
//!
//! cargo-fuzz wants a nightly compiler for its sanitizer flags; `RUSTC_BOOTSTRAP=1` serves instead. No
//! address sanitizer: the crates under test hold no `unsafe`, and without it there are twice the executions.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, exists, root, run as run_command};

/// Seconds for one target when `--seconds` is not given.
const SECONDS: u64 = 60;
/// Largest resident memory of a target, in MiB; a parser that needs more has a bound missing.
const MEMORY_MIB: u32 = 1024;
/// Longest time for one input, in seconds; a parser that needs more does not work in linear time. This is
/// wall time, and virtual machines pause: a finding of this kind counts when it comes again.
const INPUT_SECONDS: u32 = 60;
/// Longest input, in bytes, where a target does not say otherwise in [`LONGER`].
const INPUT_BYTES: u32 = 4096;
/// Targets with bounds that cannot be set lower, and the bytes that reach them.
const LONGER: &[(&str, u32)] = &[("body", 20 * 1024)];
/// Where the seeds of a target stand, from the root; without an entry in `fuzz/seeds/<target>`.
const SEEDS: &[(&str, &[&str])] = &[
    ("config", &["fuzz/seeds/config", "examples", "tests/config/good", "tests/config/bad"]),
    ("engine_vs_hyper", &["fuzz/seeds/requests"]),
    ("framing_rules", &["fuzz/seeds/requests", "fuzz/seeds/responses"]),
    ("request_head", &["fuzz/seeds/requests"]),
    ("response_head", &["fuzz/seeds/responses"]),
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
    let known = targets()?;
    if known.is_empty() {
        bail!("there are no targets in fuzz/fuzz_targets");
    }
    let chosen = match &args.target {
        Some(name) if known.contains(name) => vec![name.clone()],
        Some(name) => bail!("no fuzz target `{name}`; there are: {}", known.join(", ")),
        None => known,
    };
    each(&chosen, Duration::from_secs(args.seconds))
}

/// The names of all targets, sorted; none when there is no `fuzz/` folder.
pub(crate) fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Builds and runs each target for `time`; findings are an error once all have run.
pub(crate) fn each(targets: &[String], time: Duration) -> Result<()> {
    install()?;
    let binaries = build(targets)?;
    let mut outcomes = Vec::new();
    for target in targets {
        println!("fuzz: {target}, {} s", time.as_secs());
        let outcome =
            one(target, &binaries.join(target), time).with_context(|| format!("fuzz target {target}"))?;
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
    let found: Vec<_> =
        outcomes.iter().filter(|(_, o)| o.failure.is_some()).map(|(t, _)| t.as_str()).collect();
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

/// Runs a target; its output goes to a log beside the binaries.
fn one(target: &str, binary: &Path, time: Duration) -> Result<Outcome> {
    let folder = |name: &str| -> Result<PathBuf> {
        let path = root().join("fuzz").join(name).join(target);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    };
    let (corpus, artifacts) = (folder("corpus")?, folder("artifacts")?);
    let log = root().join("fuzz/target").join(format!("{target}.log"));
    let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let bytes = LONGER.iter().find(|(name, _)| *name == target).map_or(INPUT_BYTES, |(_, bytes)| *bytes);
    let mut command = Command::new(binary);
    // What is new goes to the first folder; the others are only read.
    command.arg(corpus).args(seeds(target)).current_dir(root());
    command.arg(format!("-dict={}", dictionary(target).display()));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.arg(format!("-max_total_time={}", time.as_secs())).arg(format!("-max_len={bytes}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB}")).arg(format!("-timeout={INPUT_SECONDS}"));
    // The panic says what was found; the backtrace comes when the finding is run again.
    command.args(["-print_final_stats=1", "-reload=0"]).env("RUST_BACKTRACE", "0");
    command.stdout(output.try_clone()?).stderr(output);
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

fn seeds(target: &str) -> Vec<PathBuf> {
    let own = format!("fuzz/seeds/{target}");
    let named = SEEDS.iter().find(|(name, _)| *name == target);
    let folders = named.map_or_else(|| vec![own.as_str()], |(_, folders)| folders.to_vec());
    folders.into_iter().map(|folder| root().join(folder)).filter(|folder| folder.is_dir()).collect()
}

/// The target's own dictionary, or that of HTTP.
fn dictionary(target: &str) -> PathBuf {
    let folder = root().join("fuzz/dictionaries");
    let own = folder.join(format!("{target}.dict"));
    if own.is_file() { own } else { folder.join("http.dict") }
}

/// Builds the targets; returns the folder of their binaries.
fn build(targets: &[String]) -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.args(["fuzz", "build", "--sanitizer", "none"]).current_dir(root()).env("RUSTC_BOOTSTRAP", "1");
    // Cargo sets these for us; for the other workspace they mean nothing.
    command.env_remove("CARGO").env_remove("CARGO_MANIFEST_DIR");
    if let [only] = targets {
        command.arg(only);
    }
    run_command(&mut command)?;
    let triple = crate::command::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    Ok(root().join("fuzz/target").join(triple.trim()).join("release"))
}

fn install() -> Result<()> {
    let found = exists("cargo-fuzz") || cargo("fuzz --version").output().is_ok_and(|o| o.status.success());
    if found { Ok(()) } else { run_command(&mut cargo("install cargo-fuzz --locked")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_a_dictionary() {
        for target in targets().unwrap() {
            let some = seeds(&target).iter().any(|folder| fs::read_dir(folder).unwrap().next().is_some());
            assert!(some, "{target} has no seeds");
            assert!(dictionary(&target).is_file(), "{target} has no dictionary");
        }
    }

    #[test]
    fn every_exception_names_a_target() {
        let known = targets().unwrap();
        let named = SEEDS.iter().map(|(name, _)| name).chain(LONGER.iter().map(|(name, _)| name));
        for name in named {
            assert!(known.iter().any(|target| target == name), "{name} is no target");
        }
    }
}
