//! `thalweg demo`: the proxy in front of sample services, all in this process.

use super::run::run_loaded;
use super::{complain, say};
use crate::control::{RunOptions, default_state_directory};
use crate::demo;
use clap::Args;
use std::process::ExitCode;
use thalweg_admin::Token;

/// Where to listen.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// The address of the proxy; the next free port is taken when it is in use
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: String,
}

pub(crate) fn demo(args: &DemoArgs) -> ExitCode {
    let services = match demo::start_services() {
        Ok(services) => services,
        Err(error) => {
            complain(format_args!("cannot start the sample services: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let Some(places) = demo::Places::find(&args.listen) else {
        complain(format_args!("cannot listen on {}", args.listen));
        return ExitCode::FAILURE;
    };
    let token = match Token::random() {
        Ok(token) => token,
        Err(error) => {
            complain(format_args!("cannot make a token for the dashboard: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let config = demo::config(&places, &services, token.reveal());
    let loaded = match thalweg_config::check_text("demo.yaml", &config, &|_| None) {
        Ok(loaded) => loaded,
        Err(report) => {
            complain(report.lines());
            return ExitCode::FAILURE;
        }
    };
    let authority = default_state_directory().join("local/authority.pem");
    say(demo::welcome(&places, &services, &authority, token.reveal()));
    let admin_socket = std::env::temp_dir().join(format!("thalweg-demo-{}/admin.sock", std::process::id()));
    let directory = admin_socket.parent().map(std::path::Path::to_owned);
    let code = run_loaded(
        loaded,
        RunOptions { admin_socket: Some(admin_socket), quiet: true, ..RunOptions::default() },
    );
    if let Some(directory) = directory {
        let _ = std::fs::remove_dir(directory);
    }
    code
}
