//! `thalweg explain --id ID`: what was decided about a request, and what came of it.

use super::{AdminArgs, decision};
use clap::Args;
use std::process::ExitCode;

/// What to explain.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The request with this id, as in X-Request-Id and in the access log
    #[arg(long, value_name = "ID")]
    id: String,
    /// Print what the admin API answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn explain(args: &ExplainArgs) -> ExitCode {
    decision::explain_id(&args.id, &args.admin, args.json)
}
