//! Small exchanges of HTTP/1.1: wrk with one thread, and what it reports.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::{LOAD_CPU, reported};
use crate::command::output;

/// Prints what wrk's own report leaves out: exact counts and the far percentiles.
pub(crate) const SCRIPT: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"#;

/// What to ask for.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    /// The `Host` field; the address when empty.
    pub(crate) host: &'a str,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
    /// The `Accept-Encoding` field; none when empty.
    pub(crate) accepts: &'a str,
    /// The settings of OpenSSL; the load goes through TLS when there are some.
    pub(crate) tls: Option<&'a Path>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) time: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) p999: Duration,
    /// Failed connects, reads, writes, timeouts, and answers that are not 2xx or 3xx.
    pub(crate) errors: u64,
}

impl Load<'_> {
    /// Runs wrk to its end on the CPU of the load; `folder` is for its script.
    pub(crate) fn run(&self, folder: &Path) -> Result<Outcome> {
        self.run_on(LOAD_CPU, folder)
    }

    /// The same on these CPUs.
    pub(crate) fn run_on(&self, cpus: &str, folder: &Path) -> Result<Outcome> {
        let script = folder.join("result.lua");
        fs::write(&script, SCRIPT)?;
        let mut command = Command::new("taskset");
        command.args(["-c", cpus, "wrk", "-t1", "--latency", "-s"]).arg(script);
        command.arg(format!("-c{}", self.connections)).arg(format!("-d{}s", self.time.as_secs()));
        if !self.host.is_empty() {
            command.arg("-H").arg(format!("Host: {}", self.host));
        }
        if !self.accepts.is_empty() {
            command.arg("-H").arg(format!("Accept-Encoding: {}", self.accepts));
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        if let Some(settings) = self.tls {
            command.env("OPENSSL_CONF", settings);
        }
        let text = output(command.arg(format!("{scheme}://127.0.0.1:{}{}", self.port, self.path)))?;
        parse(&text).with_context(|| format!("wrk said:\n{text}"))
    }
}

/// Reads what [`SCRIPT`] prints.
pub(crate) fn parse(text: &str) -> Option<Outcome> {
    let [requests, time, p50, p99, p999, errors] = reported::result(text)?;
    let [time, p50, p99, p999] = [time, p50, p99, p999].map(Duration::from_micros);
    Some(Outcome { requests, time, p50, p99, p999, errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_script_is_read() {
        let outcome = parse("Running\nRESULT 100 5000000 10 20 30 1\n").unwrap();
        assert_eq!((outcome.requests, outcome.time.as_secs(), outcome.errors), (100, 5, 1));
        assert_eq!(outcome.p999, Duration::from_micros(30));
        assert_eq!(parse("RESULT 1 2"), None);
    }
}
