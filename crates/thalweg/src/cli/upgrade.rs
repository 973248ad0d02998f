//! `thalweg upgrade`: another process, of a new binary, takes over from the running one.
//!
//! It is `upgrade` of the admin API.

use super::problem::document;
use super::{AdminArgs, complain, say};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_admin::Call;

/// To which binary.
#[derive(Args, Debug)]
pub(crate) struct UpgradeArgs {
    /// The new binary; default: what is now where the running one was started from. Over the unix socket alone
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Print the whole answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn upgrade(args: &UpgradeArgs) -> ExitCode {
    let binary = match args.binary.as_deref().map(std::path::absolute).transpose() {
        Ok(binary) => binary.map(|binary| binary.to_string_lossy().into_owned()),
        Err(error) => {
            complain(format_args!("`--binary`: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let body = binary.map_or_else(|| json!({}), |binary| json!({ "binary": binary })).to_string();
    let fields = [("Content-Type", "application/json")];
    let call = Call { method: "POST", path: "/api/v1/upgrade", fields: &fields, body: body.as_bytes() };
    let answer = match document(args.admin.call_with(call), "configuration") {
        Ok(answer) => answer,
        Err(code) => return code,
    };
    if args.json {
        say(format_args!("{answer:#}"));
    } else {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        say(format_args!(
            "process {} ({}) has taken over from {}",
            answer["pid"],
            text("version"),
            text("before")
        ));
    }
    ExitCode::SUCCESS
}
