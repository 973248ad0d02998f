//! What the kernel says about processes: CPU time, memory, steal; and the descriptor limit.

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Time that a program gets to stop by itself.
const STOP: Duration = Duration::from_secs(3);

/// A program with all its children; stopped when dropped.
pub(crate) struct Program {
    child: Child,
}

impl Program {
    pub(crate) fn new(child: Child) -> Self {
        Self { child }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process and all below it.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Some((pid, stat_field(pid, 4)?.try_into().ok()?)))
            .collect();
        let mut pids = vec![self.child.id()];
        let mut at = 0;
        while at < pids.len() {
            let parent = pids[at];
            pids.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            at += 1;
        }
        pids
    }

    /// CPU time of all its processes so far, user and kernel.
    pub(crate) fn cpu(&self) -> Duration {
        let ticks = |pid| stat_field(pid, 14).unwrap_or(0) + stat_field(pid, 15).unwrap_or(0);
        time_of(self.pids().into_iter().map(ticks).sum())
    }

    /// Descriptors that all its processes hold.
    pub(crate) fn descriptors(&self) -> usize {
        let count = |pid| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        self.pids().into_iter().map(count).sum()
    }

    /// Resident memory of all its processes, in bytes; pages that they share count in each.
    pub(crate) fn resident(&self) -> u64 {
        self.pids().into_iter().filter_map(resident).sum()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // TERM first: a master process takes its workers along.
        let pids = self.pids();
        signal(self.child.id(), Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < STOP {
            if self.has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for pid in pids {
            signal(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that we have started.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The time of so many ticks, which are those of `/proc`.
fn time_of(ticks: u64) -> Duration {
    Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100)
}

/// A numeric field of `/proc/PID/stat`, counted from 1 as in proc(5); 4 and above.
fn stat_field(pid: u32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in brackets that may hold blanks; the third follows the last bracket.
    let rest = text.rsplit_once(')')?.1;
    rest.split_whitespace().nth(field - 3)?.parse().ok()
}

/// Resident bytes, from the exact figure: the one in `status` may lag by some pages per CPU.
fn resident(pid: u32) -> Option<u64> {
    let exact = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    let text = exact.or_else(|| fs::read_to_string(format!("/proc/{pid}/status")).ok())?;
    let line = text.lines().find(|line| line.starts_with("Rss:") || line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Ticks of all CPUs since boot.
pub(crate) struct CpuTicks {
    /// For programs and the kernel.
    worked: u64,
    stolen: u64,
    all: u64,
}

impl CpuTicks {
    /// The counters of this moment.
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().context("/proc/stat is empty")?;
        let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let sum = |fields: &[usize]| fields.iter().filter_map(|at| ticks.get(*at)).sum();
        Ok(Self { worked: sum(&[0, 1, 2, 5, 6]), stolen: sum(&[7]), all: ticks.iter().take(8).sum() })
    }

    /// What all CPUs have worked between two moments, for whomever.
    pub(crate) fn worked_until(&self, later: &Self) -> Duration {
        time_of(later.worked - self.worked)
    }

    /// The share of CPU time, 0–1, that the hypervisor gave to others between two moments.
    pub(crate) fn stolen_until(&self, later: &Self) -> f64 {
        (later.stolen - self.stolen) as f64 / (later.all - self.all).max(1) as f64
    }
}

/// Raises our soft descriptor limit to the hard one (children inherit it) and returns it.
pub(crate) fn raise_descriptors() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
