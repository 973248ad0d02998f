//! `cargo xtask test`: every test of the workspace.

use anyhow::Result;

use crate::command::{cargo, run as run_command};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Handed to `cargo test`, for instance a filter
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds the binary that the black-box tests start, then runs all tests.
pub(crate) fn run(args: &Args) -> Result<()> {
    run_command(&mut cargo("build --package thalweg"))?;
    run_command(cargo("test --workspace").args(&args.rest))
}
