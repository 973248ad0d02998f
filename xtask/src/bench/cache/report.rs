//! The report: CPU per hit, memory of full caches, hit ratios; the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::Cache;
use super::entrant::{Entrant, Peer};
use super::hits::{Rounds, Sample};
use super::memory::Fill;
use super::zipf::Ratio;
use crate::bench::entrant::versions;
use crate::bench::figures::{Gate, head, median_ratio, ratio_cell, ratios, row, spread};
use crate::bench::frame;
use crate::bench::layout::Layout;

/// Most CPU per hit, as a multiple of nginx's: 1.2 times as many hits per CPU second.
const CPU_GATE: f64 = 0.83;
/// Most resident memory that objects bring, as a multiple of the configured size.
const MEMORY_GATE: f64 = 1.1;
/// Most misses, as a multiple of those of a simulated LRU of as many objects.
const MISSES_GATE: f64 = 1.0;

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Cache,
    pub(super) entrants: &'a [Entrant],
    pub(super) hits: &'a [Rounds],
    /// By entrant; empty when they were not measured.
    pub(super) fills: &'a [Fill],
    pub(super) ratios: &'a [Ratio],
}

impl Report<'_> {
    fn place(&self, peer: Peer) -> Option<usize> {
        self.entrants.iter().position(|entrant| entrant.peer == peer)
    }

    fn hits(&self, text: &mut String) -> Result<()> {
        for Rounds { layout, bytes, samples } in self.hits {
            writeln!(text, "\n## Hits of {bytes} bytes: {}\n", layout.heading())?;
            head(
                text,
                &[
                    "",
                    "hits per CPU second",
                    "CPU µs",
                    "ratio",
                    "per second",
                    "p99 ms",
                    "busy",
                    "hits",
                    "failed",
                ],
            )?;
            for (i, (entrant, own)) in self.entrants.iter().zip(samples).enumerate() {
                let of = |value: fn(&Sample) -> f64| spread(&own.iter().map(value).collect::<Vec<_>>());
                let (least, middle, most) = of(Sample::per_cpu_second);
                let ratio = match i {
                    0 => "–".to_owned(),
                    _ => ratio_cell(&ratios(&samples[0], own, cpu)),
                };
                let failed: u64 = own.iter().map(|sample| sample.outcome.errors).sum();
                let cells = [
                    format!("{middle:.0} ({least:.0}–{most:.0})"),
                    format!("{:.2}", of(cpu).1),
                    ratio,
                    format!("{:.0}", of(Sample::rate).1),
                    format!("{:.2}", of(|sample| sample.outcome.p99.as_secs_f64() * 1e3).1),
                    format!("{:.0} %", of(|sample| sample.busy).1 * 100.0),
                    format!("{:.1} %", of(|sample| sample.hits).0 * 100.0),
                    failed.to_string(),
                ];
                row(text, entrant.name(), cells.into_iter())?;
            }
        }
        Ok(())
    }

    fn fills(&self, text: &mut String) -> Result<()> {
        if self.fills.is_empty() {
            return Ok(());
        }
        writeln!(text, "\n## {} objects of 1,000 bytes into {} MiB\n", self.args.objects, self.args.memory)?;
        head(
            text,
            &[
                "",
                "asked for",
                "s",
                "CPU µs per miss",
                "RSS before",
                "RSS after",
                "files",
                "grown / configured",
                "held",
                "bytes each",
                "failed",
            ],
        )?;
        for (entrant, fill) in self.entrants.iter().zip(self.fills) {
            let mb = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
            let cells = [
                fill.asked.to_string(),
                format!("{:.0}", fill.seconds),
                format!("{:.1}", fill.cpu_us),
                mb(fill.before),
                mb(fill.after),
                mb(fill.files),
                format!("{:.2}", self.of_configured(fill)),
                fill.held.to_string(),
                format!("{:.0}", fill.per_object()),
                fill.failed.to_string(),
            ];
            row(text, entrant.name(), cells.into_iter())?;
        }
        Ok(())
    }

    fn ratios(&self, text: &mut String) -> Result<()> {
        if self.ratios.is_empty() {
            return Ok(());
        }
        let args = self.args;
        writeln!(text, "\n## Zipf's law: {} objects into {} MiB\n", args.zipf_objects, args.zipf_memory)?;
        head(text, &["", "exponent", "requests", "hits", "held", "LRU", "S3-FIFO"])?;
        for ratio in self.ratios {
            let percent = |share: f64| format!("{:.2} %", share * 100.0);
            let cells = [
                format!("{:.1}", ratio.exponent),
                ratio.requests.to_string(),
                percent(ratio.hits),
                ratio.held.to_string(),
                percent(ratio.lru),
                percent(ratio.s3_fifo),
            ];
            row(text, self.entrants[ratio.entrant].name(), cells.into_iter())?;
        }
        Ok(())
    }

    fn of_configured(&self, fill: &Fill) -> f64 {
        fill.grown() as f64 / (self.args.memory << 20) as f64
    }
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Stored responses".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "\nMedians over rounds (least–most); ratio: CPU per hit of {} as a multiple of the other's, round by round;\n\
             hits: the least share of a round that the origin was not asked for.",
            self.entrants[0].name()
        )?;
        self.hits(text)?;
        self.fills(text)?;
        self.ratios(text)
    }

    fn gates(&self) -> Vec<Gate> {
        let (own, nginx) = (self.place(Peer::Thalweg), self.place(Peer::Nginx));
        let mut gates = Vec::new();
        for Rounds { layout, bytes, samples } in self.hits {
            let both = own.zip(nginx);
            let measured = both.map(|(own, other)| median_ratio(&samples[own], &samples[other], cpu));
            let name = format!("CPU per hit of {bytes} bytes, {}, × nginx's", layout.name());
            gates.push(Gate { name, most: CPU_GATE, measured });
        }
        if !self.fills.is_empty() {
            let measured = own.map(|own| self.of_configured(&self.fills[own]));
            let name = "memory that objects bring, × the configured size".to_owned();
            gates.push(Gate { name, most: MEMORY_GATE, measured });
        }
        for ratio in self.ratios.iter().filter(|ratio| Some(ratio.entrant) == own) {
            let measured = Some((1.0 - ratio.hits) / (1.0 - ratio.lru).max(1e-9));
            let name = format!("misses, Zipf {:.1}, × those of a simulated LRU", ratio.exponent);
            gates.push(Gate { name, most: MISSES_GATE, measured });
        }
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        let shared = args.layouts.contains(&Layout::Shared);
        writeln!(
            text,
            "- hits: wrk -t1 with {} connections over 1,000 objects, {} interleaved rounds of {} s, each in another order,\n  \
             after one that is dropped and that stores the objects; all entrants stay up",
            args.connections, args.rounds, args.seconds
        )?;
        if shared {
            text.push_str(
                "- both CPUs: two workers of each proxy, beside wrk and the origin on the same CPUs\n",
            );
        }
        text.push_str(
            "- CPU: user and kernel time of all the proxy's processes over the run\n\
             - nginx: its files are on tmpfs, opened once and sent by the kernel (`open_file_cache`, `sendfile`)\n\
             - memory: four clients that pipeline ask for each object once; files of a cache count as blocks; held: how\n  \
             many of 4,000 objects the origin was not asked for afterwards\n\
             - Zipf: the same sequence for all; LRU and S3-FIFO are simulated with as many objects as were held at the end\n",
        );
        Ok(())
    }
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::bench::frame::Report as _;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        cache: Cache,
    }

    #[test]
    fn each_goal_is_a_gate() {
        let args = Line::parse_from(["bench", "--memory", "1"]).cache;
        let entrants = [Peer::Thalweg, Peer::Nginx].map(Entrant::unknown);
        let sample = |cpu_us| vec![Sample { cpu_us, hits: 1.0, ..Sample::default() }];
        let hits = [Rounds { layout: Layout::Apart, bytes: 1000, samples: [8.0, 10.0].map(sample).to_vec() }];
        let fill = Fill { after: 2 << 20, held: 1000, ..Fill::default() };
        let ratio = Ratio { exponent: 0.9, hits: 0.6, lru: 0.5, s3_fifo: 0.6, ..Ratio::default() };
        let report =
            Report { args: &args, entrants: &entrants, hits: &hits, fills: &[fill, fill], ratios: &[ratio] };
        let measured: Vec<_> =
            report.gates().iter().map(|gate| (gate.measured.unwrap(), gate.passes())).collect();
        assert_eq!(measured, [(0.8, true), (2.0, false), (0.8, true)]);
        let mut text = String::new();
        report.figures(&mut text).unwrap();
        for part in [
            "| thalweg | 125000 (125000–125000) | 8.00 | –",
            "| 2.00 | 1000 | 2097 |",
            "| 60.00 % | 0 | 50.00 %",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
