//! Traefik's files: what must become of requests is written in them, after Traefik's documentation.
//!
//! Traefik itself was not run when they were written. Where a `traefik` is on the path it runs beside Thalweg, and what
//! differs is told as for the other originals.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use thalweg_tests::program::find;
use thalweg_tests::{Directory, Message, Process, STEP};

use super::side::{Original, free_port};
use super::watchdog;

const TRAEFIK: Original =
    Original { name: "traefik", listening_at, start, prepare: super::nginx::prepare, is_own_page };

/// `address: ":80"` with the test's address.
fn listening_at(text: &str, ip: IpAddr) -> String {
    let mut parts = text.split("address: \":");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['"', '/']).unwrap();
        let port: u16 = part[..end].parse().unwrap();
        out += &format!("address: \"{ip}:{}{}", free_port(port), &part[end..]);
    }
    out
}

fn start(directory: &Directory, main: &Path, _: IpAddr) -> Option<Process> {
    let traefik = find("traefik")?;
    let text = fs::read_to_string(main).unwrap();
    fs::write(main, format!("{text}\nlog: {{ level: DEBUG }}\n")).unwrap();
    // Its log goes to standard output, and lines are waited for on the other.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" >&2", "sh"]).arg(traefik);
    command.current_dir(directory.path()).arg(format!("--configFile={}", main.display()));
    let server = Process::start(&mut command);
    let loaded = |line: &str| line.contains("Server configuration reloaded on").then_some(());
    server.wait_line("the configuration", STEP, loaded);
    Some(server)
}

/// Traefik's own answers are the words of their status.
fn is_own_page(message: &Message) -> bool {
    message.status() >= 300 && message.text().lines().count() <= 1
}

#[test]
fn requests_are_treated_as_traefik_documents_it() {
    let _watchdog = watchdog("requests_are_treated_as_traefik_documents_it");
    super::play(&TRAEFIK, 20);
}
