//! `thalweg health`: for container checks. Exit code 0 when the running proxy is ready.

use super::{AdminArgs, complain, say};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Whom to ask, and how to say it.
#[derive(Args, Debug)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// `{ "ready": true }`, or false with the `reason`, on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn health(args: &HealthArgs) -> ExitCode {
    let reason = match args.admin.call("GET", "/readyz") {
        Ok(answer) if answer.status == 200 => None,
        Ok(answer) => Some(format!("not ready: {}", String::from_utf8_lossy(&answer.body).trim())),
        Err(error) => Some(error),
    };
    match (&reason, args.json) {
        (None, true) => say(json!({ "ready": true })),
        (Some(reason), true) => say(json!({ "ready": false, "reason": reason })),
        (None, false) => say("ready"),
        (Some(reason), false) => complain(reason),
    }
    if reason.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
