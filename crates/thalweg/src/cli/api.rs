//! `thalweg api`: any operation of the admin API, by its name. New operations need nothing here.

use super::problem::refused;
use super::{AdminArgs, complain, say, say_document};
use clap::Args;
use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_admin::{Call, by_name};

/// What to ask.
#[derive(Args, Debug)]
pub(crate) struct ApiArgs {
    /// The operation, for example `limits`; default: list them all
    operation: Option<String>,
    /// Its parameters, as `service=shop`
    #[arg(value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// File with the body; `-`: standard input
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The tag that the state must have (`If-Match`)
    #[arg(long, value_name = "TAG")]
    if_match: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn api(args: &ApiArgs) -> ExitCode {
    let Some(operation) = &args.operation else { return list() };
    match call(operation, args) {
        Ok(answer) if answer.status < 300 => {
            say_document(String::from_utf8_lossy(&answer.body).trim_end());
            ExitCode::SUCCESS
        }
        Ok(answer) => refused(&answer, "body"),
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn call(operation: &str, args: &ApiArgs) -> Result<thalweg_admin::Answer, String> {
    if operation == "events" {
        return Err("events do not end: read them with `curl -N` at /api/v1/events".into());
    }
    let split = |text: &String| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        (name.to_owned(), value.to_owned())
    };
    let parameters: Vec<_> = args.parameters.iter().map(split).collect();
    let request = by_name::named(operation, &parameters)?;
    let body = match &args.body {
        None => Vec::new(),
        Some(file) => {
            let mut read = Vec::new();
            let done = match file.as_os_str() == "-" {
                true => io::stdin().read_to_end(&mut read).map(|_| ()),
                false => fs::read(file).map(|bytes| read = bytes),
            };
            done.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            read
        }
    };
    let mut fields = Vec::new();
    fields.extend(request.body.map(|media| ("Content-Type", media)));
    fields.extend(args.if_match.as_deref().map(|tag| ("If-Match", tag)));
    args.admin.call_with(Call { method: &request.method, path: &request.path, fields: &fields, body: &body })
}

fn list() -> ExitCode {
    for line in by_name::lines() {
        say(format_args!("{:<16} {}", line.id, line.summary));
        if !line.parameters.is_empty() {
            say(format_args!("{:<16}   {}", "", line.parameters.join(", ")));
        }
    }
    ExitCode::SUCCESS
}
