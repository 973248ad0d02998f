//! Waiting for the running proxy: for how long, and for the end of its process.

use super::AdminArgs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, pidfd_open};
use serde_json::Value;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use thalweg_admin::{Call, Target, process_at};
use thalweg_core::units::parse_duration;

/// How often the proxy is asked how far it is.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// Longest wait that can be asked for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The time of `--wait`.
pub(super) fn wait_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if time <= LONGEST => Ok(time),
        _ => Err("write a time of at most 24h".into()),
    }
}

/// The proxy that runs, to be waited for. Made before it is asked to stop.
pub(super) enum Running<'a> {
    /// Its process, wherever its id goes afterwards.
    Process(OwnedFd),
    /// On another machine, or in a namespace of its own: what it says of itself tells it from its successor.
    Answers(&'a AdminArgs, Target, Identity),
}

/// What tells a process from the one that answers after it.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Identity {
    pid: u64,
    uptime: u64,
}

impl<'a> Running<'a> {
    /// Who answers there now.
    ///
    /// # Errors
    /// A sentence: nobody does.
    pub(super) fn find(admin: &'a AdminArgs) -> Result<Self, String> {
        let answer = admin.call("GET", "/api/v1/status")?;
        let identity = Identity::of(&answer.body).ok_or_else(|| {
            let said = String::from_utf8_lossy(&answer.body);
            format!("the admin API does not say which process it is: {}", said.trim())
        })?;
        let (target, _) = admin.target()?;
        let process = match &target {
            Target::Socket(path) => process_behind(path),
            Target::Tcp(_) | Target::Tls(..) => None,
        };
        Ok(process.map_or_else(|| Self::Answers(admin, target, identity), Self::Process))
    }

    /// Waits for its end, for at most `time`; whether it has ended.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let gone = match self {
                Self::Process(process) => ends_within(process, left.min(Duration::from_secs(1))),
                Self::Answers(admin, target, identity) => is_gone(admin, target, identity),
            };
            if gone || left.is_zero() {
                return gone;
            }
            if matches!(self, Self::Answers(..)) {
                sleep(LOOK.min(left));
            }
        }
    }
}

impl Identity {
    fn of(status: &[u8]) -> Option<Self> {
        let status: Value = serde_json::from_slice(status).ok()?;
        Some(Self { pid: status["pid"].as_u64()?, uptime: status["uptime_seconds"].as_u64()? })
    }

    /// Whether `later` is the same process at a later time.
    fn goes_on_as(&self, later: &Self) -> bool {
        self.pid == later.pid && self.uptime <= later.uptime
    }
}

fn process_behind(path: &Path) -> Option<OwnedFd> {
    let pid = process_at(path).ok().flatten()?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether the process ends before the time is over.
fn ends_within(process: &OwnedFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    // A signal that cuts the wait short is like the end of the time: the caller looks again.
    poll(&mut fds, time.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Whether nobody answers there any more, or somebody else. An answer that breaks off is no end yet.
fn is_gone(admin: &AdminArgs, target: &Target, identity: &Identity) -> bool {
    match admin.send(target, Call { method: "GET", path: "/api/v1/status", fields: &[], body: &[] }) {
        Ok(Ok(answer)) => Identity::of(&answer.body).is_some_and(|later| !identity.goes_on_as(&later)),
        Ok(Err(error)) => error.nobody_there(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn times_are_bounded() {
        assert_eq!(wait_time("30s"), Ok(Duration::from_secs(30)));
        assert!(wait_time("25h").is_err() && wait_time("30").is_err());
    }

    #[test]
    fn a_successor_is_not_the_process_that_was_to_end() {
        let of = |text: &str| Identity::of(text.as_bytes()).unwrap();
        let before = of(r#"{"pid": 1, "uptime_seconds": 9}"#);
        assert!(before.goes_on_as(&of(r#"{"pid": 1, "uptime_seconds": 9}"#)));
        assert!(!before.goes_on_as(&of(r#"{"pid": 2, "uptime_seconds": 9}"#)));
        assert!(!before.goes_on_as(&of(r#"{"pid": 1, "uptime_seconds": 0}"#)), "in a new container");
        assert_eq!(Identity::of(b"{}"), None);
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let running = Running::Process(pidfd_open(pid, PidfdFlags::empty()).unwrap());
        assert!(!running.wait(Duration::ZERO), "it runs");
        drop(child.stdin.take());
        assert!(running.wait(Duration::from_secs(20)));
        child.wait().unwrap();
    }
}
