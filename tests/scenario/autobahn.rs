//! Autobahn's cases of the WebSocket protocol, with the proxy between: its fuzzing client before it and an echo server
//! behind, and a client that sends back before it and its fuzzing server behind.

use std::process::Command;
use std::time::Duration;

use thalweg_tests::expected::{Case, Known, assert_only};
use thalweg_tests::program::run;
use thalweg_tests::python_tool::python_tool;
use thalweg_tests::{Process, Proxy, STEP, Watchdog};

use super::proxy;

/// Autobahn's own cases, driven by a program that needs no Python 2; and what they are played to. Later versions of
/// `websockets` refuse messages of more than 1,024 fragments.
const PACKAGES: &[&str] = &["kosoku==0.1.0", "websockets==15.0.1"];

/// All but those on compressed messages, which differ for who unpacks them, and take minutes of computing there. How
/// many they are.
const CASES: (&[&str], usize) = (&["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"], 301);

const FAIL: &[Known] = &[(
    "7.1.5",
    "`websockets` answers 1002 to a close within a message, where the case wants 1000; so it does without a proxy",
)];

/// A run takes seven seconds.
const TIME: Duration = Duration::from_secs(60);

fn autobahn(role: &str) -> Option<Command> {
    let mut command = python_tool(PACKAGES)?;
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/autobahn.py")).arg(role);
    Some(command)
}

/// Starts what stands behind the proxy, and the proxy.
fn behind(server: &mut Command) -> (Process, Proxy) {
    let server = Process::start(server);
    let port: u16 = server.wait_line("the port", STEP * 4, |line| line.strip_prefix("port ")?.parse().ok());
    (server, proxy(&[&format!("http://127.0.0.1:{port}")]))
}

/// The suite's verdicts: known failures fail, and nothing else does.
fn judge(said: &str) {
    let case = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        let (id, outcome) = (parts.next()?, parts.next()?);
        Some(Case { id, passed: outcome == "passed", told: parts.next()? })
    };
    let cases: Vec<_> = said.lines().map(|line| case(line).unwrap_or_else(|| panic!("{said}"))).collect();
    assert_only(&cases, FAIL);
    assert_eq!(cases.len(), CASES.1);
}

#[test]
fn cases_of_the_fuzzing_client_pass() {
    let Some(mut client) = autobahn("client") else { return };
    let _watchdog = Watchdog::new("cases_of_the_fuzzing_client_pass", TIME);
    let (_server, proxy) = behind(&mut autobahn("echo").unwrap());
    let done = run(client.arg(proxy.web().to_string()).args(CASES.0), TIME);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    judge(&done.stdout);
}

#[test]
fn cases_of_the_fuzzing_server_pass() {
    let Some(mut client) = autobahn("play") else { return };
    let _watchdog = Watchdog::new("cases_of_the_fuzzing_server_pass", TIME);
    let (server, proxy) = behind(autobahn("server").unwrap().args(CASES.0));
    let done = run(client.arg(proxy.web().to_string()), TIME);
    assert_eq!(done.code, 0, "{}", done.stderr);
    server.wait_exit(STEP);
    judge(&server.stdout());
}
