//! Figures of the process itself, read from `/proc/self` when the metrics page is rendered.
//!
//! The names are the ones that every Prometheus client library uses. A figure that cannot be read
//! is left out: a page without it is better than no page.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};

use crate::exposition::Exposition;
use crate::names;

/// What `/proc/self` says now.
#[derive(Debug, Default)]
pub(crate) struct ProcessFigures {
    cpu_seconds: Option<f64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    resident: Option<u64>,
    virtual_bytes: Option<u64>,
    threads: Option<u64>,
    start_seconds: Option<f64>,
}

impl ProcessFigures {
    /// Reads all figures: three small files and one directory.
    pub(crate) fn read() -> Self {
        let mut figures = Self { open_fds: open_descriptors(), ..Self::default() };
        figures.max_fds = getrlimit(Resource::Nofile).current;
        if let Ok(stat) = fs::read_to_string("/proc/self/stat") {
            figures.take_stat(&stat);
        }
        figures
    }

    /// Fields of `proc_pid_stat(5)`. The second one, the command in parentheses, may itself hold
    /// blanks and parentheses: everything is counted from the last closing one (field 3 comes next).
    fn take_stat(&mut self, stat: &str) {
        let Some((_, rest)) = stat.rsplit_once(')') else { return };
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
        let (user, system) = (field(14), field(15));
        self.cpu_seconds = user.zip(system).map(|(user, system)| (user + system) as f64 / ticks);
        self.threads = field(20);
        self.start_seconds = field(22).and_then(|start| Some(boot_time()? + start as f64 / ticks));
        self.virtual_bytes = field(23);
        self.resident = field(24).map(|pages| pages.saturating_mul(rustix::param::page_size() as u64));
    }

    /// Writes what could be read.
    pub(crate) fn render(&self, page: &mut Exposition) {
        if let Some(seconds) = self.cpu_seconds {
            page.single(&names::PROCESS_CPU, seconds);
        }
        let integers = [
            (&names::PROCESS_OPEN_FDS, self.open_fds),
            (&names::PROCESS_MAX_FDS, self.max_fds),
            (&names::PROCESS_RESIDENT, self.resident),
            (&names::PROCESS_VIRTUAL, self.virtual_bytes),
            (&names::PROCESS_THREADS, self.threads),
        ];
        for (metric, value) in integers {
            if let Some(value) = value {
                page.single(metric, value);
            }
        }
        if let Some(seconds) = self.start_seconds {
            page.single(&names::PROCESS_START, seconds);
        }
    }
}

/// Open descriptors. Since Linux 6.2 the size of the directory is their number; before, they are
/// counted one by one, less the one that does the counting.
pub fn open_descriptors() -> Option<u64> {
    let path = "/proc/self/fd";
    match fs::metadata(path).ok()?.len() {
        0 => Some((fs::read_dir(path).ok()?.count() as u64).saturating_sub(1)),
        number => Some(number),
    }
}

/// When the machine booted, in seconds since the Unix epoch. Computed once: a start time that moved
/// with the clock would look like a restart.
fn boot_time() -> Option<f64> {
    static BOOT: OnceLock<Option<f64>> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        // `btime` in `/proc/stat` says the same, but that file is slow to make on large machines.
        Some(now - uptime)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_process() {
        let figures = ProcessFigures::read();
        assert!(figures.open_fds.is_some_and(|n| n >= 3));
        assert!(figures.max_fds >= figures.open_fds);
        assert!(
            figures.resident.is_some_and(|bytes| bytes > 100_000) && figures.resident < figures.virtual_bytes
        );
        assert!(figures.threads.is_some_and(|n| n >= 1) && figures.cpu_seconds.is_some());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(figures.start_seconds.is_some_and(|start| start > now - 3600.0 && start < now + 2.0));
    }

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let mut figures = ProcessFigures::default();
        figures.take_stat("7 (a) b) (c) S 1 1 1 0 -1 0 0 0 0 0 100 50 0 0 20 0 4 0 12 4096 3 0\n");
        assert_eq!((figures.threads, figures.virtual_bytes), (Some(4), Some(4096)));
        assert!(figures.cpu_seconds.is_some_and(|seconds| seconds > 0.0));
    }

    #[test]
    fn broken_text_gives_no_figures() {
        for stat in ["", ")", "1 (x) S", "1 (x) S a b c d e f g h i j k l m n o p q r s t u v w"] {
            let mut figures = ProcessFigures::default();
            figures.take_stat(stat);
            assert!(figures.cpu_seconds.is_none() && figures.resident.is_none());
        }
    }
}
