//! Traefik beside Thalweg, where a `traefik` is on the PATH; elsewhere the answers that Traefik gave (`answers.rs`).
//!
//! Traefik says in its log that it has a configuration, in words of each version, before routers take requests.
//! So the test asks until they do (`side.rs`).

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use thalweg_tests::program::find;
use thalweg_tests::{Directory, Message, Process};

use super::side::{Original, free_port};
use super::watchdog;

const TRAEFIK: Original = Original {
    name: "traefik",
    listening_at,
    start,
    prepare: super::nginx::prepare,
    is_recorded: true,
    is_own_page,
};

/// `":80"` with the test's address.
fn listening_at(text: &str, ip: IpAddr) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("\":") {
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        match behind[..digits].parse() {
            Ok(port) => _ = write!(out, "{before}\"{ip}:{}", free_port(port)),
            Err(_) => _ = write!(out, "{before}\":{}", &behind[..digits]),
        }
        rest = &behind[digits..];
    }
    out + rest
}

fn start(directory: &Directory, main: &Path, _: IpAddr) -> Option<Process> {
    let traefik = find("traefik")?;
    // The process asks nobody about its version.
    let is_toml = main.extension().is_some_and(|end| end == "toml");
    let quiet = match is_toml {
        true => "\n[global]\ncheckNewVersion = false\nsendAnonymousUsage = false\n",
        false => "\nglobal: { checkNewVersion: false, sendAnonymousUsage: false }\n",
    };
    let text = fs::read_to_string(main).unwrap();
    let is_said = text.contains("global:") || text.contains("[global]");
    let quiet = if is_said { "" } else { quiet };
    fs::write(main, format!("{text}{quiet}")).unwrap();
    let mut command = Command::new(traefik);
    command.current_dir(directory.path()).arg(format!("--configFile={}", main.display()));
    Some(Process::start(&mut command))
}

/// Traefik's own answers are the words of their status.
fn is_own_page(message: &Message) -> bool {
    message.status() >= 300 && message.text().lines().count() <= 1
}

#[test]
fn what_becomes_of_a_request_is_what_traefik_did() {
    let _watchdog = watchdog("what_becomes_of_a_request_is_what_traefik_did");
    super::play(&TRAEFIK, 25);
}
