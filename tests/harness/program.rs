//! Real programs: found on the machine, run with a deadline.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::process::Process;

/// What a program that has ended left behind.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Finds `name` on `$PATH`, or in the folders where Debian puts servers.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Like [`find`]; a missing program is told, and in CI (`CI=true`) fails the test.
///
/// # Panics
/// When the program is missing and `CI=true`.
pub fn find_or_skip(name: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        assert_ne!(env::var("CI").as_deref(), Ok("true"), "{name} is missing, and CI runs every test");
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// Runs `command` to its end.
///
/// # Panics
/// When it does not start or still runs after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Finished {
    let process = Process::start(command);
    let status = process.wait_exit(limit);
    Finished { code: status.code().unwrap_or(-1), stdout: process.stdout(), stderr: process.stderr() }
}

/// An interpreter called `name` that has `module`: the one on `$PATH`, else the system's. A missing one is told, and in
/// CI (`CI=true`) fails the test.
///
/// # Panics
/// When there is none and `CI=true`.
pub fn find_with_module(name: &str, module: &str) -> Option<PathBuf> {
    let candidates = [find(name), Some(PathBuf::from("/usr/bin").join(name))];
    let has = |program: &PathBuf| {
        let mut command = Command::new(program);
        program.is_file()
            && run(command.args(["-c", &format!("import {module}")]), Duration::from_secs(20)).code == 0
    };
    let found = candidates.into_iter().flatten().find(has);
    if found.is_none() {
        assert_ne!(env::var("CI").as_deref(), Ok("true"), "{name} has no {module}, and CI runs every test");
        eprintln!("skipped: {name} has no module {module}");
    }
    found
}
