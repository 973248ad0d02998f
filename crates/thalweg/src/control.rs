//! The control thread: everything that is not an exchange.
//!
//! It starts the worker pool, then waits: for signals, for lines that workers want said, for names that
//! resolve differently, for the admin API. It is the process's first thread with a small runtime of
//! its own, so it answers while workers are saturated.

mod access;
mod access_log;
mod acme;
mod added_endpoints;
mod admin;
mod api_keys;
mod arrivals;
mod base;
mod cache;
mod canaries;
mod canary;
mod certificate_source;
mod certificate_status;
mod certificates;
mod checks;
mod config_events;
mod configuration;
mod discovered;
mod documents;
mod drift;
mod endpoint_origins;
mod endpoint_status;
mod endpoints;
mod explain;
mod files;
mod history;
mod kept_file;
mod kept_sources;
mod maintenance;
mod on_disk;
mod operator;
mod origin;
mod overlay;
mod privileges;
mod purge_channel;
mod reload_guard;
mod reload_result;
mod requests;
mod revocations;
mod rollback;
mod route_sources;
mod route_status;
mod runtime;
pub(crate) mod sealed;
mod sent_secrets;
mod series;
mod service_monitor;
mod settle;
mod slos;
mod start;
mod start_error;
mod state_writer;
mod tap;
mod tokens;
mod traces;
mod traffic;
mod upgrade;
mod weights;

pub(crate) use access::AccessSpec;
pub(crate) use api_keys::KeptKeysSpec;
pub(crate) use operator::OperatorSpec;
pub(crate) use overlay::OverlaySpec;
pub(crate) use privileges::default_state_directory;
pub(crate) use start::{RunOptions, start};
pub(crate) use upgrade::{command, own_binary};

use crate::cli::show;
use crate::handover::MessageSpec;
use crate::operator_log::{info, notice, warn};
use crate::service_manager;
use access_log::AccessLogMonitor;
use admin::Shared;
use certificates::Certificates;
use checks::Rounds;
use configuration::Refused;
use files::Files;
use purge_channel::PurgeChannelTask;
use revocations::Revocations;
use route_sources::RouteSources;
use rustix::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_acme::News;
use thalweg_admin::{Author, ConfigOrigin, Control as _, Handle, Webhooks};
use thalweg_core::Notice;
use thalweg_discovery::{Followed, Followers, Registered, Registrations, Update};
use thalweg_net::allocator::tidy_up;
use thalweg_net::code::let_go_of_start;
use thalweg_observe::LogWriter;
use thalweg_proxy::plan::Banned;
use thalweg_proxy::{Bound, Plan};
use thalweg_tls::Tickets;
use thalweg_upstream::AdaptiveLimits;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use traces::Traces;
use upgrade::{Step, Upgrades};

/// How often a drain is looked at.
const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// How long, when the grace is over, workers may still say that nothing is under way: they had no time for it where the
/// machine stood still until then.
const LAST_LOOK: Duration = Duration::from_millis(100);
/// Changes of endpoints within this time are followed together by sources, checks and metrics.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked which certificates are about to expire.
const ENDS_EVERY: Duration = Duration::from_secs(60);
/// How often statistics are judged.
const JUDGE_EVERY: Duration = Duration::from_secs(1);
/// How long webhooks may take for what is left to send when the proxy ends.
const WEBHOOK_TIME: Duration = Duration::from_secs(2);
/// How long the collector may take for the last spans.
const TRACE_TIME: Duration = Duration::from_secs(2);
/// How long registries may take, once nothing is under way any more, to be told that the proxy leaves.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// The running proxy, as the control thread holds it.
pub(crate) struct Control {
    pub(crate) shared: Arc<Shared>,
    log: Option<Arc<LogWriter>>,
    log_monitor: AccessLogMonitor,
    notices: mpsc::Receiver<Notice>,
    bans: mpsc::Receiver<Banned>,
    /// Where endpoints and their addresses come from.
    sources: Followers,
    /// What they said before the workers ran.
    early: Vec<Update>,
    /// Where documents with routes come from.
    route_sources: RouteSources,
    /// The change of endpoints that sources and checks follow, and since when.
    followed: u64,
    followed_at: Instant,
    /// The change of endpoints after which series were retired.
    retired: u64,
    rounds: Rounds,
    /// Where the proxy itself is registered.
    registrations: Registrations,
    /// Those that are watched, with `run --watch`.
    files: Option<Files>,
    certificates: Certificates,
    revocations: Revocations,
    webhooks: Webhooks,
    /// How other replicas are told of purges.
    purge_channel: PurgeChannelTask,
    traces: Traces,
    /// What is known of limits that follow latency.
    limits: AdaptiveLimits,
    /// What becomes of certificates that are asked for.
    issued: mpsc::Receiver<News>,
    /// When it was looked which certificates are about to expire.
    ends_told: Instant,
    /// The plan that names and checks are looked after for.
    looked_after: Arc<Plan>,
    /// A plan has been made since memory was given back.
    is_untidy: bool,
    /// The listeners that the operator has been told of.
    bound: Vec<Bound>,
    upgrades: Upgrades,
    signals: Signals,
}

/// Whether this process goes on.
enum Next {
    GoOn,
    /// Another one has taken over.
    Leave,
    Drain,
}

struct Signals {
    stop: [Signal; 3],
    reload: Signal,
    reopen: Signal,
    upgrade: Signal,
    /// A file has reached the limit on its size, which the write that failed says too: it must not end the process.
    _file_size: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            stop: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::quit())?,
            ],
            reload: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    async fn stop(stop: &mut [Signal; 3]) {
        let [terminate, interrupt, quit] = stop;
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, _ = quit.recv() => {} }
    }
}

impl Control {
    /// Runs until the proxy is to end, drains, and says how it ended.
    pub(crate) async fn run(mut self, admin: &mut Handle) -> ExitCode {
        let shared = self.shared.clone();
        self.look_after_plan(true);
        self.tell_supervisor();
        let_go_of_start();
        for update in std::mem::take(&mut self.early) {
            self.take_over(update);
        }
        self.route_sources.tell_early(&shared);
        let mut second = tokio::time::interval(JUDGE_EVERY);
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut drains = tokio::time::interval(DRAIN_LOOK);
        drains.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut files = tokio::time::interval(files::LOOK_EVERY);
        files.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut follow = tokio::time::interval(FOLLOW_EVERY);
        follow.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut draining = false;
        let readings = tokio::spawn(series::read_for_ever(shared.clone()));
        loop {
            let mut looks = true;
            // A worker that waits for this CPU has it before the next thing is done: many in a row are a long wait.
            std::thread::yield_now();
            tokio::select! {
                () = Signals::stop(&mut self.signals.stop) => break,
                () = shared.stop_asked() => break,
                _ = self.signals.reload.recv() => self.reload(ConfigOrigin::Signal),
                _ = self.signals.reopen.recv() => self.reopen(),
                _ = self.signals.upgrade.recv() => drop(shared.upgrade(None)),
                step = self.upgrades.next() => match self.take_step(step, admin) {
                    Next::GoOn => {}
                    Next::Leave => return self.leave(readings).await,
                    Next::Drain => break,
                },
                Some(line) = self.notices.recv() => notice(&line),
                Some(banned) = self.bans.recv() => shared.ban(&mut self.bans, banned),
                update = self.sources.next() => looks = self.take_over(update),
                () = self.route_sources.next(&shared) => {}
                registered = self.registrations.next() => tell_registered(&registered),
                _ = follow.tick(), if self.is_behind() => {
                    self.follow_endpoints();
                    looks = false;
                }
                Some(news) = self.issued.recv() => {
                    if let Some(event) = acme::tell(news, &shared.registry) {
                        shared.publish(event);
                        self.certificates.show(&shared, &self.looked_after);
                        self.certificates.tell_ends(&shared, &self.looked_after, SystemTime::now());
                    }
                }
                line = self.rounds.next() => line.into_iter().for_each(|line| notice(&line)),
                () = shared.changed() => {
                    self.look_after_plan(false);
                    self.follow_soon();
                    draining = self.shared.tend_drains();
                }
                _ = second.tick() => self.each_second(),
                _ = files.tick(), if self.looks_at_files() => {
                    self.look_at_files();
                    self.certificates.look(&shared);
                    self.revocations.look();
                }
                _ = drains.tick(), if draining => draining = self.shared.tend_drains(),
            }
            if looks {
                self.look(false);
            }
        }
        self.drain(readings).await
    }

    /// Does what is next in an upgrade.
    fn take_step(&mut self, step: Step, admin: &mut Handle) -> Next {
        let shared = self.shared.clone();
        match step {
            Step::Begin(wanted) => self.upgrades.begin((&shared, admin), wanted),
            Step::Give(channel) => self.upgrades.give((&shared, admin), channel),
            Step::News(news) => {
                if self.upgrades.hear((&shared, admin), news) {
                    return Next::Leave;
                }
            }
            Step::Orphaned => {
                warn("the supervisor has gone: the proxy ends");
                return Next::Drain;
            }
        }
        Next::GoOn
    }

    /// What is looked at once a second.
    fn each_second(&mut self) {
        self.judge();
        self.look(true);
        self.retire_series();
        self.shared.tend_watch();
        self.shared.tend_canaries();
        self.shared.tend_access();
        self.shared.keep_found(false);
        Tickets::rotate_of_process(std::time::Instant::now());
        self.tell_ends();
        self.log_monitor.look(&self.shared.registry).for_each(|line| notice(&line));
        if self.shared.alive().is_ok() {
            service_manager::alive();
        }
        if std::mem::take(&mut self.is_untidy) {
            tidy_up();
        }
    }

    /// Another process accepts: what is under way ends here, and nothing else is done.
    async fn leave(mut self, readings: JoinHandle<()>) -> ExitCode {
        readings.abort();
        self.shared.worker_pool().leave();
        self.shared.begin_drain();
        // The other process has the same instances.
        drop(std::mem::take(&mut self.registrations));
        let deadline = Instant::now() + self.shared.worker_pool().plan().shutdown.grace;
        let mut stops = 0;
        while !self.shared.worker_pool().is_drained() && Instant::now() < deadline && stops < 2 {
            tokio::select! {
                () = tokio::time::sleep(DRAIN_LOOK) => {}
                // The first one says what is done already.
                () = Signals::stop(&mut self.signals.stop) => stops += 1,
                Some(line) = self.notices.recv() => notice(&line),
            }
        }
        let left = self.shared.worker_pool().active();
        if left > 0 {
            warn(format_args!("{left} exchanges and tunnels end with the process that was replaced"));
        }
        self.shared.worker_pool().stop();
        self.webhooks.finish(WEBHOOK_TIME).await;
        self.traces.finish(TRACE_TIME).await;
        self.log.as_ref().map(|log| log.shutdown(log.patience()));
        info("the process that was replaced has ended");
        ExitCode::SUCCESS
    }

    async fn drain(mut self, readings: JoinHandle<()>) -> ExitCode {
        service_manager::stopping();
        self.upgrades.tell(&MessageSpec::Leaving);
        // Others send nothing more here as soon as they know; a registry that is slow to answer delays no drain.
        let mut registrations = std::mem::take(&mut self.registrations);
        let leaving = tokio::spawn(async move { registrations.leave().await });
        let shutdown = self.shared.worker_pool().plan().shutdown;
        self.shared.begin_drain();
        info(format_args!("draining: {} exchanges under way", self.shared.worker_pool().active()));
        let begun = Instant::now();
        let deadline = begun + shutdown.delay + shutdown.grace;
        let mut told = false;
        let whole = loop {
            if !told && begun.elapsed() >= shutdown.delay {
                told = true;
                self.shared.worker_pool().drain();
                info("no more connections are taken");
            }
            if told && self.shared.worker_pool().is_drained() {
                break true;
            }
            tokio::select! {
                () = tokio::time::sleep(DRAIN_LOOK) => {}
                // Now: but with nothing under way there is nothing to cut.
                () = Signals::stop(&mut self.signals.stop) => break self.shared.worker_pool().active() == 0,
                Some(line) = self.notices.recv() => notice(&line),
            }
            if told && Instant::now() >= deadline {
                break self.is_drained_within(LAST_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(LEAVE_TIME, leaving).await;
        let whole = whole && !self.shared.worker_pool().has_lost_a_worker();
        if !whole {
            warn(format_args!("stopped with {} exchanges under way", self.shared.worker_pool().active()));
        }
        self.shared.worker_pool().stop();
        readings.abort();
        self.shared.end_series();
        self.webhooks.finish(WEBHOOK_TIME).await;
        self.traces.finish(TRACE_TIME).await;
        self.shared.settle();
        if let Some(log) = &self.log {
            if !log.shutdown(log.patience()) {
                warn("the last lines of the access log may be lost: they were not written in time");
            }
            self.log_monitor.end(&self.shared.registry).into_iter().for_each(warn);
        }
        if whole {
            info("stopped");
            ExitCode::SUCCESS
        } else {
            ExitCode::from(3)
        }
    }

    async fn is_drained_within(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.shared.worker_pool().is_drained() {
            if Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        true
    }

    /// Whether any files are looked at.
    fn looks_at_files(&self) -> bool {
        self.files.is_some() || !self.certificates.is_empty() || !self.revocations.is_empty()
    }

    /// Reloads when the files that are watched have changed; not when the proxy itself has written what it runs.
    fn look_at_files(&mut self) {
        if self.files.as_mut().is_some_and(Files::have_changed) && !self.shared.runs_what_is_written() {
            self.reload(ConfigOrigin::File);
        }
    }

    /// Once a minute: which certificates are about to expire.
    fn tell_ends(&mut self) {
        if self.ends_told.elapsed() >= ENDS_EVERY {
            self.ends_told = Instant::now();
            self.certificates.tell_ends(&self.shared, &self.looked_after, SystemTime::now());
            // Another process with the same state may have had some issued.
            self.certificates.show(&self.shared, &self.looked_after);
        }
    }

    /// HUP, or a file that is watched: what the file says takes over; a mistake changes nothing.
    fn reload(&mut self, why: ConfigOrigin) {
        if let Err(why) = self.shared.is_open_to_changes() {
            return warn(format_args!("reload refused: {why}"));
        }
        service_manager::reloading();
        match self.shared.read_again((why, Author::default()), None) {
            Ok(_) => {}
            Err(Refused::Mistakes(report)) => {
                show(&report, false);
                warn("reload refused; the old configuration keeps running");
            }
            Err(Refused::Cannot(why)) => {
                warn(format_args!("reload refused: {why}"));
                warn("the old configuration keeps running");
            }
        }
        service_manager::ready("serving");
    }

    /// Follows a plan that has changed: its names are resolved, its members checked, its webhooks told.
    fn look_after_plan(&mut self, first: bool) {
        let plan = self.shared.worker_pool().plan();
        if !first && Arc::ptr_eq(&plan, &self.looked_after) {
            return;
        }
        self.shared.acme().follow(&plan);
        let before = (!first).then_some(&*self.looked_after);
        self.certificates.follow(&self.shared, before, &plan);
        self.revocations.follow(&plan);
        self.is_untidy = true;
        self.looked_after = plan;
        self.tell_of_listeners();
        self.follow_endpoints();
        self.retire_series();
        self.webhooks.replace(self.shared.webhooks());
        self.purge_channel.follow(&self.shared);
        self.traces.follow(&self.looked_after);
        self.shared.follow_slos();
        self.registrations.keep(&self.shared.registrations());
        self.route_sources.follow(&self.shared);
        self.watch_files();
    }

    /// Whether endpoints have changed since sources and checks were told.
    fn is_behind(&self) -> bool {
        self.shared.worker_pool().endpoint_changes() != self.followed
    }

    /// Follows endpoints that have changed, without waiting where that was not done just now: many changes in a row
    /// are followed together.
    fn follow_soon(&mut self) {
        if self.is_behind() && self.followed_at.elapsed() >= FOLLOW_EVERY {
            self.follow_endpoints();
        }
    }

    /// Follows endpoints that have changed: host names are resolved, members checked.
    fn follow_endpoints(&mut self) {
        let pool = self.shared.worker_pool();
        (self.followed, self.followed_at) = (pool.endpoint_changes(), Instant::now());
        let sets = pool.endpoint_sets();
        let running: Vec<_> = sets.iter().map(|set| set.service.clone()).collect();
        let (configured, sources) = {
            let runtime = self.shared.runtime();
            let sources: Vec<_> =
                runtime.base.sources().map(|(_, discover)| discover.source.clone()).collect();
            (runtime.base.written_services(), sources)
        };
        self.sources.follow(Followed { configured: &configured, running: &running, sources: &sources });
        self.rounds.ask(&sets);
    }

    /// Series of endpoints that are gone end, together with those of the last second: all series are looked at.
    fn retire_series(&mut self) {
        let pool = self.shared.worker_pool();
        let changes = pool.endpoint_changes();
        if std::mem::replace(&mut self.retired, changes) != changes {
            self.shared.retire_series(&pool.plan(), &pool.endpoint_sets());
        }
    }

    /// Follows which files the configuration stands in. A change between its being read and now is not lost.
    fn watch_files(&mut self) {
        if let Some(watched) = &mut self.files
            && watched.replace(self.shared.files())
            && !self.shared.runs_what_is_written()
        {
            watched.fall_behind();
        }
    }

    /// Tells which listeners have come and gone.
    fn tell_of_listeners(&mut self) {
        let now = self.shared.worker_pool().bound();
        let before = std::mem::replace(&mut self.bound, now);
        for gone in before.iter().filter(|bound| !self.bound.contains(bound)) {
            info(format_args!("no longer listening on {} ({})", gone.address, gone.name));
        }
        for new in self.bound.iter().filter(|bound| !before.contains(bound)) {
            info(format_args!("listening on {} ({})", new.address, new.name));
        }
        if self.bound != before {
            self.hold_sockets(&before);
        }
    }

    /// Tells whoever watches that this process accepts, and which sockets to keep.
    fn tell_supervisor(&self) {
        self.hold_sockets(&[]);
        self.upgrades.tell(&MessageSpec::Serving);
    }

    /// Has the listening sockets kept for the process that comes after a crash.
    fn hold_sockets(&self, before: &[Bound]) {
        self.upgrades.hold(&self.shared);
        if !service_manager::is_there() {
            return;
        }
        let Ok(sockets) = self.shared.worker_pool().copies() else { return };
        before.iter().for_each(|bound| service_manager::let_go(&bound.name));
        for socket in &sockets {
            service_manager::keep(&socket.name, &[socket.fd.as_fd()]);
        }
    }

    /// Tells what has changed in how services stand.
    fn look(&self, anyway: bool) {
        let endpoint_sets = self.shared.worker_pool().endpoint_sets();
        for endpoint_set in
            endpoint_sets.iter().filter(|endpoint_set| endpoint_set.standing.breaker_has_opened())
        {
            let name = &endpoint_set.service.name;
            warn(format_args!("service `{name}`: too many requests fail; its breaker is open"));
        }
        self.shared.look(anyway);
    }

    /// Once a second: what only statistics show.
    fn judge(&mut self) {
        let endpoint_sets = self.shared.worker_pool().endpoint_sets();
        let said = self.shared.monitor().judge(&endpoint_sets, std::time::Instant::now());
        said.into_iter().for_each(warn);
        for endpoint_set in &endpoint_sets {
            endpoint_set.standing.tick_breaker(std::time::Instant::now());
        }
        self.shared.worker_pool().adapt(&mut self.limits);
        self.shared.count_sources();
    }

    fn reopen(&self) {
        if let Some(log) = &self.log {
            log.reopen();
            info("access log reopened");
        }
    }

    /// Says whether services are to be looked at: those that the update names have been.
    fn take_over(&mut self, update: Update) -> bool {
        let looks = matches!(update, Update::Addresses { .. });
        match update {
            Update::Endpoints { service, endpoints } => self.shared.take_endpoints(&service, endpoints),
            Update::Addresses { host, addresses } => self.shared.worker_pool().set_name(&host, addresses),
            Update::Failed(text) => warn(text),
            Update::Found { source, found } => {
                self.shared.take_found(&source, found);
                self.route_sources.merge_for_found(&self.shared);
            }
            Update::Turned { source, failure } => self.shared.source_turned(&source, failure.as_deref()),
        }
        self.follow_soon();
        looks
    }
}

/// What has become of a registration, for the operator.
fn tell_registered(registered: &Registered) {
    match &registered.failure {
        None => info(format_args!("registered at {}", registered.place)),
        Some(why) => warn(format_args!("not registered at {}: {why}", registered.place)),
    }
}
