//! The report: tables with ratios and plots, the sequences, the limits, the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::ends::{Mode, Sample};
use super::entrant::{Entrant, Peer};
use super::limits::{AFTER, BEYOND, STEP};
use super::plot::Plot;
use super::sequence::AT_ONCE;
use super::table::{Growing, Rounds, Table};
use super::{Measured, Part, Sealed};
use crate::bench::entrant::Peer as _;
use crate::bench::entrant::{names, versions};
use crate::bench::figures::{Gate, head, median_ratio, ratios, row, spread};
use crate::bench::{frame, kernel_setting};

/// The most seconds as a multiple of another's: in any row of a table, and in all of them together.
const ROW_GATE: f64 = 1.05;
const TOTAL_GATE: f64 = 1.0;
/// Messages of the published tables.
const PUBLISHED: u32 = 1000;

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Sealed,
    pub(super) entrants: &'a [Entrant],
    pub(super) measured: &'a Measured,
    /// The date in the names of plots.
    pub(super) date: String,
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Sealed destinations: many sessions with many servers".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        let first = self.entrants.first().map_or("thalweg", |entrant| entrant.peer.name());
        if !self.measured.tables.is_empty() {
            writeln!(
                text,
                "\nSeconds from the first message to the last echo, {} messages of each client, one after the other. \
                 Medians over rounds; in\nbrackets the ratio of {first} to the other: median of the ratios of each round \
                 (least–most).",
                self.args.messages
            )?;
        }
        for table in self.tables() {
            self.table(text, table)?;
        }
        self.sequences(text)?;
        self.limits(text)
    }

    fn gates(&self) -> Vec<Gate> {
        let mut gates = Vec::new();
        if self.args.does(Part::Table) {
            for table in self.tables() {
                self.table_gates(table, &mut gates);
            }
            let lost = self.place_of(Peer::Thalweg).map(|own| {
                let samples = self.measured.tables.iter().flat_map(|rounds| &rounds.samples[own]);
                samples.map(|sample| sample.outcome.losses()).sum::<u64>() as f64
            });
            gates.push(Gate { name: "losses in the tables".to_owned(), most: 0.0, measured: lost });
        }
        for &mode in &self.args.modes {
            if self.args.does(Part::Sequence) {
                let of = |peer| self.measured.sequences.iter().find(|s| s.peer == peer && s.mode == mode);
                let lost = of(Peer::Thalweg).map(|sequence| sequence.outcome.losses() as f64);
                let name = format!("losses of {} addresses, {}", self.args.addresses, mode.word());
                gates.push(Gate { name, most: 0.0, measured: lost });
            }
            if self.args.does(Part::Limits) {
                self.limit_gates(mode, &mut gates);
            }
        }
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- after a published experiment that compared a relay in Go with one in Node: {PUBLISHED} messages of 1,024 B \
             there, {} here;\n  where they are fewer, seconds are so too",
            args.messages
        )?;
        writeln!(
            text,
            "- {} interleaved rounds, each in another order, after one that is dropped in the first row of a table; all \
             entrants stay up",
            args.rounds
        )?;
        text.push_str(
            "- every program on both CPUs, as published: the echo servers (one thread), the clients (one thread), the proxy\n\
             - go: a goroutine for each direction, io.Copy (`bench/peers/sealed_go`); node: one process, as published, sockets \
             piped into\n  each other (`bench/peers/sealed_node`); both open the label of each connection and then relay raw \
             bytes; the product\n  handles WebSocket as HTTP\n\
             - clients mint labels themselves, open all sessions, 64 at a time, and begin when all stand; every echo is \
             compared byte\n  for byte; they end with a reset, so that no port rests\n\
             - CPU: user and kernel time of the proxy from the first message to the last echo\n\
             - loss: a session that did not stand or got wrong bytes, or a message without an echo; refused: a status of HTTP, \
             an alert of\n  TLS, or a connection that was closed before it stood; silent: no answer for 10 s\n\
             - the tables have a port of 127.0.0.1 for each server; sequence and limits one port on many addresses of \
             127.0.0.0/8\n",
        );
        writeln!(
            text,
            "- sequence: a connection for each address, {AT_ONCE} at once, one message of 20 B; limits: one client for each \
             server, one\n  message of 20 B, {STEP} servers more until there is a loss, then {BEYOND} beyond that, then \
             {AFTER} sessions again"
        )?;
        writeln!(
            text,
            "- TCP: ip_local_port_range {}, tcp_tw_reuse {}",
            kernel_setting("ip_local_port_range"),
            kernel_setting("tcp_tw_reuse")
        )?;
        Ok(())
    }

    fn plots(&self) -> Vec<(String, String)> {
        let plot = |table: Table| Some((file(table), self.plot(table).svg().ok()?));
        self.tables().into_iter().filter_map(plot).collect()
    }
}

impl Report<'_> {
    fn place_of(&self, peer: Peer) -> Option<usize> {
        self.entrants.iter().position(|entrant| entrant.peer == peer)
    }

    /// The tables that were measured, in their order.
    fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<_> = self.measured.tables.iter().map(|rounds| rounds.table).collect();
        tables.dedup();
        tables
    }

    fn rows(&self, table: Table) -> Vec<&Rounds> {
        self.measured.tables.iter().filter(|rounds| rounds.table == table).collect()
    }

    fn heading(&self, table: Table) -> String {
        let (mode, bytes, fixed) = (table.mode.name(), table.bytes, self.args.clients);
        match table.growing {
            Growing::Servers => format!("{mode}, {bytes} B, N servers with {fixed} clients each"),
            Growing::Clients => format!("{mode}, {bytes} B, {fixed} servers with N clients each"),
        }
    }

    fn table(&self, text: &mut String, table: Table) -> Result<()> {
        let rows = self.rows(table);
        let names = names(self.entrants);
        writeln!(text, "\n## {}\n", self.heading(table))?;
        writeln!(text, "![seconds over N](sealed-{}-{}.svg)\n", self.date, file(table))?;
        let cpus = names.iter().map(|name| format!("CPU s, {name}"));
        let columns = ["N"].iter().chain(&names).map(|name| (*name).to_owned()).chain(cpus);
        head(text, &columns.collect::<Vec<_>>())?;
        for rounds in &rows {
            let seconds = rounds.samples.iter().enumerate().map(|(i, samples)| {
                let median = spread(&values(samples, seconds)).1;
                if i == 0 {
                    return format!("{median:.3}");
                }
                let (least, ratio, most) = spread(&ratios(&rounds.samples[0], samples, seconds));
                format!("{median:.3} (**{ratio:.2}**, {least:.2}–{most:.2})")
            });
            let cpu = rounds.samples.iter().map(|samples| format!("{:.2}", spread(&values(samples, cpu)).1));
            row(text, &rounds.count.to_string(), seconds.chain(cpu))?;
        }
        let own = total(&rows, 0, seconds);
        let sums = (0..names.len()).map(|i| match total(&rows, i, seconds) {
            sum if i == 0 => format!("{sum:.3}"),
            sum => format!("{sum:.3} (**{:.2}**)", own / sum),
        });
        let cpus = (0..names.len()).map(|i| format!("{:.2}", total(&rows, i, cpu)));
        row(text, "total", sums.chain(cpus))
    }

    fn plot(&self, table: Table) -> Plot {
        let rows = self.rows(table);
        let line = |(i, entrant): (usize, &Entrant)| {
            let point =
                |rounds: &&Rounds| (rounds.count as f64, spread(&values(&rounds.samples[i], seconds)).1);
            (entrant.peer.name().to_owned(), rows.iter().map(point).collect())
        };
        let title = format!("{}: {} messages", self.heading(table), self.args.messages);
        let lines = self.entrants.iter().enumerate().map(line).collect();
        Plot { title, x: format!("N {}", table.growing.word()), y: "seconds".to_owned(), lines }
    }

    /// Against each of the others: the worst row, and all rows together.
    fn table_gates(&self, table: Table, gates: &mut Vec<Gate>) {
        let rows = self.rows(table);
        let load = format!("{}, {} B, N {}", table.mode.word(), table.bytes, table.growing.word());
        for other in [Peer::Go, Peer::Node] {
            let places = self.place_of(Peer::Thalweg).zip(self.place_of(other));
            let worst = places.and_then(|(own, other)| {
                let ratio = |rounds: &&Rounds| {
                    (median_ratio(&rounds.samples[own], &rounds.samples[other], seconds), rounds.count)
                };
                rows.iter().map(ratio).max_by(|a, b| a.0.total_cmp(&b.0))
            });
            let at = worst.map_or(String::new(), |(_, count)| format!(" (N = {count})"));
            gates.push(Gate {
                name: format!("seconds, × {}'s, worst row{at}, {load}", other.name()),
                most: ROW_GATE,
                measured: worst.map(|(ratio, _)| ratio),
            });
            let sums = places.map(|(own, other)| total(&rows, own, seconds) / total(&rows, other, seconds));
            let name = format!("seconds, × {}'s, in total, {load}", other.name());
            gates.push(Gate { name, most: TOTAL_GATE, measured: sums });
        }
    }

    /// Beyond the most sessions, refusals are clean, sessions that stand lose nothing, and it serves again.
    fn limit_gates(&self, mode: Mode, gates: &mut Vec<Gate>) {
        let own = self.measured.limits.iter().find(|limit| limit.peer == Peer::Thalweg && limit.mode == mode);
        let unclean = own.map(|limit| {
            let outcomes = limit.first.iter().chain(&limit.beyond).map(|(_, sample)| sample.outcome);
            outcomes.map(|outcome| outcome.silent + outcome.broken + outcome.lost).sum::<u64>() as f64
        });
        let name = format!("losses beyond the limit that are no clean refusals, {}", mode.word());
        gates.push(Gate { name, most: 0.0, measured: unclean });
        let again = own.map(|limit| if limit.again.is_some() { 0.0 } else { 1.0 });
        let name = format!("does not serve again after that, {}", mode.word());
        gates.push(Gate { name, most: 0.0, measured: again });
    }

    fn sequences(&self, text: &mut String) -> Result<()> {
        if self.measured.sequences.is_empty() {
            return Ok(());
        }
        writeln!(text, "\n## {} addresses of 127.0.0.0/8, one after the other\n", self.args.addresses)?;
        head(text, &["", "seconds", "stood", "refused", "silent", "broken", "messages lost"])?;
        for sequence in &self.measured.sequences {
            let outcome = sequence.outcome;
            let counts = [outcome.connected, outcome.refused, outcome.silent, outcome.broken, outcome.lost];
            let cells = [format!("{:.2}", outcome.seconds)].into_iter();
            let name = format!("{}, {}", sequence.mode.word(), sequence.peer.name());
            row(text, &name, cells.chain(counts.iter().map(u64::to_string)))?;
        }
        Ok(())
    }

    fn limits(&self, text: &mut String) -> Result<()> {
        if self.measured.limits.is_empty() {
            return Ok(());
        }
        writeln!(text, "\n## The most servers with one client each\n")?;
        writeln!(
            text,
            "A process may have {} descriptors. A session is two sockets of the proxy; with io.Copy, Go has a pipe for each \
             direction too, which\nmakes six. Beyond: stood / refused / silent / broken; messages lost; descriptors of the \
             proxy when all that could stood.\n",
            rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
        )?;
        let beyond = format!("{BEYOND} beyond that");
        head(text, &["", "without loss", "first with losses", &beyond, "serves again after"])?;
        for limit in &self.measured.limits {
            let attempt = |attempt: &Option<(usize, Sample)>| match attempt {
                None => "–".to_owned(),
                Some((count, Sample { outcome, descriptors, .. })) => format!(
                    "{count}: {} / {} / {} / {}; {}; {descriptors}",
                    outcome.connected, outcome.refused, outcome.silent, outcome.broken, outcome.lost
                ),
            };
            let again = limit.again.map_or("**no**".to_owned(), |time| format!("{} ms", time.as_millis()));
            let cells = [limit.most.to_string(), attempt(&limit.first), attempt(&limit.beyond), again];
            let name = format!("{}, {}", limit.mode.word(), limit.peer.name());
            row(text, &name, cells.into_iter())?;
        }
        Ok(())
    }
}

/// How the name of a table's plot goes on after the date.
fn file(table: Table) -> String {
    format!("{}-{}-{}", table.mode.word(), table.bytes, table.growing.word())
}

fn seconds(sample: &Sample) -> f64 {
    sample.outcome.seconds
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu
}

fn values(samples: &[Sample], value: fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(value).collect()
}

/// The medians of all rows together.
fn total(rows: &[&Rounds], entrant: usize, value: fn(&Sample) -> f64) -> f64 {
    rows.iter().map(|rounds| spread(&values(&rounds.samples[entrant], value)).1).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::super::ends::Outcome;
    use super::super::limits::Limit;
    use super::*;
    use crate::bench::frame::Report as _;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sealed: Sealed,
    }

    /// Two rows of seconds, for thalweg, go and node.
    fn measured(rows: [[f64; 3]; 2]) -> Measured {
        let table = Table { mode: Mode::Raw, bytes: 20, growing: Growing::Servers };
        let samples = |seconds| {
            let outcome = Outcome { seconds, sessions: 10, connected: 10, ..Outcome::default() };
            vec![Sample { outcome, ..Sample::default() }]
        };
        let rounds = |(row, count): ([f64; 3], usize)| {
            let samples = row.map(samples).into_iter().collect();
            Rounds { table, count, samples }
        };
        let tables = rows.into_iter().zip([50, 75]).map(rounds).collect();
        Measured { tables, ..Measured::default() }
    }

    /// Looks at what a run with the command line `words` reports.
    fn report<T>(words: &str, measured: &Measured, look: impl FnOnce(Report<'_>) -> T) -> T {
        let args = Line::parse_from(std::iter::once("bench").chain(words.split_whitespace())).sealed;
        let entrants = Peer::ALL.map(Entrant::unknown);
        look(Report { args: &args, entrants: &entrants, measured, date: "today".to_owned() })
    }

    /// The names of the gates that are missed.
    fn missed(words: &str, measured: &Measured) -> Vec<String> {
        report(words, measured, |report| {
            let gates = report.gates().into_iter().filter(|gate| !gate.passes());
            gates.map(|gate| gate.name).collect()
        })
    }

    #[test]
    fn one_slow_row_and_a_slow_total_are_told_apart() {
        let missed = |rows| missed("--only table --modes raw --sizes 20", &measured(rows));
        assert!(missed([[1.0, 2.0, 2.0], [2.0, 2.1, 3.0]]).is_empty());
        let row = missed([[1.1, 1.0, 2.0], [2.0, 3.0, 3.0]]);
        assert_eq!(row, ["seconds, × go's, worst row (N = 50), raw, 20 B, N servers"]);
        let total = missed([[1.02, 1.0, 2.0], [2.0, 2.0, 3.0]]);
        assert_eq!(total, ["seconds, × go's, in total, raw, 20 B, N servers"]);
    }

    #[test]
    fn a_loss_misses_a_gate_and_what_was_not_measured_is_not_passed() {
        let mut lossy = measured([[1.0, 2.0, 2.0]; 2]);
        lossy.tables[1].samples[0][0].outcome.lost = 1;
        assert_eq!(missed("--only table", &lossy), ["losses in the tables"]);
        assert_eq!(missed("--only limits --modes raw", &lossy).len(), 2);
        assert_eq!(missed("--only sequence --modes raw", &lossy).len(), 1);
    }

    #[test]
    fn beyond_the_limit_clean_refusals_pass_and_silence_does_not() {
        let missed = |refused, silent, again| {
            let outcome = Outcome { sessions: 10, connected: 9, refused, silent, ..Outcome::default() };
            let first = Some((10_000, Sample { outcome, ..Sample::default() }));
            let (peer, mode) = (Peer::Thalweg, Mode::Raw);
            let limits = vec![Limit { peer, mode, most: 9000, first, beyond: None, again }];
            missed("--only limits --modes raw", &Measured { limits, ..Measured::default() })
        };
        assert!(missed(1, 0, Some(Duration::ZERO)).is_empty());
        assert_eq!(missed(0, 1, Some(Duration::ZERO)).len(), 1);
        assert_eq!(missed(1, 0, None), ["does not serve again after that, raw"]);
    }

    #[test]
    fn tables_have_rows_totals_and_plots() {
        let measured = measured([[1.0, 2.0, 4.0], [2.0, 4.0, 4.0]]);
        let (text, plots) = report("", &measured, |report| {
            let mut text = String::new();
            report.figures(&mut text).unwrap();
            (text, report.plots())
        });
        for line in [
            "## raw bytes after a server name of TLS, 20 B, N servers with 10 clients each",
            "| 50 | 1.000 | 2.000 (**0.50**, 0.50–0.50) | 4.000 (**0.25**, 0.25–0.25) |",
            "| total | 3.000 | 6.000 (**0.50**) | 8.000 (**0.38**) |",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let [(name, svg)] = plots.as_slice() else { panic!("{plots:?}") };
        assert!(text.contains(&format!("(sealed-today-{name}.svg)")) && svg.starts_with("<svg"));
    }
}
