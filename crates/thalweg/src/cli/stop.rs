//! `thalweg stop`: the running proxy finishes what it does and ends.

use super::{AdminArgs, complain, say};
use std::process::ExitCode;

pub(crate) fn stop(args: &AdminArgs) -> ExitCode {
    match args.call("POST", "/api/v1/stop") {
        Ok(answer) if answer.status < 300 => {
            say("stopping");
            ExitCode::SUCCESS
        }
        Ok(answer) => {
            complain(format_args!("refused: {}", String::from_utf8_lossy(&answer.body).trim()));
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}
