//! `cargo xtask test`: every test of the workspace.
//!
//! Builds everything once, the binary under test included, then runs the executables: those of single crates side by
//! side, one for each core, then the black-box tests, each in a process of its own (`isolated`), more at once than
//! there are cores, because they wait more than they compute. The output of a test is shown when it fails.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

use crate::command::{built, cargo, root, run as run_command};
use crate::packages;

mod isolated;
mod rerun;

/// The executable whose tests run in processes of their own, with nothing beside them.
const ISOLATED: &str = "black_box";
/// Executables that have the machine for themselves: they measure, or bring threads of their own.
const ALONE: &[&str] = &[ISOLATED, "steady_state"];
/// Executables whose tests wait most of their time: they begin first, with more threads than others.
const WAITING: &[&str] = &["discovery: every_source"];
/// Black-box tests at once, for each core.
const THREADS: usize = 2;
/// Threads of [`WAITING`] for each core.
const WAITING_THREADS: usize = 4;

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Also the long variants, as `THALWEG_LONG=1` asks for them
    #[arg(long)]
    long: bool,
    /// Only what needs a control plane of Kubernetes, which is built once (ten minutes, needs Go)
    #[arg(long)]
    kubernetes: bool,
    /// Only the packages: installed, started, upgraded and removed in a copy of this machine (root, dpkg)
    #[arg(long)]
    packages: bool,
    /// Handed to `cargo test` as it is, for instance a filter
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// An executable with tests, with the directory and variables in which it runs.
#[derive(Clone)]
struct Runnable {
    /// `package: target`, or the target of those in [`ALONE`].
    name: String,
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Runnable {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// An executable that failed.
struct Failure {
    executable: Runnable,
    /// Names of its tests that failed; empty when it did not end by itself.
    tests: Vec<String>,
}

/// Builds and runs all tests, or what the arguments choose.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.kubernetes {
        return kubernetes();
    }
    if args.packages {
        run_command(&mut cargo("build --package thalweg"))?;
        return packages::check();
    }
    if args.rest.is_empty() {
        build()?;
        return all(args.long);
    }
    run_command(
        cargo("test --workspace --features thalweg/wasm")
            .args(&args.rest)
            .envs(args.long.then_some(("THALWEG_LONG", "1"))),
    )
}

/// One build for everything that is run. With every target of every package, so that each package is compiled with one
/// set of options: a build of the binary alone would compile most of them again. The binary under test runs modules of
/// Wasm, which crates/wasm is there for anyway; the step `release` builds the one without.
pub(crate) fn build() -> Result<()> {
    run_command(&mut cargo("build --workspace --all-targets --features thalweg/wasm"))
}

/// Runs what [`build`] has built.
pub(crate) fn all(long: bool) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (alone, mut together): (Vec<_>, Vec<_>) =
        executables(long)?.into_iter().partition(|executable| ALONE.contains(&executable.name.as_str()));
    together.sort_by_key(|executable| !WAITING.contains(&executable.name.as_str()));
    let failed = Mutex::new(Vec::<Failure>::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(executable) = together.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let waits = WAITING.contains(&executable.name.as_str());
                    whole(executable, waits.then_some(cores * WAITING_THREADS), &failed);
                }
            });
        }
    });
    for executable in &alone {
        if executable.name == ISOLATED {
            one_by_one(executable, cores * THREADS, &failed)?;
        } else {
            whole(executable, Some(cores * THREADS), &failed);
        }
    }
    let failed = failed.into_inner().unwrap_or_default();
    rerun::alone(&failed)?;
    run_command(&mut cargo("test --workspace --features thalweg/wasm --doc --quiet"))
}

/// What needs a control plane, in a network of its own. Its programs stay in the user's cache, since they do not change
/// with the tree.
fn kubernetes() -> Result<()> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let programs = cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("thalweg/kubernetes");
    let scripts = root().join("tests/programs/kubernetes");
    run_command(Command::new(scripts.join("build.sh")).arg(&programs))?;
    build()?;
    for executable in executables(false)?.iter().filter(|executable| executable.name == ISOLATED) {
        let mut entered = Command::new(scripts.join("enter.sh"));
        entered.arg(&executable.program).args(["scenario::kubernetes::", "--test-threads=1", "--nocapture"]);
        entered.envs(executable.environment.iter().map(|(name, value)| (name, value)));
        entered.env("THALWEG_KUBERNETES", &programs);
        run_command(entered.current_dir(&executable.folder))?;
    }
    Ok(())
}

/// The transcripts with this binary, and what one without features says.
pub(crate) fn of_release(binary: &Path) -> Result<()> {
    let without = "scenario::wasm::a_binary_without_modules_says_so_with_the_line";
    let filter = ["--exact", "transcripts::transcripts_hold", without];
    black_box(&filter, &[("THALWEG_BIN", binary.as_os_str())])
}

/// Some of the black-box tests, with their output on our terminal.
pub(crate) fn black_box(filter: &[&str], environment: &[(&str, &OsStr)]) -> Result<()> {
    for executable in executables(false)?.iter().filter(|executable| executable.name == ISOLATED) {
        run_command(executable.command().args(filter).envs(environment.iter().copied()))?;
    }
    Ok(())
}

/// Every executable with tests, each with its package's folder as the working directory, as `cargo test` has it.
fn executables(long: bool) -> Result<Vec<Runnable>> {
    let binary = built("thalweg")?;
    let output =
        cargo("test --workspace --all-targets --features thalweg/wasm --no-run --message-format json")
            .stderr(std::process::Stdio::inherit())
            .output()
            .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built");
    }
    let mut found = Vec::new();
    for message in Message::parse_stream(output.stdout.as_slice()) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let (Some(path), true) = (&artifact.executable, artifact.profile.test) else { continue };
        // An example has no tests; that it compiles is enough.
        if artifact.target.is_example() {
            continue;
        }
        let folder = artifact.manifest_path.parent().context("a manifest without a folder")?;
        let mut environment: Vec<(OsString, OsString)> =
            vec![("CARGO_MANIFEST_DIR".into(), folder.into()), ("THALWEG_BIN".into(), binary.clone().into())];
        environment.extend(long.then(|| ("THALWEG_LONG".into(), "1".into())));
        let target = artifact.target.name;
        let name = match folder.file_name() {
            Some(package) if !ALONE.contains(&target.as_str()) => format!("{package}: {target}"),
            _ => target,
        };
        found.push(Runnable { name, program: path.into(), folder: folder.into(), environment });
    }
    Ok(found)
}

/// Runs an executable with its own test harness, with so many threads.
fn whole(executable: &Runnable, threads: Option<usize>, failed: &Mutex<Vec<Failure>>) {
    let start = Instant::now();
    let threads = threads.map(|threads| format!("--test-threads={threads}"));
    let (passed, output) = match executable.command().args(threads).output() {
        Ok(output) => (output.status.success(), [output.stdout, output.stderr].concat()),
        Err(error) => (false, error.to_string().into_bytes()),
    };
    let output = String::from_utf8_lossy(&output);
    let result =
        output.lines().rev().find_map(|line| line.strip_prefix("test result: ")).unwrap_or("did not end");
    println!("test: {:>6.1} s  {}: {result}", start.elapsed().as_secs_f64(), executable.name);
    if !passed {
        println!("{output}");
        note(executable, rerun::names(&output), failed);
    }
}

/// Runs each test of an executable in a process of its own.
fn one_by_one(executable: &Runnable, threads: usize, failed: &Mutex<Vec<Failure>>) -> Result<()> {
    let start = Instant::now();
    let report = isolated::run(executable, threads)?;
    let (time, name) = (start.elapsed().as_secs_f64(), &executable.name);
    let word = if report.failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "test: {time:>6.1} s  {name}: {word}. {} passed; {} failed; {} ignored",
        report.passed,
        report.failed.len(),
        report.ignored
    );
    if !report.failed.is_empty() {
        note(executable, report.failed, failed);
    }
    Ok(())
}

fn note(executable: &Runnable, tests: Vec<String>, failed: &Mutex<Vec<Failure>>) {
    if let Ok(mut failed) = failed.lock() {
        failed.push(Failure { executable: executable.clone(), tests });
    }
}
