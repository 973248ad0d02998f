//! Acting on what a watch has come to: a configuration that does harm is taken back.

use super::admin::Shared;
use super::config_events::event;
use super::configuration::Refused;
use super::reload_guard::{Verdict, Watch};
use crate::cli::show;
use crate::operator_log::warn;
use std::time::Instant;
use thalweg_admin::{Author, ConfigOrigin, HistoryState, WatchState};
use thalweg_core::EventKind;

impl Shared {
    /// Once a second, on the control thread: looks at what is watched.
    pub(crate) fn tend_watch(&self) {
        let mut watcher = self.watcher();
        let now = Instant::now();
        watcher.tick(now, || self.route_counts());
        if !watcher.is_watching() {
            return;
        }
        let verdict = watcher.judge(now, &self.route_counts());
        // Before the origin is locked: whoever holds that may want to watch.
        drop(watcher);
        match verdict {
            Verdict::None => {}
            Verdict::Passed(watch, why) => {
                warn(format_args!("watch: {why}"));
                self.origin().history.set_watch(watch.number, WatchState::Passed, watch.until, Some(why));
            }
            Verdict::Harm(watch, why) => self.take_back(*watch, &why),
        }
    }

    fn take_back(&self, watch: Watch, why: &str) {
        let mut origin = self.origin();
        if origin.history.newest() != Some(watch.number) {
            // Another one has taken over in the meantime.
            return;
        }
        let cause = (ConfigOrigin::Watch, Author::default());
        let done = self.take_over_again(&mut origin, watch.previous, cause);
        let (state, verdict) = match done {
            Ok(_) => (WatchState::RolledBack, format!("taken back: {why}")),
            Err(refused) => {
                let cannot = match refused {
                    Refused::Mistakes(report) => {
                        show(&report, false);
                        "it has mistakes".to_owned()
                    }
                    Refused::Cannot(why) => why,
                };
                (WatchState::Failed, format!("{why}; the configuration before cannot take over: {cannot}"))
            }
        };
        warn(format_args!("watch: {verdict}"));
        let history = &mut origin.history;
        history.set_watch(watch.number, state, watch.until, Some(verdict.clone()));
        let kind = if state == WatchState::RolledBack {
            // The text may be the same where only what it refers to was another.
            if history.newest() != Some(watch.number) {
                history.change(watch.number, |entry| entry.state = HistoryState::RolledBack);
            }
            self.registry.reloads().count_rolled_back();
            EventKind::ConfigRolledBack
        } else {
            EventKind::ReloadFailed
        };
        self.publish(event(kind, verdict));
    }
}
