//! The report of ab: rates, CPU and times for each way of connecting, the gates, the method.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use super::entrant::{Balancer, Entrant};
use super::{Ab, BACKENDS, Rounds, Sample};
use crate::bench::entrant::{names, versions};
use crate::bench::figures::{Gate, head, median_ratio, ratios, spread};
use crate::bench::layout::Layout;
use crate::bench::load::ab::Way;
use crate::bench::{LOAD_CPU, PROXY_CPU, configs, frame, kernel_setting};

/// Most CPU per request as a multiple of nginx's, and most of nginx's requests per second as a multiple of ours.
const GATE: f64 = 1.0;

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Ab,
    pub(super) entrants: &'a [Entrant],
    pub(super) rounds: &'a [Rounds],
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        format!("ab before {BACKENDS} backends")
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        text.push_str(
            "\nMedians over rounds; in brackets the ratio of thalweg to the other: median of the ratios of each \
             round\n(least–most).\n",
        );
        for (layout, way) in Layout::ALL.into_iter().flat_map(|layout| Way::ALL.map(|way| (layout, way))) {
            let of = |rounds: &&Rounds| rounds.layout == layout && rounds.way == way;
            let rounds: Vec<_> = self.rounds.iter().filter(of).collect();
            if rounds.is_empty() {
                continue;
            }
            writeln!(text, "\n## {}: {}", layout.heading(), way.heading())?;
            self.table(text, "requests/s", &rounds, |sample| sample.rate)?;
            self.table(text, "CPU µs per request", &rounds, |sample| sample.cpu_us)?;
            self.times(text, &rounds)?;
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let places = self.place_of(Balancer::Thalweg).zip(self.place_of(Balancer::Nginx));
        let mut gates = Vec::new();
        for rounds in self.rounds {
            let Rounds { layout, way, concurrency, samples } = rounds;
            let load = format!("{}, {}, {concurrency} at once", layout.name(), way.name());
            let of = |(own, nginx): (usize, usize)| (&samples[own], &samples[nginx]);
            let cpu = places.map(of).map(|(own, nginx)| median_ratio(own, nginx, |sample| sample.cpu_us));
            gates.push(Gate { name: format!("CPU, × nginx's, {load}"), most: GATE, measured: cpu });
            // Where ab has a CPU with the backends only, they set the pace, and the rate is theirs.
            if *layout == Layout::Shared {
                let rate = places.map(of).map(|(own, nginx)| median_ratio(nginx, own, |sample| sample.rate));
                gates.push(Gate {
                    name: format!("nginx's requests/s, × ours, {load}"),
                    most: GATE,
                    measured: rate,
                });
            }
        }
        let failed = self.place_of(Balancer::Thalweg).map(|own| {
            let samples = self.rounds.iter().flat_map(|rounds| &rounds.samples[own]);
            samples.map(|sample| sample.outcome.failed).sum::<u64>() as f64
        });
        gates.push(Gate { name: "failed requests".to_owned(), most: 0.0, measured: failed });
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let args = self.args;
        writeln!(
            text,
            "- {BACKENDS} backends (nginx, {} bytes from memory); shared: every program on both CPUs, a proxy with two \
             workers;\n  apart: proxy with one worker on CPU {PROXY_CPU}, ab and backends on CPU {LOAD_CPU}",
            configs::BODY.len()
        )?;
        writeln!(
            text,
            "- {} interleaved rounds after one that is dropped, each in another order; all entrants stay up; {} \
             requests per\n  round, twice as many where connections are kept",
            args.rounds, args.requests
        )?;
        text.push_str(
            "- ab speaks HTTP/1.0; `-r` counts failures instead of ending with the first; a connection that is \
             closed with `-k`\n  counts as one\n\
             - equal work: HTTP/1.1 kept alive to the backends, as many connections to them as there are clients, no \
             access\n  log, the same added request fields (X-Forwarded-For, -Proto, -Host, Via, X-Request-Id)\n\
             - CPU per request: user and kernel time of all the proxy's processes over the run, by requests done\n\
             - busy: share of one CPU that the proxy used; apart, where it is far below 100 %, ab and the backends set \
             the pace,\n  and requests/s say little about the proxy\n\
             - go_balancer: net/http's reverse proxy, round robin, health checks in the background \
             (`bench/peers/go_balancer`)\n",
        );
        writeln!(
            text,
            "- TCP: tcp_max_syn_backlog {}, tcp_tw_reuse {}; accept queues of 4,096: what finds one full connects \
             again after 1 s",
            kernel_setting("tcp_max_syn_backlog"),
            kernel_setting("tcp_tw_reuse")
        )?;
        Ok(())
    }
}

impl Report<'_> {
    fn place_of(&self, balancer: Balancer) -> Option<usize> {
        self.entrants.iter().position(|entrant| entrant.peer == balancer)
    }

    fn head(&self, text: &mut String, name: &str) -> Result<()> {
        let names = names(self.entrants);
        text.push('\n');
        head(text, &[&[format!("{name}, at once").as_str()], names.as_slice()].concat())?;
        Ok(())
    }

    /// One value of all entrants, with ratios.
    fn table(
        &self,
        text: &mut String,
        name: &str,
        rounds: &[&Rounds],
        value: fn(&Sample) -> f64,
    ) -> Result<()> {
        self.head(text, name)?;
        for rounds in rounds {
            write!(text, "| {} |", rounds.concurrency)?;
            for (i, samples) in rounds.samples.iter().enumerate() {
                let median = spread(&samples.iter().map(value).collect::<Vec<_>>()).1;
                let decimals = if median < 1000.0 { 1 } else { 0 };
                write!(text, " {median:.decimals$}")?;
                if i > 0 {
                    let (least, ratio, most) = spread(&ratios(&rounds.samples[0], samples, value));
                    write!(text, " (**{ratio:.2}**, {least:.2}–{most:.2})")?;
                }
                write!(text, " |")?;
            }
            writeln!(text)?;
        }
        Ok(())
    }

    fn times(&self, text: &mut String, rounds: &[&Rounds]) -> Result<()> {
        self.head(text, "busy; ms: p50, p99, most; failed")?;
        for rounds in rounds {
            write!(text, "| {} |", rounds.concurrency)?;
            for samples in &rounds.samples {
                let of = |value: fn(&Sample) -> Duration| {
                    spread(&samples.iter().map(|s| value(s).as_secs_f64() * 1e3).collect::<Vec<_>>()).1
                };
                let [p50, p99, most] = [of(|s| s.outcome.p50), of(|s| s.outcome.p99), of(|s| s.outcome.most)];
                let busy = spread(&samples.iter().map(|sample| sample.busy * 100.0).collect::<Vec<_>>()).1;
                let failed: u64 = samples.iter().map(|sample| sample.outcome.failed).sum();
                write!(text, " {busy:.0} %; {p50:.0}, {p99:.0}, {most:.0}; {failed} |")?;
            }
            writeln!(text)?;
        }
        Ok(())
    }
}
