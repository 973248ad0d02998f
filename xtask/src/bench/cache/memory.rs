//! Memory of a cache that many small objects have gone into.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Cache;
use super::asker::{How, Tally, ask};
use super::configs::Setup;
use super::entrant::{Entrant, Started};
use super::origin::{Origin, SMALL};
use crate::bench::contestant::Place;
use crate::bench::layout::Layout;

/// Objects that are looked for at the end.
const SAMPLE: usize = 4000;
/// Time for that.
const LOOK: Duration = Duration::from_secs(60);

/// What one entrant has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    /// Objects that were asked for, and the time that it took.
    pub(super) asked: u64,
    pub(super) seconds: f64,
    /// Answers that were not 200.
    pub(super) failed: u64,
    /// CPU time per miss, in microseconds.
    pub(super) cpu_us: f64,
    /// Resident bytes before and after.
    pub(super) before: u64,
    pub(super) after: u64,
    /// Bytes of its files, which are in memory too.
    pub(super) files: u64,
    /// Objects that it holds, from a sample.
    pub(super) held: u64,
}

impl Fill {
    /// Bytes that the objects have brought.
    pub(super) fn grown(&self) -> u64 {
        self.after.saturating_sub(self.before) + self.files
    }

    /// [`Self::grown`] for each object that is held.
    pub(super) fn per_object(&self) -> f64 {
        self.grown() as f64 / self.held.max(1) as f64
    }
}

/// Fills one entrant after the other; each is alone on the machine.
pub(super) fn measure(args: &Cache, entrants: &[Entrant], place: &mut Place) -> Result<Vec<Fill>> {
    let layout = Layout::Shared;
    let setup = Setup { memory: args.memory, objects: args.objects, workers: layout.workers() };
    let mut fills = Vec::new();
    for entrant in entrants {
        let name = entrant.name();
        let origin = Origin::start(&args.nginx, layout.load_cpus(), place)?;
        let on = entrant.start(setup, layout.proxy_cpus(), place)?;
        let fill = fill(args, &on, &origin).with_context(|| name.to_owned())?;
        println!(
            "bench: memory: {name:<18} {} objects in {:.0} s, {:.1} µs of CPU each, {} held, {:.0} MB",
            fill.asked,
            fill.seconds,
            fill.cpu_us,
            fill.held,
            fill.grown() as f64 / 1e6
        );
        fills.push(fill);
        let folder = on.folder.clone();
        drop(on);
        let _ = fs::remove_dir_all(folder);
    }
    Ok(fills)
}

fn fill(args: &Cache, on: &Started, origin: &Origin) -> Result<Fill> {
    let objects: Vec<u32> = (0..u32::try_from(args.objects)?).collect();
    let program = &on.running.program;
    let (before, cpu, start) = (program.resident(), program.cpu(), Instant::now());
    let how = How { prefix: SMALL, only_if_cached: false, until: start + Duration::from_secs(args.fill) };
    let tally = ask(on.running.address, &objects, how)?;
    let (seconds, spent) = (start.elapsed().as_secs_f64(), program.cpu().saturating_sub(cpu));
    ensure!(tally.ok > 0, "nothing got through: {tally:?}");
    let (after, files) = (program.resident(), files_below(&on.folder));
    let asked = usize::try_from(tally.all())?.min(objects.len());
    Ok(Fill {
        asked: tally.all(),
        seconds,
        failed: tally.all() - tally.ok,
        cpu_us: spent.as_secs_f64() * 1e6 / tally.all() as f64,
        before,
        after,
        files,
        held: held(on, origin, &objects[..asked])?,
    })
}

/// How many of these objects are held: a sample is asked for without asking the origin.
pub(super) fn held(on: &Started, origin: &Origin, objects: &[u32]) -> Result<u64> {
    let step = objects.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<u32> = objects.iter().copied().step_by(step).collect();
    let reached = origin.requests()?;
    let how = How { prefix: SMALL, only_if_cached: true, until: Instant::now() + LOOK };
    let tally = ask(on.running.address, &sample, how)?;
    let misses = origin.requests()?.saturating_sub(reached);
    Ok(scaled(tally, misses, objects.len()))
}

/// Objects of `all`, from a sample of which so many are there.
fn scaled(tally: Tally, misses: u64, all: usize) -> u64 {
    let there = tally.ok.saturating_sub(misses) as f64;
    (there / tally.all().max(1) as f64 * all as f64).round() as u64
}

/// Bytes of all files in a folder, as the file system counts them: in blocks.
fn files_below(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => files_below(&entry.path()),
        Ok(about) if about.is_file() => about.blocks() * 512,
        _ => 0,
    };
    entries.map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all() {
        let tally = Tally { ok: 60, absent: 40, other: 0 };
        assert_eq!(scaled(tally, 0, 1000), 600);
        // One that does not know `only-if-cached` asks the origin.
        assert_eq!(scaled(Tally { ok: 100, absent: 0, other: 0 }, 40, 1000), 600);
        let fill = Fill { before: 10, after: 110, files: 20, held: 60, ..Fill::default() };
        assert_eq!((fill.grown(), fill.per_object()), (120, 2.0));
    }
}
