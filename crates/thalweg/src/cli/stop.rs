//! `thalweg stop`: the running proxy finishes what it does and ends.

use super::problem::document;
use super::wait::{Running, wait_time};
use super::{AdminArgs, complain, say};
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;
use thalweg_core::units::duration_text;

/// How long a process that does not answer may take to be gone.
const GOING: Duration = Duration::from_secs(1);

/// Whom to stop, and whether to wait.
#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    /// Wait until the process has ended, at most this long (10m without a time); exit with 1 when it still runs then.
    /// Over TCP: until its admin API answers no more
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10m", value_parser = wait_time)]
    wait: Option<Duration>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn stop(args: &StopArgs) -> ExitCode {
    stop_and_wait(args).unwrap_or_else(|code| code)
}

fn stop_and_wait(args: &StopArgs) -> Result<ExitCode, ExitCode> {
    // Found before it is asked: afterwards it may be gone already.
    // Asked twice: it may end while it is asked, and then nobody answers.
    let find = || Running::find(&args.admin).or_else(|_| Running::find(&args.admin));
    let running = args.wait.map(|time| find().map(|running| (running, time)));
    let running = running.transpose().map_err(|error| {
        complain(error);
        ExitCode::FAILURE
    })?;
    let answer = args.admin.call("POST", "/api/v1/stop");
    // It was about to end already, and has ended while it was asked.
    if answer.is_err()
        && let Some((running, time)) = &running
        && running.wait((*time).min(GOING))
    {
        say("stopped");
        return Ok(ExitCode::SUCCESS);
    }
    document(answer, "configuration")?;
    say("stopping");
    let Some((running, time)) = running else { return Ok(ExitCode::SUCCESS) };
    if running.wait(time) {
        say("stopped");
        return Ok(ExitCode::SUCCESS);
    }
    complain(format_args!(
        "the proxy still runs after {}; it ends when nothing is in flight, or when `shutdown.grace` is over",
        duration_text(time)
    ));
    Err(ExitCode::FAILURE)
}
