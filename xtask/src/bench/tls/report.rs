//! The report of TLS and HTTP/2: a table for each case, memory, the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::case::Case;
use super::entrant::{Entrant, Peer};
use super::{Idle, Rounds, Sample, Tls, configs};
use crate::bench::entrant::Peer as _;
use crate::bench::entrant::{names, versions};
use crate::bench::figures::{Gate, head, median_ratio, ratios, row, spread};
use crate::bench::{LOAD_CPU, PROXY_CPU, configs as common, frame};

/// Most CPU per request or handshake, as a multiple of another's.
const CPU_GATES: &[(Case, Peer, f64)] = &[
    (Case::Small, Peer::Nginx, 0.90),
    (Case::Full, Peer::Nginx, 1.0),
    (Case::H2, Peer::Nginx, 1.0),
    (Case::H2, Peer::Envoy, 1.0),
];
/// Most of nginx's full handshakes per second, as a multiple of ours.
const RATE_GATE: f64 = 1.0;
/// Most resident KiB per idle connection.
const IDLE_GATES: [f64; 2] = [8.0, 64.0];

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Tls,
    pub(super) entrants: &'a [Entrant],
    /// What all handshakes came to.
    pub(super) agreed: &'a str,
    pub(super) rounds: &'a [Rounds],
    /// By entrant; empty when it was not measured.
    pub(super) idle: &'a [Idle],
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "TLS and HTTP/2".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        text.push_str(
            "\nMedians over rounds (least–most). Ratios are those of thalweg to the other: median of the ratios of \
             each round.\nBusy: share of its CPU in use; far below 100 % the load or the backend set the pace, and the \
             rate is theirs.\n",
        );
        for rounds in self.rounds {
            self.table(text, rounds)?;
        }
        if !self.idle.is_empty() {
            writeln!(text, "\n## Memory of {} idle connections\n", self.args.idle)?;
            let names = names(self.entrants);
            head(text, &[&["RSS, KiB each"], names.as_slice()].concat())?;
            let kib = |bytes: f64| format!("{:.1}", bytes / 1024.0);
            row(text, "HTTP/1.1 with TLS", self.idle.iter().map(|idle| kib(idle.h1)))?;
            row(text, "HTTP/2 with TLS", self.idle.iter().map(|idle| kib(idle.h2)))?;
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let own = self.place_of(Peer::Thalweg);
        let mut gates = Vec::new();
        for &(case, peer, most) in CPU_GATES.iter().filter(|(case, ..)| self.args.cases.contains(case)) {
            let name = format!("CPU, × {}'s, {}", peer.name(), case.name());
            let places = own.zip(self.place_of(peer));
            let measured =
                places.and_then(|(own, other)| self.ratio(case, own, other, |sample| sample.cpu_us));
            gates.push(Gate { name, most, measured });
        }
        if self.args.cases.contains(&Case::Full) {
            let places = own.zip(self.place_of(Peer::Nginx));
            let rate =
                places.and_then(|(own, nginx)| self.ratio(Case::Full, nginx, own, |sample| sample.rate));
            let name = "nginx's full handshakes/s, × ours".to_owned();
            gates.push(Gate { name, most: RATE_GATE, measured: rate });
        }
        let idle = own.and_then(|own| self.idle.get(own));
        for (i, name) in ["HTTP/1.1", "HTTP/2"].iter().enumerate().filter(|_| self.args.idle > 0) {
            let name = format!("RSS per idle connection of {name}, KiB");
            let measured = idle.map(|idle| [idle.h1, idle.h2][i] / 1024.0);
            gates.push(Gate { name, most: IDLE_GATES[i], measured });
        }
        let failed = own.map(|own| {
            let samples = self.rounds.iter().flat_map(|rounds| &rounds.samples[own]);
            samples.map(|sample| sample.failed).sum::<u64>() as f64
        });
        gates.push(Gate { name: "failed".to_owned(), most: 0.0, measured: failed });
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- proxy with one worker on CPU {PROXY_CPU}; load and backend (nginx, {} bytes from memory) on CPU {LOAD_CPU}",
            common::BODY.len()
        )?;
        writeln!(
            text,
            "- {} interleaved rounds of {} s per case after one that is dropped, each in another order; all entrants stay up",
            args.rounds, args.seconds
        )?;
        writeln!(
            text,
            "- certificate: ECDSA P-256; agreed on by all: {}; asked of each, and of every run of h2load",
            self.agreed
        )?;
        writeln!(
            text,
            "- small exchanges: `wrk -t1 -c{}`, with {} and {} alone in OpenSSL's settings",
            args.connections,
            configs::SUITE,
            configs::GROUP
        )?;
        writeln!(
            text,
            "- h2: `h2load -t1 -c{} -m{}`, the same suite and group",
            args.h2_connections, args.streams
        )?;
        writeln!(
            text,
            "- handshakes: {} clients of `bench/peers/tls_clients` without a pause, TCP connect to close, no request, nothing \
             verified;\n  each ends with the client's close_notify and counts when the server has closed; whether it was \
             full or resumed is asked\n  of the client's library; all servers issue tickets",
            args.clients
        )?;
        text.push_str(
            "- equal work: HTTP/1.1 kept alive to the backend, no access log, the same added request fields\n  \
             (X-Forwarded-For, -Proto, -Host, Via, X-Request-Id)\n\
             - CPU: user and kernel time of all the proxy's processes and threads over the run, by what was done\n\
             - memory: growth of the RSS of a fresh process over connections that had one exchange each, after 2 s; 20 \
             others came\n  and went before\n",
        );
        Ok(())
    }
}

impl Report<'_> {
    fn place_of(&self, peer: Peer) -> Option<usize> {
        self.entrants.iter().position(|entrant| entrant.peer == peer)
    }

    /// The median of the ratios of one value, where the case was measured.
    fn ratio(&self, case: Case, of: usize, to: usize, value: fn(&Sample) -> f64) -> Option<f64> {
        let rounds = self.rounds.iter().find(|rounds| rounds.case == case)?;
        Some(median_ratio(&rounds.samples[of], &rounds.samples[to], value))
    }

    /// Those that do not take part have no row.
    fn table(&self, text: &mut String, rounds: &Rounds) -> Result<()> {
        let unit = rounds.case.unit();
        writeln!(text, "\n## {}\n", rounds.case.heading(self.args))?;
        let (cpu, rate) = (format!("CPU µs per {unit}"), format!("{unit}s/s"));
        head(text, &["", &cpu, "thalweg's ratio", &rate, "thalweg's ratio", "busy", "failed"])?;
        for (entrant, samples) in
            self.entrants.iter().zip(&rounds.samples).filter(|(_, samples)| !samples.is_empty())
        {
            let of = |value: fn(&Sample) -> f64| spread(&samples.iter().map(value).collect::<Vec<_>>());
            let ((least, cpu, most), (slowest, rate, fastest)) = (of(|s| s.cpu_us), of(|s| s.rate));
            let busy = of(|sample| sample.busy * 100.0).1;
            let failed: u64 = samples.iter().map(|sample| sample.failed).sum();
            let ratio = |value: fn(&Sample) -> f64| match entrant.peer == self.entrants[0].peer {
                true => String::new(),
                false => {
                    let (least, median, most) = spread(&ratios(&rounds.samples[0], samples, value));
                    format!("**{median:.2}** ({least:.2}–{most:.2})")
                }
            };
            writeln!(
                text,
                "| {} | {cpu:.1} ({least:.1}–{most:.1}) | {} | {rate:.0} ({slowest:.0}–{fastest:.0}) | {} | {busy:.0} % | \
                 {failed} |",
                entrant.name(),
                ratio(|sample| sample.cpu_us),
                ratio(|sample| sample.rate),
            )?;
        }
        Ok(())
    }
}
