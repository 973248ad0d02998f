//! Runs failed tests once more, alone.
//!
//! A test that starts processes and waits for them can fail because other tests overload the machine. The second
//! result counts. The run names every such test at its end and in `target/passed-only-alone.txt`: such a test needs a
//! fix. Tests of single crates never run twice, and more than [`MOST`] failures are not retried.

use std::fs;

use anyhow::{Context, Result, bail};

use super::{Failure, isolated};
use crate::command::target;

/// Executables whose tests start processes or wait for real time.
const RUN_TWICE: &[&str] = &["black_box", "steady_state", "discovery: every_source"];
/// Most tests of one run that get a second try.
const MOST: usize = 3;
/// Names the tests that passed in their second try, one on a line; empty after a run without any.
const FILE: &str = "passed-only-alone.txt";

/// Runs the failed tests of these executables alone, one after the other.
///
/// # Errors
/// A test fails again, an executable ended without a result, an executable may not run twice, or too many tests failed.
pub(super) fn alone(failed: &[Failure]) -> Result<()> {
    let list = target()?.join(FILE);
    fs::write(&list, "").with_context(|| format!("cannot write {}", list.display()))?;
    let mut chosen = Vec::new();
    for failure in failed {
        let name = failure.executable.name.as_str();
        if failure.tests.is_empty() || !RUN_TWICE.contains(&name) {
            bail!("tests failed in {}", all(failed));
        }
        chosen.extend(failure.tests.iter().map(|name| (&failure.executable, name)));
    }
    if chosen.len() > MOST {
        bail!("{} tests failed, in {}: at most {MOST} run again", chosen.len(), all(failed));
    }
    let mut passed = String::new();
    for (executable, name) in &chosen {
        if let Err(output) = isolated::alone(executable, name) {
            println!("{output}");
            bail!("the test {name} failed again, alone");
        }
        passed.push_str(&format!("{name}\n"));
    }
    passed.lines().for_each(|name| println!("passed only alone: {name}"));
    fs::write(&list, passed).with_context(|| format!("cannot write {}", list.display()))
}

fn all(failed: &[Failure]) -> String {
    failed.iter().map(|failure| failure.executable.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The failed tests, from the list that the test harness prints last; empty when the executable did not end by itself.
pub(super) fn names(output: &str) -> Vec<String> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().take_while(|line| line.starts_with("    ")).map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn the_last_list_of_failures_is_read() {
        let output = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nfailures:\n    other\n\n\
                      failures:\n    a::b\n    c\n\ntest result: FAILED. 1 passed; 2 failed\n";
        assert_eq!(names(output), ["a::b", "c"]);
        assert!(names("test a::b ... ok\nwatchdog: b did not finish within 60s\n").is_empty());
    }
}
