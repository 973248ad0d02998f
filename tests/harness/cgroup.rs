//! A memory cgroup of one test, so that the kernel itself judges what a process and its sockets use.
//!
//! v1 and v2; only root (or a delegated cgroup) can make one, so a test must be able to do without.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A cgroup with a memory limit; removed on drop, when its processes are gone.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    is_v2: bool,
}

impl Cgroup {
    /// Makes a cgroup whose processes and sockets may use this many bytes; says why when it cannot.
    pub fn new(name: &str, limit: u64) -> Option<Self> {
        let name = format!("thalweg-test-{name}-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let is_v2 = !v1.is_dir();
        let path = if is_v2 { Path::new("/sys/fs/cgroup").join(name) } else { v1.join(name) };
        if let Err(error) = fs::create_dir(&path) {
            eprintln!("no memory cgroup can be made here: {error}");
            return None;
        }
        let cgroup = Self { path, is_v2 };
        // v1 keeps two counts: what processes use, and what their TCP sockets hold.
        let files: &[&str] = if is_v2 {
            &["memory.max"]
        } else {
            &["memory.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"]
        };
        for file in files {
            if let Err(error) = fs::write(cgroup.path.join(file), limit.to_string()) {
                eprintln!("no memory limit can be set here: {error}");
                return None;
            }
        }
        Some(cgroup)
    }

    /// The start of a shell script that puts the shell, and what it executes, into the cgroup.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.path.display())
    }

    /// Bytes in use that the kernel cannot drop at will: memory of processes, of the kernel for them, of sockets.
    ///
    /// # Panics
    /// When the kernel does not tell.
    pub fn used(&self) -> u64 {
        if self.is_v2 {
            return self.stat("anon") + self.stat("kernel") + self.stat("sock");
        }
        let kernel =
            self.number("memory.kmem.usage_in_bytes") + self.number("memory.kmem.tcp.usage_in_bytes");
        self.stat("rss") + kernel
    }

    /// Times that the kernel has ended a process of the cgroup for want of memory.
    pub fn killed(&self) -> u64 {
        let text = self.read(if self.is_v2 { "memory.events" } else { "memory.oom_control" });
        value(&text, "oom_kill").unwrap_or(0)
    }

    fn stat(&self, name: &str) -> u64 {
        value(&self.read("memory.stat"), name).unwrap_or_else(|| panic!("memory.stat has no {name}"))
    }

    fn number(&self, file: &str) -> u64 {
        self.read(file).trim().parse().unwrap()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Sockets that still close hold it for a moment after the last process.
        let end = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.path).is_err() && Instant::now() < end {
            std::thread::yield_now();
        }
    }
}

/// The number behind a name at the start of a line.
fn value(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}
