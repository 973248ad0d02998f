//! An upgrade, as the process sees it that is replaced: it offers what it has to a successor, and lets go when that is
//! ready. Whatever fails before changes nothing. What is said between them: `handover`.
//!
//! The conversation is on a thread of its own. While it lasts the admin API changes nothing: the successor would not
//! know.

use super::admin::Shared;
use crate::handover::{
    Channel, MessageSpec, OfferSpec, PassedSocketSpec, Received, RuntimeChangesSpec, VARIABLE,
};
use crate::operator_log::{info, warn};
use rustix::fd::AsFd;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use thalweg_admin::{Handle, Refusal, Upgraded, Upgrading};
use thalweg_net::inherited::InheritedSocket;
use thalweg_tls::Tickets;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How long a successor may take to begin to read.
const READS: Duration = Duration::from_secs(10);
/// How long it may take until it is ready. Reading a large configuration and asking sources of endpoints are part of
/// it.
const STARTS: Duration = Duration::from_secs(120);
/// How long it may take to end once it has failed.
const ENDS: Duration = Duration::from_secs(2);

/// What the sockets of the admin listener and of that of metrics are called; no listener has such a name.
pub(super) const ADMIN_SOCKETS: [&str; 2] = ["@admin", "@metrics"];

/// A wish for an upgrade.
#[derive(Debug)]
pub(super) struct Wanted {
    binary: Option<PathBuf>,
    told: oneshot::Sender<Result<Upgraded, Refusal>>,
}

/// What the conversation with a successor comes to.
#[derive(Debug)]
pub(super) enum News {
    /// It is ready, and waits for its word.
    Ready { channel: Channel, pid: u32, version: String },
    /// There is none; why.
    Failed(String),
}

/// Where upgrades are asked for.
#[derive(Debug)]
pub(super) struct Wishes {
    sender: mpsc::Sender<Wanted>,
    receiver: std::sync::Mutex<Option<mpsc::Receiver<Wanted>>>,
}

impl Default for Wishes {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        Self { sender, receiver: std::sync::Mutex::new(Some(receiver)) }
    }
}

impl Wishes {
    /// For the control thread; `None` the second time.
    pub(super) fn receiver(&self) -> Option<mpsc::Receiver<Wanted>> {
        self.receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

/// Upgrades, as the control thread sees them.
#[derive(Debug)]
pub(super) struct Upgrades {
    wanted: mpsc::Receiver<Wanted>,
    /// Where the supervisor is, and what it says.
    supervisor: Option<(Arc<Channel>, mpsc::Receiver<Heard>)>,
    /// Until when it has to have answered.
    answers_until: Option<Instant>,
    news: mpsc::Receiver<News>,
    news_in: mpsc::Sender<News>,
    told: Option<oneshot::Sender<Result<Upgraded, Refusal>>>,
}

/// What a supervisor says.
#[derive(Debug)]
enum Heard {
    /// The channel to a successor that it has started.
    Given(Channel),
    /// There can be none; why.
    Refused(String),
}

/// What the control thread is to do.
#[derive(Debug)]
pub(super) enum Step {
    Begin(Wanted),
    Give(Channel),
    /// The supervisor has gone.
    Orphaned,
    News(News),
}

impl Upgrades {
    /// Nothing is asked for yet.
    pub(super) fn new(shared: &Shared, supervisor: Option<Arc<Channel>>) -> Self {
        let (news_in, news) = mpsc::channel(1);
        let wanted = shared.wishes.receiver().unwrap_or_else(|| mpsc::channel(1).1);
        let supervisor = supervisor.map(|channel| {
            let heard = listen(&channel);
            (channel, heard)
        });
        Self { wanted, supervisor, answers_until: None, news, news_in, told: None }
    }

    /// Waits for the next step.
    pub(super) async fn next(&mut self) -> Step {
        let supervisor = async {
            match &mut self.supervisor {
                Some((_, heard)) => heard.recv().await,
                None => std::future::pending().await,
            }
        };
        let late = async {
            match self.answers_until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(wanted) = self.wanted.recv() => Step::Begin(wanted),
            Some(news) = self.news.recv() => Step::News(news),
            () = late => Step::News(News::Failed("the supervisor does not answer".into())),
            heard = supervisor => match heard {
                Some(Heard::Given(channel)) => Step::Give(channel),
                Some(Heard::Refused(why)) => Step::News(News::Failed(why)),
                None => Step::Orphaned,
            },
        }
    }

    /// Begins an upgrade, unless one is under way.
    pub(super) fn begin(&mut self, (shared, admin): (&Shared, &Handle), wanted: Wanted) {
        if self.told.is_some() {
            let _ = wanted.told.send(Err(Refusal::Conflict("an upgrade is under way already".into())));
            return;
        }
        if let Err(why) = shared.may_upgrade() {
            warn(format_args!("no upgrade: {why}"));
            let _ = wanted.told.send(Err(Refusal::Conflict(why)));
            return;
        }
        info("upgrade: a successor is started");
        self.told = Some(wanted.told);
        shared.is_passed_on.store(true, Ordering::Release);
        if let Some((supervisor, _)) = &self.supervisor {
            let asked = supervisor.send(&MessageSpec::Upgrade { binary: wanted.binary }, &[], READS);
            match asked {
                Ok(()) => self.answers_until = Some(Instant::now() + READS),
                Err(error) => self.fail(shared, &format!("the supervisor does not answer: {error}")),
            }
            return;
        }
        let started = Channel::pair()
            .and_then(|(ours, theirs)| Ok((ours, successor(wanted.binary.as_deref(), theirs)?)));
        match started {
            Ok((channel, child)) => self.converse((shared, admin), channel, Some(child)),
            Err(error) => self.fail(shared, &format!("the binary cannot be run: {error}")),
        }
    }

    /// Gives to a successor that the supervisor has started.
    pub(super) fn give(&mut self, shared: (&Shared, &Handle), channel: Channel) {
        if self.told.is_none() {
            return drop(channel);
        }
        self.converse(shared, channel, None);
    }

    fn converse(&mut self, (shared, admin): (&Shared, &Handle), channel: Channel, child: Option<Child>) {
        self.answers_until = None;
        shared.settle();
        let offered = shared.offer(admin);
        let news = self.news_in.clone();
        let run = move || {
            let said = match offered.and_then(|(offer, sockets)| offer_to(&channel, offer, &sockets)) {
                Ok((pid, version)) => News::Ready { channel, pid, version },
                Err(error) => {
                    // Who would be ready too late must not take it for a crash.
                    let _ = channel.send(&MessageSpec::Failed { why: "not waited for".into() }, &[], READS);
                    channel.shutdown();
                    News::Failed(why(&error, child))
                }
            };
            let _ = news.blocking_send(said);
        };
        if let Err(error) = thread::Builder::new().name("thalweg-upgrade".into()).spawn(run) {
            self.fail(shared, &format!("there can be no thread for it: {error}"));
        }
    }

    /// A successor is ready, or will not be. Says whether it has taken over.
    pub(super) fn hear(&mut self, (shared, admin): (&Shared, &mut Handle), news: News) -> bool {
        let (channel, pid, version) = match news {
            News::Ready { channel, pid, version } => (channel, pid, version),
            News::Failed(why) => {
                self.fail(shared, &why);
                return false;
            }
        };
        crate::service_manager::main_process_is(pid);
        let gone = channel.send(&MessageSpec::Go, &[], READS);
        // It says that it has begun: until then it may have ended, and somebody has to accept.
        if let Err(error) = gone.and_then(|()| channel.receive(Some(READS))) {
            crate::service_manager::main_process_is(std::process::id());
            self.fail(shared, &format!("the successor has ended when it was to begin: {error}"));
            return false;
        }
        // Before it is told: who hears of it and asks again gets the other process.
        admin.retire();
        info(format_args!("upgrade: process {pid} ({version}) has taken over"));
        let done = Upgraded { pid, version, before: env!("CARGO_PKG_VERSION").into() };
        self.told.take().map(|told| told.send(Ok(done)));
        true
    }

    fn fail(&mut self, shared: &Shared, why: &str) {
        self.answers_until = None;
        shared.is_passed_on.store(false, Ordering::Release);
        warn(format_args!("upgrade failed: {why}"));
        warn("this process goes on");
        self.told.take().map(|told| told.send(Err(Refusal::Conflict(format!("the upgrade failed: {why}")))));
    }

    /// Tells the supervisor which sockets to hold.
    pub(super) fn hold(&self, shared: &Shared) {
        let Some((supervisor, _)) = &self.supervisor else { return };
        let held = shared.worker_pool().copies().and_then(|sockets| {
            let fds: Vec<_> = sockets.iter().map(|socket| socket.fd.as_fd()).collect();
            supervisor.send(&MessageSpec::Hold { sockets: PassedSocketSpec::of(&sockets) }, &fds, READS)
        });
        if let Err(error) = held {
            warn(format_args!("the supervisor cannot hold the listening sockets: {error}"));
        }
    }

    /// Tells the supervisor that this process accepts, or ends.
    pub(super) fn tell(&self, message: &MessageSpec) {
        if let Some((supervisor, _)) = &self.supervisor {
            let _ = supervisor.send(message, &[], READS);
        }
    }
}

/// Hears what a supervisor says, on a thread of its own, until it has gone.
fn listen(channel: &Arc<Channel>) -> mpsc::Receiver<Heard> {
    let (heard_in, heard) = mpsc::channel(1);
    let channel = channel.clone();
    let run = move || {
        while let Ok(Received { message, fds }) = channel.receive(None) {
            let said = match message {
                MessageSpec::Give => fds.into_iter().next().map(|fd| Heard::Given(Channel::from(fd))),
                MessageSpec::Refused { why } => Some(Heard::Refused(why)),
                _ => None,
            };
            if said.is_some_and(|said| heard_in.blocking_send(said).is_err()) {
                return;
            }
        }
    };
    // Without a thread nothing is heard, as if it had gone.
    let _ = thread::Builder::new().name("thalweg-parent".into()).spawn(run);
    heard
}

/// Offers, and waits until the successor is ready; its process and version.
fn offer_to(channel: &Channel, offer: OfferSpec, sockets: &[InheritedSocket]) -> io::Result<(u32, String)> {
    let fds: Vec<_> = sockets.iter().map(|socket| socket.fd.as_fd()).collect();
    channel.send(&MessageSpec::Offer(Box::new(offer)), &fds, READS)?;
    match channel.receive(Some(STARTS))?.message {
        MessageSpec::Ready { pid, version } => Ok((pid, version)),
        MessageSpec::Failed { why } => Err(io::Error::other(why)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Why there is no successor.
fn why(error: &io::Error, child: Option<Child>) -> String {
    let ended = child.and_then(ended);
    match (error.kind(), ended) {
        (io::ErrorKind::Other, _) => error.to_string(),
        (_, Some(status)) => format!("the new process has ended at once ({status}); its messages say why"),
        (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, None) => {
            format!("the new process was not ready within {} s", STARTS.as_secs())
        }
        _ => "the new process has ended before it was ready; its messages say why".into(),
    }
}

/// How a process has ended; one that has not is ended.
fn ended(mut child: Child) -> Option<String> {
    let end = std::time::Instant::now() + ENDS;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.to_string()),
            Ok(None) if std::time::Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            _ => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Starts a successor with the arguments of this process.
fn successor(binary: Option<&Path>, channel: Channel) -> io::Result<Child> {
    command(binary, channel)?.spawn()
}

/// What runs this program again, with the same arguments, and a channel as its standard input.
pub(crate) fn command(binary: Option<&Path>, channel: Channel) -> io::Result<Command> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "thalweg".into());
    let mut command = Command::new(binary.map_or_else(own_binary, |binary| Ok(binary.to_owned()))?);
    command.arg0(name).args(arguments.collect::<Vec<OsString>>()).stdin(channel.into_fd()).env(VARIABLE, "1");
    command.env_remove("LISTEN_FDS").env_remove("LISTEN_PID").env_remove("LISTEN_FDNAMES");
    Ok(command)
}

/// The file that this process was started from, also when another one has taken its place since.
pub(crate) fn own_binary() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?.into_os_string().into_string();
    let path = path.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "its path is not UTF-8"))?;
    Ok(PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(&path)))
}

impl Shared {
    /// Asks for an upgrade.
    pub(super) fn ask_for_upgrade(&self, binary: Option<PathBuf>) -> Upgrading {
        let (told, answer) = oneshot::channel();
        let is_taken = self.wishes.sender.try_send(Wanted { binary, told }).is_ok();
        Box::pin(async move {
            let lost = || Refusal::Conflict("an upgrade is under way already, or the proxy stops".into());
            if is_taken { answer.await.unwrap_or_else(|_| Err(lost())) } else { Err(lost()) }
        })
    }

    /// Whether a successor would run what this process runs.
    fn may_upgrade(&self) -> Result<(), String> {
        if self.origin().history.runs_ephemeral() {
            let why = "the configuration in force came by the admin API and is not in the file; write it there, or go \
                       back to the file with `thalweg reload`, first";
            return Err(why.into());
        }
        Ok(())
    }

    /// What a successor gets.
    fn offer(&self, admin: &Handle) -> io::Result<(OfferSpec, Vec<InheritedSocket>)> {
        let mut sockets = self.worker_pool().copies()?;
        let named = ADMIN_SOCKETS.into_iter().zip(admin.copies()?);
        sockets.extend(named.filter_map(|(name, socket)| {
            Some(InheritedSocket { name: name.into(), written: String::new(), fd: socket?.into() })
        }));
        let changes = RuntimeChangesSpec {
            overlay: self.runtime().overlay.clone(),
            access: self.access().passed(),
            api_keys: self.api_keys.passed(),
            operator: self.origin().operator.passed(),
        };
        let offer = OfferSpec {
            version: env!("CARGO_PKG_VERSION").into(),
            sockets: PassedSocketSpec::of(&sockets),
            tickets: Tickets::pass_on(),
            changes,
        };
        Ok((offer, sockets))
    }
}
