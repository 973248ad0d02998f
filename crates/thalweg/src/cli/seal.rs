//! `thalweg seal DESTINATION`: prints a host name whose first label leads there. `thalweg unseal`: says what a label
//! says.
//!
//! Both read the configuration themselves: who has its keys needs no running proxy. With `--admin` the running one
//! seals.

use super::check::{locate, show};
use super::problem::document;
use super::{AdminArgs, complain, say};
use crate::control::sealed::{NoRoute, check_service, choose};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_admin::Call;
use thalweg_config::load_file;
use thalweg_core::units::{duration_text, parse_duration};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Leads, SealedRoute, Target, redacted};

/// What to seal.
#[derive(Args, Debug)]
pub(crate) struct SealArgs {
    /// `10.0.0.7:3000`, `https://10.0.0.7:8443` or `service:NAME`
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// How long the label is good for: `30m`, `1h`, at most the route's `max_ttl`
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    ttl: Duration,
    /// The route that is to take it; default: the only one that takes sealed destinations
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// The configuration; default: where `run` would find it
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["live", "admin"])]
    config: Option<PathBuf>,
    /// Ask the running proxy instead of a file
    #[arg(long)]
    live: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What to open.
#[derive(Args, Debug)]
pub(crate) struct UnsealArgs {
    /// The label, or a host name or URL that begins with it
    #[arg(value_name = "LABEL")]
    label: String,
    /// The route whose keys open it; default: whichever does
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// The configuration; default: where `run` would find it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn seal(args: &SealArgs) -> ExitCode {
    if args.live || args.admin.admin.is_some() {
        return ask(args);
    }
    let Some(plan) = read(args.config.as_deref()) else { return ExitCode::FAILURE };
    let sealed = choose(&plan, args.route.as_deref()).map_err(|error| match error {
        NoRoute::Unknown(text) => text,
        NoRoute::Unclear(text) => format!("{text}\n  help: name one with --route"),
    });
    let made = sealed.and_then(|(route, sealed)| {
        let target = Target::parse(&args.destination)?;
        check_service(&plan, &sealed, target)?;
        let own = sealed.seal(target, (SystemTime::now(), args.ttl), |address| is_own(&plan, address));
        let own = own.map_err(|error| format!("route `{route}`: {error}"))?;
        Ok((route.to_owned(), own))
    });
    match made {
        Ok((route, made)) => {
            if args.json {
                let redacted = redacted(&made.label);
                say(format_args!(
                    "{:#}",
                    json!({ "route": route, "host": made.host, "label": made.label, "expires": made.expires,
                            "key": made.key, "redacted": redacted })
                ));
            } else {
                say(made.host);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

/// Has the running proxy seal.
fn ask(args: &SealArgs) -> ExitCode {
    let body =
        json!({ "destination": args.destination, "ttl": duration_text(args.ttl), "route": args.route });
    let body = body.to_string();
    let fields = [("Content-Type", "application/json")];
    let call = Call { method: "POST", path: "/api/v1/sealed", fields: &fields, body: body.as_bytes() };
    let made = match document(args.admin.call_with(call), &args.destination) {
        Ok(made) => made,
        Err(code) => return code,
    };
    if args.json {
        say(format_args!("{made:#}"));
    } else {
        say(made["host"].as_str().unwrap_or_default());
    }
    ExitCode::SUCCESS
}

pub(crate) fn unseal(args: &UnsealArgs) -> ExitCode {
    let Some(plan) = read(args.config.as_deref()) else { return ExitCode::FAILURE };
    let routes = plan.routes.iter().filter_map(|route| match &route.to {
        thalweg_proxy::plan::To::Sealed(sealed) => Some((&*route.name, sealed.clone())),
        _ => None,
    });
    let routes: Vec<_> =
        routes.filter(|(name, _)| args.route.as_deref().is_none_or(|it| it == *name)).collect();
    if routes.is_empty() {
        complain("no route takes sealed destinations, or none of that name");
        return ExitCode::FAILURE;
    }
    let label = label_in(&args.label);
    let mut refused = Vec::new();
    for (name, sealed) in routes {
        match open(&plan, &sealed, label) {
            Ok((to, expires)) => {
                tell(args, (name, label), &to, expires);
                return ExitCode::SUCCESS;
            }
            Err(reason) => refused.push(format!("route `{name}`: {reason}")),
        }
    }
    complain(format_args!("{}: {}", redacted(label), refused.join("; ")));
    ExitCode::FAILURE
}

fn open(plan: &Plan, sealed: &Arc<SealedRoute>, label: &str) -> Result<(String, u64), &'static str> {
    let host = format!("{label}.{}", sealed.keyring.domain());
    let opened = sealed.open(host.as_bytes(), SystemTime::now(), |address| is_own(plan, address));
    let (leads, destination) = opened?;
    let to = match leads {
        Leads::Aim(aim) => aim.to_string(),
        Leads::Service(service) => {
            let service = plan.services.get(service.0 as usize);
            format!("service:{}", service.map_or("", |service| &service.name))
        }
    };
    Ok((to, destination.expires.unix()))
}

fn tell(args: &UnsealArgs, (route, label): (&str, &str), to: &str, expires: u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let left = Duration::from_secs(expires.saturating_sub(now));
    if args.json {
        let redacted = redacted(label);
        say(format_args!(
            "{:#}",
            json!({ "route": route, "destination": to, "expires": expires, "redacted": redacted })
        ));
    } else {
        say(format_args!("{to}, route `{route}`, for another {}", duration_text(left)));
    }
}

/// The first label of a host name or URL.
fn label_in(text: &str) -> &str {
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    host.split(['.', ':', '/']).next().unwrap_or_default()
}

/// As far as a file tells: ports that the kernel chooses stand in none.
fn is_own(plan: &Plan, address: std::net::SocketAddr) -> bool {
    plan.is_own(address)
}

fn read(file: Option<&Path>) -> Option<Plan> {
    let path = locate(file)?;
    match load_file(&path) {
        Ok(loaded) => Some(loaded.plan),
        Err(report) => {
            show(&report, false);
            None
        }
    }
}
