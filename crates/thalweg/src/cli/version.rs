//! `thalweg version`

use super::say;
use clap::Args;
use std::process::ExitCode;

/// What to print.
#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn version(args: &VersionArgs) -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    match args.json {
        true => say(format_args!("{{\"version\":\"{version}\"}}")),
        false => say(format_args!("thalweg {version}")),
    }
    ExitCode::SUCCESS
}
