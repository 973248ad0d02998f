//! The ends: the origins, the clients that read slowly, the client of small requests; and what they report.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::vitals::Vitals;
use super::{Scene, Slow};
use crate::bench::contestant::{Place, Running};
use crate::bench::reported::{self, numbers};
use crate::bench::{LOAD_CPU, PROXY_CPU, configs};

/// Priority among real-time processes of both ends of small requests: any is above all others.
const PRIORITY: &str = "1";

/// Starts the origin of large bodies.
pub(super) fn start_feed(place: &mut Place, ends: &Path) -> Result<Running> {
    let (address, folder) = (place.address()?, place.next_folder()?);
    let mut command = place.command(LOAD_CPU, ends);
    command.args(["feed", &address.to_string(), configs::BODY]);
    place.start(command, &folder, address, ("bench", "/"))
}

/// Starts the origin of small answers.
pub(super) fn start_small_origin(place: &mut Place, ends: &Path) -> Result<Running> {
    let (address, folder) = (place.address()?, place.next_folder()?);
    let mut command = place.command(PROXY_CPU, "chrt".as_ref());
    command.args(["--fifo", PRIORITY]).arg(ends).args(["serve", &address.to_string(), configs::BODY]);
    place.start(command, &folder, address, ("bench", "/")).context("`chrt --fifo` needs root")
}

/// Times of small requests, counted from the moment at which each was to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) most: Duration,
}

/// A measurement of small requests.
pub(super) struct SmallRun {
    /// The spans, each with what was seen of memory at its end.
    pub(super) spans: Vec<(Times, Vitals)>,
    pub(super) all: Times,
    /// Connections on which a request failed.
    pub(super) bad: u64,
}

impl Scene {
    /// Sends small requests through the proxy for so many spans, after one more in which everything warms up.
    pub(super) fn small(&self, args: &Slow, spans: usize) -> Result<SmallRun> {
        let mut command = self.place.command(PROXY_CPU, "chrt".as_ref());
        command.args(["--fifo", PRIORITY]).arg(&self.ends);
        command.args(["small", &self.proxy.address.to_string(), configs::BODY]);
        command.args([args.connections, args.requests, args.seconds, spans].map(|number| number.to_string()));
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let from = BufReader::new(child.stdout.take().context("the client has no output")?);
        let mut run = SmallRun { spans: Vec::new(), all: Times::default(), bad: 0 };
        for line in from.lines() {
            let line = line?;
            let numbers = numbers(&line);
            if line.starts_with("SPAN ") {
                let (times, vitals) = (Times::read(&numbers)?, Vitals::now(self.metrics)?);
                println!("bench: p50 {:?}, p99 {:?}, {vitals}", times.p50, times.p99);
                run.spans.push((times, vitals));
            } else if line.starts_with("RESULT ") {
                run.all = Times::read(&numbers)?;
                run.bad = numbers.get(4).copied().with_context(|| line)?;
            }
        }
        if !child.wait()?.success() || run.spans.len() != spans || run.all == Times::default() {
            bail!("the client of small requests broke off");
        }
        Ok(run)
    }
}

impl Times {
    fn read(numbers: &[u64]) -> Result<Self> {
        let &[count, p50, p99, most, ..] = numbers else { bail!("the client reports {numbers:?}") };
        let [p50, p99, most] = [p50, p99, most].map(Duration::from_micros);
        Ok(Self { count, p50, p99, most })
    }
}

/// Clients that read slowly, under way.
pub(super) struct Readers {
    child: Child,
    from: BufReader<ChildStdout>,
}

/// What slow readers got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Bytes of bodies.
    pub(super) bytes: u64,
    /// Readers that were refused or cut off, or got a wrong byte.
    pub(super) bad: u64,
    /// Reads once all had begun, and those of them for which nothing was there.
    pub(super) reads: u64,
    pub(super) dry: u64,
}

impl Readers {
    /// Starts them and waits until all have begun to get their body.
    pub(super) fn start(scene: &Scene, address: SocketAddr, args: &Slow) -> Result<Self> {
        let mut command = scene.place.command(LOAD_CPU, &scene.ends);
        command.args(["slow", &address.to_string(), &args.bytes.to_string()]);
        command.args([args.readers, args.rate].map(|number| number.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let from = BufReader::new(child.stdout.take().context("the readers have no output")?);
        let mut readers = Self { child, from };
        let line = readers.line()?;
        if !line.starts_with("READY ") {
            bail!("the slow readers do not begin: {line}");
        }
        Ok(readers)
    }

    /// Ends them all and says what they got.
    pub(super) fn stop(mut self) -> Result<Outcome> {
        drop(self.child.stdin.take());
        let line = self.line()?;
        Outcome::read(&line).with_context(|| format!("the slow readers said {line:?}"))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    fn read(line: &str) -> Option<Self> {
        let [bytes, _micros, _connections, bad, reads, dry] = reported::result(line)?;
        Some(Self { bytes, bad, reads, dry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_clients_are_read() {
        let outcome = Outcome { bytes: 9000, bad: 1, reads: 20, dry: 2 };
        assert_eq!(Outcome::read("RESULT 9000 1500 10 1 20 2\n"), Some(outcome));
        assert_eq!(Outcome::read("RESULT 9000 1500 10 1 20\n"), None);
        assert_eq!(Outcome::read(""), None);
        let [p50, p99, most] = [200, 400, 1000].map(Duration::from_micros);
        let times = Times { count: 5000, p50, p99, most };
        assert_eq!(Times::read(&numbers("SPAN 5000 200 400 1000")).unwrap(), times);
        assert!(Times::read(&numbers("SPAN 5000 200 400")).is_err());
    }
}
