//! What is measured, and the load of each: wrk, h2load, or handshakes of `bench/peers/tls_clients`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::entrant::{Peer, Started};
use super::{Tls, configs};
use crate::bench::load::wrk::Load;
use crate::bench::{LOAD_CPU, reported};
use crate::command::output;

/// A load.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Case {
    /// Small exchanges of HTTP/1.1 on kept connections with TLS
    Small,
    /// Full handshakes without a request
    Full,
    /// Handshakes that resume a session
    Resumed,
    /// HTTP/2 with TLS
    H2,
    /// HTTP/2 in the clear
    H2c,
    /// HTTP/2 with TLS, and HTTP/2 in the clear to the backend
    H2Both,
}

/// What loads need.
pub(super) struct Tools {
    /// For scripts.
    pub(super) folder: PathBuf,
    /// The settings of OpenSSL.
    pub(super) settings: PathBuf,
    /// The program of `bench/peers/tls_clients`.
    pub(super) clients: PathBuf,
}

/// What came of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Exchanges or handshakes.
    pub(super) done: u64,
    pub(super) time: Duration,
    /// Those that failed, had another status, or were of another kind.
    pub(super) failed: u64,
}

impl Case {
    pub(super) const ALL: [Self; 6] =
        [Self::Small, Self::Full, Self::Resumed, Self::H2, Self::H2c, Self::H2Both];

    /// The name in the log and the gates.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "small exchange",
            Self::Full => "full handshake",
            Self::Resumed => "resumed handshake",
            Self::H2 => "h2",
            Self::H2c => "h2c",
            Self::H2Both => "h2 on both sides",
        }
    }

    /// The words in headings.
    pub(super) fn heading(self, args: &Tls) -> String {
        let streams = format!("{} connections, {} streams each", args.h2_connections, args.streams);
        match self {
            Self::Small => {
                format!("Small exchanges of HTTP/1.1 with TLS, {} kept connections", args.connections)
            }
            Self::Full => format!("Full handshakes, {} clients", args.clients),
            Self::Resumed => format!("Resumed handshakes, {} clients", args.clients),
            Self::H2 => format!("HTTP/2 with TLS, {streams}"),
            Self::H2c => format!("HTTP/2 in the clear, {streams}"),
            Self::H2Both => format!("HTTP/2 with TLS, and HTTP/2 to the backend, {streams}"),
        }
    }

    /// What is counted.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Small | Self::H2 | Self::H2c | Self::H2Both => "request",
            Self::Full | Self::Resumed => "handshake",
        }
    }

    /// Whether it is something that `peer` does.
    pub(super) fn is_for(self, peer: Peer) -> bool {
        // It has HTTP/2 towards endpoints since 1.29.4 only.
        self != Self::H2Both || peer != Peer::Nginx
    }

    /// Runs the load to its end.
    pub(super) fn run(self, args: &Tls, tools: &Tools, on: &Started) -> Result<Outcome> {
        match self {
            Self::Small => small(args, tools, on),
            Self::Full => handshakes("full", args, &tools.clients, on),
            Self::Resumed => handshakes("resumed", args, &tools.clients, on),
            Self::H2 | Self::H2c | Self::H2Both => h2load(self, args, on),
        }
    }
}

fn small(args: &Tls, tools: &Tools, on: &Started) -> Result<Outcome> {
    let (port, time) = (on.running.address.port(), Duration::from_secs(args.seconds));
    let (connections, tls) = (args.connections, Some(tools.settings.as_path()));
    let load = Load { port, path: "/", host: "", connections, time, accepts: "", tls };
    let outcome = load.run(&tools.folder)?;
    Ok(Outcome { done: outcome.requests, time: outcome.time, failed: outcome.errors })
}

fn handshakes(kind: &str, args: &Tls, clients: &Path, on: &Started) -> Result<Outcome> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CPU]).arg(clients).args(["shake", &on.running.address.to_string(), kind]);
    let text = output(command.args([args.clients.to_string(), args.seconds.to_string()]))?;
    let [done, micros, failed] =
        reported::result(&text).with_context(|| format!("the clients said:\n{text}"))?;
    Ok(Outcome { done, time: Duration::from_micros(micros), failed })
}

fn h2load(case: Case, args: &Tls, on: &Started) -> Result<Outcome> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CPU, "h2load", "-t1", &format!("-D{}", args.seconds)]);
    command.arg(format!("-c{}", args.h2_connections)).arg(format!("-m{}", args.streams));
    command.arg(format!("--tls13-ciphers={}", configs::SUITE)).arg(format!("--groups={}", configs::GROUP));
    let url = match case {
        Case::H2c => format!("http://{}/", on.clear),
        Case::H2Both => format!("https://{}{}", on.running.address, configs::H2_PATH),
        _ => format!("https://{}/", on.running.address),
    };
    let text = output(command.arg(url))?;
    if !agreed(&text, case) {
        bail!("h2load agreed on something else:\n{text}");
    }
    parse(&text, Duration::from_secs(args.seconds)).with_context(|| format!("h2load said:\n{text}"))
}

/// Whether the protocol is that of the case.
fn agreed(text: &str, case: Case) -> bool {
    let has = |line: &str| text.lines().any(|known| known.starts_with(line));
    match case {
        Case::H2c => has("Application protocol: h2c"),
        _ => {
            let suite = format!("Cipher: {}", configs::SUITE);
            let group = format!("Server Temp Key: {}", configs::GROUP);
            has("Application protocol: h2") && has("TLS Protocol: TLSv1.3") && has(&suite) && has(&group)
        }
    }
}

/// Reads h2load's report: requests that got a 2xx, and the others of those that ended.
fn parse(text: &str, time: Duration) -> Option<Outcome> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let count = |line: &str, what: &str| {
        line.split(',').find_map(|part| part.trim().strip_suffix(what)?.trim().parse::<u64>().ok())
    };
    let requests = line("requests: ")?;
    let (ended, done) = (count(requests, "done")?, count(line("status codes: ")?, "2xx")?);
    let broken = count(requests, "errored")? + count(requests, "timeout")?;
    Some(Outcome { done, time, failed: ended.saturating_sub(done) + broken })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "TLS Protocol: TLSv1.3\nCipher: TLS_AES_128_GCM_SHA256\nServer Temp Key: X25519 253 bits\n\
        Application protocol: h2\n\nfinished in 3.00s, 33 req/s, 1MB/s\n\
        requests: 100 total, 110 started, 100 done, 99 succeeded, 1 failed, 2 errored, 3 timeout\n\
        status codes: 98 2xx, 0 3xx, 1 4xx, 1 5xx\n";

    #[test]
    fn the_report_of_h2load_is_read() {
        let time = Duration::from_secs(3);
        assert_eq!(parse(TEXT, time), Some(Outcome { done: 98, time, failed: 7 }));
        assert_eq!(parse("requests: 1 total", time), None);
    }

    #[test]
    fn another_protocol_suite_or_group_is_noticed() {
        assert!(agreed(TEXT, Case::H2) && !agreed(TEXT, Case::H2c));
        assert!(agreed("Application protocol: h2c\n", Case::H2c));
        for (known, other) in
            [("AES_128", "AES_256"), ("X25519", "P-256"), ("TLSv1.3", "TLSv1.2"), (": h2", ": x")]
        {
            assert!(!agreed(&TEXT.replace(known, other), Case::H2), "{other}");
        }
    }
}
