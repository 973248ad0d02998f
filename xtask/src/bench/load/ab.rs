//! Small exchanges of HTTP/1.0: ab, and what it reports.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::command::output;

/// Seconds without anything after which ab gives up. A connection that found the accept queue full is forgotten by the
/// kernel after 63.
const PATIENCE: &str = "100";

/// How requests share connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Way {
    /// A connection for each request
    Each,
    /// Connections are kept from request to request (ab -k)
    Kept,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Each, Self::Kept];

    /// The name in the log and the gates.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Kept => "kept",
        }
    }

    /// The words in headings.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Each => "a connection for each request",
            Self::Kept => "kept connections",
        }
    }
}

/// What to ask for.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// The CPUs of ab.
    pub(crate) cpus: &'static str,
    pub(crate) way: Way,
    pub(crate) concurrency: usize,
    /// Twice as many where connections are kept: they cost less than half.
    pub(crate) requests: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) time: Duration,
    /// Requests without an answer, with one that is not 2xx or has another length, or, where connections are to be
    /// kept, on one that was not.
    pub(crate) failed: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) most: Duration,
}

impl Load {
    /// Runs ab to its end. Where it gives up, everything counts as failed.
    pub(crate) fn run(&self, address: SocketAddr) -> Result<Outcome> {
        let mut command = Command::new("taskset");
        // Failures are counted; without -r the first one would end the run.
        command.args(["-c", self.cpus, "ab", "-q", "-r", "-s", PATIENCE]);
        let requests = match self.way {
            Way::Each => self.requests,
            Way::Kept => self.requests * 2,
        };
        if self.way == Way::Kept {
            command.arg("-k");
        }
        command.args(["-n", &requests.to_string(), "-c", &self.concurrency.to_string()]);
        let begun = Instant::now();
        let text = match output(command.arg(format!("http://{address}/"))) {
            Ok(text) => text,
            Err(error) => {
                println!("bench: ab gave up, and the run counts as failed: {error:#}");
                let (requests, time) = (requests as u64, begun.elapsed());
                return Ok(Outcome { requests, time, failed: requests, p50: time, p99: time, most: time });
            }
        };
        parse(&text, self.way).with_context(|| format!("ab said:\n{text}"))
    }
}

fn parse(text: &str, way: Way) -> Option<Outcome> {
    let number = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let count = |name: &str| number(name).map_or(0, |value| value as u64);
    let millis = |name: &str| number(name).map(|value| Duration::from_millis(value as u64));
    let requests = number("Complete requests:")? as u64;
    let closed = match way {
        Way::Each => 0,
        Way::Kept => requests.saturating_sub(count("Keep-Alive requests:")),
    };
    let failed = [count("Failed requests:"), count("Non-2xx responses:"), count("Write errors:"), closed];
    Some(Outcome {
        requests,
        time: Duration::from_secs_f64(number("Time taken for tests:")?),
        failed: failed.iter().sum(),
        p50: millis("50% ")?,
        p99: millis("99% ")?,
        most: millis("100% ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Concurrency Level:      20\nTime taken for tests:   0.030 seconds\n\
                        Complete requests:      3000\nFailed requests:        2\n   \
                        (Connect: 0, Receive: 0, Length: 2, Exceptions: 0)\nNon-2xx responses:      1\n\
                        Keep-Alive requests:    2990\nRequests per second:    98719.93 [#/sec] (mean)\n  \
                        50%      1\n  99%      7\n 100%      9 (longest request)\n";

    #[test]
    fn the_report_of_ab_is_read() {
        let outcome = parse(TEXT, Way::Each).unwrap();
        let [time, p50, p99, most] = [30, 1, 7, 9].map(Duration::from_millis);
        assert_eq!(outcome, Outcome { requests: 3000, time, failed: 3, p50, p99, most });
        assert_eq!(parse(&TEXT.replace("Complete", "Broken"), Way::Each), None);
    }

    #[test]
    fn a_connection_that_was_not_kept_is_a_failure_where_it_should_be() {
        assert_eq!(parse(TEXT, Way::Kept).unwrap().failed, 13);
        assert_eq!(parse(&TEXT.replace("Keep-Alive", "Other"), Way::Kept).unwrap().failed, 3003);
    }
}
