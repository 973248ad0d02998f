//! `thalweg maintenance ROUTE on|off|reset`: turns the filter `maintenance` of a route on or off.
//!
//! It is `set_maintenance` and `reset_maintenance` of the admin API.

use super::problem::{document, refused};
use super::{AdminArgs, complain, say};
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use thalweg_admin::{Call, encode};

/// Which route, and what to do.
#[derive(Args, Debug)]
pub(crate) struct MaintenanceArgs {
    /// The route, as in the configuration
    route: String,
    /// What becomes of it
    #[arg(value_enum)]
    to: To,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum To {
    /// Clients get 503 and the page
    On,
    /// They get the service
    Off,
    /// As the configuration says
    Reset,
}

pub(crate) fn maintenance(args: &MaintenanceArgs) -> ExitCode {
    switch(args).err().unwrap_or(ExitCode::SUCCESS)
}

fn switch(args: &MaintenanceArgs) -> Result<(), ExitCode> {
    let path = format!("/api/v1/routes/{}/maintenance", encode(&args.route));
    let on = match args.to {
        To::On => true,
        To::Off => false,
        To::Reset => {
            let answer = args.admin.call("DELETE", &path).map_err(|error| {
                complain(error);
                ExitCode::FAILURE
            })?;
            if answer.status >= 300 {
                return Err(refused(&answer, "configuration"));
            }
            say(format_args!("route `{}`: maintenance is as the configuration says", args.route));
            return Ok(());
        }
    };
    let body = format!("{{\"on\": {on}}}");
    let fields = [("Content-Type", "application/json")];
    let call = Call { method: "PATCH", path: &path, fields: &fields, body: body.as_bytes() };
    document(args.admin.call_with(call), "configuration")?;
    say(format_args!("route `{}`: maintenance is {}", args.route, if on { "on" } else { "off" }));
    Ok(())
}
