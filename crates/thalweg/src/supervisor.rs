//! A process that does nothing but start another one, hold its listening sockets, and start it again when it crashes.
//!
//! `thalweg run` begins so where nothing else watches it: as the first process of a container, and without systemd. The
//! proxy is its child, and speaks with it over a channel (`handover`). When the child crashes, clients wait in the
//! queues of the sockets, which are still open here, for the next one. Signals are passed on. An upgrade starts a
//! second child beside the first; the supervisor itself stays what it is until it is started again.
//!
//! With `user:` the supervisor stays root and its children do not. Invariant: messages of a child that has changed
//! its user influence neither the choice of the program that runs as root (`program`) nor the files that are written
//! or removed (`crash_report`). A child reports its state directory and its new user before the change: only its
//! first message counts. The first user that a child becomes stays the only one: the file of the configuration may be
//! writable for that user, and the next child reads it as root. One successor is started at a time.

mod crash_report;
mod program;

use crate::control::command;
use crate::handover::{Channel, MessageSpec, PassedSocketSpec, Received};
use crate::operator_log::{info, warn};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal as Number, kill_process};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;
use thalweg_net::code::let_go_of_start;
use thalweg_net::crash::signal_name;
use thalweg_net::inherited::{InheritedSocket, of_systemd};
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long a child may take to read what it is told.
const READS: Duration = Duration::from_secs(10);
/// A child that has served for so long is started again at once when it crashes.
const STEADY: Duration = Duration::from_secs(1);
/// The pause before one that has not, the first time and at most; it doubles from time to time.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest report of a crash that is kept.
const REPORT: u64 = 256 * 1024;

/// Signals that are passed on to the proxy.
const PASSED: [(SignalKind, Number); 3] = [
    (SignalKind::hangup(), Number::HUP),
    (SignalKind::user_defined1(), Number::USR1),
    (SignalKind::user_defined2(), Number::USR2),
];
const STOPS: [(SignalKind, Number); 3] = [
    (SignalKind::terminate(), Number::TERM),
    (SignalKind::interrupt(), Number::INT),
    (SignalKind::quit(), Number::QUIT),
];

/// A process that was started here.
struct Child {
    pid: Pid,
    channel: Channel,
    /// Copies of its listening sockets.
    held: Vec<InheritedSocket>,
    /// Since when it accepts.
    serves_since: Option<Instant>,
    /// It ends as it was told to.
    is_leaving: bool,
    /// The child's report about itself from before the change of its user.
    terms: Terms,
    /// What it writes when it crashes.
    report: File,
}

/// The first message of a child, which decides whether it is trusted.
#[derive(Debug, Default)]
enum Terms {
    /// It has sent no message yet.
    #[default]
    Silent,
    /// Its first message was a different one.
    Unknown,
    /// Its state directory and its new user.
    Known { state: Option<PathBuf>, uid: u32 },
}

/// What happens to children, by their number.
enum Event {
    Said(u64, Received),
    Ended(u64, io::Result<ExitStatus>),
}

struct Supervisor {
    children: BTreeMap<u64, Child>,
    /// The one that accepts, or is to.
    current: Option<u64>,
    last: u64,
    /// A successor that was started and does not serve yet.
    successor: Option<u64>,
    /// The user that children become, if it is another one than that of this process.
    uid: Option<u32>,
    events: mpsc::Receiver<Event>,
    events_in: mpsc::Sender<Event>,
    stops: bool,
    pause: Duration,
    restart: Option<(Instant, Vec<InheritedSocket>)>,
    /// The child to restart had the user of this process.
    is_trusted: bool,
    crashes: u64,
}

/// Runs the proxy as a child until it ends.
pub(crate) fn supervise() -> ExitCode {
    let sockets = of_systemd();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = |runtime: tokio::runtime::Runtime| {
        let code = runtime.block_on(async { Supervisor::new().run(sockets).await });
        runtime.shutdown_background();
        code
    };
    runtime.map_err(|error| error.to_string()).and_then(run).unwrap_or_else(|error| {
        warn(format_args!("the supervisor cannot start: {error}"));
        ExitCode::FAILURE
    })
}

impl Supervisor {
    fn new() -> Self {
        let (events_in, events) = mpsc::channel(64);
        Self {
            children: BTreeMap::new(),
            current: None,
            last: 0,
            successor: None,
            uid: None,
            events,
            events_in,
            stops: false,
            pause: PAUSE,
            restart: None,
            is_trusted: true,
            crashes: 0,
        }
    }

    async fn run(mut self, sockets: Vec<InheritedSocket>) -> Result<ExitCode, String> {
        let watch = |(kind, _)| signal(kind).map_err(|error| format!("cannot watch for signals: {error}"));
        let mut stops = STOPS.map(watch).into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut passed = PASSED.map(watch).into_iter().collect::<Result<Vec<_>, _>>()?;
        self.start(sockets, None).map_err(|error| format!("the proxy cannot be started: {error}"))?;
        loop {
            let restart = self.restart.as_ref().map(|(at, _)| *at);
            tokio::select! {
                at = any(&mut stops) => {
                    self.stops = true;
                    self.children.values().for_each(|child| pass(child, STOPS[at].1));
                    if self.children.is_empty() {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                at = any(&mut passed) => self.current().into_iter().for_each(|child| pass(child, PASSED[at].1)),
                () = sleep_until(restart) => self.start_again(),
                Some(event) = self.events.recv() => match event {
                    Event::Said(number, said) => self.hear(number, said),
                    Event::Ended(number, status) => {
                        if let Some(code) = self.bury(number, status) {
                            return Ok(code);
                        }
                    }
                },
            }
        }
    }

    fn current(&self) -> Option<&Child> {
        self.children.get(&self.current?)
    }

    /// Starts a proxy on these sockets; without `program`, from the file that this process was started from.
    fn start(&mut self, sockets: Vec<InheritedSocket>, program: Option<&Path>) -> io::Result<()> {
        let number = self.spawn(program)?;
        let Some(child) = self.children.get_mut(&number) else { return Ok(()) };
        let report = child.report.as_fd();
        let fds: Vec<_> = sockets.iter().map(|socket| socket.fd.as_fd()).chain([report]).collect();
        let start = MessageSpec::Start { sockets: PassedSocketSpec::of(&sockets), uid: self.uid };
        child.channel.send(&start, &fds, READS)?;
        child.held = sockets;
        self.current = Some(number);
        Ok(())
    }

    fn start_again(&mut self) {
        let Some((_, sockets)) = self.restart.take().filter(|_| !self.stops) else { return };
        // Copies for the case that this one does not come so far as to send its own.
        let copies: io::Result<Vec<_>> = sockets.iter().map(copy).collect();
        let program = program::after_crash(self.is_trusted);
        if let Err(error) = copies.and_then(|copies| self.start(copies, program.as_deref())) {
            warn(format_args!("the proxy cannot be started: {error}"));
            self.again_later(sockets);
        }
    }

    fn again_later(&mut self, sockets: Vec<InheritedSocket>) {
        self.restart = Some((Instant::now() + self.pause, sockets));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Starts a process; what it is to do is said over its channel.
    fn spawn(&mut self, binary: Option<&Path>) -> io::Result<u64> {
        let (ours, theirs) = Channel::pair()?;
        let report = File::from(memfd_create("thalweg-crash", MemfdFlags::CLOEXEC)?);
        let mut command = command(binary, theirs)?;
        // A terminal's Ctrl-C is for this process, which passes it on.
        command.process_group(0);
        let mut process = Command::from(command).spawn()?;
        let pid = process.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        self.last += 1;
        let number = self.last;
        let channel = ours.try_clone()?;
        let events = self.events_in.clone();
        thread::Builder::new().name("thalweg-child".into()).spawn(move || {
            while let Ok(said) = ours.receive(None) {
                if events.blocking_send(Event::Said(number, said)).is_err() {
                    return;
                }
            }
        })?;
        let events = self.events_in.clone();
        tokio::spawn(async move {
            let status = process.wait().await;
            let _ = events.send(Event::Ended(number, status)).await;
        });
        let child = Child {
            pid,
            channel,
            held: Vec::new(),
            serves_since: None,
            is_leaving: false,
            terms: Terms::default(),
            report,
        };
        self.children.insert(number, child);
        Ok(number)
    }

    /// What a child says.
    fn hear(&mut self, number: u64, Received { message, fds }: Received) {
        let Some(child) = self.children.get_mut(&number) else { return };
        let is_first = matches!(child.terms, Terms::Silent);
        if is_first {
            child.terms = Terms::Unknown;
        }
        match message {
            MessageSpec::Begins { state, uid } if is_first => {
                child.terms = Terms::Known { state, uid };
                self.judge(number);
            }
            _ if is_first && self.uid.is_some() => self.judge(number),
            MessageSpec::Begins { .. } => {}
            MessageSpec::Upgrade { binary } => self.upgrade(number, binary),
            MessageSpec::Hold { sockets } => child.held = PassedSocketSpec::join(sockets, fds),
            MessageSpec::Serving => {
                child.serves_since = Some(Instant::now());
                self.current = Some(number);
                self.successor = self.successor.filter(|successor| *successor != number);
                let_go_of_start();
            }
            MessageSpec::Leaving => {
                child.is_leaving = true;
                child.held.clear();
            }
            _ => warn("the supervisor was told what it does not understand; is it of an older version?"),
        }
    }

    /// Whether a child may have a successor: the one that serves, and one successor at a time.
    fn may_upgrade(&self, number: u64) -> Result<(), &'static str> {
        match self.successor {
            Some(_) => Err("another successor was started, and does not serve yet"),
            None if self.current != Some(number) => Err("another process serves"),
            None => Ok(()),
        }
    }

    /// Judges the first message of a child. Ends a child that becomes another user than the children before it; a
    /// child of this version ends by itself ([`MessageSpec::Start`]).
    fn judge(&mut self, number: u64) {
        let Some(child) = self.children.get(&number) else { return };
        let becomes = match child.terms {
            Terms::Known { uid, .. } => Some(uid),
            Terms::Silent | Terms::Unknown => None,
        };
        if self.uid.is_some() && becomes != self.uid {
            warn("a process of another user than before is ended; help: start the supervisor again");
            pass(child, Number::KILL);
            return;
        }
        let ours = rustix::process::geteuid().as_raw();
        self.uid = self.uid.or(becomes.filter(|uid| *uid != ours));
    }

    /// Starts a successor of the proxy, which speaks with it.
    fn upgrade(&mut self, number: u64, binary: Option<PathBuf>) {
        let Some(old) = self.children.get(&number) else { return };
        if let Err(why) = self.may_upgrade(number) {
            let _ = old.channel.send(&MessageSpec::Refused { why: why.to_owned() }, &[], READS);
            return;
        }
        let is_trusted = old.terms.is_trusted();
        let started = Channel::pair().and_then(|(to_old, to_new)| {
            let program = program::for_successor(binary, is_trusted)?;
            let new = self.spawn(program.as_deref())?;
            self.successor = Some(new);
            let report = self.children.get(&new).map(|child| child.report.try_clone()).transpose()?;
            let fds: Vec<OwnedFd> = [to_new.into_fd()].into_iter().chain(report.map(OwnedFd::from)).collect();
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            let child = self.children.get(&new).ok_or(io::ErrorKind::NotFound)?;
            child.channel.send(&MessageSpec::TakeOver { uid: self.uid }, &fds, READS)?;
            Ok(to_old)
        });
        let Some(old) = self.children.get(&number) else { return };
        let _ = match started {
            Ok(channel) => old.channel.send(&MessageSpec::Give, &[channel.as_fd()], READS),
            Err(error) => {
                let why = format!("the binary cannot be run: {error}");
                old.channel.send(&MessageSpec::Refused { why }, &[], READS)
            }
        };
    }

    /// A child has ended. Gives the code with which this process is to end, if it is.
    fn bury(&mut self, number: u64, status: io::Result<ExitStatus>) -> Option<ExitCode> {
        let child = self.children.remove(&number)?;
        self.successor = self.successor.filter(|successor| *successor != number);
        if self.current != Some(number) {
            // A predecessor that has done its work, or a successor that has not come to it; the other one tells why.
            return (self.stops && self.children.is_empty()).then_some(ExitCode::SUCCESS);
        }
        self.current = None;
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                warn(format_args!("it is not known how the proxy has ended: {error}"));
                return Some(ExitCode::FAILURE);
            }
        };
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        let is_first = child.serves_since.is_none() && self.crashes == 0;
        if self.stops || child.is_leaving || status.success() || (is_first && code.is_some()) {
            return Some(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
        self.crashes += 1;
        self.is_trusted = child.terms.is_trusted();
        self.tell_crash(&child, status);
        let is_steady = child.serves_since.is_some_and(|since| since.elapsed() >= STEADY);
        if is_steady {
            self.pause = PAUSE;
            self.restart = Some((Instant::now(), child.held));
        } else {
            self.again_later(child.held);
        }
        None
    }

    fn tell_crash(&self, child: &Child, status: ExitStatus) {
        let how = match status.signal() {
            Some(signal) => format!("signal {signal}, {}", signal_name(signal)),
            None => status.to_string(),
        };
        let served = child.serves_since.map_or(Duration::ZERO, |since| since.elapsed());
        let pid = child.pid.as_raw_nonzero();
        warn(format_args!(
            "process {pid} has crashed ({how}) after {} s; crash {} of this supervisor",
            served.as_secs(),
            self.crashes
        ));
        match keep_report(child, (&how, served)) {
            Ok(Some(path)) => warn(format_args!("the report is in {}", path.display())),
            Ok(None) => {}
            Err(error) => warn(format_args!("the report of the crash cannot be kept: {error}")),
        }
        info("the proxy is started again");
    }
}

/// Writes the report of a crash into the state directory, where there is one; the oldest ones go.
fn keep_report(child: &Child, (how, served): (&str, Duration)) -> io::Result<Option<PathBuf>> {
    let Terms::Known { state: Some(state), .. } = &child.terms else { return Ok(None) };
    let mut bytes = Vec::new();
    let mut report = child.report.try_clone()?;
    report.rewind()?;
    report.take(REPORT).read_to_end(&mut bytes)?;
    let (version, served) = (env!("CARGO_PKG_VERSION"), served.as_secs());
    let pid = child.pid.as_raw_nonzero().get();
    let told = String::from_utf8_lossy(&bytes);
    let text = format!("thalweg {version}, process {pid}: {how}, after {served} s\n\n{told}");
    crash_report::keep(state, pid, &text, child.terms.is_trusted()).map(Some)
}

impl Terms {
    /// Whether the child has the user of this process, so that it gains no rights through the supervisor.
    fn is_trusted(&self) -> bool {
        let ours = rustix::process::geteuid();
        match self {
            Self::Known { uid, .. } => *uid == ours.as_raw(),
            // Only root can become another user.
            Self::Silent | Self::Unknown => !ours.is_root(),
        }
    }
}

fn copy(socket: &InheritedSocket) -> io::Result<InheritedSocket> {
    let (name, written) = (socket.name.clone(), socket.written.clone());
    Ok(InheritedSocket { name, written, fd: socket.fd.try_clone()? })
}

/// Passes a signal on.
fn pass(child: &Child, number: Number) {
    // It may have ended already.
    let _ = kill_process(child.pid, number);
}

async fn any(signals: &mut [Signal]) -> usize {
    std::future::poll_fn(|context| {
        let ready = signals.iter_mut().position(|signal| signal.poll_recv(context).is_ready());
        ready.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
