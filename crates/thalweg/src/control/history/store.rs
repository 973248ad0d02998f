//! The history in a directory: a file per configuration, `00000012.json`, readable by its owner only, written whole or
//! not at all (a new file, synced, renamed).

use super::super::kept_file;
use super::{ENTRIES, Entry};
use crate::operator_log::warn;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_admin::{Author, ConfigOrigin, HistoryState, Via, WatchState, WatchStatus};

/// Largest file that is read: a text of the largest size, every character escaped.
const FILE: u64 = 64 * 1024 * 1024;

/// The form in a file: a later version may add members, so unknown ones are no error.
#[derive(Debug, Deserialize, Serialize)]
struct EntrySpec {
    number: u64,
    /// Milliseconds since the Unix epoch.
    at_ms: u64,
    generation: u64,
    origin: String,
    via: String,
    uid: Option<u32>,
    peer: Option<String>,
    ephemeral: bool,
    state: String,
    watch: Option<WatchSpec>,
    etag: String,
    text: String,
}

#[derive(Debug, Deserialize, Serialize)]
struct WatchSpec {
    state: String,
    until_ms: u64,
    verdict: Option<String>,
}

const ORIGINS: &[(&str, ConfigOrigin)] = &[
    ("start", ConfigOrigin::Start),
    ("signal", ConfigOrigin::Signal),
    ("reload", ConfigOrigin::Reload),
    ("put", ConfigOrigin::Put),
    ("file", ConfigOrigin::File),
    ("rollback", ConfigOrigin::Rollback),
    ("watch", ConfigOrigin::Watch),
];
const STATES: &[(&str, HistoryState)] = &[
    ("running", HistoryState::Running),
    ("replaced", HistoryState::Replaced),
    ("rolled_back", HistoryState::RolledBack),
];
const VIAS: &[(&str, Via)] = &[("process", Via::Process), ("socket", Via::Socket), ("token", Via::Token)];
const WATCHES: &[(&str, WatchState)] = &[
    ("watching", WatchState::Watching),
    ("passed", WatchState::Passed),
    ("rolled_back", WatchState::RolledBack),
    ("replaced", WatchState::Replaced),
    ("failed", WatchState::Failed),
];

fn word<T: Copy + PartialEq>(table: &[(&str, T)], value: T) -> String {
    table.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word).to_owned()
}

fn value<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

fn to_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn from_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(SystemTime::UNIX_EPOCH)
}

impl EntrySpec {
    fn of(entry: &Entry) -> Self {
        let Entry { number, at, generation, origin, by, ephemeral, state, watch, etag, text } = entry;
        let watch = watch.as_ref().map(|WatchStatus { state, until, verdict }| WatchSpec {
            state: word(WATCHES, *state),
            until_ms: to_ms(*until),
            verdict: verdict.clone(),
        });
        Self {
            number: *number,
            at_ms: to_ms(*at),
            generation: *generation,
            origin: word(ORIGINS, *origin),
            via: word(VIAS, by.via),
            uid: by.uid,
            peer: by.peer.clone(),
            ephemeral: *ephemeral,
            state: word(STATES, *state),
            watch,
            etag: etag.to_string(),
            text: text.unpack(),
        }
    }

    /// `None` for a word of another version.
    fn entry(self) -> Option<Entry> {
        let watch = self.watch.and_then(|watch| {
            let state = value(WATCHES, &watch.state)?;
            Some(WatchStatus { state, until: from_ms(watch.until_ms), verdict: watch.verdict })
        });
        Some(Entry {
            number: self.number,
            at: from_ms(self.at_ms),
            generation: self.generation,
            origin: value(ORIGINS, &self.origin)?,
            by: Author { via: value(VIAS, &self.via)?, uid: self.uid, peer: self.peer },
            ephemeral: self.ephemeral,
            state: value(STATES, &self.state)?,
            watch,
            etag: self.etag.into(),
            text: self.text.as_str().into(),
        })
    }
}

/// The newest entries that a directory holds, oldest first. What cannot be read is told and left out: the proxy can
/// do without.
pub(super) fn load(directory: &Path) -> Vec<Arc<Entry>> {
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    let mut numbers = numbers(directory);
    numbers.sort_unstable();
    for number in numbers.iter().rev().take(ENTRIES) {
        let path = path(directory, *number);
        match read(&path) {
            Ok(mut entry) if entry.number == *number => {
                // The process that was watching has ended.
                if let Some(watch) = entry.watch.as_mut().filter(|watch| watch.state == WatchState::Watching)
                {
                    watch.state = WatchState::Replaced;
                    watch.verdict = Some("the process ended before the watch did".into());
                }
                if entry.state == HistoryState::Running {
                    entry.state = HistoryState::Replaced;
                }
                entries.push(Arc::new(entry));
            }
            Ok(_) => warn(format_args!("{} is not of this history; it is left out", path.display())),
            Err(error) => warn(format_args!("cannot read {}: {error}; it is left out", path.display())),
        }
    }
    entries.reverse();
    entries
}

fn read(path: &Path) -> io::Result<Entry> {
    let spec: EntrySpec = serde_json::from_slice(&kept_file::read(path, FILE)?)?;
    spec.entry().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a word of another version"))
}

/// The numbers of the files of a directory; none when there is no directory.
fn numbers(directory: &Path) -> Vec<u64> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".json")?.parse().ok()).collect()
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.json"))
}

/// What the directory holds.
pub(super) struct Store {
    directory: PathBuf,
    written: HashMap<u64, Arc<Entry>>,
}

impl Store {
    /// The directory holds these.
    pub(super) fn new(directory: PathBuf, entries: &[Arc<Entry>]) -> Self {
        let written = entries.iter().map(|entry| (entry.number, entry.clone())).collect();
        Self { directory, written }
    }

    /// From now on it holds these and no others.
    pub(super) fn keep(&mut self, entries: &[Arc<Entry>]) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        for entry in entries {
            let known = self.written.get(&entry.number);
            if known.is_none_or(|known| !Arc::ptr_eq(known, entry)) {
                self.write(entry)?;
                self.written.insert(entry.number, entry.clone());
            }
        }
        for number in numbers(&self.directory) {
            if entries.iter().all(|entry| entry.number != number) {
                fs::remove_file(path(&self.directory, number))?;
                self.written.remove(&number);
            }
        }
        // Names are durable when the directory is.
        fs::File::open(&self.directory)?.sync_all()
    }

    fn write(&self, entry: &Entry) -> io::Result<()> {
        let path = path(&self.directory, entry.number);
        let new = path.with_extension("json.new");
        let mut file = kept_file::create(&new)?;
        file.write_all(&serde_json::to_vec(&EntrySpec::of(entry))?)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    }
}
