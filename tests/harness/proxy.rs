//! The binary under test, running: started on ports of the kernel's choice, stopped with its test.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Process, Signal};
use crate::{Directory, STEP, binary};

/// How long the binary may take to get ready.
const START: Duration = Duration::from_secs(20);

/// What a proxy left behind when it ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote on standard error.
    pub stderr: String,
    /// The access log, a record per line; empty when none was configured.
    pub log: Vec<Value>,
    /// What it wrote, until this is dropped.
    pub directory: Directory,
}

/// A running `thalweg run`; killed on drop.
#[derive(Debug)]
pub struct Proxy {
    process: Process,
    directory: Directory,
}

/// A command of the binary under test with directories of the test's own.
pub fn command(directory: &Path) -> Command {
    wrapped(directory, binary::path().as_os_str())
}

fn wrapped(directory: &Path, program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env("XDG_RUNTIME_DIR", directory.join("run"))
        .env("XDG_STATE_HOME", directory.join("state"))
        .env("NO_COLOR", "1")
        // What is started is the proxy itself, unless a test says `--supervise`.
        .env("THALWEG_SUPERVISE", "never")
        .env_remove("THALWEG_CONFIG")
        .env_remove("THALWEG_ADMIN_SOCKET")
        .env_remove("RUST_LOG");
    command
}

impl Proxy {
    /// Starts the proxy with a configuration; `{log}` in it stands for the path of the access log.
    ///
    /// # Panics
    /// When it does not get ready.
    pub fn start(config: &str) -> Self {
        Self::start_in(Directory::new(), config)
    }

    /// Like [`Proxy::start`], with files that the test has put into `directory`.
    pub fn start_in(directory: Directory, config: &str) -> Self {
        let mut command = command(directory.path());
        Self::spawn(directory, config, &mut command)
    }

    /// Like [`Proxy::start`], with further arguments of `thalweg run`.
    pub fn start_with(arguments: &[&str], config: &str) -> Self {
        let directory = Directory::new();
        let log = directory.path().join("access.log");
        directory.write("thalweg.yaml", &config.replace("{log}", &log.to_string_lossy()));
        Self::start_file(directory, arguments, "thalweg.yaml")
    }

    /// Like [`Proxy::start_with`], with a file of `directory` that is there already.
    pub fn start_file(directory: Directory, arguments: &[&str], file: &str) -> Self {
        let mut command = command(directory.path());
        let file = directory.path().join(file);
        Self::run(directory, command.arg("run").args(arguments).arg("--config").arg(file))
    }

    /// Like [`Proxy::start`], with at most `descriptors` open files.
    pub fn start_with_descriptors(descriptors: u32, config: &str) -> Self {
        Self::start_limited(&format!("-n {descriptors}"), config)
    }

    /// Like [`Proxy::start`], with files of at most so many blocks, of 512 or 1,024 bytes.
    pub fn start_with_file_blocks(blocks: u32, config: &str) -> Self {
        Self::start_limited(&format!("-f {blocks}"), config)
    }

    fn start_limited(limit: &str, config: &str) -> Self {
        let directory = Directory::new();
        let mut command = wrapped(directory.path(), OsStr::new("sh"));
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(binary::path());
        Self::spawn(directory, config, &mut command)
    }

    /// Like [`Proxy::start`], as the command that `tracer` is given as its last arguments; `tracer` must leave the
    /// proxy its own process id, so that signals reach it.
    pub fn start_under(tracer: &Path, arguments: &[&str], config: &str) -> Self {
        let directory = Directory::new();
        let mut command = wrapped(directory.path(), tracer.as_os_str());
        command.args(arguments).arg(binary::path());
        Self::spawn(directory, config, &mut command)
    }

    fn spawn(directory: Directory, config: &str, command: &mut Command) -> Self {
        let log = directory.path().join("access.log");
        let config = directory.write("thalweg.yaml", &config.replace("{log}", &log.to_string_lossy()));
        Self::run(directory, command.arg("run").arg("--config").arg(config))
    }

    fn run(directory: Directory, command: &mut Command) -> Self {
        let process = Process::start(command);
        process.wait_line("`thalweg: ready`", START, |line| (line == "thalweg: ready").then_some(()));
        Self { process, directory }
    }

    /// The address of the listener called `name`.
    pub fn address(&self, name: &str) -> SocketAddr {
        let suffix = format!(" ({name})");
        self.process.wait_line(&suffix, STEP, |line| {
            line.strip_prefix("thalweg: listening on ")?.strip_suffix(&suffix)?.parse().ok()
        })
    }

    /// The address of the listener that every test has.
    pub fn web(&self) -> SocketAddr {
        self.address("web")
    }

    /// The address of the metrics listener.
    pub fn metrics(&self) -> SocketAddr {
        self.process
            .wait_line("metrics on", STEP, |line| line.strip_prefix("thalweg: metrics on ")?.parse().ok())
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The directory of this proxy: its configuration, sockets, state and log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The path of the access log.
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("access.log")
    }

    /// Asks it to stop and waits for the end.
    pub fn stop(self) -> Ended {
        self.process.signal(Signal::TERM);
        self.ended(STEP)
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it runs on, panicked inside, or wrote a log line that is not JSON.
    pub fn ended(self, limit: Duration) -> Ended {
        let status = self.process.wait_exit(limit);
        let stderr = self.process.stderr();
        assert!(!stderr.contains("panicked"), "the proxy panicked:\n{stderr}");
        let log = read_log(&self.log_path());
        Ended { status, stderr, log, directory: self.directory }
    }
}

/// The records of an access log; none when the file does not exist.
///
/// # Panics
/// When a line is not JSON: whatever the network sent, the log must stay readable.
pub fn read_log(path: &Path) -> Vec<Value> {
    let text = fs::read(path).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            serde_json::from_slice(line)
                .unwrap_or_else(|error| panic!("a log line is not JSON ({error}): {}", line.escape_ascii()))
        })
        .collect()
}
