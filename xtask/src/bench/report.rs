//! The report of small exchanges: ratios first, then what they come from; the gates, the method.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use super::contestant::{Contestant, Kind};
use super::figures::{Gate, row, spread};
use super::frame;
use super::rounds::{Interleaved, Rounds, Sample};
use super::single::{ROUTES, Single};
use super::{LOAD_CPU, PROXY_CPU, Small, configs};

/// Most CPU per exchange, as a multiple of another contestant's.
const CPU_GATES: &[(Kind, f64)] = &[(Kind::Nginx, 0.85), (Kind::Haproxy, 0.70), (Kind::Floor, 1.25)];
/// Most resident bytes per idle connection.
const IDLE_GATE: f64 = 1024.0;
/// Most CPU per exchange with many routes, as a multiple of that with few.
const ROUTES_GATE: f64 = 1.10;
/// Most resident bytes at start.
const START_GATE: u64 = 15_000_000;

/// Everything that was measured.
pub(crate) struct Report<'a> {
    pub(crate) args: &'a Small,
    pub(crate) contestants: &'a [Contestant],
    pub(crate) rounds: &'a Interleaved,
    pub(crate) single: &'a Single,
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Small kept-alive exchanges".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        self.ratios(text)?;
        for rounds in &self.rounds.rounds {
            self.table(text, rounds)?;
        }
        self.once(text)
    }

    fn gates(&self) -> Vec<Gate> {
        let product = self.place_of(Kind::Thalweg);
        let mut gates = Vec::new();
        for rounds in &self.rounds.rounds {
            for (other, most) in CPU_GATES {
                let places = product.zip(self.place_of(*other));
                let median = places.map(|(a, b)| spread(&ratios(&rounds.samples[a], &rounds.samples[b])).1);
                let name = format!("CPU, × {}, {} connections", other.name(), rounds.connections);
                gates.push(Gate { name, most: *most, measured: median });
            }
        }
        let errors = product.map(|i| {
            let samples = self.rounds.rounds.iter().flat_map(|rounds| &rounds.samples[i]);
            samples.map(|sample| sample.outcome.errors).sum::<u64>() as f64
        });
        gates.push(Gate { name: "errors".to_owned(), most: 0.0, measured: errors });
        let at_start = product.map(|i| self.rounds.resident_at_start[i] as f64 / 1e6);
        gates.push(Gate {
            name: "RSS at start, MB".to_owned(),
            most: START_GATE as f64 / 1e6,
            measured: at_start,
        });
        if !self.args.only_rounds {
            let idle = product.and_then(|i| self.single.idle.get(i).copied());
            gates.push(Gate {
                name: "RSS per idle connection, B".to_owned(),
                most: IDLE_GATE,
                measured: idle,
            });
            let routes = self.single.routes.as_ref().map(|[few, many]| spread(&ratios(many, few)).1);
            let name = format!("CPU, {} routes × {} routes", ROUTES[1], ROUTES[0]);
            gates.push(Gate { name, most: ROUTES_GATE, measured: routes });
        }
        gates
    }

    fn versions(&self) -> Vec<String> {
        let line = |contestant: &Contestant| format!("{}: {}", contestant.kind.name(), contestant.version);
        self.contestants.iter().map(line).collect()
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- proxy on CPU {PROXY_CPU}; backend (nginx, {} bytes from memory) and wrk -t1 on CPU {LOAD_CPU}",
            configs::BODY.len()
        )?;
        writeln!(
            text,
            "- {} interleaved rounds of {} s per contestant, each in another order, after one that is dropped; all of them stay up",
            args.rounds, args.seconds
        )?;
        text.push_str(
            "- equal work: HTTP/1.1 kept alive on both sides, no access log, the same added request fields\n  \
             (X-Forwarded-For, -Proto, -Host, Via, X-Request-Id)\n\
             - CPU per exchange: user and kernel time of all the proxy's processes over the run, by exchanges done\n\
             - the floor is a raw epoll loop (`bench/peers/floor`); it parses with httparse and writes the same bytes\n\
             - RSS summed over processes, so pages that a master and its worker share count twice; per idle\n  \
             connection: growth of a fresh process over connections that had one exchange each, after 2 s\n\
             - system calls: `strace -c` during 3 s of load on 50 connections, connecting included\n",
        );
        Ok(())
    }
}

impl Report<'_> {
    fn place_of(&self, kind: Kind) -> Option<usize> {
        self.contestants.iter().position(|contestant| contestant.kind == kind)
    }

    fn ratios(&self, text: &mut String) -> Result<()> {
        let subject = self.contestants[0].kind.name();
        writeln!(
            text,
            "\nCPU per exchange of {subject} as a multiple of the other's: median of the ratios of"
        )?;
        writeln!(text, "each round (least–most).\n")?;
        writeln!(text, "| connections | {} |", self.names(1).join(" | "))?;
        writeln!(text, "|---|{}", "---|".repeat(self.contestants.len() - 1))?;
        for rounds in &self.rounds.rounds {
            write!(text, "| {} |", rounds.connections)?;
            for other in &rounds.samples[1..] {
                let (least, median, most) = spread(&ratios(&rounds.samples[0], other));
                write!(text, " **{median:.2}** ({least:.2}–{most:.2}) |")?;
            }
            writeln!(text)?;
        }
        Ok(())
    }

    fn names(&self, from: usize) -> Vec<&'static str> {
        self.contestants[from..].iter().map(|contestant| contestant.kind.name()).collect()
    }

    fn table(&self, text: &mut String, rounds: &Rounds) -> Result<()> {
        writeln!(text, "\n## {} connections\n", rounds.connections)?;
        writeln!(text, "Medians over rounds; latency in µs; busy: share of its CPU in use.\n")?;
        writeln!(
            text,
            "| | CPU µs per exchange (least–most) | exchanges/s | busy | p50 | p99 | p99.9 | errors |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|---|---|")?;
        for (contestant, samples) in self.contestants.iter().zip(&rounds.samples) {
            let of = |value: fn(&Sample) -> f64| spread(&samples.iter().map(value).collect::<Vec<_>>());
            let (least, cpu, most) = of(|s| s.cpu_us);
            let rate = of(|s| s.outcome.requests as f64 / s.outcome.time.as_secs_f64().max(1e-9)).1;
            let busy = of(|s| s.busy).1;
            let [p50, p99, p999] = [
                of(|s| micros(s.outcome.p50)).1,
                of(|s| micros(s.outcome.p99)).1,
                of(|s| micros(s.outcome.p999)).1,
            ];
            let errors: u64 = samples.iter().map(|s| s.outcome.errors).sum();
            writeln!(
                text,
                "| {} | {cpu:.2} ({least:.2}–{most:.2}) | {rate:.0} | {:.0} % | {p50:.0} | {p99:.0} | {p999:.0} | {errors} |",
                contestant.kind.name(),
                busy * 100.0,
            )?;
        }
        Ok(())
    }

    fn once(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## Memory, start, system calls\n")?;
        writeln!(text, "| | {} |", self.names(0).join(" | "))?;
        writeln!(text, "|---|{}", "---|".repeat(self.contestants.len()))?;
        let mib = |bytes: &u64| format!("{:.1} MB", *bytes as f64 / 1e6);
        row(text, "RSS at start", self.rounds.resident_at_start.iter().map(mib))?;
        row(text, "RSS after the rounds", self.rounds.resident_after.iter().map(mib))?;
        let idle = format!("RSS per idle connection, of {}", self.args.idle);
        row(text, &idle, self.single.idle.iter().map(|bytes| format!("{bytes:.0} B")))?;
        let start = self.single.start.iter().map(|time| format!("{:.0} ms", time.as_secs_f64() * 1e3));
        row(text, "start to first answer", start)?;
        let calls = self.single.calls.iter().map(|calls| {
            calls.as_ref().map_or("–".to_owned(), |calls| format!("{:.2}", calls.values().sum::<f64>()))
        });
        row(text, "system calls per exchange", calls)?;
        let names =
            self.single.calls.iter().map(|calls| calls.as_ref().map_or("–".to_owned(), most_frequent));
        row(text, "of these", names)?;
        if let Some([few, many]) = &self.single.routes {
            let (least, median, most) = spread(&ratios(many, few));
            writeln!(
                text,
                "\nCPU per exchange with {} routes as a multiple of that with {}: **{median:.2}** ({least:.2}–{most:.2}).",
                ROUTES[1], ROUTES[0]
            )?;
        }
        Ok(())
    }
}

/// The calls that make up a steady-state exchange: those of at least one in a hundred exchanges.
fn most_frequent(calls: &std::collections::BTreeMap<String, f64>) -> String {
    let mut calls: Vec<_> = calls.iter().filter(|(_, per)| **per >= 0.01).collect();
    calls.sort_by(|a, b| b.1.total_cmp(a.1));
    calls.iter().map(|(name, per)| format!("{name} {per:.2}")).collect::<Vec<_>>().join(", ")
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// CPU per exchange of one as a multiple of the other's, round by round.
fn ratios(of: &[Sample], to: &[Sample]) -> Vec<f64> {
    of.iter().zip(to).map(|(a, b)| a.cpu_us / b.cpu_us).collect()
}
