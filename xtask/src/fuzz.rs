//! `cargo xtask fuzz [TARGET] [--seconds N]`: cargo-fuzz over the targets under `fuzz/`.
//!
//! cargo-fuzz wants a nightly compiler for its sanitizer flags; `RUSTC_BOOTSTRAP=1` serves instead.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, exists, root, run as run_command};

/// Seconds for one target when `--seconds` is not given.
const SECONDS: u64 = 60;
/// Largest resident memory of a target, in MiB; a parser that needs more has a bound missing.
const MEMORY_MIB: u32 = 2048;

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

/// Runs each target for `time`; the first finding ends it with an error.
pub(crate) fn each(targets: &[String], time: Duration) -> Result<()> {
    install()?;
    for target in targets {
        println!("fuzz: {target}, {} s", time.as_secs());
        let mut command = Command::new("cargo");
        command.args(["fuzz", "run", target, "--"]).current_dir(root()).env("RUSTC_BOOTSTRAP", "1");
        command.arg(format!("-max_total_time={}", time.as_secs()));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB}")).arg("-print_final_stats=1");
        run_command(&mut command).with_context(|| format!("fuzz target {target}"))?;
    }
    Ok(())
}

fn install() -> Result<()> {
    let found = exists("cargo-fuzz") || cargo("fuzz --version").output().is_ok_and(|o| o.status.success());
    if found { Ok(()) } else { run_command(&mut cargo("install cargo-fuzz --locked")) }
}
