//! `thalweg health`: for container checks. Exit code 0 when the running proxy is ready.

use super::{AdminArgs, complain, say};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Whom to ask, what of, and how to say it.
#[derive(Args, Debug)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Fail, too, when a service has no endpoint that can serve
    #[arg(long)]
    strict: bool,
    /// `{ "ready": true }`, or false with the `reason`, on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn health(args: &HealthArgs) -> ExitCode {
    let reason = match args.admin.call("GET", "/readyz") {
        Ok(answer) if answer.status == 200 && args.strict => services_down(&args.admin),
        Ok(answer) if answer.status == 200 => None,
        Ok(answer) => Some(format!("not ready: {}", String::from_utf8_lossy(&answer.body).trim())),
        Err(error) => Some(error),
    };
    match (&reason, args.json) {
        (None, true) => say(json!({ "ready": true })),
        (Some(reason), true) => say(json!({ "ready": false, "reason": reason })),
        (None, false) => say("ready"),
        (Some(reason), false) => complain(reason),
    }
    if reason.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Why not all services can serve.
fn services_down(admin: &AdminArgs) -> Option<String> {
    let answer = match admin.call("GET", "/api/v1/services") {
        Ok(answer) => answer,
        Err(error) => return Some(error),
    };
    let document = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    if answer.status != 200 || !document["services"].is_array() {
        let why = document["detail"]
            .as_str()
            .map(str::to_owned)
            .unwrap_or_else(|| format!("status {}", answer.status));
        return Some(format!(
            "ready, but it does not say how its services stand: {why}\n  help: --strict needs the admin API; the metrics \
             listener does not have it"
        ));
    }
    unserved(&document)
}

/// The services without an endpoint that can serve, in a sentence.
fn unserved(document: &Value) -> Option<String> {
    let services = document["services"].as_array().into_iter().flatten();
    let down = services.filter(|service| service["state"] == "down");
    let names: Vec<_> =
        down.filter_map(|service| service["name"].as_str()).map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("service {name} has no endpoint that can serve; `thalweg status` says why")),
        names => Some(format!(
            "services {} have no endpoint that can serve; `thalweg status` says why",
            names.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_cannot_serve_are_named() {
        let with = |states: &[(&str, &str)]| {
            let services: Vec<_> =
                states.iter().map(|(name, state)| json!({ "name": name, "state": state })).collect();
            unserved(&json!({ "services": services }))
        };
        assert_eq!(with(&[("a", "up"), ("b", "degraded")]), None);
        assert!(with(&[("a", "down"), ("b", "up")]).unwrap().starts_with("service `a` has no"));
        assert!(with(&[("a", "down"), ("b", "down")]).unwrap().starts_with("services `a`, `b` have no"));
    }
}
