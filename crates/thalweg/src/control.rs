//! The control thread: everything that is not an exchange.
//!
//! It starts the fleet, then waits: for signals, for lines that workers want said, for names that
//! resolve differently, for the admin API. It is the process's first thread with a small runtime of
//! its own, so it answers while workers are saturated.

mod admin;
mod prepare;
mod start;

pub(crate) use start::{RunOptions, start};

use crate::cli::{complain, show};
use admin::Shared;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use thalweg_config::{Loaded, Settings, load_file};
use thalweg_discovery::{News, Watch, names_in};
use thalweg_observe::LogWriter;
use thalweg_proxy::plan::Limits;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How often a drain is looked at.
const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// How long the access log may take to write its last lines.
const LOG_TIME: Duration = Duration::from_secs(2);

/// The running proxy, as the control thread holds it.
pub(crate) struct Control {
    pub(crate) shared: Arc<Shared>,
    log: Option<Arc<LogWriter>>,
    notices: mpsc::Receiver<String>,
    watch: Watch,
    /// The file that the configuration came from.
    file: Option<PathBuf>,
    /// What was said around the plan at the start.
    settings: Settings,
    signals: Signals,
}

struct Signals {
    stop: [Signal; 3],
    reload: Signal,
    reopen: Signal,
    upgrade: Signal,
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
        })
    }

    async fn stop(stop: &mut [Signal; 3]) {
        let [terminate, interrupt, quit] = stop;
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, _ = quit.recv() => {} }
    }
}

impl Control {
    /// Runs until the proxy is to end, drains, and says how it ended.
    pub(crate) async fn run(mut self) -> ExitCode {
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                () = Signals::stop(&mut self.signals.stop) => break,
                () = shared.stop_asked() => break,
                _ = self.signals.reload.recv() => self.reload(),
                _ = self.signals.reopen.recv() => self.reopen(),
                _ = self.signals.upgrade.recv() => complain("SIGUSR2: upgrade is not available in this version"),
                Some(line) = self.notices.recv() => complain(line),
                news = self.watch.next() => self.take_over(news),
            }
        }
        self.drain().await
    }

    async fn drain(mut self) -> ExitCode {
        let shutdown = self.shared.fleet().plan().shutdown;
        self.shared.begin_drain();
        complain(format_args!("draining: {} exchanges under way", self.shared.fleet().active()));
        let begun = Instant::now();
        let deadline = begun + shutdown.delay + shutdown.grace;
        let mut told = false;
        let whole = loop {
            if !told && begun.elapsed() >= shutdown.delay {
                told = true;
                self.shared.fleet().drain();
            }
            if told && self.shared.fleet().is_drained() {
                break true;
            }
            tokio::select! {
                () = tokio::time::sleep(DRAIN_LOOK) => {}
                // Now: but with nothing under way there is nothing to cut.
                () = Signals::stop(&mut self.signals.stop) => break self.shared.fleet().active() == 0,
                Some(line) = self.notices.recv() => complain(line),
            }
            if Instant::now() >= deadline {
                break false;
            }
        };
        let whole = whole && !self.shared.fleet().has_lost_a_worker();
        if !whole {
            complain(format_args!("stopped with {} exchanges under way", self.shared.fleet().active()));
        }
        self.shared.fleet().stop();
        if let Some(log) = &self.log {
            log.shutdown(LOG_TIME);
        }
        if whole {
            complain("stopped");
            ExitCode::SUCCESS
        } else {
            ExitCode::from(3)
        }
    }

    /// HUP: the file's routes, services and limits take over; a mistake changes nothing.
    fn reload(&mut self) {
        let Some(file) = &self.file else {
            return complain("SIGHUP: there is no configuration file to reload");
        };
        let loaded = match load_file(file) {
            Ok(loaded) => loaded,
            Err(report) => {
                show(&report, false);
                return complain("reload refused; the old configuration keeps running");
            }
        };
        let Loaded { plan, settings, warnings } = loaded;
        show(&warnings, false);
        let running = self.shared.fleet().plan();
        let same = plan.listeners.len() == running.listeners.len()
            && plan
                .listeners
                .iter()
                .zip(&running.listeners)
                .all(|(new, old)| new.name == old.name && new.address == old.address);
        if !same {
            complain("reload refused: changing listeners needs a restart in this version");
            return complain("the old configuration keeps running");
        }
        let at_start = |limits: &Limits| (limits.max_connections, limits.memory, limits.max_in_flight);
        let new_limits = at_start(&plan.limits);
        let names = names_in(plan.services.iter());
        let known = self.shared.fleet().names();
        self.shared.set_plan(plan);
        self.watch = Watch::start(&names, &known);
        complain(format_args!("reloaded {}", file.display()));
        if settings != self.settings || new_limits != at_start(&running.limits) {
            complain(
                "changes of workers, user, state, admin, metrics, access_log, limits.max_connections, limits.memory \
                 and limits.max_in_flight wait for a restart",
            );
        }
    }

    fn reopen(&self) {
        if let Some(log) = &self.log {
            log.reopen();
            complain("access log reopened");
        }
    }

    fn take_over(&self, news: News) {
        match news {
            News::Changed(names) => self.shared.fleet().set_names(names),
            News::Failed(text) => complain(text),
        }
    }
}
