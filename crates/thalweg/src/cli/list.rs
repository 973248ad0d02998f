//! `thalweg list filters|balancers|sources`: the explicit lists that the code is built from.

use super::say;
use clap::{Args, ValueEnum};
use std::process::ExitCode;

/// What to list.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    what: Kind,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// What a route can do to a request
    Filters,
    /// How an endpoint can be chosen
    Balancers,
    /// Where endpoints can come from
    Sources,
}

pub(crate) fn list(args: &ListArgs) -> ExitCode {
    let of_filter = |filter: &thalweg_filter::Entry| {
        let rest = if filter.is_built() { "" } else { " Not in this binary." };
        (filter.name, format!("{}{rest}", filter.about.trim()))
    };
    let rows: Vec<(&str, String)> = match args.what {
        Kind::Filters => thalweg_filter::ALL.iter().map(of_filter).collect(),
        Kind::Sources => {
            thalweg_discovery::ALL.iter().map(|source| (source.name, source.about.into())).collect()
        }
        Kind::Balancers => thalweg_balance::BALANCERS.iter().map(|b| (b.name, b.summary.into())).collect(),
    };
    if args.json {
        let rows =
            rows.iter().map(|(name, about)| format!("{{\"name\":{name:?},\"about\":{:?}}}", about.trim()));
        say(format_args!("[{}]", rows.collect::<Vec<_>>().join(",")));
    } else {
        for (name, about) in rows {
            say(format_args!("{name:<16} {}", about.trim()));
        }
    }
    ExitCode::SUCCESS
}
