//! CPU per gigabyte on loopback: interleaved rounds of large bodies, the entrant on one CPU, both ends on the other.
//! After them, one more turn each in which system calls are counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::entrant::{Entrant, Peer};
use super::{Part, Programs, Stream, perf};
use crate::bench::contestant::{Place, Running};
use crate::bench::load::bodies::{Load, Outcome, origin, parse};
use crate::command::output;

/// Bytes of a gigabyte.
const GB: f64 = 1e9;
/// Calls that are counted by name, beside all together.
const CALLS: &[&str] = &[
    "recvfrom",
    "read",
    "readv",
    "sendto",
    "write",
    "writev",
    "sendmsg",
    "splice",
    "epoll_wait",
    "epoll_pwait",
];

/// What is sent, and in which direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) name: &'static str,
    verb: &'static str,
    framing: &'static str,
}

const TRAFFIC: &[Traffic] = &[
    Traffic { name: "download, Content-Length", verb: "get", framing: "length" },
    Traffic { name: "download, chunked", verb: "get", framing: "chunked" },
    Traffic { name: "upload, Content-Length", verb: "put", framing: "length" },
    Traffic { name: "upload, chunked", verb: "put", framing: "chunked" },
];

/// One turn of one entrant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// CPU seconds, user and kernel, per gigabyte of body.
    pub(crate) cpu: f64,
    /// Gigabytes per second.
    pub(crate) rate: f64,
    /// Share of its CPU that was in use, 0–1.
    pub(crate) busy: f64,
    pub(crate) bad: u64,
}

/// An entrant's turns with one kind of traffic.
pub(crate) struct Turns {
    pub(crate) peer: Peer,
    pub(crate) samples: Vec<Sample>,
    /// System calls per gigabyte: all, then by name; `None` where perf cannot count them.
    pub(crate) calls: Option<(f64, Vec<(&'static str, f64)>)>,
}

/// Everything measured with one kind of traffic.
pub(crate) struct Table {
    pub(crate) part: Part,
    pub(crate) traffic: Traffic,
    pub(crate) turns: Vec<Turns>,
}

/// Measures the rivals with all traffic, and the floors with plain downloads; what was asked for of it.
pub(crate) fn measure(
    args: &Stream,
    programs: &Programs,
    entrants: &[Entrant],
    folder: &Path,
) -> Result<Vec<Table>> {
    let mut place = Place::new(folder.join("loopback"))?;
    let origin = origin(&programs.ends, &mut place)?;
    place.backend = origin.address;
    let mut tables = Vec::new();
    for (part, traffic) in [(Part::Loopback, TRAFFIC), (Part::Floor, &TRAFFIC[..1])] {
        if !args.measures(part) {
            continue;
        }
        let mut started = Vec::new();
        for entrant in entrants.iter().filter(|entrant| entrant.peer.is_in(part)) {
            started.push((entrant.peer, entrant.start(&mut place)?));
        }
        for traffic in traffic {
            let load = Load {
                ends: &programs.ends,
                verb: traffic.verb,
                framing: traffic.framing,
                bytes: args.bytes,
                close: false,
                connections: args.connections,
                time: args.time(),
            };
            let turns = rounds(args, &load, &started, &place).context(traffic.name)?;
            tables.push(Table { part, traffic: *traffic, turns });
        }
    }
    Ok(tables)
}

fn rounds(args: &Stream, load: &Load<'_>, started: &[(Peer, Running)], place: &Place) -> Result<Vec<Turns>> {
    let new = |(peer, _): &(Peer, Running)| Turns { peer: *peer, samples: Vec::new(), calls: None };
    let mut turns: Vec<_> = started.iter().map(new).collect();
    let what = format!("{} {}", load.verb, load.framing);
    for round in 0..=args.rounds {
        for ((peer, running), turns) in started.iter().zip(&mut turns) {
            let sample = sample(load, running, place).with_context(|| peer.name())?;
            let (name, cpu) = (peer.name(), sample.cpu);
            println!("bench: {what}, round {round}: {name:<20} {cpu:.3} CPU s/GB, {:.2} GB/s", sample.rate);
            if round > 0 {
                turns.samples.push(sample);
            }
        }
    }
    for ((peer, running), turns) in started.iter().zip(&mut turns) {
        match calls(load, running, place) {
            Ok(calls) => turns.calls = Some(calls),
            Err(error) => println!("bench: {}: system calls are not counted: {error:#}", peer.name()),
        }
    }
    Ok(turns)
}

fn sample(load: &Load<'_>, running: &Running, place: &Place) -> Result<Sample> {
    let before = running.program.cpu();
    let outcome = load.run(place, running.address)?;
    let spent = running.program.cpu().saturating_sub(before).as_secs_f64();
    if outcome.bytes == 0 {
        bail!("not one body arrived");
    }
    let (gigabytes, seconds) = (gigabytes(&outcome), outcome.time.as_secs_f64().max(1e-3));
    Ok(Sample { cpu: spent / gigabytes, rate: gigabytes / seconds, busy: spent / seconds, bad: outcome.bad })
}

fn gigabytes(outcome: &Outcome) -> f64 {
    outcome.bytes as f64 / GB
}

/// Counts system calls under load; tracepoints slow the program down less than a tracer would.
fn calls(load: &Load<'_>, running: &Running, place: &Place) -> Result<(f64, Vec<(&'static str, f64)>)> {
    let file = place.folder.join("calls");
    let mut command = perf().context("perf is not installed")?;
    let names = CALLS.iter().map(|name| format!(",syscalls:sys_enter_{name}"));
    let events = format!("raw_syscalls:sys_enter{}", names.collect::<String>());
    let pids: Vec<_> = running.program.pids().iter().map(u32::to_string).collect();
    command.args(["stat", "-x", ",", "-e", &events, "-p", &pids.join(","), "-o"]).arg(&file).arg("--");
    let client = load.command(place, running.address);
    command.arg(client.get_program()).args(client.get_args());
    let outcome = parse(&output(&mut command)?)?;
    let counts = counts(&fs::read_to_string(&file)?);
    let per_gigabyte = |event: &str| counts.get(event).map(|count| *count as f64 / gigabytes(&outcome));
    let all = per_gigabyte("raw_syscalls:sys_enter").context("perf counted nothing")?;
    let named = |name: &&'static str| Some((*name, per_gigabyte(&format!("syscalls:sys_enter_{name}"))?));
    Ok((all, CALLS.iter().filter_map(named).collect()))
}

/// Reads the table of `perf stat -x,`: the first column is the count, the third the event.
fn counts(text: &str) -> BTreeMap<String, u64> {
    let rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter_map(|row| Some(((*row.get(2)?).to_owned(), row[0].parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_perf_is_read() {
        let text = "# started on Sun\n\n1200,,raw_syscalls:sys_enter,3000,100.00,,\n\
                    600,,syscalls:sys_enter_recvfrom,3000,100.00,,\n<not counted>,,syscalls:sys_enter_read,0,0.00,,\n";
        let counts = counts(text);
        assert_eq!(counts["raw_syscalls:sys_enter"], 1200);
        assert_eq!(counts["syscalls:sys_enter_recvfrom"], 600);
        assert_eq!(counts.len(), 2);
    }
}
