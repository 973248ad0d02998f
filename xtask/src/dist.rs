//! `cargo xtask dist`: the binary to ship, built with the profile `dist`, in `target/dist/shipped/`.
//!
//! Its debug information goes into `thalweg.debug` beside it, which the binary names (`.gnu_debuglink`): debuggers,
//! `perf` and the backtraces of a panic read lines from there where the file is present. Without it they still name
//! functions, from the symbol table that stays.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{cargo, run as run_command, target};

/// Builds and splits.
pub(crate) fn run() -> Result<()> {
    run_command(&mut cargo("build --profile dist --package thalweg"))?;
    let folder = target()?.join("dist");
    let shipped = folder.join("shipped");
    fs::create_dir_all(&shipped).with_context(|| format!("cannot create {}", shipped.display()))?;
    let objcopy = |words: &[&str]| {
        // In the folder: the link names the file as it is named here.
        run_command(Command::new("objcopy").args(words).current_dir(&shipped))
    };
    objcopy(&["--only-keep-debug", "../thalweg", "thalweg.debug"])?;
    objcopy(&["--strip-debug", "--add-gnu-debuglink=thalweg.debug", "../thalweg", "thalweg"])?;
    for name in ["thalweg", "thalweg.debug"] {
        let size = fs::metadata(shipped.join(name))?.len();
        println!("dist: {} ({:.1} MB)", shipped.join(name).display(), size as f64 / 1e6);
    }
    Ok(())
}
