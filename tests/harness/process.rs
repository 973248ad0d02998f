//! A child process that cannot outlive its test, with its standard error as lines to wait for.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use rustix::process::Signal;
use rustix::process::{Pid, Resource, getrlimit, kill_process, setrlimit};

/// Every child that runs now, so that the watchdog can end them all.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Most bytes that are kept of a child's output.
const OUTPUT: u64 = 16 * 1024 * 1024;

/// Ends every child of this test process.
pub fn kill_all() {
    for pid in lock(&RUNNING).iter() {
        let _ = Pid::from_raw(*pid).map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// Ends every process that has the runtime directory of a test's directory, but for `but`: the heirs of a proxy, which
/// are nobody's children.
pub fn kill_heirs(directory: &Path, but: Option<i32>) {
    let wanted = format!("XDG_RUNTIME_DIR={}", directory.join("run").display());
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids.filter(|pid| Some(*pid) != but) {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// Raises the soft limit of descriptors to the hard one: for tests that hold both ends of many connections.
pub fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Seen {
    lines: Vec<String>,
    stdout: Option<Vec<u8>>,
    stderr_ended: bool,
    status: Option<ExitStatus>,
}

/// A running child; killed and reaped on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: i32,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Process {
    /// Starts `command` with both outputs captured and no standard input, unless the command has set one.
    pub fn start(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let pid = i32::try_from(child.id()).unwrap();
        lock(&RUNNING).insert(pid);
        let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        watch(&mut child, &seen);
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            let status = child.wait().unwrap();
            lock(&RUNNING).remove(&pid);
            lock(&shared.0).status = Some(status);
            shared.1.notify_all();
        });
        Self { name, pid, seen }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        // The lock is held so that the waiting thread cannot free the id in between.
        let running = lock(&RUNNING);
        if running.contains(&self.pid) {
            let _ = Pid::from_raw(self.pid).map(|pid| kill_process(pid, signal));
        }
    }

    /// Waits for a line on standard error that `wanted` turns into something.
    ///
    /// # Panics
    /// When the child ends, or `limit` passes, without such a line.
    pub fn wait_line<T>(&self, what: &str, limit: Duration, wanted: impl Fn(&str) -> Option<T>) -> T {
        let found = self.wait(limit, |seen| {
            let found = seen.lines.iter().find_map(|line| wanted(line));
            if found.is_none() && seen.status.is_some() && seen.stderr_ended {
                Some(None)
            } else {
                found.map(Some)
            }
        });
        found.flatten().unwrap_or_else(|| panic!("{}: no line with {what} in:\n{}", self.name, self.stderr()))
    }

    /// Waits for the end of the child.
    ///
    /// # Panics
    /// When it still runs after `limit`.
    pub fn wait_exit(&self, limit: Duration) -> ExitStatus {
        let status =
            self.wait(limit, |seen| seen.status.filter(|_| seen.stderr_ended && seen.stdout.is_some()));
        status.unwrap_or_else(|| {
            panic!("{} still runs after {limit:?}; it said:\n{}", self.name, self.stderr())
        })
    }

    /// Waits for the end of the child; another process may still have its outputs.
    ///
    /// # Panics
    /// When it still runs after `limit`.
    pub fn wait_exit_status(&self, limit: Duration) -> ExitStatus {
        let status = self.wait(limit, |seen| seen.status);
        status.unwrap_or_else(|| panic!("{} still runs after {limit:?}:\n{}", self.name, self.stderr()))
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        lock(&self.seen.0).status.is_none()
    }

    /// All lines of standard error until now.
    pub fn stderr(&self) -> String {
        lock(&self.seen.0).lines.join("\n")
    }

    /// Standard output; empty until the child has closed it.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(lock(&self.seen.0).stdout.as_deref().unwrap_or_default()).into_owned()
    }

    fn wait<T>(&self, limit: Duration, mut ready: impl FnMut(&Seen) -> Option<T>) -> Option<T> {
        let end = Instant::now() + limit;
        let mut seen = lock(&self.seen.0);
        loop {
            if let Some(found) = ready(&seen) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What a line of the running proxy may be about.
const OBJECTS: [&str; 5] = ["service", "listener", "route", "host", "endpoint"];

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // Reaped by the waiting thread; bounded, because KILL cannot be ignored.
        let _ = self.wait(Duration::from_secs(5), |seen| seen.status);
    }
}

/// A line without what stands before each line of the running proxy: its time and level. The objects that it is about
/// stand as in the message: "thalweg: service `s`, endpoint http://127.0.0.1:1: it is used again".
fn message(line: &str) -> String {
    let mut words = line.splitn(3, ' ');
    let (Some(time), Some("INFO" | "WARN"), Some(text)) = (words.next(), words.next(), words.next()) else {
        return line.to_owned();
    };
    if !(time.len() == 24 && time.ends_with('Z')) {
        return line.to_owned();
    }
    let (mut objects, mut rest) = (Vec::new(), text);
    while let Some((kind, behind)) = rest.split_once('=').filter(|(kind, _)| OBJECTS.contains(kind)) {
        let (name, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once("\" ").unwrap_or((quoted, "")),
            None => behind.split_once(' ').unwrap_or((behind, "")),
        };
        objects.push(if kind == "endpoint" { format!("{kind} {name}") } else { format!("{kind} `{name}`") });
        rest = behind;
    }
    let is_clause = ["at ", "keeps ", "does not ", "has no ", "is not ", "cannot be "]
        .iter()
        .any(|word| rest.starts_with(word));
    let joint = if objects.is_empty() {
        ""
    } else if is_clause {
        " "
    } else {
        ": "
    };
    format!("thalweg: {}{joint}{rest}", objects.join(", "))
}

/// Collects both outputs on threads of their own, so that a full pipe never stops the child.
fn watch(child: &mut Child, seen: &Arc<(Mutex<Seen>, Condvar)>) {
    let stderr = child.stderr.take().unwrap();
    let shared = Arc::clone(seen);
    thread::spawn(move || {
        let mut reader = BufReader::new(stderr.take(OUTPUT));
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            lock(&shared.0).lines.push(message(String::from_utf8_lossy(&line).trim_end()));
            shared.1.notify_all();
            line.clear();
        }
        lock(&shared.0).stderr_ended = true;
        shared.1.notify_all();
    });
    let stdout = child.stdout.take().unwrap();
    let shared = Arc::clone(seen);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.take(OUTPUT).read_to_end(&mut bytes);
        lock(&shared.0).stdout = Some(bytes);
        shared.1.notify_all();
    });
}
