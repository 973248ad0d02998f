//! The report: CPU for a connection, an exchange, a gigabyte; memory of idle connections; the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::case::Case;
use super::entrant::{Entrant, Peer};
use super::{Connections, Rounds, Sample};
use crate::bench::entrant::{names, versions};
use crate::bench::figures::{Gate, head, median_ratio, ratio_cell, ratios, row, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, configs, frame, kernel_setting};

/// Most CPU as a multiple of what HAProxy needs in the better of its modes.
const CPU_GATE: f64 = 1.0;
/// Most resident bytes of an idle connection, which has two sockets.
const IDLE_GATE: f64 = 2048.0;

/// A figure of a sample.
type Value = fn(&Sample) -> f64;

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Connections,
    pub(super) entrants: &'a [Entrant],
    pub(super) rounds: &'a [Rounds],
    /// Bytes per idle connection, by entrant.
    pub(super) idle: &'a [f64],
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Whole connections".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        for rounds in self.rounds {
            self.table(text, rounds)?;
        }
        if self.idle.is_empty() {
            return Ok(());
        }
        let names = names(self.entrants);
        text.push_str("\n## Memory\n\n");
        head(text, &[&[""], names.as_slice()].concat())?;
        let name = format!("RSS per idle connection, of {}", self.args.idle);
        row(text, &name, self.idle.iter().map(|bytes| format!("{bytes:.0} B")))
    }

    fn gates(&self) -> Vec<Gate> {
        let own = self.entrants.iter().position(|entrant| entrant.peer == Peer::Thalweg);
        let gate = |case: &Case, of: &str, value: Value| {
            let rounds = self.rounds.iter().find(|rounds| rounds.case == *case);
            let ratio = rounds.zip(own).and_then(|(rounds, own)| {
                let other = self.best(rounds, value)?;
                Some(median_ratio(&rounds.samples[own], &rounds.samples[other], value))
            });
            let name = format!("CPU{of}, × haproxy's in the better of its modes, {}", case.name());
            Gate { name, most: CPU_GATE, measured: ratio }
        };
        let own_cpu = self.args.cases.iter().map(|case| gate(case, "", |sample| sample.cpu));
        // Where connections or exchanges are counted, most of it is the load and the backend.
        let large = self.args.cases.iter().filter(|case| case.is_large());
        let mut gates: Vec<_> =
            own_cpu.chain(large.map(|case| gate(case, " of both CPUs", |sample| sample.both))).collect();
        if self.args.idle > 0 {
            let bytes = own.and_then(|own| self.idle.get(own).copied());
            gates.push(Gate {
                name: "RSS per idle connection, B".to_owned(),
                most: IDLE_GATE,
                measured: bytes,
            });
        }
        let failed = own.map(|own| {
            let samples = self.rounds.iter().flat_map(|rounds| &rounds.samples[own]);
            samples.map(|sample| sample.failed).sum::<u64>() as f64
        });
        gates.push(Gate { name: "failed exchanges".to_owned(), most: 0.0, measured: failed });
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- proxy with one thread on CPU {PROXY_CPU}; load and backends on CPU {LOAD_CPU}: nginx ({} bytes from memory) \
             before ab\n  and wrk, `bench/peers/ends` before itself, which checks every byte",
            configs::BODY.len()
        )?;
        writeln!(
            text,
            "- {} interleaved rounds of {} s or {} connections, each in another order, after one that is dropped; all \
             entrants stay up",
            args.rounds, args.seconds, args.requests
        )?;
        text.push_str(
            "- `protocol: tcp` and `mode tcp`, no access log; \"splice\": `option splice-auto`. The product measures, counts and \
             records\n  what it always does\n\
             - CPU: user and kernel time of all the proxy's processes over the run, by what was done; a gigabyte is 10⁹ bytes of \
             body\n  that arrived whole\n\
             - both CPUs: whatever they did in that time, so also load and backends. On loopback the kernel sends what waits in a\n  \
             full socket when the acknowledgement comes, on the CPU of who acknowledges: what a gigabyte costs moves between\n  \
             the proxy and both ends with who is slower, and only the sum stays the same\n\
             - memory: growth of a fresh process over connections that had one exchange each, after 2 s\n",
        );
        writeln!(
            text,
            "- TCP: tcp_rmem {}, tcp_wmem {}, tcp_tw_reuse {}",
            kernel_setting("tcp_rmem"),
            kernel_setting("tcp_wmem"),
            kernel_setting("tcp_tw_reuse")
        )?;
        Ok(())
    }
}

impl Report<'_> {
    /// The mode of HAProxy that needs less CPU.
    fn best(&self, rounds: &Rounds, value: Value) -> Option<usize> {
        let modes = (0..self.entrants.len()).filter(|i| self.entrants[*i].peer != Peer::Thalweg);
        let median = |i: usize| spread(&rounds.samples[i].iter().map(value).collect::<Vec<_>>()).1;
        modes.min_by(|a, b| median(*a).total_cmp(&median(*b)))
    }

    fn table(&self, text: &mut String, rounds: &Rounds) -> Result<()> {
        writeln!(text, "\n## {}\n", rounds.case.heading(self.args))?;
        writeln!(
            text,
            "Medians over rounds (least–most); ratio: CPU of {} as a multiple of the other's, round by round.\n",
            self.entrants[0].name()
        )?;
        let each = rounds.case.unit();
        head(text, &["", each, "ratio", "both CPUs", "ratio of both", "per second", "busy", "failed"])?;
        for (i, (entrant, samples)) in self.entrants.iter().zip(&rounds.samples).enumerate() {
            let of = |value: Value| spread(&samples.iter().map(value).collect::<Vec<_>>());
            let time = |value: Value| {
                let (least, median, most) = of(value);
                format!("{median:.1} ({least:.1}–{most:.1})")
            };
            let ratio = |value: Value| match i {
                0 => "–".to_owned(),
                _ => ratio_cell(&ratios(&rounds.samples[0], samples, value)),
            };
            let rate = of(|sample| sample.rate).1;
            let decimals = if rate < 100.0 { 2 } else { 0 };
            let failed: u64 = samples.iter().map(|sample| sample.failed).sum();
            let cells = [
                time(|sample| sample.cpu),
                ratio(|sample| sample.cpu),
                time(|sample| sample.both),
                ratio(|sample| sample.both),
                format!("{rate:.decimals$}"),
                format!("{:.0} %", of(|sample| sample.busy).1 * 100.0),
                failed.to_string(),
            ];
            row(text, entrant.name(), cells.into_iter())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::bench::frame::Report as _;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        connections: Connections,
    }

    #[test]
    fn the_better_mode_of_the_other_is_the_measure() {
        let args = Line::parse_from(["bench", "--cases", "each,download", "--rounds", "1"]).connections;
        let entrants = Peer::ALL.map(Entrant::unknown);
        let sample = |cpu| vec![Sample { cpu, both: 100.0 - cpu, rate: 1.0, busy: 1.0, failed: 0 }];
        let rounds = [Case::Each, Case::Download]
            .map(|case| Rounds { case, samples: [30.0, 40.0, 25.0].map(sample).to_vec() });
        let idle = [2000.0, 4000.0, 3000.0];
        let report = Report { args: &args, entrants: &entrants, rounds: &rounds, idle: &idle };
        let measured: Vec<_> = report.gates().iter().map(|gate| (gate.measured, gate.passes())).collect();
        // The other mode is the better one where both CPUs count.
        let of_both = (Some(70.0 / 60.0), false);
        let own = (Some(1.2), false);
        assert_eq!(measured, [own, own, of_both, (Some(2000.0), true), (Some(0.0), true)]);
        let mut text = String::new();
        report.figures(&mut text).unwrap();
        let line = "| haproxy | 40.0 (40.0–40.0) | **0.75** (0.75–0.75) | 60.0 (60.0–60.0) | \
                    **1.17** (1.17–1.17) | 1.00 | 100 % | 0 |";
        assert!(text.contains(line), "{text}");
    }
}
