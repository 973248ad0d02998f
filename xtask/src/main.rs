//! The project's own tasks: `cargo xtask VERB`, one file per verb.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod bench;
mod cache_tests;
mod ci;
mod command;
mod conformance;
mod dist;
mod fuzz;
mod gate;
mod generate;
mod packages;
mod setup;
mod soak;
mod test;
mod tidy;
mod ui;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Everything that must pass before a change lands
    Ci(ci::Args),
    /// Switch on the checks of changed files before each commit (`.githooks/pre-commit`)
    Setup,
    /// All tests of the workspace
    Test(test::Args),
    /// The rules that the compiler does not check: crate direction, licences, duplicates, sizes
    Tidy(tidy::Args),
    /// Write the generated reference pages
    Gen(generate::Args),
    /// Check and bundle the dashboard into ui/dist/
    Ui(ui::Args),
    /// Measure the product side by side with others
    #[command(subcommand)]
    Bench(bench::Bench),
    /// The public suite of tests for HTTP caches, with the product between its client and its server
    CacheTests(cache_tests::Args),
    /// What is shipped: the binary, packages, the container image, what it is made of, and sums
    Dist(dist::Args),
    /// Instructions and system calls of one exchange against the limits that are kept
    Gate(gate::Args),
    /// All kinds of traffic beside dying endpoints, reloads and upgrades: nothing lost, nothing left behind
    Soak(soak::Args),
    /// The public suites: what they say of the product, beside what they say of others
    Conformance(conformance::Args),
    /// Fuzz one target, or every target in turn
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Ci(args) => ci::run(&args),
        Verb::Setup => setup::run(),
        Verb::Test(args) => test::run(&args),
        Verb::Tidy(args) => tidy::run(&args),
        Verb::Gen(args) => generate::run(&args),
        Verb::Ui(args) => ui::run(&args),
        Verb::Bench(bench) => bench::run(&bench),
        Verb::CacheTests(args) => cache_tests::run(&args),
        Verb::Dist(args) => dist::run(&args),
        Verb::Gate(args) => gate::run(&args),
        Verb::Soak(args) => soak::run(&args),
        Verb::Conformance(args) => conformance::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
