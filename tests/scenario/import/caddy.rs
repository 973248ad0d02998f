//! Caddy beside Thalweg.
//!
//! Every Caddyfile says `admin off` in its global options; the test adds where it listens there.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Directory, Message, Process, STEP};

use super::side::{Original, free_port};
use super::watchdog;

const CADDY: Original = Original {
    name: "caddy",
    listening_at,
    start,
    prepare: super::nginx::prepare,
    is_recorded: false,
    is_own_page,
};

/// The line that every configuration has.
const LINE: &str = "admin off";

fn listening_at(text: &str, ip: IpAddr) -> String {
    let (http, https) = (free_port(80), free_port(443));
    let more = format!("{LINE}\n\tdefault_bind {ip}\n\thttp_port {http}\n\thttps_port {https}");
    text.replacen(LINE, &more, 1)
}

fn start(directory: &Directory, main: &Path, _: IpAddr) -> Option<Process> {
    let caddy = find_or_skip("caddy")?;
    let mut command = Command::new(caddy);
    command.current_dir(directory.path());
    for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        command.env(name, directory.path());
    }
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(main);
    let server = Process::start(&mut command);
    server
        .wait_line("the initial configuration", STEP, |line| line.contains("serving initial").then_some(()));
    Some(server)
}

fn is_own_page(message: &Message) -> bool {
    let is_link = message.text().starts_with("<a href=") && (300..400).contains(&message.status());
    is_link || (message.body.is_empty() && message.status() >= 300)
}

#[test]
fn what_becomes_of_a_request_is_what_caddy_did() {
    let _watchdog = watchdog("what_becomes_of_a_request_is_what_caddy_did");
    super::play(&CADDY, 30);
}
