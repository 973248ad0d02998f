//! The report: bytes of text per CPU second, what is left of them; the gate, the method.

use std::fmt::Write;

use anyhow::Result;

use super::entrant::{Entrant, Peer};
use super::{Compress, Sample};
use crate::bench::entrant::versions;
use crate::bench::figures::{Gate, head, median_ratio, ratio_cell, ratios, row, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, frame};

/// Most CPU per response, as a multiple of nginx's with the same coding.
const CPU_GATE: f64 = 1.0;

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Compress,
    pub(super) entrants: &'a [Entrant],
    /// Bytes of one response's body, by entrant.
    pub(super) sizes: &'a [usize],
    /// By entrant, then by round.
    pub(super) samples: &'a [Vec<Sample>],
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Compressed responses".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "\n{} bytes of text at level {}. Medians over rounds (least–most); ratio: CPU per response of {} as a multiple\n\
             of the other's, round by round; left: bytes of the body on the wire as a share of the text.\n",
            self.args.bytes,
            self.args.level,
            self.entrants[0].name()
        )?;
        head(
            text,
            &["", "MB of text per CPU second", "CPU µs per response", "ratio", "left", "busy", "failed"],
        )?;
        for (i, (entrant, samples)) in self.entrants.iter().zip(self.samples).enumerate() {
            let of = |value: fn(&Sample) -> f64| spread(&samples.iter().map(value).collect::<Vec<_>>());
            let (least, throughput, most) = of(|sample| sample.throughput);
            let ratio = match i {
                0 => "–".to_owned(),
                _ => ratio_cell(&ratios(&self.samples[0], samples, cpu)),
            };
            let failed: u64 = samples.iter().map(|sample| sample.failed).sum();
            let cells = [
                format!("{throughput:.1} ({least:.1}–{most:.1})"),
                format!("{:.1}", of(cpu).1),
                ratio,
                format!("{:.1} %", self.sizes[i] as f64 / self.args.bytes as f64 * 100.0),
                format!("{:.0} %", of(|sample| sample.busy).1 * 100.0),
                failed.to_string(),
            ];
            row(text, entrant.name(), cells.into_iter())?;
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let place = |peer| self.entrants.iter().position(|entrant| entrant.peer == peer);
        let both = place(Peer::Thalweg).zip(place(Peer::Nginx));
        let ratio = both.map(|(own, other)| median_ratio(&self.samples[own], &self.samples[other], cpu));
        let failed: u64 = self.samples.iter().flatten().map(|sample| sample.failed).sum();
        let name = "CPU per response, gzip, × nginx's".to_owned();
        vec![
            Gate { name, most: CPU_GATE, measured: ratio },
            Gate { name: "failed responses".to_owned(), most: 0.0, measured: Some(failed as f64) },
        ]
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- proxy with one thread on CPU {PROXY_CPU}; nginx with the text and wrk -t1 with {} connections on CPU {LOAD_CPU}",
            args.connections
        )?;
        writeln!(
            text,
            "- {} interleaved rounds of {} s per entrant, each in another order, after one that is dropped; all of them stay up",
            args.rounds, args.seconds
        )?;
        text.push_str(
            "- the text: words of unequal frequency within tags, the same in every run, `text/html` with a known length\n\
             - a level means something else to each algorithm; between programs it is the same scale for gzip only\n\
             - CPU: user and kernel time of all the proxy's processes over the run, passing the response on included\n",
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
        compress: Compress,
    }

    #[test]
    fn the_same_coding_of_the_other_is_the_measure() {
        let args = Line::parse_from(["bench", "--bytes", "1000"]).compress;
        let entrants = [Peer::Thalweg, Peer::Nginx, Peer::ThalwegBr].map(Entrant::unknown);
        let sample = |cpu_us| vec![Sample { throughput: 1000.0 / cpu_us, cpu_us, busy: 1.0, failed: 0 }];
        let samples = [10.0, 8.0, 40.0].map(sample);
        let report = Report { args: &args, entrants: &entrants, sizes: &[250, 240, 200], samples: &samples };
        let measured: Vec<_> = report.gates().iter().map(|gate| (gate.measured, gate.passes())).collect();
        assert_eq!(measured, [(Some(1.25), false), (Some(0.0), true)]);
        let mut text = String::new();
        report.figures(&mut text).unwrap();
        assert!(
            text.contains("| nginx, gzip | 125.0 (125.0–125.0) | 8.0 | **1.25** (1.25–1.25) | 24.0 % |"),
            "{text}"
        );
    }
}
