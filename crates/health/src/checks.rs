//! The task that keeps the schedule: begins what is due, weighs what ends, tells what is new.

use crate::outcome::Outcome;
use crate::probe::{Network, Probe};
use crate::schedule::{Id, Report, Schedule, Turn};
use crate::tally::Tallies;
use crate::target::Target;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use thalweg_core::limits::DESCRIPTOR_RESERVE;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Checks under way at the same time. Each takes a descriptor of the reserve; where more are due they wait
/// for their turn, so that intervals get longer.
pub(crate) const UNDER_WAY: usize = 32;
const _: () = assert!(UNDER_WAY <= DESCRIPTOR_RESERVE / 2, "logs, admin and DNS need descriptors too");

/// Checks that begin this much later than they should are worth a word. Less is a busy machine.
const LATE: Duration = Duration::from_secs(1);

/// What [`Checks`] have to say.
#[derive(Clone, Debug)]
pub enum News {
    /// What is thought of a target: at its first verdict, and whenever that changes.
    Report(Report),
    /// Checks cannot be made as they should be; a sentence for the operator. Said once for each cause
    /// until the next [`Checks::set`].
    Trouble(String),
}

/// Active health checks. Dropping it ends them.
#[derive(Debug)]
pub struct Checks {
    wanted: watch::Sender<Vec<Target>>,
    tallies: Tallies,
    task: AbortHandle,
}

impl Checks {
    /// Starts on the current tokio runtime, with nothing to check. Checks wait while `sink` is full, and
    /// end when its receiver is gone.
    pub fn start(sink: mpsc::Sender<News>) -> Self {
        Self::start_with(Network, RandomState::new().hash_one(0), sink)
    }

    pub(crate) fn start_with(ask: impl Probe + Sync, seed: u64, sink: mpsc::Sender<News>) -> Self {
        let (wanted, targets) = watch::channel(Vec::new());
        let tallies = Tallies::default();
        let keeper = Keeper {
            ask,
            schedule: Schedule::new(seed),
            checks: JoinSet::new(),
            under_way: HashMap::new(),
            tallies: tallies.clone(),
            sink,
            told_late: false,
            told_not_asked: false,
        };
        let task = tokio::spawn(keeper.run(targets)).abort_handle();
        Self { wanted, tallies, task }
    }

    /// From now on these are the targets; equal ones are one. Who was one before keeps verdict and rhythm;
    /// who is new is checked within a second, or at once if it must be known before traffic; who is gone is
    /// not checked any more. Never blocks; takes effect when the runtime turns to it.
    pub fn set(&self, targets: Vec<Target>) {
        self.wanted.send_replace(targets);
    }

    /// The counts, for any thread.
    pub fn tallies(&self) -> Tallies {
        self.tallies.clone()
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The receiver of the news is gone.
struct Deaf;

struct Keeper<A> {
    ask: A,
    schedule: Schedule,
    checks: JoinSet<Outcome>,
    under_way: HashMap<tokio::task::Id, (Id, AbortHandle)>,
    tallies: Tallies,
    sink: mpsc::Sender<News>,
    told_late: bool,
    told_not_asked: bool,
}

impl<A: Probe> Keeper<A> {
    async fn run(mut self, mut targets: watch::Receiver<Vec<Target>>) {
        loop {
            let Ok(()) = self.begin().await else { return };
            let free = self.checks.len() < UNDER_WAY;
            let wake = self.schedule.next_turn().filter(|_| free);
            let went_on = tokio::select! {
                changed = targets.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.set(&targets.borrow_and_update());
                    Ok(())
                }
                Some(ended) = self.checks.join_next_with_id() => self.end(ended).await,
                () = until(wake) => Ok(()),
            };
            let Ok(()) = went_on else { return };
        }
    }

    fn set(&mut self, targets: &[Target]) {
        self.schedule.set(Instant::now(), targets);
        self.tallies.replace(self.schedule.tallies());
        for (id, check) in self.under_way.values() {
            if !self.schedule.has(*id) {
                check.abort();
            }
        }
        (self.told_late, self.told_not_asked) = (false, false);
    }

    /// Begins what is due, as far as there is room.
    async fn begin(&mut self) -> Result<(), Deaf> {
        let now = Instant::now();
        while self.checks.len() < UNDER_WAY {
            let Some(Turn { id, target, late }) = self.schedule.take(now) else { break };
            self.tallies.set_late(late);
            if late > LATE && !self.told_late {
                self.told_late = true;
                let text = format!(
                    "health checks are late: that of {target} by {} ms, because {UNDER_WAY} others were under way; \
                     help: longer intervals or shorter timeouts",
                    late.as_millis()
                );
                self.say(News::Trouble(text)).await?;
            }
            let check = self.checks.spawn(self.ask.ask(target));
            self.under_way.insert(check.id(), (id, check));
        }
        self.tallies.set_under_way(self.checks.len());
        Ok(())
    }

    async fn end(&mut self, ended: Result<(tokio::task::Id, Outcome), JoinError>) -> Result<(), Deaf> {
        let (task, outcome) = match ended {
            Ok(both) => both,
            Err(error) => (error.id(), Outcome::NotAsked("a bug in the check".into())),
        };
        let Some((id, _)) = self.under_way.remove(&task) else { return Ok(()) };
        let report = self.schedule.end(Instant::now(), id, &outcome);
        match (report, outcome) {
            (Some(report), _) => self.say(News::Report(report)).await,
            (None, Outcome::NotAsked(why)) if self.schedule.has(id) && !self.told_not_asked => {
                self.told_not_asked = true;
                self.say(News::Trouble(format!("a health check could not be made: {why}"))).await
            }
            (None, _) => Ok(()),
        }
    }

    async fn say(&self, news: News) -> Result<(), Deaf> {
        self.sink.send(news).await.map_err(|_| Deaf)
    }
}

/// Waits for a moment; `None`: for ever. Cancel-safe.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
