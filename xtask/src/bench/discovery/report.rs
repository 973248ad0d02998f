//! The report of endpoints that change: the three cases, the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::registry::Changes;
use super::{Discovery, SPANS, Sample};
use crate::bench::figures::{Gate, head, median_ratio, ratio_cell, ratios, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, frame};

/// Most of the 99th percentile beside changes, as a multiple of that without.
const P99_GATE: f64 = 1.1;
/// Most of a CPU that the control thread takes for a thousand changes a second, beyond what it takes without.
const CONTROL_GATE: f64 = 0.5;

/// Everything that was measured, and where.
pub(super) struct Report<'a> {
    pub(super) args: &'a Discovery,
    /// By case, then by round.
    pub(super) cases: &'a [Vec<Sample>; 3],
    /// Resident bytes once all endpoints were known.
    pub(super) at_start: u64,
    pub(super) version: &'a str,
    /// Whether the run had priority over all else on the machine.
    pub(super) goes_first: bool,
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        let Discovery { services, endpoints, changes, .. } = self.args;
        format!("{services} services × {endpoints} endpoints with {changes} changes per second")
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\nMedians over the rounds, least and most.\n")?;
        head(
            text,
            &[
                "",
                "sets/s",
                "p50 µs",
                "p99 µs",
                "most ms",
                "control thread",
                "worker µs per request",
                "RSS MB",
                "failed",
            ],
        )?;
        for (changes, samples) in Changes::ALL.iter().zip(self.cases) {
            let cell = |value: &dyn Fn(&Sample) -> f64, places: usize| {
                let (least, median, most) = spread(&samples.iter().map(value).collect::<Vec<_>>());
                format!("**{median:.places$}** ({least:.places$}–{most:.places$})")
            };
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} % | {} | {} | {} |",
                changes.name(),
                cell(&|sample| sample.sets, 0),
                cell(&|sample| sample.p50, 0),
                cell(&|sample| sample.p99, 0),
                cell(&|sample| sample.most / 1000.0, 1),
                cell(&|sample| sample.control * 100.0, 1),
                cell(&|sample| sample.worker_us, 1),
                cell(&|sample| sample.resident as f64 / 1e6, 1),
                samples.iter().map(|sample| sample.bad).sum::<u64>(),
            )?;
        }
        writeln!(text, "\nAs multiples of the case without changes, round by round.\n")?;
        head(text, &["", "p50", "p99", "worker CPU per request"])?;
        for case in [1, 2] {
            let cell =
                |value: fn(&Sample) -> f64| ratio_cell(&ratios(&self.cases[case], &self.cases[0], value));
            let (p50, p99, cpu) = (cell(|s| s.p50), cell(|s| s.p99), cell(|s| s.worker_us));
            writeln!(text, "| {} | {p50} | {p99} | {cpu} |", Changes::ALL[case].name())?;
        }
        let others = spread(&self.cases[1].iter().map(|sample| sample.others * 100.0).collect::<Vec<_>>()).1;
        writeln!(
            text,
            "\nRSS once all endpoints were known: {:.1} MB. All threads but control and worker beside changes of \
             weights: {others:.1} %\nof a CPU.",
            self.at_start as f64 / 1e6
        )?;
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let [none, weights, _] = self.cases;
        let median = |samples: &[Sample], value: fn(&Sample) -> f64| {
            spread(&samples.iter().map(value).collect::<Vec<_>>()).1
        };
        let more = median(weights, |s| s.control) - median(none, |s| s.control);
        let failed = self.cases.iter().flatten().map(|sample| sample.bad).sum::<u64>() as f64;
        let gate =
            |name: &str, most, measured| Gate { name: name.to_owned(), most, measured: Some(measured) };
        vec![
            gate(
                "p99 beside changes of weights, × without",
                P99_GATE,
                median_ratio(weights, none, |s| s.p99),
            ),
            gate("CPUs of the control thread, beyond those without changes", CONTROL_GATE, more),
            gate("connections of the client that failed", 0.0, failed),
        ]
    }

    fn versions(&self) -> Vec<String> {
        vec![self.version.to_owned()]
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let Discovery { rounds, seconds, services, changes, requests, connections, .. } = self.args;
        writeln!(
            text,
            "- {services} services, each with a source `etcd` of its own; the registry speaks etcd's JSON gateway (range \
             and watch) and is\n  part of the bench; {changes} changes per second, in turn in all services, each a line of a \
             watch\n\
             - weights: the weight of an instance changes; instances: one leaves and another, at a new address, comes, so that \
             all of them\n  have changed after some seconds and a good part of requests opens a connection\n\
             - one worker; the proxy has CPU {PROXY_CPU}, control thread and worker together; backend (nginx on all of \
             127/8), client and registry\n  have CPU {LOAD_CPU}, the first two with real-time priority, so that what the registry \
             does delays no request\n\
             - {requests} small requests per second over all services in turn, on {connections} kept-alive connections, \
             whatever the pace of answers;\n  times count from the moment at which a request was to be sent \
             (`bench/peers/ends`)\n\
             - {rounds} rounds of the three cases in turn, each in another order, after one that is dropped; a case is {SPANS} \
             spans of {seconds} s\n  after one for warming up\n\
             - CPU: time of the kernel's scheduler for each thread (`schedstat`); the control thread watches the sources too"
        )?;
        let shared =
            if self.goes_first { "had priority over what else ran there" } else { "had no priority there" };
        writeln!(
            text,
            "- the machine is not for this run alone (see its load average); all programs of the run {shared}"
        )?;
        Ok(())
    }
}
