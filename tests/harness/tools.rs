//! The folder of programs that tests install or build once, and turns between the processes that want them.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;

/// `target/tools`.
///
/// # Panics
/// When the test executable is not at `<target>/<profile>/deps/<name>-<hash>`.
pub(crate) fn folder() -> PathBuf {
    env::current_exe().unwrap().ancestors().nth(3).unwrap().join("tools")
}

/// Waits until no other process installs `name`. The turn ends when the file is dropped, or with the process.
///
/// # Panics
/// When the lock file cannot be created.
#[must_use = "the turn ends when the file is dropped"]
pub(crate) fn turn(name: &str) -> File {
    fs::create_dir_all(folder()).unwrap();
    let file = File::create(folder().join(format!("{name}.lock"))).unwrap();
    file.lock().unwrap();
    file
}
