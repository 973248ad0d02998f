//! Resident memory of connections that had one exchange and are silent.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Scene;
use super::entrant::{Entrant, Started};
use crate::bench::LOAD_CPU;
use crate::bench::configs::BODY;
use crate::bench::contestant::Place;

/// Connections that come and go before, so that what is made once is there.
const WARM_UP: usize = 20;
/// Time in which memory settles after the last exchange.
const SETTLE: Duration = Duration::from_secs(2);

/// Bytes per idle connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    pub(super) h1: f64,
    pub(super) h2: f64,
}

/// Measures both, each in a process of its own.
pub(super) fn measure(entrant: &Entrant, place: &mut Place, scene: &Scene, count: usize) -> Result<Idle> {
    let mut bytes = |language: &str| {
        println!("bench: {}, {count} idle connections of {language}", entrant.name());
        let started = entrant.start(place, scene)?;
        let grown = growth(&started, &scene.tools.clients, language, count);
        grown.with_context(|| format!("{}, idle {language}", entrant.name()))
    };
    Ok(Idle { h1: bytes("h1")?, h2: bytes("h2")? })
}

fn growth(started: &Started, clients: &Path, language: &str, count: usize) -> Result<f64> {
    Held::open(started, clients, language, WARM_UP)?.close()?;
    std::thread::sleep(SETTLE);
    let before = started.running.program.resident();
    let held = Held::open(started, clients, language, count)?;
    std::thread::sleep(SETTLE);
    let after = started.running.program.resident();
    held.close()?;
    Ok((after as f64 - before as f64) / count as f64)
}

/// Connections under way.
struct Held {
    child: Child,
    from: BufReader<ChildStdout>,
}

impl Held {
    /// Opens them; each has had an exchange when this returns.
    fn open(started: &Started, clients: &Path, language: &str, count: usize) -> Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", LOAD_CPU]).arg(clients);
        command.args(["hold", &started.running.address.to_string(), language, BODY, &count.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let from = BufReader::new(child.stdout.take().context("the clients have no output")?);
        let mut held = Self { child, from };
        let mut line = String::new();
        held.from.read_line(&mut line)?;
        if !line.starts_with("READY ") {
            bail!("the connections do not open: {line}");
        }
        Ok(held)
    }

    /// Closes them; the first and the last still have to serve.
    fn close(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.from.read_to_string(&mut rest)?;
        if !rest.starts_with("RESULT ") {
            bail!("an idle connection does not serve any more");
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
