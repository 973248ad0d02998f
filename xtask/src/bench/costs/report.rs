//! The report: CPU per exchange with each feature, beside the plain exchange of the same program.

use std::fmt::Write;

use anyhow::Result;

use super::feature::Feature;
use super::{Costs, Entrant, Peer, Rounds, Sample};
use crate::bench::entrant::versions;
use crate::bench::figures::{Gate, head, ratio_cell, ratios, row, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, frame};

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Costs,
    pub(super) entrants: &'a [Entrant],
    pub(super) rounds: &'a [Rounds],
}

impl Report<'_> {
    /// The rounds of one entrant.
    fn of(&self, entrant: usize) -> impl Iterator<Item = &Rounds> {
        self.rounds.iter().filter(move |rounds| rounds.of == entrant)
    }
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "What features cost per exchange".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "\n{} exchanges per second on {} connections. Medians over rounds (least–most); ratio: CPU per exchange as a\n\
             multiple of that of the same program without the feature, round by round. A feature that a program does not\n\
             have is left out.",
            self.args.rate, self.args.connections
        )?;
        for (i, entrant) in self.entrants.iter().enumerate() {
            writeln!(text, "\n## {}\n", entrant.name())?;
            head(text, &["", "CPU µs per exchange", "ratio", "p50 ms", "p99 ms", "failed", "answered"])?;
            let plain = self.of(i).find(|rounds| rounds.feature == Feature::Plain);
            for Rounds { feature, samples, .. } in self.of(i) {
                let of = |value: fn(&Sample) -> f64| spread(&samples.iter().map(value).collect::<Vec<_>>());
                let (least, median, most) = of(cpu);
                let ratio = match plain {
                    Some(plain) if *feature != Feature::Plain => {
                        ratio_cell(&ratios(samples, &plain.samples, cpu))
                    }
                    _ => "–".to_owned(),
                };
                let due = (self.args.rate as u64 * self.args.seconds) as f64;
                let cells = [
                    format!("{median:.2} ({least:.2}–{most:.2})"),
                    ratio,
                    format!("{:.2}", of(|sample| sample.outcome.p50).1),
                    format!("{:.2}", of(|sample| sample.outcome.p99).1),
                    samples.iter().map(|sample| sample.outcome.failed).sum::<u64>().to_string(),
                    format!("{:.1} %", of(|sample| sample.outcome.requests as f64).1 / due * 100.0),
                ];
                row(text, feature.name(), cells.into_iter())?;
            }
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let own = self.entrants.iter().position(|entrant| entrant.peer == Peer::Thalweg);
        let failed = |own| {
            let samples = self.of(own).flat_map(|rounds| &rounds.samples);
            samples.map(|sample| sample.outcome.failed).sum::<u64>() as f64
        };
        vec![Gate { name: "failed exchanges".to_owned(), most: 0.0, measured: own.map(failed) }]
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "- proxy with one thread on CPU {PROXY_CPU}; nginx with 67 bytes, the sink of traces and h2load on CPU {LOAD_CPU}\n\
             - {} interleaved rounds of {} s per entrant, each in another order, after one that is dropped; all of them stay up",
            self.args.rounds, self.args.seconds
        )?;
        text.push_str(
            "- CPU: user and kernel time of all the proxy's processes over the run, that of its control thread included\n\
             - a time counts from the moment at which the request was sent; answered: exchanges as a share of those that were due\n\
             - HTTP/2 has one stream at once on each connection, so that it does what HTTP/1.1 does; `bench tls` has many streams,\n  \
             and handshakes\n\
             - basic auth: argon2id for Thalweg, which remembers a login that was right; a plain password for nginx and HAProxy; API key: a comparison of a field for those\n\
             - HAProxy's cache, which stores nothing without a lifetime, is given one with the response\n\
             - a dashboard: four views asked every second by a client; metrics: one scrape every second\n",
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
    use crate::bench::load::rate::Outcome;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        costs: Costs,
    }

    #[test]
    fn a_feature_is_compared_with_the_plain_exchange_of_the_same_program() {
        let args = Line::parse_from(["bench", "--rate", "100", "--seconds", "1"]).costs;
        let entrants = [Peer::Thalweg, Peer::Nginx].map(Entrant::unknown);
        let rounds = |of, feature, cpu_us, failed| {
            let outcome = Outcome { requests: 50, failed, p50: 1.0, p99: 2.0, p999: 3.0 };
            Rounds { of, feature, samples: vec![Sample { cpu_us, outcome }] }
        };
        let rounds = [
            rounds(0, Feature::Plain, 10.0, 0),
            rounds(0, Feature::Jwt, 15.0, 2),
            rounds(1, Feature::Plain, 20.0, 9),
            rounds(1, Feature::Log, 25.0, 0),
        ];
        let report = Report { args: &args, entrants: &entrants, rounds: &rounds };
        assert_eq!(report.gates()[0].measured, Some(2.0));
        let mut text = String::new();
        report.figures(&mut text).unwrap();
        let jwt = "| JWT | 15.00 (15.00–15.00) | **1.50** (1.50–1.50) | 1.00 | 2.00 | 2 | 50.0 % |";
        assert!(text.contains(jwt), "{text}");
        assert!(text.contains("| **1.25** (1.25–1.25) |"), "{text}");
    }
}
