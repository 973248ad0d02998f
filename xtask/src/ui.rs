//! `cargo xtask ui [--check]`: checks the types of the dashboard, bundles it and writes `ui/dist/`, which the binary
//! seals.
//!
//! What is written depends on `ui/src/`, on the versions in `ui/package-lock.json` and on nothing else, so that
//! `--check` can compare byte for byte.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, GzBuilder};

use crate::command::{exists, root, run as run_command, target};

/// All files together, compressed, in bytes.
const BUDGET: usize = 150 * 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail when `ui/dist/` is not what the source gives
    #[arg(long)]
    check: bool,
}

/// Writes or checks the files.
pub(crate) fn run(args: &Args) -> Result<()> {
    let ui = root().join("ui");
    install(&ui)?;
    run_command(Command::new("node").args(["node_modules/typescript/bin/tsc", "--noEmit"]).current_dir(&ui))?;
    let folder = target()?.join("ui");
    let _ = fs::remove_dir_all(&folder);
    run_command(Command::new("node").arg("build.mjs").arg(&folder).current_dir(&ui))?;
    let files = compressed(&folder)?;
    let all: usize = files.iter().map(|(_, gzip)| gzip.len()).sum();
    println!("ui: {} files, {:.1} KiB compressed", files.len(), all as f64 / 1024.0);
    ensure!(all <= BUDGET, "the dashboard has {all} bytes compressed; it may have {BUDGET}");
    let dist = ui.join("dist");
    for (name, gzip) in files {
        let path = dist.join(&name);
        if !args.check {
            fs::write(&path, gzip)?;
        } else if fs::read(&path).ok().as_deref() != Some(&gzip[..]) {
            bail!("ui/dist/{name} is stale; `cargo xtask ui` writes it");
        }
    }
    Ok(())
}

/// The step of `ci`.
pub(crate) fn check() -> Result<()> {
    if !exists("npm") {
        println!("ui: npm is not installed: ui/dist/ is not compared with ui/src/");
        return Ok(());
    }
    run(&Args { check: true })
}

/// The packages of the lock file, unless they are there.
fn install(ui: &Path) -> Result<()> {
    let time = |path: &str| fs::metadata(ui.join(path)).and_then(|file| file.modified()).ok();
    let installed = time("node_modules/.package-lock.json");
    if installed.is_some() && installed >= time("package-lock.json") {
        return Ok(());
    }
    run_command(Command::new("npm").args(["ci", "--ignore-scripts", "--loglevel=error"]).current_dir(ui))
}

fn compressed(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let plain = fs::read(entry.path())?;
        let name = entry.file_name().into_string().ok().context("a file name that is not UTF-8")?;
        // Without a name and a time, which would differ.
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
        gzip.write_all(&plain)?;
        files.push((format!("{name}.gz"), gzip.finish()?));
    }
    files.sort();
    Ok(files)
}
