//! The report of small exchanges: ratios first, then what they come from; the gates, the method.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use super::contestant::{Contestant, Filters, Kind, Role};
use super::entrant::{Entrant, names, versions};
use super::figures::{Gate, head, median_ratio, ratio_cell, ratios, row, spread};
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
                let median = places.map(|(a, b)| median_ratio(&rounds.samples[a], &rounds.samples[b], cpu));
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
            let routes = self.single.routes.as_ref().map(|[few, many]| median_ratio(many, few, cpu));
            let name = format!("CPU, {} routes × {} routes", ROUTES[1], ROUTES[0]);
            gates.push(Gate { name, most: ROUTES_GATE, measured: routes });
        }
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.contestants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- proxy on CPU {PROXY_CPU}; backend (nginx, {} bytes from memory) and wrk -t1 on CPU {LOAD_CPU}",
            configs::BODY.len()
        )?;
        if self.contestants.iter().any(|contestant| contestant.role == Role::Filters(Filters::Five)) {
            text.push_str(
                "- five filters: headers set and removed on request and response, a prefix rewritten, security_headers,\n  \
                 cors without an Origin, headers for other methods (when)\n",
            );
        }
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
        self.contestants
            .iter()
            .position(|contestant| (contestant.kind, contestant.role) == (kind, Role::Plain))
    }

    fn ratios(&self, text: &mut String) -> Result<()> {
        let subject = self.contestants[0].name();
        writeln!(
            text,
            "\nCPU per exchange of {subject} as a multiple of the other's: median of the ratios of"
        )?;
        writeln!(text, "each round (least–most).\n")?;
        let others: Vec<_> = (1..self.contestants.len()).map(|other| (0, other)).collect();
        self.ratio_table(text, &names(&self.contestants[1..]), &others)?;
        let product = |contestant: &&Contestant| contestant.kind == Kind::Thalweg;
        let forms: Vec<_> =
            (0..).zip(self.contestants).filter(|(_, contestant)| product(contestant)).collect();
        let Some(nginx) = self.place_of(Kind::Nginx).filter(|_| forms.len() > 1) else { return Ok(()) };
        writeln!(text, "\nCPU per exchange of each form of the product as a multiple of nginx's.\n")?;
        let heads: Vec<_> = forms.iter().map(|(_, contestant)| contestant.name()).collect();
        self.ratio_table(text, &heads, &forms.iter().map(|(at, _)| (*at, nginx)).collect::<Vec<_>>())
    }

    /// A column for each pair: the one as a multiple of the other.
    fn ratio_table(&self, text: &mut String, heads: &[&str], pairs: &[(usize, usize)]) -> Result<()> {
        head(text, &[&["connections"], heads].concat())?;
        for Rounds { connections, samples } in &self.rounds.rounds {
            let cells = pairs.iter().map(|(of, to)| ratio_cell(&ratios(&samples[*of], &samples[*to], cpu)));
            row(text, &connections.to_string(), cells)?;
        }
        Ok(())
    }

    fn table(&self, text: &mut String, rounds: &Rounds) -> Result<()> {
        writeln!(text, "\n## {} connections\n", rounds.connections)?;
        writeln!(text, "Medians over rounds; latency in µs; busy: share of its CPU in use.\n")?;
        let columns =
            ["", "CPU µs per exchange (least–most)", "exchanges/s", "busy", "p50", "p99", "p99.9", "errors"];
        head(text, &columns)?;
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
                contestant.name(),
                busy * 100.0,
            )?;
        }
        Ok(())
    }

    fn once(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n## Memory, start, system calls\n")?;
        head(text, &[&[""], names(self.contestants).as_slice()].concat())?;
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
            let ratio = ratio_cell(&ratios(many, few, cpu));
            let [few, many] = ROUTES;
            writeln!(
                text,
                "\nCPU per exchange with {many} routes as a multiple of that with {few}: {ratio}."
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

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}
