//! `thalweg health`: for container checks. Exit code 0 when the running proxy is ready.

use super::{AdminArgs, complain, say};
use std::process::ExitCode;

pub(crate) fn health(args: &AdminArgs) -> ExitCode {
    match args.call("GET", "/readyz") {
        Ok(answer) if answer.status == 200 => {
            say("ready");
            ExitCode::SUCCESS
        }
        Ok(answer) => {
            complain(format_args!("not ready: {}", String::from_utf8_lossy(&answer.body).trim()));
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}
