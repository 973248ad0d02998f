//! `thalweg check [FILE]`: everything that is wrong with a configuration, and with the machine for it.

use super::{complain, diagnostics, say};
use crate::check::look_around;
use clap::Args;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use thalweg_config::{Class, Loaded, Look, Report, check_documents, find, load_file, places};

/// What to check.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The configuration; default: where `run` would find it
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same, as `run` has it
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// One line per mistake, `file:line:column: message`
    #[arg(long)]
    lines: bool,
    /// A JSON array of everything that was found, on stdout
    #[arg(long, conflicts_with = "lines")]
    json: bool,
    /// Warnings fail, too
    #[arg(long)]
    strict: bool,
    /// Check the file with this document, as a source of routes would give it; may be repeated
    #[arg(long = "document", value_name = "DOCUMENT")]
    documents: Vec<PathBuf>,
    /// Look at the file only: not at ports, directories, limits and host names of this machine
    #[arg(long)]
    offline: bool,
}

pub(crate) fn check(args: &CheckArgs) -> ExitCode {
    let Some(path) = locate(args.file.as_deref().or(args.config.as_deref())) else {
        if args.json {
            say("[]");
        }
        return ExitCode::FAILURE;
    };
    let loaded = match args.documents.as_slice() {
        [] => load_file(&path),
        documents => check_documents(&path, documents),
    };
    let loaded = loaded.map(|mut loaded| {
        if !args.offline {
            let found = look_around(&loaded);
            loaded.warnings.errors.extend(found);
            loaded.warnings.errors.sort_by_key(|warning| (warning.span.file, warning.span.start));
        }
        loaded
    });
    let is_refused = |report: &Report| report.errors.iter().any(|error| error.class != Class::Warning);
    let report = loaded.as_ref().map_or_else(|report| report, |loaded| &loaded.warnings);
    if args.json {
        say(diagnostics::json(report));
    } else {
        show(report, args.lines);
    }
    match &loaded {
        Ok(loaded) if !is_refused(report) && (!args.strict || report.errors.is_empty()) => {
            if !args.json {
                say(format_args!("{}: ok ({})", path.display(), summary(loaded)));
            }
            ExitCode::SUCCESS
        }
        Ok(_) => {
            if !args.json && !is_refused(report) {
                complain(format_args!("{}: warnings fail because of `--strict`", path.display()));
            }
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// The configuration file, or a message that names every place that was looked at.
pub(crate) fn locate(explicit: Option<&Path>) -> Option<PathBuf> {
    let environment = |name: &str| std::env::var(name).ok();
    let found = find(explicit, &environment, &|path| path.is_file());
    if found.is_none() {
        let looked: Vec<String> =
            places(&environment).iter().map(|path| format!("  {}", path.display())).collect();
        complain(format_args!("no configuration found; looked at\n{}", looked.join("\n")));
        complain(
            "help: name one with `--config FILE`, or try `thalweg run --listen :8080 --to http://127.0.0.1:9001`",
        );
    }
    found
}

/// Prints a report to stderr, in colour only for a terminal.
pub(crate) fn show(report: &Report, lines: bool) {
    let no_color = std::env::var("NO_COLOR").ok();
    let look = Look::choose(std::io::stderr().is_terminal(), no_color.as_deref());
    let text = if lines { report.lines() } else { report.render(look) };
    if !text.trim().is_empty() {
        match look {
            Look::Coloured if !lines => crate::operator_log::styled_block(text.trim_end()),
            _ => crate::operator_log::block(text.trim_end()),
        }
    }
}

/// What a configuration holds, in a few words.
pub(crate) fn summary(loaded: &Loaded) -> String {
    let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let plan = &loaded.plan;
    [
        count(plan.listeners.len(), "listener"),
        count(plan.routes.len(), "route"),
        count(plan.services.len(), "service"),
    ]
    .join(", ")
}
