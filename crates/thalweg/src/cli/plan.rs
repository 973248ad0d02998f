//! `thalweg plan [FILE]`: what a reload would change in the running proxy.

use super::problem::document;
use super::{AdminArgs, complain, say};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use thalweg_admin::Call;

/// What to compare with what runs.
#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Another file, read as if it stood at the place of the proxy's own; default: the proxy's own as it is on disk now
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print the whole answer as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 when something would change
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn plan(args: &PlanArgs) -> ExitCode {
    let (answer, name) = match &args.file {
        None => (args.admin.call("GET", "/api/v1/plan"), "configuration".to_owned()),
        Some(file) => {
            let text = match std::fs::read(file) {
                Ok(text) => text,
                Err(error) => {
                    complain(format_args!("cannot read {}: {error}", file.display()));
                    return ExitCode::FAILURE;
                }
            };
            let fields = [("Content-Type", media_type(file)), ("If-Match", "*")];
            let path = "/api/v1/config?dry_run=true";
            let call = Call { method: "PUT", path, fields: &fields, body: &text };
            (args.admin.call_with(call), file.display().to_string())
        }
    };
    let plan = match document(answer, &name) {
        Ok(plan) => plan,
        Err(code) => return code,
    };
    if args.json {
        say(format_args!("{plan:#}"));
    } else {
        say(plan["text"].as_str().unwrap_or_default().trim_end());
    }
    let changes = plan["changes"].as_array().is_some_and(|changes| !changes.is_empty());
    match args.check && changes {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// As the format is found from a name elsewhere: YAML unless the name says otherwise.
fn media_type(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => "application/json",
        Some("toml") => "application/toml",
        _ => "application/yaml",
    }
}
