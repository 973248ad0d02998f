//! The report of small exchanges at a fixed rate: ratios, percentiles, the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::{ALONE, Latency, PERCENTILES, Rounds, Sample};
use crate::bench::contestant::{Contestant, Kind};
use crate::bench::entrant::{Entrant, versions};
use crate::bench::figures::{Gate, head, median_ratio, ratio_cell, ratios, row, spread};
use crate::bench::{PROXY_CPU, configs, frame};

/// Most p99.9 as a multiple of nginx's: 1.0, and what is noise on two shared cores.
const GATE: f64 = 1.1;
/// Most of the requests that were sent which may be without an answer at the end: with more, the rate is not what was
/// asked for.
const LATE: f64 = 0.01;
/// Percentiles that have a ratio.
const JUDGED: [&str; 3] = ["p50", "p99", "p99.9"];

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Latency,
    pub(super) contestants: &'a [Contestant],
    pub(super) rounds: &'a Rounds,
}

impl Report<'_> {
    /// The rounds of one, when it takes part.
    fn of(&self, kind: Kind) -> Option<&[Sample]> {
        let place = self.contestants.iter().position(|it| it.kind == kind)?;
        Some(&self.rounds.contestants[place])
    }

    fn lines(&self) -> impl Iterator<Item = (&str, &[Sample])> {
        let rounds = self.rounds.contestants.iter().map(Vec::as_slice);
        let proxies = self.contestants.iter().map(Entrant::name).zip(rounds);
        proxies.chain([(ALONE, self.rounds.alone.as_slice())])
    }
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Latency at a fixed rate".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "\n{} requests per second, {} % of what nginx can do, or less until it keeps up.",
            self.rounds.rate, self.args.share
        )?;
        if let Some(own) = self.of(Kind::Thalweg) {
            writeln!(text, "\n## Thalweg's time as a multiple of the other's\n")?;
            let others: Vec<_> = self.lines().filter(|(name, _)| *name != Kind::Thalweg.name()).collect();
            let names = others.iter().map(|(name, _)| *name);
            head(text, &[""].into_iter().chain(names).collect::<Vec<_>>())?;
            for percentile in JUDGED {
                let cell =
                    |(_, other): &(&str, &[Sample])| ratio_cell(&ratios(own, other, |it| it.at(percentile)));
                row(text, percentile, others.iter().map(cell))?;
            }
        }
        writeln!(text, "\n## Microseconds, medians over rounds\n")?;
        head(text, &[&[""], &PERCENTILES[..], &["most (least–most)", "answered/s", "failed"]].concat())?;
        for (name, samples) in self.lines() {
            let median =
                |value: &dyn Fn(&Sample) -> f64| spread(&samples.iter().map(value).collect::<Vec<_>>());
            let percentiles = PERCENTILES.iter().map(|name| format!("{:.0}", median(&|it| it.at(name)).1));
            let (least, middle, most) = median(&|it| it.most);
            let answered = median(&|it| it.answered as f64 / self.args.seconds as f64).1;
            let failed = samples.iter().map(|it| it.failed).sum::<u64>();
            let rest =
                [format!("{middle:.0} ({least:.0}–{most:.0})"), format!("{answered:.0}"), failed.to_string()];
            row(text, name, percentiles.chain(rest))?;
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let own = self.of(Kind::Thalweg);
        let both = own.zip(self.of(Kind::Nginx));
        let ratio = both.map(|(own, nginx)| median_ratio(own, nginx, |it| it.at("p99.9")));
        let failed = own.map(|own| own.iter().map(|it| it.failed).sum::<u64>() as f64);
        let sent = (self.rounds.rate * self.args.seconds) as f64;
        let late = |own: &[Sample]| {
            spread(&own.iter().map(|it| 1.0 - it.answered as f64 / sent).collect::<Vec<_>>()).1
        };
        vec![
            Gate { name: "share that is late by seconds".to_owned(), most: LATE, measured: own.map(late) },
            Gate { name: "p99.9, × nginx's".to_owned(), most: GATE, measured: ratio },
            Gate { name: "failed requests".to_owned(), most: 0.0, measured: failed },
        ]
    }

    fn versions(&self) -> Vec<String> {
        versions(self.contestants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        writeln!(
            text,
            "- proxy on CPU {PROXY_CPU}; client and backend (nginx, {} bytes from memory) on the other one\n\
             - {} interleaved rounds of {} s per contestant after one that is dropped, each in another order; all stay up\n\
             - {} kept connections, asked in turn; each request leaves at its own time whatever the pace of answers, and \
             its time counts\n  from then; one that finds its connection busy waits for it\n\
             - equal work as in `bench small`",
            configs::BODY.len(),
            self.args.rounds,
            self.args.seconds,
            self.args.connections
        )?;
        Ok(())
    }
}
