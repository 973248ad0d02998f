//! What a running proxy holds: descriptors, memory, exchanges. Tests compare before and after.

use std::fmt::Display;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::message::get;
use crate::{Proxy, STEP};

/// How long descriptors are watched in one look.
const MOMENT: Duration = Duration::from_millis(20);

/// A look at what a proxy holds now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Vitals {
    /// Open sockets, pipes and files; those of idle upstream connections left out, as a pool may grow, and those of
    /// pollers, as a thread that has just started opens its own.
    pub descriptors: u64,
    /// Exchanges under way.
    pub exchanges: u64,
    /// Client connections open.
    pub clients: u64,
}

impl Vitals {
    /// Looks at `proxy`, which must have a metrics listener.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn of(proxy: &Proxy) -> Self {
        let text = get(proxy.metrics(), "/metrics").unwrap().text();
        let idle = sum(&text, "thalweg_upstream_connections_idle");
        Self {
            descriptors: lowest(proxy).saturating_sub(idle),
            exchanges: sum(&text, "thalweg_requests_active"),
            clients: sum(&text, "thalweg_connections_active"),
        }
    }

    /// Waits until `proxy` holds no more than this.
    ///
    /// # Panics
    /// When it still does after [`STEP`].
    pub fn wait_for(&self, proxy: &Proxy, after: &str) {
        let end = Instant::now() + STEP;
        loop {
            let now = Self::of(proxy);
            if now.descriptors <= self.descriptors
                && now.exchanges <= self.exchanges
                && now.clients <= self.clients
            {
                return;
            }
            let open = links(proxy);
            assert!(Instant::now() < end, "after {after} it holds {now:?}, before {self:?}: {open:?}");
        }
    }
}

/// The fewest descriptors that are open within a moment: the look at the metrics has one itself, which the proxy
/// closes a little later.
fn lowest(proxy: &Proxy) -> u64 {
    let end = Instant::now() + MOMENT;
    let mut lowest = links(proxy).len();
    while Instant::now() < end {
        thread::yield_now();
        lowest = lowest.min(links(proxy).len());
    }
    lowest as u64
}

/// What the descriptors of the process are, pollers left out.
fn links(proxy: &Proxy) -> Vec<String> {
    let folder = fs::read_dir(format!("/proc/{}/fd", proxy.process().pid())).unwrap();
    let targets = folder.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let names = targets.map(|target| target.display().to_string());
    names.filter(|name| !name.starts_with("anon_inode:")).collect()
}

/// Resident memory of the process, in bytes, without the code that it has run so far: that is a file, and comes and
/// goes with what is called (`docs/decisions/0103`).
pub fn resident(proxy: &Proxy) -> u64 {
    held_by(proxy.process().pid())
}

/// The same of a process.
pub fn held_by(pid: impl Display) -> u64 {
    memory(&pid, "RssAnon:") + memory(&pid, "RssShmem:")
}

/// Forgets how much memory the process ever had: [`most_resident`] begins here.
pub fn forget_most_resident(proxy: &Proxy) {
    fs::write(format!("/proc/{}/clear_refs", proxy.process().pid()), "5").unwrap();
}

/// Most resident memory of the process, in bytes, since [`forget_most_resident`], without the code that it has run
/// until now.
pub fn most_resident(proxy: &Proxy) -> u64 {
    let pid = proxy.process().pid();
    memory(&pid, "VmHWM:").saturating_sub(memory(&pid, "RssFile:"))
}

fn memory(pid: &impl Display, of: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// The sum of the samples of a metric, over all its labels.
pub fn sum(text: &str, metric: &str) -> u64 {
    let samples = text.lines().filter_map(|line| line.strip_prefix(metric));
    let values = samples.filter(|rest| rest.starts_with([' ', '{'])).filter_map(|rest| {
        let value = rest.rsplit(' ').next()?;
        value.split('.').next()?.parse::<u64>().ok()
    });
    values.sum()
}
