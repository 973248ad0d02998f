//! The report of large bodies: the long link, CPU per gigabyte, the floors, the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::entrant::{Entrant, Peer};
use super::link::{Link, Position, Seconds};
use super::loopback::{Sample, Table, Turns};
use super::{Part, Stream};
use crate::bench::entrant::versions;
use crate::bench::figures::{Gate, head, median_ratio, ratios, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, frame, kernel_setting};

/// Most time of a download over the long link, as a multiple of the direct one's.
const LINK_GATE: f64 = 1.05;
/// Most CPU per gigabyte, as a multiple of what nginx needs in the better of its modes.
const CPU_GATE: f64 = 1.0;
/// The modes of nginx.
const NGINX: &[Peer] = &[Peer::Nginx, Peer::NginxUnbuffered];

/// Everything that was measured.
pub(crate) struct Report<'a> {
    pub(crate) args: &'a Stream,
    pub(crate) entrants: &'a [Entrant],
    pub(crate) links: &'a [Link],
    pub(crate) loopback: &'a [Table],
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Large bodies".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        for link in self.links {
            match link.part {
                Part::Published => self.published(text, link)?,
                _ => self.link(text, link)?,
            }
        }
        for table in self.loopback {
            write_table(text, table)?;
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let mut gates = Vec::new();
        for link in self.links {
            // With loss the noise of one download is far above the gate: the table shows it, nobody is judged.
            for seconds in link.proxied.iter().filter(|s| s.peer == Peer::Thalweg && link.drop == 0.0) {
                let beside = if link.part == Part::Published { ", beside the published loop" } else { "" };
                let name = format!("time, × direct, {}{beside}", seconds.position.name());
                let measured = Some(spread(&link.ratios(seconds)).1);
                gates.push(Gate { name, most: LINK_GATE, measured });
            }
        }
        for table in self.loopback {
            let own = table.turns.iter().find(|turns| turns.peer == Peer::Thalweg);
            if table.part == Part::Loopback {
                let ratio = own
                    .zip(best_nginx(table))
                    .map(|(own, nginx)| median_ratio(&own.samples, &nginx.samples, |sample| sample.cpu));
                let name = format!("CPU, × nginx, {}", table.traffic.name);
                gates.push(Gate { name, most: CPU_GATE, measured: ratio });
            }
        }
        gates.push(Gate { name: "failed exchanges".to_owned(), most: 0.0, measured: self.failed() });
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- {} interleaved rounds after one that is dropped; all entrants stay up; proxy on CPU {PROXY_CPU}, \
             origin and client\n  (`bench/peers/ends`) on CPU {LOAD_CPU}; the client checks every byte of every body",
            args.rounds
        )?;
        if !self.links.is_empty() {
            self.link_method(text)?;
        }
        if !self.loopback.is_empty() {
            self.loopback_method(text)?;
        }
        Ok(())
    }
}

impl Report<'_> {
    fn link(&self, text: &mut String, link: &Link) -> Result<()> {
        let args = self.args;
        let (least, direct, most) = spread(&link.direct);
        let megabytes = args.bytes as f64 / 1e6;
        writeln!(text, "\n## Long link, {} % of packets lost\n", link.drop)?;
        writeln!(
            text,
            "Time to download {megabytes:.0} MB as a multiple of the direct download's in the same round, which \
             took {direct:.2} s\n({least:.2}–{most:.2}): median over {} rounds (least–most).\n",
            link.direct.len()
        )?;
        let [server, client] = Position::ALL.map(Position::name);
        head(text, &["", &format!("proxy {server}"), &format!("proxy {client}"), "seconds"])?;
        let first = link.proxied.iter().filter(|seconds| seconds.position == Position::ALL[0]);
        for peer in first.map(|seconds| seconds.peer) {
            let at = |position| link.proxied.iter().find(|s| s.peer == peer && s.position == position);
            let ratio = |seconds: Option<&Seconds>| {
                seconds.map_or("–".to_owned(), |seconds| ratio_cell(&link.ratios(seconds)))
            };
            let time = |seconds: Option<&Seconds>| seconds.map_or(f64::NAN, |s| spread(&s.rounds).1);
            let [server, client] = Position::ALL.map(at);
            let (name, times) = (peer.name(), [time(server), time(client)]);
            let [ratio_server, ratio_client] = [ratio(server), ratio(client)];
            writeln!(
                text,
                "| {name} | {ratio_server} | {ratio_client} | {:.2}, {:.2} |",
                times[0], times[1]
            )?;
        }
        let packets = link.packets;
        let all = (packets.passed + packets.dropped + packets.overflowed).max(1) as f64;
        writeln!(
            text,
            "\nOf {all:.0} packets {:.2} % were dropped on purpose, and {:.2} % because the queue was full.",
            packets.dropped as f64 / all * 100.0,
            packets.overflowed as f64 / all * 100.0
        )?;
        Ok(())
    }

    /// The table of published work: 24.0 s with its loop, 6.2 s with reading and writing decoupled.
    fn published(&self, text: &mut String, link: &Link) -> Result<()> {
        writeln!(text, "\n## The published copy loop\n")?;
        writeln!(
            text,
            "Seconds to download {:.0} MB over the long link, the proxy near the server; {:.2} s directly. \
             Medians over {} rounds (least–most).\n",
            self.args.bytes as f64 / 1e6,
            spread(&link.direct).1,
            link.direct.len()
        )?;
        head(text, &["", "seconds", "× direct"])?;
        for seconds in &link.proxied {
            let (least, median, most) = spread(&seconds.rounds);
            let (name, ratio) = (seconds.peer.name(), ratio_cell(&link.ratios(seconds)));
            writeln!(text, "| {name} | {median:.2} ({least:.2}–{most:.2}) | {ratio} |")?;
        }
        Ok(())
    }

    /// Exchanges of the product that failed, on the link and on loopback; `None` when it did not take part.
    fn failed(&self) -> Option<f64> {
        let own = |peer| peer == Peer::Thalweg;
        let downloads = self.links.iter().flat_map(|link| &link.proxied).filter(|s| own(s.peer));
        let turns = self.loopback.iter().flat_map(|table| &table.turns).filter(|turns| own(turns.peer));
        let downloads: Vec<_> = downloads.flat_map(|seconds| &seconds.rounds).collect();
        let samples: Vec<_> = turns.flat_map(|turns| &turns.samples).collect();
        let broken = downloads.iter().filter(|seconds| seconds.is_infinite()).count() as u64;
        let bad = broken + samples.iter().map(|sample| sample.bad).sum::<u64>();
        (!downloads.is_empty() || !samples.is_empty()).then_some(bad as f64)
    }

    fn link_method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        let standard = kernel_setting("tcp_congestion_control");
        let congestion = args.congestion.as_deref().unwrap_or(&standard);
        writeln!(
            text,
            "- long link: two network namespaces, a TUN device in each, `bench/peers/delay_line` between them: {} ms \
             each way,\n  {} Mbit/s, a queue of 140 ms, packets of 1,500 bytes; lost packets are drawn per packet in \
             both directions from\n  a seed, the same for all in a round, another one each round; twice as many rounds \
             with loss; the line has real-time priority",
            args.delay, args.rate
        )?;
        writeln!(
            text,
            "- TCP on it: {congestion}, tcp_rmem {}, tcp_wmem {}, no metrics kept between connections; fresh \
             connections on\n  both sides for every download: the origin closes after each",
            kernel_setting("tcp_rmem"),
            kernel_setting("tcp_wmem")
        )?;
        text.push_str(
            "- copy 4 KiB is the naive loop of published work (`bench/peers/copy_loop`): one blocking read, then one \
             blocking write\n",
        );
        Ok(())
    }

    fn loopback_method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- loopback: bodies of {:.0} MB on {} kept-alive connections side by side, {} s per turn; chunks of 16 KiB",
            args.bytes as f64 / 1e6,
            args.connections,
            args.seconds
        )?;
        text.push_str(
            "- CPU: user and kernel time of all the proxy's processes by gigabytes (10⁹) of body that arrived whole\n\
             - system calls: tracepoints counted by perf in one more turn each\n\
             - nginx with its defaults and with proxy_buffering and proxy_request_buffering off; no access log; the \
             same added\n  request fields as in `bench small`\n\
             - copy and splice: two threads per connection that relay bytes and know no HTTP, with that buffer or pipe\n",
        );
        Ok(())
    }
}

fn write_table(text: &mut String, table: &Table) -> Result<()> {
    let floors = if table.part == Part::Floor { ": the floors" } else { "" };
    writeln!(text, "\n## Loopback, {}{floors}\n", table.traffic.name)?;
    writeln!(
        text,
        "Medians over rounds (least–most); ratio: CPU of thalweg as a multiple of the other's, round by round.\n"
    )?;
    head(text, &["", "CPU s per GB", "ratio", "GB/s", "busy", "system calls per GB", "failed"])?;
    let own = table.turns.iter().find(|turns| turns.peer == Peer::Thalweg);
    for turns in &table.turns {
        let of = |value: fn(&Sample) -> f64| spread(&turns.samples.iter().map(value).collect::<Vec<_>>());
        let (least, cpu, most) = of(|sample| sample.cpu);
        let (rate, busy) = (of(|sample| sample.rate).1, of(|sample| sample.busy).1 * 100.0);
        let ratio = match own {
            Some(own) if turns.peer != Peer::Thalweg => {
                ratio_cell(&ratios(&own.samples, &turns.samples, |sample| sample.cpu))
            }
            _ => "–".to_owned(),
        };
        let bad: u64 = turns.samples.iter().map(|sample| sample.bad).sum();
        writeln!(
            text,
            "| {} | {cpu:.3} ({least:.3}–{most:.3}) | {ratio} | {rate:.2} | {busy:.0} % | {} | {bad} |",
            turns.peer.name(),
            calls(turns)
        )?;
    }
    Ok(())
}

/// All system calls, and those that are at least one in a hundred of them.
fn calls(turns: &Turns) -> String {
    let Some((all, named)) = &turns.calls else { return "–".to_owned() };
    let mut named: Vec<_> = named.iter().filter(|(_, count)| *count >= all / 100.0).collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<_> = named.iter().map(|(name, count)| format!("{name} {count:.0}")).collect();
    format!("{all:.0}: {}", named.join(", "))
}

/// The mode in which nginx needs less.
fn best_nginx(table: &Table) -> Option<&Turns> {
    let median = |turns: &Turns| spread(&turns.samples.iter().map(|sample| sample.cpu).collect::<Vec<_>>()).1;
    let modes = table.turns.iter().filter(|turns| NGINX.contains(&turns.peer));
    modes.min_by(|a, b| median(a).total_cmp(&median(b)))
}

fn ratio_cell(ratios: &[f64]) -> String {
    let (least, median, most) = spread(ratios);
    let failed = ratios.iter().filter(|ratio| ratio.is_infinite()).count();
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    format!("**{median:.2}** ({least:.2}–{most:.2}{failed})")
}
