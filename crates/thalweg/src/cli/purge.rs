//! `thalweg purge URL`: take stored responses away, or make them stale.
//!
//! It is `purge_cache` of the admin API.

use super::problem::document;
use super::{AdminArgs, complain, say};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;
use thalweg_admin::Call;

/// What, and how.
#[derive(Args, Debug)]
#[group(id = "what", required = true, multiple = false, args = ["url", "prefix", "host", "tag", "all"])]
pub(crate) struct PurgeArgs {
    /// One URL, such as `https://shop.example.com/products/42`, with exactly this query
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// What begins with this URL
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// What is stored for this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// What has this tag in `Cache-Tag` or `Surrogate-Key`
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Everything
    #[arg(long)]
    all: bool,
    /// With a URL: whatever the query
    #[arg(long, requires = "url")]
    any_query: bool,
    /// Stale from now on, in place of gone: the next request validates it
    #[arg(long)]
    soft: bool,
    /// Only what is stored in this space: `key.space` of the filter `cache`, or the name of a route
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Only what this route uses
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// Print what the admin API answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn purge(args: &PurgeArgs) -> ExitCode {
    let body = body(args).to_string();
    let fields = [("Content-Type", "application/json")];
    let call = Call { method: "POST", path: "/api/v1/cache/purge", fields: &fields, body: body.as_bytes() };
    match document(args.admin.call_with(call), "body") {
        Ok(done) if args.json => say(format_args!("{done:#}")),
        Ok(done) => tell(&done),
        Err(code) => return code,
    }
    ExitCode::SUCCESS
}

fn body(args: &PurgeArgs) -> Value {
    let mut body = json!({});
    let texts = [
        ("url", &args.url),
        ("prefix", &args.prefix),
        ("host", &args.host),
        ("tag", &args.tag),
        ("space", &args.space),
        ("route", &args.route),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            body[name] = text.as_str().into();
        }
    }
    for (name, is_on) in [("all", args.all), ("any_query", args.any_query), ("soft", args.soft)] {
        if is_on {
            body[name] = true.into();
        }
    }
    body
}

fn tell(done: &Value) {
    let objects = done["objects"].as_u64().unwrap_or(0);
    let what = done["what"].as_str().unwrap_or_default();
    let how = if done["soft"] == true { "made stale" } else { "purged" };
    // How many the disk has is known only once it has compared them all.
    let on_disk = if done["disk"].is_string() { ", and what the disk has of it" } else { "" };
    say(format_args!("{what}: {objects} {how}{on_disk}"));
    if done["disk"] == "pending" {
        complain("the disk does not have the purge yet: a restart before that may undo it there");
    }
    match done["replicas"]["state"].as_str() {
        Some("waiting") => complain("other replicas are told as soon as the server of `cache.purge` answers"),
        Some("lost") => {
            complain("other replicas are not told: too many purges wait for the server of `cache.purge`")
        }
        _ => {}
    }
}
