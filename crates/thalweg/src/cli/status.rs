//! `thalweg status`: the running proxy at a glance, for people. Programs take `--json` or the exit code.

use super::problem::document;
use super::{AdminArgs, say};
use crate::printable::acts;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use thalweg_core::units::duration_text;

/// Whom to ask, and how to say it.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 when it runs and every service has all of its endpoints, but for those that were \
                        drained or set aside; 1 when it drains, when a service is degraded or down, when an objective \
                        burns, or when nobody answers."
)]
pub(crate) struct StatusArgs {
    /// Print `{ "well": …, "status": …, "services": […], "cache": … }`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn status(args: &StatusArgs) -> ExitCode {
    let ask = |path| document(args.admin.call("GET", path), "configuration");
    let (status, services) =
        match ask("/api/v1/status").and_then(|status| Ok((status, ask("/api/v1/services")?))) {
            Ok(both) => both,
            Err(code) => return code,
        };
    let services = services["services"].as_array().cloned().unwrap_or_default();
    let cache = match ask("/api/v1/cache") {
        Ok(cache) => cache,
        Err(code) => return code,
    };
    let well = is_well(&status, &services);
    if args.json {
        let all = json!({ "well": well, "status": status, "services": services, "cache": cache });
        say(format_args!("{all:#}"));
    } else {
        say(page(&status, &services, &cache).trim_end());
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether there is nothing to look at.
fn is_well(status: &Value, services: &[Value]) -> bool {
    status["state"] == "running"
        && services.iter().all(|service| service["state"] == "up")
        && status["slos_burning"].as_array().is_none_or(Vec::is_empty)
}

fn page(status: &Value, services: &[Value], cache: &Value) -> String {
    let uptime = Duration::from_secs(status["uptime_seconds"].as_u64().unwrap_or(0));
    let mut page = format!(
        "thalweg {}, pid {}, up {}: {}, {} in flight, {} of {} connections\n",
        plain(&status["version"]),
        plain(&status["pid"]),
        duration_text(uptime),
        plain(&status["state"]),
        plain(&status["requests_active"]),
        plain(&status["connections"]["active"]),
        plain(&status["connections"]["max"]),
    );
    page.push_str(&cache_line(cache));
    for slo in status["slos_burning"].as_array().into_iter().flatten() {
        let _ = writeln!(page, "objective {}: its budget is used up too fast", plain(slo));
    }
    for service in services {
        let of = |name: &str| plain(&service[name]);
        let (name, state, active) = (of("name"), of("state"), of("requests_active"));
        let _ = writeln!(page, "\n{name}: {state}, {active} in flight, {} queued", of("queued"));
        page.push_str(&table(service["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default()));
    }
    page
}

/// What the cache has, and the share of requests that it answered; empty while no route caches.
fn cache_line(cache: &Value) -> String {
    if cache["in_use"] != true {
        return String::new();
    }
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (mut served, mut all) = (0, 0);
    for route in cache["routes"].as_array().into_iter().flatten() {
        let of = |names: &[&str]| names.iter().map(|name| number(&route[*name])).sum::<u64>();
        let answered = of(&["hit", "stale", "revalidated", "collapsed"]);
        served += answered;
        all += answered + of(&["miss", "pass"]);
    }
    let hits = match (served * 100).checked_div(all) {
        Some(percent) => format!(", {percent}% of {all} requests answered"),
        None => String::new(),
    };
    let problem = cache["channel"]["problem"].as_str().map(|_| plain(&cache["channel"]["problem"]));
    let problem = problem.map(|why| format!("; replicas are not told of purges: {why}")).unwrap_or_default();
    let has = |tier: &Value| {
        let of = |name: &str| rounded(number(&tier[name]));
        format!("{} objects, {} of {}", number(&tier["objects"]), of("bytes"), of("limit_bytes"))
    };
    let disk = match cache["disk"]["condition"].as_str() {
        None => String::new(),
        Some("ready") => format!("; on the disk {}", has(&cache["disk"])),
        Some(_) => format!("; on the disk {} ({})", has(&cache["disk"]), plain(&cache["disk"]["condition"])),
    };
    format!("cache: {}{hits}{disk}{problem}\n", has(cache))
}

/// A size to the unit.
fn rounded(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// The endpoints of a service, a line each below a line of headings.
fn table(endpoints: &[Value]) -> String {
    if endpoints.is_empty() {
        return "  no endpoints\n".into();
    }
    let headings = ["endpoint", "state", "weight", "in flight", "why", "origin"].map(str::to_owned);
    let rows = endpoints.iter().map(|endpoint| {
        let of = |name: &str| plain(&endpoint[name]);
        let why = match endpoint["state"].as_str() {
            Some("ready") => String::new(),
            _ if endpoint["cause"].is_null() => format!("since {}", of("since")),
            _ => format!("{}, since {}", of("cause"), of("since")),
        };
        let origin = endpoint["origin"].as_str().map_or_else(String::new, |_| of("origin"));
        [of("url"), of("state"), of("weight"), of("requests_active"), why, origin]
    });
    let rows: Vec<_> = std::iter::once(headings).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (url, state, weight, active, why) = (width(0), width(1), width(2), width(3), width(4));
    let lines = rows.iter().map(|row| {
        let line = format!(
            "  {:<url$}  {:<state$}  {:>weight$}  {:>active$}  {:<why$}  {}",
            row[0], row[1], row[2], row[3], row[4], row[5]
        );
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

/// A value as a terminal may have it: causes come from the network.
fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(state: &str, endpoints: Value) -> Value {
        json!({ "name": "shop", "state": state, "requests_active": 12, "queued": 0, "endpoints": endpoints })
    }

    #[test]
    fn the_page_tells_each_endpoint_in_a_line() {
        let status = json!({
            "version": "0.1.0", "pid": 7, "uptime_seconds": 3700, "state": "running", "requests_active": 12,
            "connections": { "active": 3, "max": 100 },
        });
        let endpoints = json!([
            { "url": "http://10.0.0.1:9001", "state": "ready", "weight": 1, "requests_active": 12, "since": "T",
                "origin": "written in thalweg.yaml:7" },
            { "url": "http://10.0.0.2:9001", "state": "unhealthy", "weight": 10, "requests_active": 0, "since": "T",
                "cause": "connection\u{1b}[31m refused" },
            { "url": "http://b", "state": "draining", "weight": 1, "requests_active": 0, "since": "T" },
        ]);
        let text = "thalweg 0.1.0, pid 7, up 1h1m40s: running, 12 in flight, 3 of 100 connections\n\n\
            shop: degraded, 12 in flight, 0 queued\n  \
            endpoint              state      weight  in flight  why                               origin\n  \
            http://10.0.0.1:9001  ready           1         12                                    \
            written in thalweg.yaml:7\n  \
            http://10.0.0.2:9001  unhealthy      10          0  connection\u{fffd}[31m refused, since T\n  \
            http://b              draining        1          0  since T\n";
        assert_eq!(page(&status, &[service("degraded", endpoints)], &json!({ "in_use": false })), text);
        let down = page(&status, &[service("down", json!([]))], &json!({}));
        assert!(down.ends_with("queued\n  no endpoints\n"));
    }

    #[test]
    fn the_cache_has_a_line_once_a_route_caches() {
        let routes =
            json!([{ "hit": 7, "stale": 1, "revalidated": 1, "collapsed": 0, "miss": 2, "pass": 1 }]);
        let mut cache = json!({
            "in_use": true, "objects": 3, "bytes": 4096, "limit_bytes": 8 << 20, "routes": routes,
        });
        assert_eq!(cache_line(&cache), "cache: 3 objects, 4 KiB of 8 MiB, 75% of 12 requests answered\n");
        cache["disk"] =
            json!({ "condition": "paused", "objects": 5, "bytes": 1 << 20, "limit_bytes": 1 << 30 });
        let line = "cache: 3 objects, 4 KiB of 8 MiB, 75% of 12 requests answered; on the disk 5 objects, 1 MiB of 1024 MiB \
                    (paused)\n";
        assert_eq!(cache_line(&cache), line);
        cache["disk"] = json!(null);
        cache["routes"] = json!([]);
        cache["channel"] = json!({ "problem": "connection refused" });
        let line = "cache: 3 objects, 4 KiB of 8 MiB; replicas are not told of purges: connection refused\n";
        assert_eq!(cache_line(&cache), line);
        assert_eq!(cache_line(&json!({ "in_use": false })), "");
    }

    #[test]
    fn only_what_runs_with_all_services_up_is_well() {
        let [running, draining] = ["running", "draining"].map(|state| json!({ "state": state }));
        let [up, degraded, down] = ["up", "degraded", "down"].map(|state| service(state, json!([])));
        assert!(is_well(&running, std::slice::from_ref(&up)) && is_well(&running, &[]));
        assert!(!is_well(&running, &[up.clone(), degraded]) && !is_well(&running, &[up.clone(), down]));
        assert!(!is_well(&draining, &[up]));
    }
}
