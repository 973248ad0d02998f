//! The machine and the tree, for the report.

use std::fs;
use std::process::Command;

use crate::command::{output, root};

/// CPU model, number of CPUs, memory and kernel in one line.
pub(crate) fn describe() -> String {
    let line = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = line("/proc/meminfo", "MemTotal");
    let gib = memory.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 20;
    let model = line("/proc/cpuinfo", "model name");
    format!("{model}, {cpus} CPUs, {gib} GiB, Linux {}", kernel.trim())
}

/// Processes that wanted to run, averaged over the last minute: a busy machine makes a poor run.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// The commit of the tree, marked when there are changes on top of it.
pub(crate) fn commit() -> String {
    let git =
        |words: &[&str]| output(Command::new("git").args(words).current_dir(root())).unwrap_or_default();
    let changed = if git(&["status", "--porcelain"]).is_empty() { "" } else { " with changes" };
    format!("{}{changed}", git(&["rev-parse", "--short", "HEAD"]).trim())
}
