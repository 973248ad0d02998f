//! `cargo xtask gen [--check]`: builds the product and the program that writes the reference pages, and starts it.

use anyhow::Result;

use crate::command::{built, cargo, root, run as run_command};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail when a page is stale
    #[arg(long)]
    check: bool,
}

/// Writes every page.
pub(crate) fn write() -> Result<()> {
    run(&Args { check: false })
}

/// Writes or checks every page.
pub(crate) fn run(args: &Args) -> Result<()> {
    run_command(&mut cargo("build --quiet --package reference --package thalweg --features thalweg/wasm"))?;
    pages(args.check)
}

/// The same with what has been built already.
pub(crate) fn pages(check: bool) -> Result<()> {
    let mut command = std::process::Command::new(built("reference")?);
    command.current_dir(root()).env("THALWEG_BIN", built("thalweg")?).args(check.then_some("--check"));
    run_command(&mut command)
}
