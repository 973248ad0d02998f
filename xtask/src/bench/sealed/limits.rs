//! The most servers with one session each, what comes beyond, and whether a proxy serves again after that.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Sealed;
use super::ends::{Ends, Load, Mode, Sample, Servers};
use super::entrant::{Peer, Started};
use crate::bench::entrant::Peer as _;
use crate::bench::process::Program;

/// Servers more from one attempt to the next.
pub(super) const STEP: usize = 1000;
/// The most servers: the ends need a descriptor for each, of the 20,000 that they have.
const MOST: usize = 19_000;
/// Servers beyond the first loss, for another look.
pub(super) const BEYOND: usize = 2 * STEP;
/// Sessions that must get through after that.
pub(super) const AFTER: usize = 100;
/// Time for that, and for a proxy to close what has ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// A proxy that closed nothing for so long has closed all.
const QUIET: Duration = Duration::from_millis(100);

/// How far one came.
pub(super) struct Limit {
    pub(super) peer: Peer,
    pub(super) mode: Mode,
    /// The most servers without a loss.
    pub(super) most: usize,
    /// The first attempt with a loss, and one further on; `None` where the ends have no more descriptors.
    pub(super) first: Option<(usize, Sample)>,
    pub(super) beyond: Option<(usize, Sample)>,
    /// Time after the last of these until it served again; `None` when it did not.
    pub(super) again: Option<Duration>,
}

/// Finds it for each entrant and mode.
pub(super) fn measure(args: &Sealed, ends: &Ends, started: &[Started]) -> Result<Vec<Limit>> {
    let mut all = Vec::new();
    for &mode in &args.modes {
        for on in started {
            all.push(limit(ends, on, mode).with_context(|| on.peer.name())?);
        }
    }
    Ok(all)
}

fn limit(ends: &Ends, on: &Started, mode: Mode) -> Result<Limit> {
    let mut limit = Limit { peer: on.peer, mode, most: 0, first: None, beyond: None, again: None };
    for count in (STEP..=MOST).step_by(STEP) {
        let sample = attempt(ends, on, mode, count)?;
        if sample.outcome.losses() > 0 {
            limit.first = Some((count, sample));
            break;
        }
        limit.most = count;
    }
    if let Some((count, _)) = limit.first.filter(|(count, _)| count + BEYOND <= MOST) {
        limit.beyond = Some((count + BEYOND, attempt(ends, on, mode, count + BEYOND)?));
    }
    let begin = Instant::now();
    while limit.again.is_none() && begin.elapsed() < PATIENCE {
        let served = ends.drive(on, &load(mode, AFTER))?.outcome.losses() == 0;
        limit.again = served.then(|| begin.elapsed());
    }
    Ok(limit)
}

/// One session with each of so many servers, with one message of 20 bytes.
fn load(mode: Mode, count: usize) -> Load {
    Load { mode, servers: Servers::Addresses(count), clients: 1, messages: 1, bytes: 20 }
}

fn attempt(ends: &Ends, on: &Started, mode: Mode, count: usize) -> Result<Sample> {
    settle(&on.running.program);
    let sample = ends.drive(on, &load(mode, count))?;
    println!(
        "bench: {}, limits, {count} servers: {:<8} {} descriptors, {:?}",
        mode.word(),
        on.peer.name(),
        sample.descriptors,
        sample.outcome
    );
    Ok(sample)
}

/// Waits until a proxy has closed what ended before.
fn settle(program: &Program) {
    let (begin, mut held, mut since) = (Instant::now(), program.descriptors(), Instant::now());
    while since.elapsed() < QUIET && begin.elapsed() < PATIENCE {
        std::thread::sleep(QUIET / 10);
        let now = program.descriptors();
        if now != held {
            (held, since) = (now, Instant::now());
        }
    }
}
