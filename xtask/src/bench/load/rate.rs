//! Requests at a fixed rate, by h2load: HTTP/1.1 and HTTP/2, with TLS and without.
//!
//! h2load sends each request when it is due, and its log says when that was and how long the answer took. A time counts
//! from the moment at which the request was sent. Where that matters, `ends small` counts from the moment at which it
//! was due; it speaks HTTP/1.1 in the clear only.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::bench::LOAD_CPU;
use crate::bench::contestant::Place;
use crate::command::output;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Urls<'a> {
    One(&'a str),
    /// A file with a URL in each line, which are asked for in turn.
    File(&'a Path),
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) urls: Urls<'a>,
    /// Requests per second on all connections together.
    pub(crate) rate: usize,
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
    /// HTTP/1.1; else HTTP/2.
    pub(crate) is_h1: bool,
    /// More fields of each request: `name: value`.
    pub(crate) fields: &'a [&'a str],
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Requests that were answered with 200.
    pub(crate) requests: usize,
    pub(crate) failed: u64,
    /// Percentiles of the time of a request, in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl Load<'_> {
    /// Runs it to its end on the CPU of the load.
    pub(crate) fn run(&self, place: &Place) -> Result<Outcome> {
        let log = place.folder.join("times");
        let _ = fs::remove_file(&log);
        let mut command = place.command(LOAD_CPU, Path::new("h2load"));
        command.args(["--threads=1", &format!("--clients={}", self.connections)]);
        command.arg(format!("--rps={}", self.rate / self.connections.max(1)));
        command.arg(format!("--duration={}", self.seconds)).arg(format!("--log-file={}", log.display()));
        if self.is_h1 {
            command.arg("--h1");
        }
        for field in self.fields {
            command.arg("-H").arg(field);
        }
        match self.urls {
            Urls::One(url) => command.arg(url),
            Urls::File(file) => command.arg(format!("--input-file={}", file.display())),
        };
        let text = output(&mut command)?;
        if !agreed(&text, self.is_h1) {
            bail!("h2load agreed on another protocol:\n{text}");
        }
        let (times, failed) = times(&fs::read_to_string(&log)?)?;
        Ok(Outcome::of(times, failed))
    }
}

impl Outcome {
    /// Of these times, in microseconds.
    pub(super) fn of(mut times: Vec<u32>, failed: u64) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            let place = (times.len() as f64 * share) as usize;
            times.get(place.min(times.len().saturating_sub(1))).map_or(0.0, |time| f64::from(*time) / 1000.0)
        };
        Self { requests: times.len(), failed, p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

/// Whether h2load speaks the version that was asked for: it takes what the server chooses.
pub(super) fn agreed(text: &str, is_h1: bool) -> bool {
    let protocol = text.lines().find_map(|line| line.strip_prefix("Application protocol: "));
    protocol.is_some_and(|protocol| protocol.starts_with("h2") != is_h1)
}

/// Times in microseconds from the log of h2load: a line with start, status and time for each request; and how many
/// failed.
pub(super) fn times(log: &str) -> Result<(Vec<u32>, u64)> {
    let (mut times, mut failed) = (Vec::new(), 0);
    for line in log.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (status, time) = (words.next(), words.next().and_then(|time| time.parse().ok()));
        match (status, time) {
            (Some("200"), Some(time)) => times.push(time),
            _ => failed += 1,
        }
    }
    if times.is_empty() {
        bail!("nothing got through");
    }
    Ok((times, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_h2load_is_read() {
        let log = "1764062000000000\t200\t150\n1764062000000100\t503\t99\n1764062000000200\t-1\t7\n1764062000000300\t200\t90\n";
        assert_eq!(times(log).unwrap(), (vec![150, 90], 2));
        assert!(times("").is_err());
    }

    #[test]
    fn another_protocol_is_noticed() {
        for (line, is_h1) in [("h2", false), ("h2c", false), ("http/1.1", true)] {
            let text = format!("spawning\nApplication protocol: {line}\n");
            assert!(agreed(&text, is_h1) && !agreed(&text, !is_h1), "{line}");
        }
        assert!(!agreed("spawning\n", true) && !agreed("", false));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let outcome = Outcome::of((1..=1000).rev().map(|time| time * 1000).collect(), 3);
        assert_eq!((outcome.requests, outcome.failed), (1000, 3));
        assert_eq!((outcome.p50, outcome.p99, outcome.p999), (501.0, 991.0, 1000.0));
    }
}
