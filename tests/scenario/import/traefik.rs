//! Traefik beside Thalweg, where a `traefik` is on the PATH.
//!
//! Elsewhere Thalweg is compared with answers that were recorded (`answers.rs`). Where a file has none, only the lines of
//! its report and its `#~` lines are checked.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use thalweg_tests::program::find;
use thalweg_tests::secure::Identity;
use thalweg_tests::{Directory, Message, Process, STEP};

use super::side::{Original, free_port};
use super::watchdog;

const TRAEFIK: Original = Original { name: "traefik", listening_at, start, prepare, is_own_page };

fn prepare(directory: &Directory) {
    let folder = directory.path().join("ssl");
    fs::create_dir_all(&folder).unwrap();
    Identity::shared().write_into(&folder, "site");
}

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
    let text = fs::read_to_string(main).unwrap();
    let log = match main.extension().is_some_and(|end| end == "toml") {
        true => "[log]\nlevel = \"DEBUG\"\n",
        false => "log: { level: DEBUG }\n",
    };
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with("log:"))
        .fold(String::new(), |out, line| out + line + "\n");
    fs::write(main, format!("{text}\n{log}")).unwrap();
    let file = format!("--configFile={}", main.display());
    let server = Process::start(Command::new(traefik).arg(file).current_dir(directory.path()));
    server.wait_line("the end of its first configuration", STEP, |line| {
        line.contains("Creating load-balancer").then_some(())
    });
    Some(server)
}

fn is_own_page(message: &Message) -> bool {
    let is_redirect = (300..400).contains(&message.status());
    is_redirect || message.text().starts_with("404 page not found") || message.status() >= 400
}

#[test]
fn what_becomes_of_a_request_is_what_traefik_did() {
    let _watchdog = watchdog("what_becomes_of_a_request_is_what_traefik_did");
    super::play(&TRAEFIK, 20);
}
