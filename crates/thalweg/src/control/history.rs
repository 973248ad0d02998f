//! Configurations that have run: the newest few, with their texts, so that one of them can be brought back.
//!
//! In memory, and where `state:` names a directory there too, so that they survive a restart (`store`). A text is kept
//! as the file holds it, references and literal secrets alike: the files can be read by their owner only, and no answer
//! of the admin API shows a text. Part of [`super::origin::Origin`], under its lock.

mod store;
mod text;

use super::state_writer::StateWriter;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use text::Text;
use thalweg_admin::{
    Author, ConfigOrigin, History as Document, HistoryEntry, HistoryState, WatchState, WatchStatus,
};

/// The directory below the one of `state:`.
pub(crate) const DIRECTORY: &str = "history";
/// Configurations that are kept.
const ENTRIES: usize = 20;
/// Bytes of all their texts, packed; the newest one is kept whatever its size.
const BYTES: usize = 4 * 1024 * 1024;

/// A configuration that took over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// From 1, one more with each.
    pub(crate) number: u64,
    /// When it took over.
    pub(crate) at: SystemTime,
    /// Number of the plan that it became.
    pub(crate) generation: u64,
    /// Why it took over.
    pub(crate) origin: ConfigOrigin,
    /// Who asked.
    pub(crate) by: Author,
    /// Whether the file does not hold it.
    pub(crate) ephemeral: bool,
    /// What became of it.
    pub(crate) state: HistoryState,
    /// How it was watched.
    pub(crate) watch: Option<WatchStatus>,
    /// Its tag, which what it includes is a part of.
    pub(crate) etag: Arc<str>,
    /// The main file as it was read.
    pub(crate) text: Text,
}

impl Entry {
    fn is(&self, text: &Text, etag: &str) -> bool {
        self.text == *text && *self.etag == *etag
    }
}

/// Why and for whom a configuration takes over.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) origin: ConfigOrigin,
    pub(crate) by: Author,
    pub(crate) ephemeral: bool,
}

/// The newest configurations.
#[derive(Debug)]
pub(crate) struct History {
    /// Oldest first; the last one runs.
    entries: VecDeque<Arc<Entry>>,
    keeper: Option<StateWriter<Vec<Arc<Entry>>>>,
}

impl History {
    /// What `directory` holds, which is where it will be kept; without one it is kept in memory alone.
    ///
    /// # Errors
    /// When there can be no thread that keeps it.
    pub(crate) fn open(directory: Option<PathBuf>) -> io::Result<Self> {
        let Some(directory) = directory else { return Ok(Self { entries: VecDeque::new(), keeper: None }) };
        let entries = store::load(&directory);
        let mut store = store::Store::new(directory.clone(), &entries);
        let what = format!("the history of configurations in {}", directory.display());
        let keeper = StateWriter::start(what, move |entries: Vec<Arc<Entry>>| store.keep(&entries))?;
        Ok(Self { entries: entries.into(), keeper: Some(keeper) })
    }

    /// The process starts with this text and tag.
    pub(crate) fn begin(&mut self, (text, etag): (&str, &str)) {
        let cause = Cause { origin: ConfigOrigin::Start, by: Author::default(), ephemeral: false };
        let packed = Text::from(text);
        let newest = self.entries.back().filter(|entry| entry.is(&packed, etag)).map(|entry| entry.number);
        match newest {
            // A process that starts again and again does not push out what ran before.
            Some(number) => self.change(number, |entry| {
                (entry.state, entry.generation, entry.ephemeral) = (HistoryState::Running, 1, false);
            }),
            None => {
                self.push((text, etag), 1, cause);
            }
        }
    }

    /// Whether what runs is in no file.
    pub(crate) fn runs_ephemeral(&self) -> bool {
        self.entries.back().is_some_and(|running| running.ephemeral)
    }

    /// A text with its tag takes over; its number. The same again stays the same entry.
    pub(crate) fn push(&mut self, (text, etag): (&str, &str), generation: u64, cause: Cause) -> u64 {
        let text = Text::from(text);
        if let Some(running) = self.entries.back().filter(|running| running.is(&text, etag)) {
            let number = running.number;
            self.change(number, |entry| (entry.generation, entry.ephemeral) = (generation, cause.ephemeral));
            return number;
        }
        let number = self.entries.back().map_or(1, |newest| newest.number + 1);
        if let Some(running) = self.entries.back().filter(|entry| entry.state == HistoryState::Running) {
            self.change(running.number, |entry| entry.state = HistoryState::Replaced);
        }
        let Cause { origin, by, ephemeral } = cause;
        let (at, state) = (SystemTime::now(), HistoryState::Running);
        let (watch, etag) = (None, etag.into());
        let entry = Entry { number, at, generation, origin, by, ephemeral, state, watch, etag, text };
        self.entries.push_back(Arc::new(entry));
        let bytes = |entries: &VecDeque<Arc<Entry>>| {
            entries.iter().map(|entry| entry.text.packed_len()).sum::<usize>()
        };
        while self.entries.len() > ENTRIES || (self.entries.len() > 1 && bytes(&self.entries) > BYTES) {
            self.entries.pop_front();
        }
        self.keep();
        number
    }

    /// Changes an entry, if it is still kept.
    pub(crate) fn change(&mut self, number: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.number == number) {
            change(Arc::make_mut(entry));
            self.keep();
        }
    }

    /// The entry with this number, or else the newest one before the present that was not taken back.
    pub(crate) fn target(&self, to: Option<u64>) -> Option<Arc<Entry>> {
        let present = self.entries.back()?;
        let fits = |entry: &&Arc<Entry>| match to {
            Some(number) => entry.number == number,
            None => entry.state != HistoryState::RolledBack && entry.text != present.text,
        };
        self.entries.iter().rev().find(fits).cloned()
    }

    /// The present one's number.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.entries.back().map(|entry| entry.number)
    }

    /// How the present one is watched.
    pub(crate) fn set_watch(
        &mut self,
        number: u64,
        state: WatchState,
        until: SystemTime,
        verdict: Option<String>,
    ) {
        self.change(number, |entry| entry.watch = Some(WatchStatus { state, until, verdict }));
    }

    /// As the admin API tells it: newest first.
    pub(crate) fn document(&self) -> Document {
        let entry = |entry: &Arc<Entry>| HistoryEntry {
            number: entry.number,
            at: entry.at,
            generation: entry.generation,
            origin: entry.origin,
            by: entry.by.clone(),
            etag: entry.etag.to_string(),
            bytes: entry.text.len(),
            ephemeral: entry.ephemeral,
            state: entry.state,
            watch: entry.watch.clone(),
        };
        Document { entries: self.entries.iter().rev().map(entry).collect() }
    }

    /// Waits, no longer than `limit`, until it is on disk, where it is to be. Says whether it is.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| keeper.settle(limit))
    }

    fn keep(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.keep(self.entries.iter().cloned().collect());
        }
    }
}

#[cfg(test)]
mod tests;
