//! The report of dashboards: the pages, the load with them and without, the gates, the method.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

use super::{Dashboard, Measured, PAGES, SERVICES, Sample};
use crate::bench::figures::{Gate, head, median_ratio, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, frame};

/// How long pages are watched before clients follow them, in seconds: as in the program of the dashboards.
pub(super) const WATCHED: u64 = 42;
/// Most of the 99th percentile beside dashboards, as a multiple of that without.
const P99_GATE: f64 = 1.1;
/// Most of a page's memory in the last third of the time, as a multiple of that in the first.
const HEAP_GATE: f64 = 1.1;

/// Everything that was measured, and where.
pub(super) struct Report<'a> {
    pub(super) args: &'a Dashboard,
    pub(super) measured: &'a Measured,
    pub(super) version: &'a str,
    /// Whether the run had priority over all else on the machine.
    pub(super) goes_first: bool,
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        format!("Open dashboards beside {} requests per second", self.args.rate)
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## Real pages, for {} s\n", self.args.seconds)?;
        head(
            text,
            &["page", "questions per second", "tasks over 100 ms", "longest task", "memory, look by look"],
        )?;
        for (name, page) in ["overview", "all pages in turn"].iter().zip(self.pages()) {
            let looks = heaps(page).iter().map(|bytes| format!("{:.1}", bytes / 1e6)).collect::<Vec<_>>();
            writeln!(
                text,
                "| {name} | {:.2} | {} | {:.0} ms | {} MB |",
                page["questions"].as_f64().unwrap_or(0.0) / self.args.seconds as f64,
                match page["long_tasks"].as_array().map_or(&[][..], Vec::as_slice) {
                    [] => "none".to_owned(),
                    long => long.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                },
                page["longest_task_ms"].as_f64().unwrap_or(0.0),
                looks.join(", ")
            )?;
        }
        let (beside, told) = (&self.measured.beside, &self.measured.pages);
        writeln!(
            text,
            "\nBeside them: {:.0} requests per second, {} failed, p99 {:.2} ms (the browser takes CPU from the load). The {} \
             clients\nasked {:.1} questions per second, {:.1} MB; {} failed, the slowest took {:.0} ms.",
            beside.rate,
            beside.failed,
            beside.p99,
            self.args.dashboards - PAGES,
            told["questions"].as_f64().unwrap_or(0.0) / told["seconds"].as_f64().unwrap_or(1.0),
            told["bytes"].as_f64().unwrap_or(0.0) / 1e6 / told["seconds"].as_f64().unwrap_or(1.0),
            told["failed"],
            told["slowest"].as_f64().unwrap_or(0.0),
        )?;
        self.rounds(text)
    }

    fn gates(&self) -> Vec<Gate> {
        let long: Vec<usize> =
            self.pages().map(|page| page["long_tasks"].as_array().map_or(0, Vec::len)).collect();
        let growth = self.pages().filter_map(|page| {
            let looks = heaps(page);
            let third = looks.len() / 3;
            let sum = |looks: &[f64]| looks.iter().sum::<f64>();
            Some(sum(looks.get(looks.len() - third..)?) / sum(looks.get(..third)?))
        });
        let measured = self.measured;
        let ratio = median_ratio(&measured.with, &measured.without, |sample| sample.p99);
        vec![
            Gate {
                name: "tasks over 100 ms in the pages".into(),
                most: 0.0,
                measured: (long.len() == PAGES).then(|| long.iter().sum::<usize>() as f64),
            },
            Gate {
                name: "memory of a page in the last third of the looks, of that in the first".into(),
                most: HEAP_GATE,
                measured: growth.reduce(f64::max),
            },
            Gate {
                name: format!("p99 with {} dashboards, of that without", self.args.dashboards),
                most: P99_GATE,
                measured: (!measured.with.is_empty()).then_some(ratio),
            },
        ]
    }

    fn versions(&self) -> Vec<String> {
        vec![self.version.to_owned()]
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let Dashboard { rounds, round_seconds, rate, connections, routes, dashboards, .. } = self.args;
        writeln!(
            text,
            "- {routes} routes to {SERVICES} services; h2load sends {rate} requests per second over them in turn, on \
             {connections} connections of HTTP/1.1,\n  each at its own time; times are its own, from sending to the \
             end of the answer\n\
             - the proxy has CPU {PROXY_CPU}; backend (nginx), h2load and dashboards have CPU {LOAD_CPU}\n\
             - pages: Chromium, one that stays on the overview, one that goes to another page every 5 s; long tasks by \
             PerformanceObserver,\n  without those in which the debugger collects to look at memory; with real-time \
             priority before the load, as\n  pages are on a machine of their own in use\n\
             - clients: each on a connection of its own, with a session, asks what the pages asked in their first 40 s, \
             at the same intervals,\n  from another moment on; behind the load, which does not wait for what they do with answers\n\
             - rounds: {rounds} of {round_seconds} s with {dashboards} clients and {round_seconds} s without, in turn, \
             after one that is dropped; no browser, which\n  on a machine of its own would take nothing from the load"
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

impl Report<'_> {
    fn pages(&self) -> impl Iterator<Item = &Value> {
        self.measured.pages["pages"].as_array().into_iter().flatten()
    }

    fn rounds(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## The load with {} dashboards and without\n", self.args.dashboards)?;
        writeln!(text, "Medians over the rounds, least and most.\n")?;
        head(
            text,
            &["", "requests/s", "failed", "p50 ms", "p99 ms", "p99.9 ms", "CPU of the proxy", "questions/s"],
        )?;
        for (name, samples) in [("without", &self.measured.without), ("with", &self.measured.with)] {
            let cell = |value: &dyn Fn(&Sample) -> f64, places: usize| {
                let (least, median, most) = spread(&samples.iter().map(value).collect::<Vec<_>>());
                format!("**{median:.places$}** ({least:.places$}–{most:.places$})")
            };
            writeln!(
                text,
                "| {name} | {} | {} | {} | {} | {} | {} % | {} |",
                cell(&|sample| sample.rate, 0),
                samples.iter().map(|sample| sample.failed).sum::<u64>(),
                cell(&|sample| sample.p50, 2),
                cell(&|sample| sample.p99, 2),
                cell(&|sample| sample.p999, 2),
                cell(&|sample| sample.busy * 100.0, 1),
                cell(&|sample| sample.asked, 1),
            )?;
        }
        Ok(())
    }
}

fn heaps(page: &Value) -> Vec<f64> {
    page["heap_bytes"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}
