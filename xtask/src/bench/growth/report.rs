//! The report: a table for each figure of each thing that grows, a column for each size; reloads; gates; method.

use std::fmt::Write;

use anyhow::Result;

use super::reloads::{PERIOD, RATE};
use super::{CONNECTIONS, Grown, Growth, Reloads, Sized};
use crate::bench::costs::{Entrant, Peer};
use crate::bench::entrant::versions;
use crate::bench::figures::{Gate, head, median_ratio, row, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, frame};

/// Most CPU per exchange with the largest size, as a multiple of that with the smallest.
const GROWTH_GATE: f64 = 1.10;

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Growth,
    pub(super) entrants: &'a [Entrant],
    pub(super) grown: &'a [Grown],
    /// By entrant.
    pub(super) reloads: &'a [Reloads],
}

/// How a figure is shown.
type Shown = fn(&Sized) -> String;

impl Report<'_> {
    /// One figure: a row for each entrant, a column for each size.
    fn table(&self, text: &mut String, grown: &Grown, (what, shown): (&str, Shown)) -> Result<()> {
        writeln!(text, "\n### {what}, {}\n", grown.what.name())?;
        let sizes = self.args.sizes.iter().map(ToString::to_string);
        head(text, &[String::new()].into_iter().chain(sizes).collect::<Vec<_>>())?;
        for (entrant, sized) in self.entrants.iter().zip(&grown.of) {
            row(text, entrant.name(), sized.iter().map(shown))?;
        }
        Ok(())
    }

    fn reloads(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## {} reloads under load\n", self.args.reloads)?;
        let columns = [
            "",
            "failed of requests",
            "failed without",
            "p99 ms",
            "p99 ms without",
            "most ms",
            "most ms without",
            "RSS MB before",
            "RSS MB after",
            "start ms",
            "binary MB",
        ];
        head(text, &columns)?;
        let ms = |time: std::time::Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        for (entrant, of) in self.entrants.iter().zip(self.reloads) {
            let cells = [
                format!("{} of {}", of.with.failed, of.with.requests),
                of.without.failed.to_string(),
                ms(of.with.p99),
                ms(of.without.p99),
                ms(of.with.most),
                ms(of.without.most),
                mb(of.resident[0]),
                mb(of.resident[1]),
                ms(of.started_in),
                mb(of.binary),
            ];
            row(text, entrant.name(), cells.into_iter())?;
        }
        Ok(())
    }
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Cost as work grows".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        let cpu: Shown = |sized| {
            let (least, median, most) = spread(&sized.samples.iter().map(cpu).collect::<Vec<_>>());
            format!("{median:.2} ({least:.2}–{most:.2})")
        };
        let resident: Shown = |sized| mb(sized.resident);
        let start: Shown = |sized| format!("{:.1}", sized.started_in.as_secs_f64() * 1e3);
        let failed: Shown =
            |sized| sized.samples.iter().map(|sample| sample.outcome.errors).sum::<u64>().to_string();
        let figures: [(&str, Shown); 4] = [
            ("CPU µs per exchange", cpu),
            ("RSS MB", resident),
            ("Start to first answer, ms", start),
            ("Failed", failed),
        ];
        for grown in self.grown {
            writeln!(text, "\n## More {}", grown.what.name())?;
            for figure in figures {
                self.table(text, grown, figure)?;
            }
        }
        if !self.reloads.is_empty() {
            self.reloads(text)?;
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let own = self.entrants.iter().position(|entrant| entrant.peer == Peer::Thalweg);
        let mut gates = Vec::new();
        for grown in self.grown {
            let ends = own.and_then(|own| grown.of.get(own)?.first().zip(grown.of[own].last()));
            gates.push(Gate {
                name: format!("CPU per exchange, most {} × fewest", grown.what.name()),
                most: GROWTH_GATE,
                measured: ends.map(|(few, many)| median_ratio(&many.samples, &few.samples, cpu)),
            });
        }
        if self.args.reloads > 0 {
            let failed = own.and_then(|own| self.reloads.get(own)).map(|of| of.with.failed as f64);
            gates.push(Gate { name: "failed requests, reloads".to_owned(), most: 0.0, measured: failed });
        }
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "- proxy with one thread on CPU {PROXY_CPU}; nginx with 67 bytes and wrk -t1 with {CONNECTIONS} connections on CPU \
             {LOAD_CPU}\n\
             - medians over {} rounds of {} s per size, each in another order, after one that is dropped (least–most); all sizes \
             of one\n  program stay up, programs take turns with what grows",
            self.args.rounds, self.args.seconds
        )?;
        writeln!(
            text,
            "- routes: ten paths of a host; the route in the middle is asked for. HAProxy chooses by a map\n\
             - endpoints: addresses of loopback, which all are the one backend; each is asked in turn\n\
             - connections: idle ones that had one exchange, beside those of the load\n\
             - RSS: of all processes, after the rounds\n\
             - reloads: SIGHUP (HAProxy: SIGUSR2 to its master) every {} ms, configurations of 100 and 110 endpoints in turn; {RATE} \
             requests/s\n  at a fixed rate, times from the moment at which a request was due; the same load without reloads before it\n\
             - the client of the reloads connects again where a connection without a request is closed; a request on a connection that \
             is\n  closed has failed, and is not sent again\n\
             - start and binary: with 100 endpoints, on disk",
            PERIOD.as_millis()
        )?;
        Ok(())
    }
}

fn mb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn cpu(sample: &crate::bench::rounds::Sample) -> f64 {
    sample.cpu_us
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::bench::frame::Report as _;
    use crate::bench::growth::Grows;
    use crate::bench::rounds::Sample;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        growth: Growth,
    }

    #[test]
    fn the_most_are_compared_with_the_fewest() {
        let args = Line::parse_from(["bench", "--sizes", "10,1000"]).growth;
        let entrants = [Peer::Thalweg].map(Entrant::unknown);
        let sized = |cpu_us| Sized {
            samples: vec![Sample { cpu_us, ..Sample::default() }],
            started_in: Duration::from_millis(12),
            resident: 20_000_000,
        };
        let grown = [Grown { what: Grows::Routes, of: vec![vec![sized(10.0), sized(12.0)]] }];
        let report = Report { args: &args, entrants: &entrants, grown: &grown, reloads: &[] };
        let gates = report.gates();
        assert_eq!(gates[0].measured, Some(1.2));
        assert!(!gates[0].passes() && gates[1].measured.is_none());
        let mut text = String::new();
        report.figures(&mut text).unwrap();
        assert!(text.contains("|  | 10 | 1000 |"), "{text}");
        assert!(text.contains("| thalweg | 10.00 (10.00–10.00) | 12.00 (12.00–12.00) |"), "{text}");
        assert!(text.contains("| thalweg | 20.0 | 20.0 |"), "{text}");
    }
}
