//! A network namespace that lives as long as this process, or less.
//!
//! It has no name: a small process holds it and ends with its standard input, so it vanishes with us even when we are
//! killed. Needs the right to make namespaces (root, usually), and `unshare` and `nsenter` of util-linux.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::command::{output, run};

/// Time in which the holder must be inside.
const START: Duration = Duration::from_secs(2);

/// The namespace, with its loopback up.
pub(crate) struct Namespace {
    holder: Child,
}

impl Namespace {
    pub(crate) fn new() -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut namespace = Self { holder: command.spawn()? };
        let ours = fs::read_link("/proc/self/ns/net")?;
        let begin = Instant::now();
        while fs::read_link(namespace.file()).is_ok_and(|theirs| theirs == ours) {
            if begin.elapsed() > START || namespace.holder.try_wait()?.is_some() {
                bail!("cannot make a network namespace\nhelp: run as root");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        namespace.ip("link set lo up")?;
        // What was learnt from one connection must not help or harm the next.
        namespace.set("tcp_no_metrics_save", "1")?;
        Ok(namespace)
    }

    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// The process that stands for it.
    pub(crate) fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// The words before a command that is to run inside.
    pub(crate) fn enter(&self) -> [OsString; 2] {
        ["nsenter".into(), format!("--net={}", self.file()).into()]
    }

    /// Runs `ip` inside, words separated by blanks.
    pub(crate) fn ip(&self, words: &str) -> Result<()> {
        let [nsenter, file] = self.enter();
        run(Command::new(nsenter).arg(file).arg("ip").args(words.split_whitespace()))
    }

    /// Sets a TCP setting of the kernel inside.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        self.within(|| Ok(fs::write(format!("/proc/sys/net/ipv4/{name}"), value)?))
    }

    /// Does something inside, on a thread of its own.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let file = File::open(self.file())?;
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                work()
            });
            inside.join().map_err(|_| anyhow!("a thread in the namespace panicked"))?
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Why namespaces with a long link between them cannot be had here; `None` when they can.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("the long link needs root, for namespaces and TUN devices".to_owned());
    }
    let programs = ["unshare", "nsenter", "chrt", "ip"];
    if let Some(program) = programs.iter().find(|program| !crate::command::exists(program)) {
        return Some(format!("{program} is not installed\nhelp: apt-get install util-linux iproute2"));
    }
    let try_it = Namespace::new().and_then(|namespace| {
        let [nsenter, file] = namespace.enter();
        output(Command::new(nsenter).arg(file).args(["test", "-c", "/dev/net/tun"]))
    });
    try_it.err().map(|error| format!("no namespace with /dev/net/tun: {error:#}"))
}
