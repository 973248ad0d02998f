//! Counts what exchanges cost a process: under callgrind its instructions, under strace its system calls.

use std::fmt;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::bench::contestant::exchange;
use crate::bench::process::{Program, signal};

/// Exchanges of the two runs whose difference counts. The few are a warm-up: pools and buffers exist after them.
const EXCHANGES: [u32; 2] = [200, 1200];
/// Most time for a start or an end: callgrind makes a program some fifty times slower.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one exchange costs.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) instructions: f64,
    pub(super) calls: f64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.0} instructions, {:>5.2} system calls an exchange", self.instructions, self.calls)
    }
}

/// The product with some filters on its route.
pub(super) struct Run<'a> {
    pub(super) binary: &'a Path,
    pub(super) backend: SocketAddr,
    /// Lines of the route's list.
    pub(super) filters: &'a str,
}

/// By what is counted.
#[derive(Clone, Copy)]
enum Counter {
    Callgrind,
    Strace,
}

impl Run<'_> {
    pub(super) fn measure(&self) -> Result<Counts> {
        Ok(Counts {
            instructions: self.difference(Counter::Callgrind)?,
            calls: self.difference(Counter::Strace)?,
        })
    }

    fn difference(&self, counter: Counter) -> Result<f64> {
        let [few, many] = EXCHANGES;
        let (low, high) = (self.total(counter, few)?, self.total(counter, many)?);
        Ok((high as f64 - low as f64) / f64::from(many - few))
    }

    /// What the process has cost from its start to its end, with so many exchanges in between.
    fn total(&self, counter: Counter, exchanges: u32) -> Result<u64> {
        let folder = Folder::new()?;
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = folder.0.join("thalweg.yaml");
        fs::write(&config, self.config(listen))?;
        let out = folder.0.join("counts");
        let mut command = counter.command(&out);
        command.arg(self.binary).args(["run", "--config"]).arg(&config).current_dir(&folder.0);
        command.envs([("XDG_RUNTIME_DIR", &folder.0), ("XDG_STATE_HOME", &folder.0)]);
        command.env("THALWEG_SUPERVISE", "never").env_remove("THALWEG_CONFIG").env_remove("RUST_LOG");
        let said = fs::File::create(folder.0.join("said"))?;
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let told = || fs::read_to_string(folder.0.join("said")).unwrap_or_default();
        let mut program = Program::new(command.spawn().context("the counter does not start")?);
        let mut stream = connect(listen, &mut program).with_context(told)?;
        for _ in 0..exchanges {
            if exchange(&mut stream, "gate", "/")? != 200 {
                bail!("an exchange was not answered with 200:\n{}", told());
            }
        }
        drop(stream);
        // strace is the parent of what it watches, callgrind is the process itself.
        let last = program.pids().into_iter().next_back();
        last.into_iter().for_each(|pid| signal(pid, Signal::TERM));
        let begin = Instant::now();
        while !program.has_ended() {
            if begin.elapsed() > PATIENCE {
                bail!("it does not end:\n{}", told());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = fs::read_to_string(&out).with_context(told)?;
        counter.read(&text).with_context(|| format!("no count in:\n{}", &text[..text.len().min(1000)]))
    }

    fn config(&self, listen: SocketAddr) -> String {
        let filters = match self.filters {
            "" => String::new(),
            filters => format!("    filters:\n{filters}"),
        };
        format!(
            "workers: 1\nlisteners: {{ web: {{ address: \"{listen}\" }} }}\n\
             services: {{ one: {{ endpoints: [ \"http://{}\" ] }} }}\nroutes:\n  - to: one\n{filters}",
            self.backend
        )
    }
}

impl Counter {
    fn command(self, out: &Path) -> Command {
        let mut command;
        match self {
            Self::Callgrind => {
                command = Command::new("valgrind");
                command.args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())]);
            }
            Self::Strace => {
                command = Command::new("strace");
                command.args(["-c", "-f", "-o"]).arg(out);
            }
        }
        command
    }

    /// The whole count in what it has written.
    fn read(self, text: &str) -> Option<u64> {
        match self {
            // `summary: N`, or `totals: N`.
            Self::Callgrind => {
                let words = |line: &str| {
                    line.strip_prefix("summary: ").or(line.strip_prefix("totals: "))?.parse().ok()
                };
                text.lines().find_map(words)
            }
            // The fourth column of the last line, as `100.00 0.1 2 345 6 total`.
            Self::Strace => {
                let line = text.lines().find(|line| line.ends_with(" total"))?;
                line.split_whitespace().nth(3)?.parse().ok()
            }
        }
    }
}

/// A connection that has had its first answer.
fn connect(listen: SocketAddr, program: &mut Program) -> Result<TcpStream> {
    let begin = Instant::now();
    loop {
        if let Ok(mut stream) = TcpStream::connect(listen) {
            exchange(&mut stream, "gate", "/").context("no first answer")?;
            return Ok(stream);
        }
        if program.has_ended() || begin.elapsed() > PATIENCE {
            bail!("it does not listen");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("thalweg-gate-{}-{number}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_counters_write_is_read() {
        assert_eq!(Counter::Callgrind.read("version: 1\nsummary: 12345\n\nfn=(1)\n"), Some(12_345));
        assert_eq!(Counter::Callgrind.read("fn=(1)\ntotals: 7\n"), Some(7));
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     60.00    0.001000           1      1000       100 recvfrom\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.001500           1      1500       100 total\n";
        assert_eq!(Counter::Strace.read(table), Some(1500));
        assert_eq!(Counter::Strace.read("nothing"), None);
    }
}
