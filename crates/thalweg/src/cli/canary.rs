//! `thalweg canary ROUTE [ORDER]`: where a canary stands, and what it is to do.

use super::problem::document;
use super::{AdminArgs, say};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::process::ExitCode;
use thalweg_admin::{Call, encode};

/// Which canary, and what it is to do.
#[derive(Args, Debug)]
pub(crate) struct CanaryArgs {
    /// The route, as in the configuration
    route: String,
    /// What it is to do; without a word it is shown
    #[arg(value_enum)]
    order: Option<OrderWord>,
    /// Print what the admin API answers, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What a canary may be told.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderWord {
    /// From the first step on
    Start,
    /// Stay at this step
    Pause,
    /// Go on where it was paused
    Resume,
    /// The newcomer gets the share of the last step
    Promote,
    /// The newcomer gets nothing
    Rollback,
}

pub(crate) fn canary(args: &CanaryArgs) -> ExitCode {
    shown(args).err().unwrap_or(ExitCode::SUCCESS)
}

fn shown(args: &CanaryArgs) -> Result<(), ExitCode> {
    let place = format!("/api/v1/routes/{}/canary", encode(&args.route));
    let word = args.order.as_ref().and_then(ValueEnum::to_possible_value);
    let answer = match word {
        None => args.admin.call("GET", &place),
        Some(word) => {
            let path = format!("{place}/{}", word.get_name());
            args.admin.call_with(Call { method: "POST", path: &path, fields: &[], body: b"" })
        }
    };
    let status = document(answer, "configuration")?;
    match args.json {
        true => say(&status),
        false => say(words(&status)),
    }
    Ok(())
}

/// On a few lines, for people.
fn words(status: &Value) -> String {
    let text = |key: &str| status[key].as_str().unwrap_or("-").to_owned();
    let steps: Vec<String> =
        status["steps"].as_array().into_iter().flatten().map(|step| format!("{step}%")).collect();
    let reason = match text("reason") {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {reason}"),
    };
    let figures = |key: &str| {
        let of = &status[key];
        let p99 = of["p99_ms"].as_f64().map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
        format!("{} requests, {} errors, p99 {p99}", of["requests"], of["errors"])
    };
    format!(
        "{}: {} {}% to {}{reason}\n  step {} of {} ({}), for {} s\n  newcomer: {}\n  baseline: {}",
        text("route"),
        text("phase"),
        status["share"],
        text("service"),
        status["step"],
        steps.len(),
        steps.join(" "),
        status["seconds"],
        figures("newcomer"),
        figures("baseline"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_canary_is_told_on_a_few_lines() {
        let figures = json!({ "requests": 10, "errors": 1, "p99_ms": 12.25 });
        let status = json!({
            "route": "checkout", "service": "next", "phase": "rolled_back", "step": 2, "steps": [5, 50, 100],
            "share": 0, "reason": "3 of 10 requests failed", "seconds": 7, "newcomer": figures,
            "baseline": { "requests": 0, "errors": 0 },
        });
        assert_eq!(
            words(&status),
            "checkout: rolled_back 0% to next: 3 of 10 requests failed\n  step 2 of 3 (5% 50% 100%), for 7 s\n  \
             newcomer: 10 requests, 1 errors, p99 12.2 ms\n  baseline: 0 requests, 0 errors, p99 -"
        );
    }
}
