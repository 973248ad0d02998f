//! `thalweg block ADDRESS` and `thalweg unblock ADDRESS`: put a client into a list of addresses, or take it out.
//!
//! They are `add_address` and `remove_address` of the admin API.

use super::problem::document;
use super::{AdminArgs, complain, say};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use thalweg_admin::{Call, encode};
use thalweg_core::units::parse_duration;

/// Whom, how long and why.
#[derive(Args, Debug)]
pub(crate) struct BlockArgs {
    /// An address, or a network such as `192.0.2.0/24`
    address: String,
    /// How long, such as `1h`; default: until `unblock`
    #[arg(long = "for", value_name = "TIME")]
    time: Option<String>,
    /// The list
    #[arg(long, default_value = "blocked")]
    list: String,
    /// Why, for those who read the list, logs and events
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Whom, and of which list.
#[derive(Args, Debug)]
pub(crate) struct UnblockArgs {
    /// The address or the network, as it was blocked
    address: String,
    /// The list
    #[arg(long, default_value = "blocked")]
    list: String,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn block(args: &BlockArgs) -> ExitCode {
    put(args).err().unwrap_or(ExitCode::SUCCESS)
}

pub(crate) fn unblock(args: &UnblockArgs) -> ExitCode {
    take_out(args).err().unwrap_or(ExitCode::SUCCESS)
}

fn put(args: &BlockArgs) -> Result<(), ExitCode> {
    if let Some(Err(why)) = args.time.as_deref().map(parse_duration) {
        complain(format_args!("`--for`: {why}"));
        return Err(ExitCode::from(2));
    }
    let mut body = json!({ "network": args.address });
    if let Some(time) = &args.time {
        body["for"] = time.as_str().into();
    }
    if let Some(reason) = &args.reason {
        body["reason"] = reason.as_str().into();
    }
    let (path, body) = (format!("/api/v1/access/{}", encode(&args.list)), body.to_string());
    let fields = [("Content-Type", "application/json")];
    let call = Call { method: "POST", path: &path, fields: &fields, body: body.as_bytes() };
    let entry = document(args.admin.call_with(call), "body")?;
    let network = entry["network"].as_str().unwrap_or(&args.address);
    let time = args.time.as_deref().map(|time| format!(" for {time}")).unwrap_or_default();
    say(format_args!("{network}: in the list `{}`{time}", args.list));
    Ok(())
}

fn take_out(args: &UnblockArgs) -> Result<(), ExitCode> {
    let path = format!("/api/v1/access/{}?network={}", encode(&args.list), encode(&args.address));
    let call = Call { method: "DELETE", path: &path, fields: &[], body: &[] };
    let entry = document(args.admin.call_with(call), "body")?;
    let network = entry["network"].as_str().unwrap_or(&args.address);
    say(format_args!("{network}: no longer in the list `{}`", args.list));
    Ok(())
}
