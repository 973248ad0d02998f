//! `cargo xtask bench balance`: what a pick of each algorithm costs as the set of endpoints grows.
//!
//! The measuring is done by `crates/balance/examples/pick_cost.rs`, built as a release; this runs it and makes the
//! report. Nothing but the balancers takes part: no proxy, no socket.

use std::fmt::Write;

use anyhow::{Result, bail};

use super::figures::{Gate, write_gates};
use super::frame::write_result;
use super::{machine, process};
use crate::command::{cargo, output};

/// Most nanoseconds per pick, with all endpoints ready.
const PICK_GATE: f64 = 1000.0;
/// Endpoints at which that holds.
const GATE_SIZE: usize = 10_000;
/// And for those that look at every endpoint: name and endpoints.
const LINEAR: &[(&str, usize)] = &[("rendezvous", 50)];

const HEAD: &str = "\
# Balancers

Nanoseconds per pick, in the release profile, through `dyn Balance` and `dyn Loads` as the product calls it; milliseconds
per rebuild, which is done once per change of the set or its weights, and not on a worker.

| algorithm | endpoints | no load | with load | bounded load | 1 of 100 ready | rebuild, ms |
|---|---|---|---|---|---|---|
";

#[derive(clap::Args)]
pub(crate) struct Balance {
    /// Fail when a gate is missed
    #[arg(long)]
    gate: bool,
}

/// One line of what the example prints.
struct Line<'a> {
    name: &'a str,
    size: usize,
    cells: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut fields = text.split('\t');
        let (name, size) = (fields.next()?, fields.next()?.parse().ok()?);
        Some(Self { name, size, cells: fields.collect() })
    }

    /// The slowest of what was measured with all endpoints ready, in nanoseconds.
    fn slowest(&self) -> Option<f64> {
        let (all_ready, _) = self.cells.split_at_checked(3)?;
        all_ready.iter().filter_map(|cell| cell.parse().ok()).max_by(f64::total_cmp)
    }
}

/// Runs the example, prints the report and writes it.
pub(crate) fn run(args: &Balance) -> Result<()> {
    output(&mut cargo("build --release --package thalweg-balance --example pick_cost"))?;
    let load = machine::load_average();
    let before = process::CpuTicks::now()?;
    let mut example = cargo("run --quiet --release --package thalweg-balance --example pick_cost");
    let printed = output(&mut example)?;
    let steal = before.stolen_until(&process::CpuTicks::now()?);
    let lines: Vec<Line<'_>> = printed.lines().filter_map(Line::read).collect();
    if lines.is_empty() {
        bail!("the example printed no figures:\n{printed}");
    }
    let gates = gates(&lines);
    let mut text = HEAD.to_owned();
    for line in &lines {
        writeln!(text, "| {} | {} | {} |", line.name, line.size, line.cells.join(" | "))?;
    }
    write_gates(&gates, &mut text)?;
    method(&mut text, load, steal)?;
    println!("{text}");
    write_result("balance", &text)?;
    if args.gate && !gates.iter().all(Gate::passes) {
        bail!("a gate was missed");
    }
    Ok(())
}

/// One gate for each algorithm: the slowest of its figures with all endpoints ready.
fn gates(lines: &[Line<'_>]) -> Vec<Gate> {
    let mut names: Vec<&str> = lines.iter().map(|line| line.name).collect();
    names.dedup();
    let gate = |name: &str| {
        let size = LINEAR.iter().find(|(linear, _)| *linear == name).map_or(GATE_SIZE, |(_, size)| *size);
        let line = lines.iter().find(|line| line.name == name && line.size == size);
        let title = format!("{name}, {size} endpoints, ns per pick");
        Gate { name: title, most: PICK_GATE, measured: line.and_then(Line::slowest) }
    };
    names.into_iter().map(gate).collect()
}

fn method(text: &mut String, load: f64, steal: f64) -> Result<()> {
    writeln!(text, "\n## Method\n")?;
    writeln!(text, "- machine: {}", machine::describe())?;
    writeln!(text, "- tree: {}", machine::commit())?;
    let steal = steal * 100.0;
    writeln!(text, "- load average before the run: {load:.2}; steal during it: {steal:.2} % of CPU time")?;
    text.push_str(
        "- weights 1, 2 and 3 in turn; 65,536 different keys in turn; one thread, tables in its caches as far as they fit\n\
         - no load: all ready, nothing in flight; with load: at each endpoint one request for each unit of weight and up to\n  \
         seven more, read from atomics; bounded load: the same and `bounded_load` 125 %\n\
         - 1 of 100 ready (with load): what an outage costs; no gate. With fewer than 100 endpoints one is ready\n\
         - medians: of 9 rounds of about 10 ms, and of 5 rebuilds\n\
         - the gate takes the slowest of the three columns with all endpoints ready\n",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_takes_the_slowest_figure_with_all_ready() {
        let printed = "ring\t10000\t5.0\t7.5\t6.0\t9000.0\t1.0\nrendezvous\t50\t300.0\t1200.0\t-\t1.0\t0.0";
        let lines: Vec<Line<'_>> = printed.lines().filter_map(Line::read).collect();
        let gates = gates(&lines);
        assert_eq!(gates.iter().map(|gate| gate.measured).collect::<Vec<_>>(), [Some(7.5), Some(1200.0)]);
        assert!(gates[0].passes() && !gates[1].passes());
        assert!(Line::read("warning: something").is_none());
    }

    #[test]
    fn what_was_not_measured_at_its_size_misses_its_gate() {
        let lines: Vec<Line<'_>> = Line::read("ring\t10\t5.0\t7.5\t6.0\t9.0\t1.0").into_iter().collect();
        assert!(!gates(&lines)[0].passes());
    }
}
