//! `cargo xtask soak`: all kinds of traffic for as long as one likes, with endpoints that die, reloads and upgrades.
//!
//! What it does and what must hold stands in `tests/scenario/soak.rs`, which CI plays for some seconds.

use std::path::PathBuf;

use anyhow::Result;

use crate::command::{cargo, run as run_command, target};
use crate::test;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// The product's binary (default: built with the profile release)
    #[arg(long)]
    thalweg: Option<PathBuf>,
}

/// Builds what is missing and plays it.
pub(crate) fn run(args: &Args) -> Result<()> {
    test::build()?;
    let binary = match &args.thalweg {
        Some(path) => std::path::absolute(path)?,
        None => {
            run_command(&mut cargo("build --release --package thalweg"))?;
            target()?.join("release/thalweg")
        }
    };
    let seconds = (args.minutes * 60).to_string();
    let filter = ["scenario::soak::", "--nocapture"];
    test::black_box(
        &filter,
        &[("THALWEG_SOAK_SECONDS", seconds.as_ref()), ("THALWEG_BIN", binary.as_os_str())],
    )
}
