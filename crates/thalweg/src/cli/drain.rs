//! `thalweg drain`: an endpoint gets nothing new, what is in flight finishes; `--undo` brings it back.
//!
//! It is `change_endpoint` of the admin API, with names that people have at hand and a wait for the end.

use super::problem::{document, refused};
use super::wait::{LOOK, wait_time};
use super::{AdminArgs, complain, say};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use thalweg_admin::{Call, encode};
use thalweg_core::units::duration_text;

/// Most names that a message lists.
const NAMES: usize = 20;

/// Which endpoint, and what to do with it.
#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// The service, as in the configuration
    service: String,
    /// The endpoint: its URL, the host and port of the URL, or its id
    endpoint: String,
    /// Bring it back into rotation
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until nothing is in flight, at most this long, 10m if no time is given; exit with 1 when something still is
    /// then. It goes on draining
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10m", value_parser = wait_time)]
    wait: Option<Duration>,
    /// Print the endpoint as JSON, once: as it is at the end of the wait
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn drain(args: &DrainArgs) -> ExitCode {
    change(args).err().unwrap_or(ExitCode::SUCCESS)
}

fn change(args: &DrainArgs) -> Result<(), ExitCode> {
    let services = document(args.admin.call("GET", "/api/v1/services"), "configuration")?;
    let (service, endpoint) = find(&services, &args.service, &args.endpoint).map_err(failed)?;
    let id = word(endpoint, "id");
    let path = format!("/api/v1/services/{}/endpoints/{}", encode(&args.service), encode(id));
    let (url, state) = (word(endpoint, "url"), word(endpoint, "state"));
    if args.undo {
        return undo(args, &path, endpoint);
    }
    let mut now = endpoint.clone();
    match state {
        "maintenance" => complain(format_args!("{url} is in maintenance: it gets nothing new already")),
        "draining" => {}
        _ => {
            now = set(args, &path, "draining")?;
            if !others_can_serve(service, id) {
                let name = &args.service;
                complain(format_args!(
                    "service `{name}` has no other endpoint that can serve: its requests fail"
                ));
            }
        }
    }
    if args.wait.is_none_or(|_| !args.json) {
        told(args, &now);
    }
    args.wait.map_or(Ok(()), |time| wait(args, &path, url, time))
}

fn undo(args: &DrainArgs, path: &str, endpoint: &Value) -> Result<(), ExitCode> {
    let url = word(endpoint, "url");
    let now = match word(endpoint, "state") {
        "draining" => set(args, path, "ready")?,
        "maintenance" => {
            let other = "`thalweg api change_endpoint` with `{\"state\": \"ready\"}` ends that";
            return Err(failed(format!("{url} is not draining, but in maintenance\n  help: {other}")));
        }
        _ => {
            complain(format_args!("{url} was not draining"));
            endpoint.clone()
        }
    };
    told(args, &now);
    Ok(())
}

/// Sets the wanted state; the endpoint as it is then.
fn set(args: &DrainArgs, path: &str, state: &str) -> Result<Value, ExitCode> {
    let body = format!("{{\"state\": \"{state}\"}}");
    let fields = [("Content-Type", "application/json")];
    let call = Call { method: "PATCH", path, fields: &fields, body: body.as_bytes() };
    document(args.admin.call_with(call), "configuration")
}

/// Waits until nothing is in flight. Seen twice in a row: workers hear of the drain a moment after it was answered.
fn wait(args: &DrainArgs, path: &str, url: &str, time: Duration) -> Result<(), ExitCode> {
    let end = Instant::now() + time;
    let mut was_idle = false;
    loop {
        let answer = args.admin.call("GET", path).map_err(failed)?;
        if answer.status == 404 {
            complain(format_args!("{url} is not in the service any more"));
            return Ok(());
        }
        if answer.status >= 300 {
            return Err(refused(&answer, "configuration"));
        }
        let now = document(Ok(answer), "configuration")?;
        if !matches!(word(&now, "state"), "draining" | "maintenance") {
            return Err(failed(format!("{url} does not drain any more: somebody brought it back")));
        }
        let active = now["requests_active"].as_u64().unwrap_or(0);
        if active == 0 && was_idle {
            match args.json {
                true => told(args, &now),
                false => say(format_args!("{url}: nothing is in flight")),
            }
            return Ok(());
        }
        was_idle = active == 0;
        if Instant::now() >= end {
            if args.json {
                told(args, &now);
            }
            let time = duration_text(time);
            return Err(failed(format!(
                "{url} still has {active} in flight after {time}; it goes on draining"
            )));
        }
        sleep(LOOK);
    }
}

fn told(args: &DrainArgs, endpoint: &Value) {
    if args.json {
        say(format_args!("{endpoint:#}"));
        return;
    }
    let (url, state) = (word(endpoint, "url"), word(endpoint, "state"));
    say(format_args!("{url}: {state}, {} in flight", endpoint["requests_active"]));
}

/// The service, and its endpoint by URL, host and port, or id.
fn find<'a>(services: &'a Value, service: &str, endpoint: &str) -> Result<(&'a Value, &'a Value), String> {
    let all = services["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(found) = all.iter().find(|known| word(known, "name") == service) else {
        let there = names(all.iter().map(|service| word(service, "name")));
        return Err(format!("there is no service `{service}`\n  help: there are {there}"));
    };
    let endpoints = found["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let exact =
        endpoints.iter().find(|known| word(known, "url") == endpoint || word(known, "id") == endpoint);
    if let Some(exact) = exact {
        return Ok((found, exact));
    }
    let wanted = endpoint.trim_end_matches('/');
    let matches = |known: &&Value| {
        let url = word(known, "url").trim_end_matches('/');
        url == wanted || url.split_once("://").is_some_and(|(_, place)| place == wanted)
    };
    let meant: Vec<_> = endpoints.iter().filter(matches).collect();
    match meant.as_slice() {
        [one] => Ok((found, one)),
        [] => {
            let there = names(endpoints.iter().map(|endpoint| word(endpoint, "url")));
            Err(format!("the service `{service}` has no endpoint `{endpoint}`\n  help: it has {there}"))
        }
        several => {
            let these = names(several.iter().map(|endpoint| word(endpoint, "url")));
            Err(format!("`{endpoint}` can be several endpoints of `{service}`\n  help: write one of {these}"))
        }
    }
}

/// Whether the service has an endpoint beside this one that takes requests.
fn others_can_serve(service: &Value, id: &str) -> bool {
    let endpoints = service["endpoints"].as_array().into_iter().flatten();
    let mut others = endpoints.filter(|endpoint| word(endpoint, "id") != id);
    others.any(|endpoint| matches!(word(endpoint, "state"), "ready" | "slow_start"))
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<_> = all.map(|name| format!("`{name}`")).collect();
    match all.len() {
        0 => "none".into(),
        count if count > NAMES => format!("{} and {} more", all[..NAMES].join(", "), count - NAMES),
        _ => all.join(", "),
    }
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn failed(text: String) -> ExitCode {
    complain(text);
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn services() -> Value {
        let endpoint = |id: &str, url: &str, state: &str| json!({ "id": id, "url": url, "state": state });
        let shop = [
            endpoint("01", "http://a:1", "ready"),
            endpoint("02", "http://b:1", "unhealthy"),
            endpoint("03", "https://b:1", "ready"),
        ];
        json!({ "services": [ { "name": "shop", "endpoints": shop }, { "name": "empty", "endpoints": [] } ] })
    }

    #[test]
    fn endpoints_are_found_by_url_place_and_id() {
        let services = services();
        for (name, id) in
            [("http://a:1", "01"), ("http://a:1/", "01"), ("a:1", "01"), ("02", "02"), ("https://b:1", "03")]
        {
            assert_eq!(find(&services, "shop", name).unwrap().1["id"], id, "{name}");
        }
    }

    #[test]
    fn who_is_unknown_is_told_who_there_is() {
        let services = services();
        let told = |service, endpoint| find(&services, service, endpoint).unwrap_err();
        assert_eq!(told("shpo", "a:1"), "there is no service `shpo`\n  help: there are `shop`, `empty`");
        assert!(told("shop", "c:1").ends_with("help: it has `http://a:1`, `http://b:1`, `https://b:1`"));
        assert!(told("empty", "c:1").ends_with("help: it has none"));
        assert!(told("shop", "b:1").ends_with("help: write one of `http://b:1`, `https://b:1`"));
        let many: Vec<_> = (0..25).map(|n| n.to_string()).collect();
        assert!(names(many.iter().map(String::as_str)).ends_with("`19` and 5 more"));
    }

    #[test]
    fn the_last_endpoint_that_can_serve_is_known() {
        let shop = &services()["services"][0];
        assert!(others_can_serve(shop, "01") && others_can_serve(shop, "02"));
        let two =
            json!({ "endpoints": [ { "id": "1", "state": "ready" }, { "id": "2", "state": "ejected" } ] });
        assert!(!others_can_serve(&two, "1"));
    }
}
