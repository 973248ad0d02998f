//! `thalweg reload`: the running proxy reads its configuration again, watches it on request, or brings an earlier one
//! back.

use super::problem::document;
use super::{AdminArgs, complain, say};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use thalweg_admin::{Call, WatchOptions};
use thalweg_core::units::{parse_duration, parse_percent};

/// How often a watch is asked how it stands.
const LOOK: Duration = Duration::from_millis(250);

/// What to load, and how to watch it.
#[derive(Args, Debug)]
pub(crate) struct ReloadArgs {
    /// Watch the routes for this time, 1s-1h, wait, and take the configuration back when one of them gets worse
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "rollback")]
    watch: Option<Duration>,
    /// With --watch: most that the share of answers from 500 on may grow, in points of percent
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = points, requires = "watch")]
    max_errors: u32,
    /// With --watch: most that the p99 may grow to, as a factor
    #[arg(long, value_name = "FACTOR", default_value = "2x", value_parser = factor, requires = "watch")]
    max_p99: u32,
    /// With --watch: requests of a route before it is judged
    #[arg(long, value_name = "NUMBER", default_value_t = WatchOptions::MIN_REQUESTS, requires = "watch",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    min_requests: u64,
    /// Bring an earlier configuration back: the newest one before the present that was not taken back
    #[arg(long)]
    rollback: bool,
    /// With --rollback: the one with this number in the history
    #[arg(long, value_name = "NUMBER", requires = "rollback")]
    to: Option<u64>,
    /// Say which configurations have run, and do nothing
    #[arg(long, conflicts_with_all = ["watch", "rollback"])]
    history: bool,
    /// Print whole answers as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn reload(args: &ReloadArgs) -> ExitCode {
    let done = if args.history {
        history(args)
    } else if args.rollback {
        let body = args.to.map_or_else(|| "{}".to_owned(), |to| format!("{{\"to\": {to}}}"));
        let fields = [("Content-Type", "application/json")];
        let call = Call { method: "POST", path: "/api/v1/rollback", fields: &fields, body: body.as_bytes() };
        document(args.admin.call_with(call), "configuration").map(|outcome| told(args, &outcome))
    } else {
        let path = match args.watch {
            None => "/api/v1/reload".to_owned(),
            Some(time) => format!(
                "/api/v1/reload?watch={}ms&max_errors={}&max_p99={}&min_requests={}",
                time.as_millis(),
                args.max_errors,
                args.max_p99,
                args.min_requests,
            ),
        };
        document(args.admin.call("POST", &path), "configuration").and_then(|outcome| {
            let code = told(args, &outcome);
            if outcome["watch"].is_object() { wait(args, &outcome["number"]) } else { Ok(code) }
        })
    };
    done.unwrap_or_else(|code| code)
}

fn told(args: &ReloadArgs, outcome: &Value) -> ExitCode {
    if args.json {
        say(format_args!("{outcome:#}"));
    } else {
        say(outcome["text"].as_str().unwrap_or_default().trim_end());
        say(format_args!(
            "generation {}, number {} in the history",
            outcome["generation"], outcome["number"]
        ));
    }
    ExitCode::SUCCESS
}

/// Waits until the watch of this number has ended, and tells what came of it. 1 when it was not kept.
fn wait(args: &ReloadArgs, number: &Value) -> Result<ExitCode, ExitCode> {
    if !args.json {
        complain("watching");
    }
    loop {
        let history = document(args.admin.call("GET", "/api/v1/history"), "configuration")?;
        let entries = history["entries"].as_array();
        let entry = entries.and_then(|entries| entries.iter().find(|entry| entry["number"] == *number));
        let Some(entry) = entry else {
            complain("the configuration is not in the history any more: others have taken over");
            return Err(ExitCode::FAILURE);
        };
        let watch = &entry["watch"];
        if watch["state"] == "watching" {
            sleep(LOOK);
            continue;
        }
        if args.json {
            say(format_args!("{entry:#}"));
        } else {
            say(watch["verdict"].as_str().unwrap_or_default());
        }
        return if watch["state"] == "passed" { Ok(ExitCode::SUCCESS) } else { Err(ExitCode::FAILURE) };
    }
}

fn history(args: &ReloadArgs) -> Result<ExitCode, ExitCode> {
    let history = document(args.admin.call("GET", "/api/v1/history"), "configuration")?;
    if args.json {
        say(format_args!("{history:#}"));
        return Ok(ExitCode::SUCCESS);
    }
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for entry in history["entries"].as_array().into_iter().flatten() {
        let verdict = entry["watch"]["verdict"].as_str().map(|text| format!("; {text}")).unwrap_or_default();
        let ephemeral = if entry["ephemeral"] == true { ", not in the file" } else { "" };
        say(format_args!(
            "{:>4}  {}  {:<11} by {}{ephemeral}{verdict}",
            entry["number"].to_string(),
            word(&entry["at"]),
            word(&entry["state"]),
            word(&entry["origin"]),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if (1..=WatchOptions::TIME_MAX).contains(&time.as_secs()) => Ok(time),
        _ => Err(format!("write a time from 1s to {}s", WatchOptions::TIME_MAX)),
    }
}

fn points(text: &str) -> Result<u32, String> {
    match parse_percent(text)? {
        points @ 1..=100 => Ok(points),
        _ => Err("write a share from 1% to 100%".into()),
    }
}

/// `2x`, `1.5x`, in percent.
fn factor(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('x').and_then(|number| number.parse::<f64>().ok());
    match number.map(|number| (number * 100.0).round()) {
        Some(percent) if (101.0..=10_000.0).contains(&percent) => Ok(percent as u32),
        _ => Err("write a factor from 1.01x to 100x, as in `2x` or `1.5x`".into()),
    }
}
