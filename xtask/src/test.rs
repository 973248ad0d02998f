//! `cargo xtask test`: every test of the workspace.
//!
//! Builds everything once, the binary under test included, then runs the executables: those of single crates side by
//! side, one for each core, then the black-box tests with more threads than there are cores, because they wait more
//! than they compute. What an executable prints is shown when it fails.

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

mod rerun;

/// Executables that have the machine for themselves: they measure, or bring threads of their own.
const ALONE: &[&str] = &["black_box", "steady_state"];
/// Executables whose tests wait most of their time: they begin first, with more threads than others.
const WAITING: &[&str] = &["discovery: every_source"];
/// Scenarios that fill the machine by themselves: they come last, one at a time.
const LAST: &str = "scenario::hostile_clients::";
/// Threads of the black-box tests for each core.
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

/// An executable with tests.
struct Executable {
    name: String,
    command: Mutex<Command>,
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
    let waits = |executable: &Executable| WAITING.contains(&executable.name.as_str());
    together.sort_by_key(|executable| !waits(executable));
    for executable in together.iter().filter(|executable| waits(executable)) {
        if let Ok(mut command) = executable.command.lock() {
            command.arg(format!("--test-threads={}", cores * WAITING_THREADS));
        }
    }
    let failed = Mutex::new(Vec::<Failure>::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(executable) = together.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one(executable, &failed);
                }
            });
        }
    });
    for executable in &alone {
        if let Ok(mut command) = executable.command.lock() {
            command.arg(format!("--test-threads={}", cores * THREADS)).args(["--skip", LAST]);
        }
        one(executable, &failed);
    }
    for executable in executables(long)?.iter().filter(|executable| executable.name == "black_box") {
        if let Ok(mut command) = executable.command.lock() {
            command.args([LAST, "--test-threads=1"]);
        }
        one(executable, &failed);
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
    for executable in executables(false)?.iter().filter(|executable| executable.name == "black_box") {
        let Ok(command) = executable.command.lock() else { continue };
        let mut entered = Command::new(scripts.join("enter.sh"));
        entered.arg(command.get_program()).args([
            "scenario::kubernetes::",
            "--test-threads=1",
            "--nocapture",
        ]);
        entered.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        entered.env("THALWEG_KUBERNETES", &programs);
        run_command(entered.current_dir(command.get_current_dir().unwrap_or(&root())))?;
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
    for executable in executables(false)?.iter().filter(|executable| executable.name == "black_box") {
        if let Ok(mut command) = executable.command.lock() {
            run_command(command.args(filter).envs(environment.iter().copied()))?;
        }
    }
    Ok(())
}

/// Every executable with tests, each with its package's folder as the working directory, as `cargo test` has it.
fn executables(long: bool) -> Result<Vec<Executable>> {
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
        let mut command = Command::new(path);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("THALWEG_BIN", &binary);
        command.envs(long.then_some(("THALWEG_LONG", "1")));
        let target = artifact.target.name;
        let name = match folder.file_name() {
            Some(package) if !ALONE.contains(&target.as_str()) => format!("{package}: {target}"),
            _ => target,
        };
        found.push(Executable { name, command: Mutex::new(command) });
    }
    Ok(found)
}

/// An executable that failed.
struct Failure {
    /// Its name, `package: target`.
    executable: String,
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    /// All that it printed.
    output: String,
}

fn one(executable: &Executable, failed: &Mutex<Vec<Failure>>) {
    let start = Instant::now();
    let output = executable.command.lock().map(|mut command| command.output());
    let (passed, said) = match output {
        Ok(Ok(output)) => (output.status.success(), [output.stdout, output.stderr].concat()),
        Ok(Err(error)) => (false, error.to_string().into_bytes()),
        Err(_) => (false, b"not run".to_vec()),
    };
    let said = String::from_utf8_lossy(&said);
    let result =
        said.lines().rev().find_map(|line| line.strip_prefix("test result: ")).unwrap_or("did not end");
    println!("test: {:>6.1} s  {}: {result}", start.elapsed().as_secs_f64(), executable.name);
    if !passed {
        println!("{said}");
        let (Ok(mut failed), Ok(command)) = (failed.lock(), executable.command.lock()) else { return };
        let environment = command.get_envs().filter_map(|(name, value)| Some((name.into(), value?.into())));
        failed.push(Failure {
            executable: executable.name.clone(),
            program: command.get_program().into(),
            folder: command.get_current_dir().map_or_else(root, Path::to_owned),
            environment: environment.collect(),
            output: said.into_owned(),
        });
    }
}
