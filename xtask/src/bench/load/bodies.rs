//! Large bodies: their origin (`ends serve`), the load (`ends get` or `ends put`), and what it reports.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::contestant::{Place, Running};
use crate::bench::{LOAD_CPU, configs, reported};
use crate::command::output;

/// What to ask for.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) ends: &'a Path,
    /// `get` or `put`.
    pub(crate) verb: &'static str,
    /// `length` or `chunked`.
    pub(crate) framing: &'static str,
    pub(crate) bytes: u64,
    /// The origin closes after each exchange.
    pub(crate) close: bool,
    pub(crate) connections: usize,
    /// Zero for one exchange on each connection.
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Bytes of bodies that arrived whole and right.
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) exchanges: u64,
    pub(crate) bad: u64,
}

impl Load<'_> {
    /// The command, to be run in a place.
    pub(crate) fn command(&self, place: &Place, address: SocketAddr) -> Command {
        let mut command = place.command(LOAD_CPU, self.ends);
        let close = if self.close { "/close" } else { "" };
        command.args([self.verb, &address.to_string(), self.framing]);
        command.arg(format!("{}{close}", self.bytes));
        command.args([self.connections.to_string(), self.time.as_secs().to_string()]);
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, place: &Place, address: SocketAddr) -> Result<Outcome> {
        parse(&output(&mut self.command(place, address))?)
    }
}

/// Starts the origin of large bodies.
pub(crate) fn origin(ends: &Path, place: &mut Place) -> Result<Running> {
    let (address, folder) = (place.address()?, place.next_folder()?);
    let mut command = place.command(LOAD_CPU, ends);
    // On every address: the long link has one of its own, and a namespace is nobody else's.
    let listen = format!("{}:{}", if place.is_within() { "0.0.0.0" } else { "127.0.0.1" }, address.port());
    command.args(["serve", &listen, configs::BODY]);
    place.start(command, &folder, address, ("bench", "/"))
}

/// Reads what the client reports.
pub(crate) fn parse(text: &str) -> Result<Outcome> {
    let [bytes, micros, exchanges, bad] =
        reported::result(text).with_context(|| format!("the client reports nothing:\n{text}"))?;
    Ok(Outcome { bytes, time: Duration::from_micros(micros), exchanges, bad })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_client_is_read_between_others() {
        let outcome = parse("ends: broken\nRESULT 50000000 1500000 1 2\n").unwrap();
        let expected = Outcome { bytes: 50_000_000, time: Duration::from_millis(1500), exchanges: 1, bad: 2 };
        assert_eq!(outcome, expected);
        assert!(parse("ends: broken\n").is_err() && parse("RESULT 1 2 3\n").is_err());
    }
}
