//! The report of requests at a fixed rate: times, CPU, what is held, the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::{CONNECTIONS, Ramp, Rounds, Sample};
use crate::bench::entrant::versions;
use crate::bench::figures::{Gate, head, spread};
use crate::bench::gateways::entrant::{Entrant, Gateway};
use crate::bench::{configs, frame};

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Ramp,
    pub(super) entrants: &'a [Entrant],
    pub(super) rounds: &'a [Rounds],
}

/// The median of a figure over rounds.
fn median(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    spread(&samples.iter().map(value).collect::<Vec<_>>()).1
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Requests at a fixed rate".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        let columns = [
            "",
            "mean ms",
            "σ ms (least–most)",
            "least ms",
            "p99 ms",
            "most ms (least–most)",
            "failed",
            "CPU s",
            "threads",
            "RSS MB",
            "bytes of a response",
        ];
        for Rounds { rate, samples } in self.rounds {
            writeln!(text, "\n## {rate} requests per second, for {} s\n", self.args.seconds)?;
            head(text, &columns)?;
            for (entrant, own) in self.entrants.iter().zip(samples) {
                let spreads = |value: fn(&Sample) -> f64| {
                    let (least, median, most) = spread(&own.iter().map(value).collect::<Vec<_>>());
                    format!("{median:.2} ({least:.2}–{most:.2})")
                };
                writeln!(
                    text,
                    "| {} | {:.2} | {} | {:.2} | {:.2} | {} | {} | {:.2} | {:.0} | {:.1} | {:.0} |",
                    entrant.name(),
                    median(own, |sample| sample.mean),
                    spreads(|sample| sample.deviation),
                    median(own, |sample| sample.least),
                    median(own, |sample| sample.p99),
                    spreads(|sample| sample.most),
                    own.iter().map(|sample| sample.failed).sum::<u64>(),
                    median(own, |sample| sample.cpu),
                    median(own, |sample| sample.threads as f64),
                    median(own, |sample| sample.resident as f64 / 1e6),
                    median(own, |sample| sample.bytes as f64)
                )?;
            }
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let place = |peer| self.entrants.iter().position(|entrant| entrant.peer == peer);
        let both = place(Gateway::Thalweg).zip(place(Gateway::Go));
        let mut gates = Vec::new();
        for Rounds { rate, samples } in self.rounds {
            let mut gate = |what: &str, value: fn(&Sample) -> f64| {
                let ratio =
                    |(own, go): (usize, usize)| median(&samples[own], value) / median(&samples[go], value);
                let name = format!("{what}, × Go's, {rate}/s");
                gates.push(Gate { name, most: 1.0, measured: both.map(ratio) });
            };
            gate("σ", |sample| sample.deviation);
            gate("most time", |sample| sample.most);
            gate("CPU", |sample| sample.cpu);
            gate("threads", |sample| sample.threads as f64);
            gate("RSS", |sample| sample.resident as f64);
        }
        let own = place(Gateway::Thalweg);
        let failed = |own: usize| {
            let samples = self.rounds.iter().flat_map(|rounds| &rounds.samples[own]);
            samples.map(|sample| sample.failed).sum::<u64>() as f64
        };
        gates.push(Gate { name: "failed requests".to_owned(), most: 0.0, measured: own.map(failed) });
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let asked: u64 =
            self.rounds.iter().flat_map(|rounds| rounds.samples.iter().flatten()).map(|s| s.requests).sum();
        writeln!(
            text,
            "- {} rounds after one that is dropped; each entrant alone, started anew in each; medians over rounds; {asked} \
             requests in all\n\
             - gateway and service (nginx, {} bytes from memory) on both CPUs; requests on {CONNECTIONS} kept connections in \
             turn; the client\n  has real-time priority, and times count from the moment at which a request was to be sent\n\
             - published, 10,000 requests in 100 s: σ 4.14 ms and most 208 ms of Spring Boot, 2.70 and 150 ms of Go; 7.2 % CPU, \
             46 threads\n  and 124.2 MB beside 0.1 %, 26 threads and 7.8 MB; the responses had 966.7 and 902 bytes",
            self.args.rounds,
            configs::BODY.len()
        )?;
        Ok(())
    }
}
