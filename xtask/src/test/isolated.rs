//! Runs each test of an executable in a process of its own, so that a test that hangs or aborts ends alone.
//!
//! Tests of the group `parallel` run first, several at once. Tests of the group `exclusive` measure the machine (real
//! time, memory, shares of the CPU) or fill it; they run one at a time, at the end. A test is exclusive when it
//! stands in a module named `exclusive`, or in one of [`EXCLUSIVE`].

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Runnable;

/// Modules whose tests fill the machine by themselves.
const EXCLUSIVE: &[&str] = &["scenario::hostile_clients::"];
/// Time after which a test is killed. Each test has a shorter watchdog of its own.
const DEADLINE: Duration = Duration::from_secs(900);
/// Time between two looks at a running test.
const POLL: Duration = Duration::from_millis(5);

/// The outcome of one executable.
#[derive(Default)]
pub(super) struct Report {
    pub(super) passed: usize,
    pub(super) ignored: usize,
    /// Names of the tests that failed.
    pub(super) failed: Vec<String>,
}

enum Outcome {
    Passed,
    Ignored,
    Failed(String),
}

/// Runs every test of the executable, `threads` of the group `parallel` at once.
///
/// # Errors
/// The executable does not list its tests.
pub(super) fn run(executable: &Runnable, threads: usize) -> Result<Report> {
    let (exclusive, parallel): (Vec<_>, Vec<_>) =
        list(executable)?.into_iter().partition(|name| is_exclusive(name));
    let report = Mutex::new(Report::default());
    side_by_side(executable, &parallel, threads, &report);
    side_by_side(executable, &exclusive, 1, &report);
    report.into_inner().map_err(|_| anyhow::anyhow!("a thread of the runner panicked"))
}

/// Runs one test alone.
pub(super) fn alone(executable: &Runnable, name: &str) -> Result<(), String> {
    match one(executable, name) {
        Outcome::Passed | Outcome::Ignored => Ok(()),
        Outcome::Failed(output) => Err(output),
    }
}

fn side_by_side(executable: &Runnable, names: &[String], threads: usize, report: &Mutex<Report>) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = one(executable, name);
                    let Ok(mut report) = report.lock() else { return };
                    match outcome {
                        Outcome::Passed => report.passed += 1,
                        Outcome::Ignored => report.ignored += 1,
                        Outcome::Failed(output) => {
                            println!("test: {name} FAILED\n{output}");
                            report.failed.push(name.clone());
                        }
                    }
                }
            });
        }
    });
}

fn is_exclusive(name: &str) -> bool {
    EXCLUSIVE.iter().any(|module| name.starts_with(module))
        || name.split("::").any(|part| part == "exclusive")
}

/// The names of all tests, from the test harness.
fn list(executable: &Runnable) -> Result<Vec<String>> {
    let output = executable.command().args(["--list", "--format", "terse"]).output();
    let output = output.with_context(|| format!("cannot run {}", executable.program.display()))?;
    if !output.status.success() {
        bail!("{} does not list its tests", executable.name);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn one(executable: &Runnable, name: &str) -> Outcome {
    let mut command = executable.command();
    command.args(["--exact", name, "--test-threads=1"]).stdin(Stdio::null());
    let (passed, output) = match within(command, DEADLINE) {
        Ok(ended) => ended,
        Err(error) => return Outcome::Failed(format!("cannot run the test: {error}")),
    };
    let result = output.lines().rev().find_map(|line| line.strip_prefix("test result: ")).unwrap_or("");
    match (passed, result) {
        (true, result) if result.contains(" 1 passed") => Outcome::Passed,
        (true, result) if result.contains(" 1 ignored") => Outcome::Ignored,
        _ => Outcome::Failed(output),
    }
}

/// Runs a command in a process group of its own and kills the group after `deadline`. Returns whether the command
/// succeeded, and both its outputs.
fn within(mut command: Command, deadline: Duration) -> Result<(bool, String)> {
    // A file and no pipe: a process that outlives the test would keep a pipe open.
    let mut output = tempfile()?;
    command.stdout(output.try_clone()?).stderr(output.try_clone()?).process_group(0);
    let mut child = command.spawn()?;
    let begin = Instant::now();
    let (status, is_late) = loop {
        if let Some(status) = child.try_wait()? {
            break (status, false);
        }
        if begin.elapsed() > deadline {
            kill_group(child.id());
            // The program `kill` may be missing.
            child.kill()?;
            break (child.wait()?, true);
        }
        thread::sleep(POLL);
    };
    kill_group(child.id());
    let mut bytes = Vec::new();
    output.seek(SeekFrom::Start(0))?;
    output.read_to_end(&mut bytes)?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_late {
        text.push_str(&format!("\nkilled after {} s\n", deadline.as_secs()));
    }
    Ok((status.success() && !is_late, text))
}

/// A file without a name.
fn tempfile() -> Result<File> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("thalweg-output-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("cannot create {}", path.display()))?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(file)
}

/// Kills every process that is left in a group. The program `kill` says so on standard error when there is none.
fn kill_group(group: u32) {
    let mut kill = Command::new("kill");
    let _ = kill.args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_test_is_exclusive_by_a_module_in_its_path() {
        assert!(is_exclusive("scenario::fairness::exclusive::shares"));
        assert!(is_exclusive("scenario::hostile_clients::slow_heads"));
        assert!(!is_exclusive("scenario::cache::an_exclusive_lock"));
    }

    #[test]
    fn output_and_success_of_a_command_are_returned() {
        let (passed, output) = within(shell("echo one; echo two >&2"), DEADLINE).unwrap();
        assert!(passed && output.contains("one\n") && output.contains("two\n"), "{output}");
        assert!(!within(shell("exit 3"), DEADLINE).unwrap().0);
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children() {
        let (passed, output) =
            within(shell("echo begun; sleep 600 & wait"), Duration::from_millis(300)).unwrap();
        assert!(!passed && output.contains("begun") && output.contains("killed after"), "{output}");
    }

    #[test]
    fn a_child_that_outlives_its_test_is_killed() {
        assert!(within(shell("sleep 600 & exit 0"), DEADLINE).unwrap().0);
    }

    #[test]
    fn a_program_that_is_missing_fails_the_test() {
        let runnable = Runnable {
            name: "x".into(),
            program: "/nonexistent/program".into(),
            folder: "/".into(),
            environment: Vec::new(),
        };
        assert!(alone(&runnable, "a").unwrap_err().contains("cannot run the test"));
    }
}
