//! The `thalweg` binary: a verb, a file, an exit code.
#![forbid(unsafe_code)]

mod cli;
mod control;
mod demo;

use clap::Parser;
use std::process::ExitCode;

/// Chosen for what it gives back: memory of a burst returns to the system within a second.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
