//! The watches of route sources, and when what they find is merged with the file.

use super::admin::Shared;
use super::discovered::FoundSets;
use super::documents::{Documents, Made, Taken, news};
use super::kept_sources::{KeptSet, KeptSources, tell_kept};
use super::start::RunOptions;
use crate::operator_log::warn;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use thalweg_config::settings::RouteSource;
use thalweg_config::{Loaded, Settings};
use thalweg_discovery::{Document, News, Source, Sources, Watches};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// Between two times that documents are merged, and after the first change of many.
const MERGE_EVERY: Duration = Duration::from_millis(200);
/// Documents that have to wait for something are merged again after this time.
const RETRY: Duration = Duration::from_secs(5);
/// After what was made of a merge took over, nothing is merged for so many times as long as the control thread took for
/// that, and for as long as it was made: on a thread of its own, of which it takes one half.
const SHARE: u32 = 5;

/// The watches.
pub(crate) struct RouteSources {
    watches: Watches<[Document]>,
    /// When what has changed is to be merged.
    due: Option<Instant>,
    /// Before that, nothing is merged.
    not_before: Instant,
    /// The merge that is made, on a thread of its own, and since when.
    merging: Option<(JoinHandle<Result<Made, String>>, Instant)>,
    /// What turned before the workers ran.
    early: Vec<(Arc<str>, Option<String>)>,
}

impl RouteSources {
    fn start(settings: &Settings) -> Self {
        let mut watches = Watches::default();
        watches.watch(&sources(settings));
        Self { watches, due: None, not_before: Instant::now(), merging: None, early: Vec::new() }
    }

    /// How they stand.
    pub(crate) fn board(&self) -> Sources {
        self.watches.sources()
    }

    /// The sources are those of the configuration.
    pub(crate) fn follow(&mut self, shared: &Shared) {
        let (sources, are_behind) = {
            let mut origin = shared.origin();
            (sources(&origin.settings), origin.documents.take_behind())
        };
        self.watches.watch(&sources);
        if are_behind {
            self.merge_soon();
        }
        self.merge_for_found(shared);
    }

    /// Sources have found other endpoints. Merges again at once if a document leads past the protection of one of
    /// them, and after a while if documents were left out for the sake of others.
    pub(crate) fn merge_for_found(&mut self, shared: &Shared) {
        if shared.runtime().base.take_crossed() {
            self.merge_soon();
        } else if shared.origin().documents.wait_for_found() {
            self.merge_after(RETRY);
        }
    }

    /// What was said before the workers ran.
    pub(crate) fn tell_early(&mut self, shared: &Shared) {
        for (id, failure) in std::mem::take(&mut self.early) {
            shared.route_source_turned(&id, failure.as_deref());
        }
    }

    /// Takes over the next news, or what was merged of what has come. Cancel-safe.
    pub(crate) async fn next(&mut self, shared: &Shared) {
        let (due, merging) = (self.due, &mut self.merging);
        let is_idle = merging.is_none();
        let merge = async {
            match due {
                Some(due) if is_idle => sleep_until(due).await,
                _ => pending().await,
            }
        };
        let made = async {
            match merging {
                Some((task, _)) => {
                    task.await.unwrap_or_else(|error| Err(format!("merging has failed: {error}")))
                }
                None => pending().await,
            }
        };
        tokio::select! {
            news = self.watches.news() => match news {
                News::Set(id, documents) => {
                    shared.take_documents(&id, documents);
                    self.merge_soon();
                }
                News::Turned(id, failure) => shared.route_source_turned(&id, failure.as_deref()),
            },
            () = merge => {
                self.due = None;
                let merge = shared.begin_merge();
                self.merging = Some((spawn_blocking(|| merge.make()), Instant::now()));
            }
            made = made => {
                let now = Instant::now();
                let making = self.merging.take().map(|(_, since)| now.duration_since(since));
                let taken = shared.take_merged(made);
                self.not_before = Instant::now() + making.unwrap_or_default().max(now.elapsed() * SHARE);
                match taken {
                    Taken::Done(None) => {}
                    Taken::Done(Some(trial)) => {
                        self.merge_after(trial.saturating_duration_since(now.into_std()));
                    }
                    Taken::Outdated => self.merge_soon(),
                    Taken::Waits => self.merge_after(RETRY),
                }
            }
        }
    }

    fn merge_soon(&mut self) {
        self.merge_after(MERGE_EVERY);
    }

    fn merge_after(&mut self, pause: Duration) {
        let at = (Instant::now() + pause).max(self.not_before);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

fn sources(settings: &Settings) -> Vec<Arc<dyn Source<[Document]>>> {
    settings.route_sources.iter().map(|route_source| route_source.source.clone()).collect()
}

/// Waits a little for the first documents, so that the first requests find their routes. What does not come by then
/// runs as it was kept before a restart.
pub(crate) async fn first_documents(
    alone: Loaded,
    (options, kept): (&RunOptions, &KeptSources),
    until: Instant,
) -> (Loaded, RouteSources, Documents) {
    let mut route_sources = RouteSources::start(&alone.settings);
    let (file, kept) = (options.file.as_deref(), kept.findings());
    let Some(file) = file.filter(|_| !alone.settings.route_sources.is_empty()) else {
        return (alone, route_sources, Documents::default());
    };
    let (mut documents, board) =
        (Documents::kept(kept, &alone.settings.route_sources), route_sources.board());
    let settings = alone.settings.clone();
    for RouteSource { id, question, .. } in &settings.route_sources {
        if let Some(KeptSet { at, set }) = kept.documents.get(&kept.names.name(question)) {
            board.tell_kept(id, (*at, set.len()));
        }
    }
    let _ = tokio::time::timeout_at(until, async {
        while !route_sources.watches.are_settled() {
            match route_sources.watches.news().await {
                News::Set(id, set) => {
                    let source = settings.route_sources.iter().find(|source| source.id == id);
                    source.into_iter().for_each(|source| documents.put(&source.question, set.clone()));
                }
                News::Turned(id, failure) => route_sources.early.push((id, failure)),
            }
        }
    })
    .await;
    board.list().iter().for_each(|(_, status)| tell_kept(status, "document"));
    let text = alone.text.0.clone();
    let (loaded, accepted) =
        documents.merge(alone, (&file.display().to_string(), &text), &FoundSets::kept(kept));
    news(&documents, &accepted).into_iter().for_each(warn);
    documents.take(accepted);
    (loaded, route_sources, documents)
}
