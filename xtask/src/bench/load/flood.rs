//! As many requests of HTTP/2 as there is room for: h2load without a rate.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::rate::{Outcome as Times, agreed, times};
use crate::bench::contestant::Place;
use crate::command::output;

/// What to ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    /// Streams at once on each.
    pub(crate) streams: usize,
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Requests that were answered with 200.
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) p99: Duration,
}

impl Load {
    /// Runs it to its end on these CPUs.
    pub(crate) fn run(&self, address: SocketAddr, cpus: &str, place: &Place) -> Result<Outcome> {
        let log = place.folder.join("times");
        let _ = fs::remove_file(&log);
        let mut command = place.command(cpus, Path::new("h2load"));
        command.args(["--threads=1", &format!("--clients={}", self.connections)]);
        command.arg(format!("--max-concurrent-streams={}", self.streams));
        command.arg(format!("--duration={}", self.time.as_secs()));
        command.arg(format!("--log-file={}", log.display())).arg(format!("http://{address}/"));
        let text = output(&mut command)?;
        if !agreed(&text, false) {
            bail!("h2load agreed on another protocol:\n{text}");
        }
        let (times, failed) = times(&fs::read_to_string(&log)?)?;
        let outcome = Times::of(times, failed);
        let p99 = Duration::from_secs_f64(outcome.p99 / 1e3);
        Ok(Outcome { requests: outcome.requests as u64, failed, p99 })
    }
}
