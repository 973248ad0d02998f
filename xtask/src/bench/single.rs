//! What is measured once per contestant, each in a fresh process: start, idle connections, system calls; and
//! for the product the cost of many routes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::contestant::{Contestant, Kind, Place, Role, Running, exchange};
use super::entrant::Entrant;
use super::load::wrk::Load;
use super::process::signal;
use super::rounds::{Sample, load, sample};
use super::{Small, configs};
use crate::command::exists;

/// Starts of which the median counts.
const STARTS: usize = 5;
/// Exchanges before the memory of an idle connection is measured, so that one-off buffers exist.
const WARM_UP: usize = 200;
/// Time in which memory settles after the last exchange.
const SETTLE: Duration = Duration::from_secs(2);
/// Connections of the load under strace, and its time: tracing slows every call down.
const TRACED: (usize, Duration) = (50, Duration::from_secs(3));
/// Connections of the load on routes.
const ROUTES_CONNECTIONS: usize = 50;
/// The numbers of routes that are compared.
pub(crate) const ROUTES: [usize; 2] = [10, 10_000];

/// The figures, by contestant.
#[derive(Default)]
pub(crate) struct Single {
    /// Start to the end of the first answer, median.
    pub(crate) start: Vec<Duration>,
    /// Resident bytes per idle connection.
    pub(crate) idle: Vec<f64>,
    /// System calls per exchange, by name; `None` when strace did not work.
    pub(crate) calls: Vec<Option<BTreeMap<String, f64>>>,
    /// The product with few routes and with many, by round.
    pub(crate) routes: Option<[Vec<Sample>; 2]>,
}

/// Measures everything.
pub(crate) fn measure(args: &Small, contestants: &[Contestant], place: &mut Place) -> Result<Single> {
    let mut single = Single::default();
    let traces = exists("strace");
    if !traces {
        println!("bench: strace is not installed: system calls are not counted");
    }
    for contestant in contestants {
        let name = contestant.name();
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            starts.push(contestant.start(place)?.started_in);
        }
        starts.sort();
        single.start.push(starts[STARTS / 2]);
        if args.idle > 0 {
            println!("bench: {name}, {} idle connections", args.idle);
            let running = contestant.start(place)?;
            let bytes = idle(&running, args.idle).with_context(|| format!("{name}, idle"))?;
            single.idle.push(bytes);
        }
        if traces {
            println!("bench: {name}, system calls");
            let running = contestant.start(place)?;
            let counted = calls(&running, place);
            if let Err(error) = &counted {
                println!("bench: {name}: {error:#}");
            }
            single.calls.push(counted.ok());
        }
    }
    if let Some(product) = contestants.iter().find(|c| (c.kind, c.role) == (Kind::Thalweg, Role::Plain)) {
        single.routes = Some(routes(args, product, place)?);
    }
    Ok(single)
}

/// Resident bytes per connection that had one exchange and now waits for the next.
pub(crate) fn idle(running: &Running, count: usize) -> Result<f64> {
    let mut first = TcpStream::connect(running.address)?;
    for _ in 0..WARM_UP {
        exchange(&mut first, "bench", "/")?;
    }
    let before = running.program.resident();
    let mut open = Vec::with_capacity(count);
    for i in 0..count {
        let mut stream =
            TcpStream::connect(running.address).with_context(|| format!("after {i} connections"))?;
        let status = exchange(&mut stream, "bench", "/")?;
        if status != 200 {
            bail!("connection {i} got {status}");
        }
        open.push(stream);
    }
    std::thread::sleep(SETTLE);
    let after = running.program.resident();
    if exchange(&mut open[0], "bench", "/")? != 200 {
        bail!("an idle connection does not serve any more");
    }
    Ok((after as f64 - before as f64) / count as f64)
}

/// Counts system calls under load.
fn calls(running: &Running, place: &Place) -> Result<BTreeMap<String, f64>> {
    let file = place.folder.join("strace");
    let mut command = Command::new("strace");
    command.args(["-c", "-f", "-o"]).arg(&file);
    for pid in running.program.pids() {
        command.arg("-p").arg(pid.to_string());
    }
    let mut strace = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    // It says on standard error when it has attached.
    let mut said = [0; 4096];
    let words = strace.stderr.as_mut().map(|pipe| pipe.read(&mut said)).transpose()?.unwrap_or(0);
    let words = String::from_utf8_lossy(&said[..words]).into_owned();
    if !words.contains("attached") {
        let _ = strace.kill();
        let _ = strace.wait();
        bail!("strace cannot attach: {}", words.trim());
    }
    let outcome = load(running, TRACED.0, TRACED.1).run(&place.folder);
    signal(strace.id(), Signal::INT);
    strace.wait()?;
    let requests = outcome?.requests.max(1) as f64;
    let text = fs::read_to_string(&file)?;
    let counts = counts(&text);
    if counts.is_empty() {
        bail!("strace counted nothing");
    }
    Ok(counts.into_iter().map(|(name, count)| (name, count as f64 / requests)).collect())
}

/// Reads the table of `strace -c`: the fourth column is the count, the last one the name.
fn counts(text: &str) -> BTreeMap<String, u64> {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|words| words.len() >= 5 && words[0].parse::<f64>().is_ok())
        .filter_map(|words| Some(((*words.last()?).to_owned(), words[3].parse().ok()?)))
        .filter(|(name, _)| name != "total")
        .collect()
}

/// The product with few and with many routes, in interleaved rounds.
fn routes(args: &Small, product: &Contestant, place: &mut Place) -> Result<[Vec<Sample>; 2]> {
    let begin = Instant::now();
    let running =
        [product.start_with_routes(place, ROUTES[0])?, product.start_with_routes(place, ROUTES[1])?];
    println!("bench: routes, both started in {} ms", begin.elapsed().as_millis());
    let requests = ROUTES.map(configs::middle_route);
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=args.rounds {
        for (i, running) in running.iter().enumerate() {
            let (host, path) = &requests[i];
            let (port, time) = (running.address.port(), args.time());
            let load =
                Load { port, path, host, connections: ROUTES_CONNECTIONS, time, accepts: "", tls: None };
            let sample = sample(running, &load, place)?;
            println!("bench: {} routes, round {round}: {:6.2} µs", ROUTES[i], sample.cpu_us);
            if round > 0 {
                samples[i].push(sample);
            }
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    60.00    0.001000           1      1000       100 recvfrom\n \
                    40.00    0.000500           1       500           sendto\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.001500           1      1500       100 total\n";
        let counts = counts(text);
        assert_eq!(counts["recvfrom"], 1000);
        assert_eq!(counts["sendto"], 500);
        assert_eq!(counts.len(), 2);
    }
}
