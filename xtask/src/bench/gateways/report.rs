//! The report of gateways: shares of direct throughput, CPU, memory, the gates, the method.

use std::fmt::Write;

use anyhow::Result;

use super::entrant::{Entrant, Gateway};
use super::{CONNECTIONS, Gateways, Load, Measured, STREAMS, Sample, WARM_UP};
use crate::bench::entrant::versions;
use crate::bench::figures::{Gate, head, median_ratio, ratio_cell, ratios, spread};
use crate::bench::{configs, frame};

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) args: &'a Gateways,
    pub(super) entrants: &'a [Entrant],
    pub(super) measured: &'a Measured,
}

impl frame::Report for Report<'_> {
    fn title(&self) -> String {
        "Gateways before one service".to_owned()
    }

    fn figures(&self, text: &mut String) -> Result<()> {
        for (load, samples) in Load::ALL.into_iter().zip(&self.measured.samples) {
            let heading = match load {
                Load::Wrk => format!("wrk: {CONNECTIONS} kept connections, HTTP/1.1"),
                Load::Ab => format!("ab: {CONNECTIONS} at once, HTTP/1.0, a connection for each request"),
                Load::H2load => format!(
                    "h2load: {CONNECTIONS} streams at once on {} connections, HTTP/2 without TLS",
                    CONNECTIONS / STREAMS
                ),
            };
            writeln!(text, "\n## {heading}\n")?;
            head(text, &["", "share of direct", "requests/s", "p99 ms", "CPU µs per request", "failed"])?;
            let names = ["direct"].into_iter().chain(self.entrants.iter().map(Entrant::name));
            for (name, own) in names.zip(samples).filter(|(_, own)| !own.is_empty()) {
                let share = match name {
                    "direct" => "–".to_owned(),
                    _ => ratio_cell(&ratios(own, &samples[0], |sample: &Sample| sample.rate)),
                };
                let median = |value: fn(&Sample) -> f64| spread(&own.iter().map(value).collect::<Vec<_>>()).1;
                writeln!(
                    text,
                    "| {name} | {share} | {:.0} | {:.1} | {:.1} | {} |",
                    median(|sample| sample.rate),
                    median(|sample| sample.p99.as_secs_f64() * 1e3),
                    median(|sample| sample.cpu_us),
                    own.iter().map(|sample| sample.failed).sum::<u64>()
                )?;
            }
        }
        writeln!(text, "\n## What they hold after the rounds\n")?;
        head(text, &["", "RSS MB", "threads"])?;
        for (entrant, held) in self.entrants.iter().zip(&self.measured.held) {
            writeln!(text, "| {} | {:.1} | {} |", entrant.name(), held.resident as f64 / 1e6, held.threads)?;
        }
        Ok(())
    }

    fn gates(&self) -> Vec<Gate> {
        let place = |peer| self.entrants.iter().position(|entrant| entrant.peer == peer);
        let own = place(Gateway::Thalweg);
        let mut gates = Vec::new();
        for (load, samples) in Load::ALL.into_iter().zip(&self.measured.samples) {
            let both = own.zip(place(Gateway::Nginx));
            let ratio = |(own, nginx): (usize, usize)| {
                median_ratio(&samples[nginx + 1], &samples[own + 1], |sample: &Sample| sample.rate)
            };
            let name = format!("nginx's share, × ours, {}", load.name());
            gates.push(Gate { name, most: 1.0, measured: both.map(ratio) });
            let failed =
                own.map(|own| samples[own + 1].iter().map(|sample| sample.failed).sum::<u64>() as f64);
            gates.push(Gate {
                name: format!("failed requests, {}", load.name()),
                most: 0.0,
                measured: failed,
            });
        }
        gates
    }

    fn versions(&self) -> Vec<String> {
        versions(self.entrants)
    }

    fn method(&self, text: &mut String) -> Result<()> {
        let Gateways { rounds, seconds, requests, .. } = self.args;
        writeln!(
            text,
            "- everything on both CPUs: load, gateway and service (nginx, {} bytes from memory), as in the published table; \
             two\n  workers where a gateway has such a number\n\
             - {rounds} interleaved rounds after one that is dropped, each in another order; all entrants stay up; {seconds} s \
             of wrk -t1\n  and of h2load, {requests} requests of ab; {} s of load for each before the first round\n\
             - HTTP/2 ends at the gateway; go httputil, spring mvc and zuul have none without TLS here\n\
             - share: requests per second as a multiple of those of the service itself in the same round, median (least–most)\n\
             - of the published table Linkerd's proxy is missing: it is in no registry, and forwards only what its control plane \
             tells it\n\
             - published (4 cores), wrk and ab: nginx 56 and 55 %, Linkerd 44 and 39 %, Spring Cloud Gateway 41 and 41 %, Zuul \
             29 and 35 %",
            configs::BODY.len(),
            WARM_UP.as_secs()
        )?;
        Ok(())
    }
}
