//! `thalweg completions SHELL`: made from the same command line that is parsed.

use super::{Cli, say_document};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::process::ExitCode;

/// Whose completions.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads them
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "thalweg", &mut script);
    say_document(String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}
