//! Reloads under load: what fails, and how long an exchange takes, beside the same load without reloads.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::configs::{self, Site};
use super::{Grows, start_with};
use crate::bench::LOAD_CPU;
use crate::bench::configs::BODY;
use crate::bench::contestant::{Place, Running};
use crate::bench::costs::{Entrant, Peer};
use crate::bench::process::signal;
use crate::bench::reported::result;
use crate::command::output;

/// Requests per second, and connections.
pub(super) const RATE: u32 = 1000;
const CONNECTIONS: usize = 50;
/// Time between two reloads.
pub(super) const PERIOD: Duration = Duration::from_millis(200);
/// Endpoints of the configurations that take turns.
const ENDPOINTS: [usize; 2] = [100, 110];

/// One load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Loaded {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) p99: Duration,
    pub(super) most: Duration,
}

/// What came of the reloads of one program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reloads {
    pub(super) without: Loaded,
    pub(super) with: Loaded,
    /// Resident bytes before the first reload and after the last.
    pub(super) resident: [u64; 2],
    /// Start with the first configuration.
    pub(super) started_in: Duration,
    /// Bytes of the program's file.
    pub(super) binary: u64,
}

impl Reloads {
    /// Loads a program that is reloaded `count` times, and before that one that is not.
    pub(super) fn measure(entrant: &Entrant, count: u32, ends: &Path, place: &mut Place) -> Result<Self> {
        let site = Site { listen: place.address()?, backend: place.backend, folder: place.next_folder()? };
        let texts = [turn(entrant.peer, ENDPOINTS[0], &site)?, turn(entrant.peer, ENDPOINTS[1], &site)?];
        let running = start_with(entrant, &texts[0], (&site, "bench", "/"), place)?;
        let seconds = (PERIOD * count).as_secs().max(1);
        println!("bench: {}, {count} reloads in {seconds} s", entrant.name());
        let without = loaded(&running, ends, seconds, || Ok(()))?;
        let before = running.program.resident();
        let pid = running.program.pids().first().copied().context("it has no process")?;
        let with = loaded(&running, ends, seconds, || {
            let begin = Instant::now();
            for i in 1..=count {
                std::fs::write(configs::file(&site), &texts[i as usize % 2])?;
                signal(pid, reload(entrant.peer));
                std::thread::sleep((PERIOD * i).saturating_sub(begin.elapsed()));
            }
            Ok(())
        })?;
        Ok(Self {
            without,
            with,
            resident: [before, running.program.resident()],
            started_in: running.started_in,
            binary: std::fs::metadata(&entrant.path)?.len(),
        })
    }
}

/// The signal that makes a program read its configuration again.
fn reload(peer: Peer) -> Signal {
    if peer == Peer::Haproxy { Signal::USR2 } else { Signal::HUP }
}

/// A configuration of many endpoints, so that a reload changes something that all programs have.
fn turn(peer: Peer, size: usize, site: &Site) -> Result<String> {
    configs::of(peer, Grows::Endpoints, size, site)
}

/// Runs the load while `work` is done.
fn loaded(running: &Running, ends: &Path, seconds: u64, work: impl FnOnce() -> Result<()>) -> Result<Loaded> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CPU]).arg(ends);
    command.args(["small", &running.address.to_string(), BODY, &CONNECTIONS.to_string(), &RATE.to_string()]);
    // The first span is dropped.
    command.args(["1", &seconds.to_string()]).stdin(Stdio::null());
    let text = std::thread::scope(|scope| {
        let load = scope.spawn(move || output(&mut command));
        let done = work();
        let text = load.join().unwrap_or_else(|_| bail!("the thread of the load panicked"));
        done.and(text)
    })?;
    parse(&text).with_context(|| format!("the client said:\n{text}"))
}

/// Reads `RESULT count p50 p99 most bad`.
fn parse(text: &str) -> Option<Loaded> {
    let [requests, _, p99, most, failed] = result(text)?;
    let [p99, most] = [p99, most].map(Duration::from_micros);
    Some(Loaded { requests, failed, p99, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_client_is_read() {
        let loaded = parse("SPAN 1 2 3 4\nRESULT 1000 90 250 4000 3\n").unwrap();
        assert_eq!((loaded.requests, loaded.failed), (1000, 3));
        assert_eq!((loaded.p99.as_micros(), loaded.most.as_millis()), (250, 4));
        assert_eq!(parse("RESULT 1 2 3\n"), None);
    }
}
