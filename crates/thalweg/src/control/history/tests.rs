//! What is kept of configurations that have run, in memory and on disk.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of the test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("thalweg-history-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn history(&self) -> History {
        History::open(Some(self.0.join("history"))).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cause(origin: ConfigOrigin) -> Cause {
    Cause { origin, by: Author::default(), ephemeral: false }
}

/// As [`History::push`]; the text is its own tag.
fn push(history: &mut History, text: &str, generation: u64, cause: Cause) -> u64 {
    let tag = text.get(..8.min(text.len())).unwrap_or_default();
    history.push((text, tag), generation, cause)
}

/// As [`History::begin`].
fn begin(history: &mut History, text: &str) {
    history.begin((text, text.get(..8.min(text.len())).unwrap_or_default()));
}

fn in_memory() -> History {
    History::open(None).unwrap()
}

fn told(history: &History) -> Vec<(u64, HistoryState)> {
    history.document().entries.iter().map(|entry| (entry.number, entry.state)).collect()
}

#[test]
fn the_newest_runs_and_the_same_text_again_is_the_same_entry() {
    let mut history = in_memory();
    begin(&mut history, "a");
    assert_eq!(push(&mut history, "b", 2, cause(ConfigOrigin::Signal)), 2);
    assert_eq!(push(&mut history, "b", 3, cause(ConfigOrigin::Reload)), 2);
    let document = history.document();
    assert_eq!(told(&history), [(2, HistoryState::Running), (1, HistoryState::Replaced)]);
    assert_eq!((document.entries[0].generation, document.entries[0].origin), (3, ConfigOrigin::Signal));
    assert_eq!(document.entries[1].origin, ConfigOrigin::Start);
    assert_ne!(document.entries[0].etag, document.entries[1].etag);
}

#[test]
fn the_same_text_with_other_included_files_is_another_configuration() {
    let mut history = in_memory();
    history.begin(("a", "1"));
    assert_eq!(history.push(("a", "2"), 2, cause(ConfigOrigin::Signal)), 2);
    assert!(history.target(None).is_none(), "its text would bring nothing back");
}

#[test]
fn what_was_taken_back_is_not_brought_back_by_itself() {
    let mut history = in_memory();
    assert!(history.target(None).is_none());
    begin(&mut history, "a");
    assert!(history.target(None).is_none(), "nothing ran before");
    push(&mut history, "b", 2, cause(ConfigOrigin::Signal));
    assert_eq!(history.target(None).map(|entry| entry.number), Some(1));
    push(&mut history, "c", 3, cause(ConfigOrigin::Signal));
    push(&mut history, "b", 4, cause(ConfigOrigin::Rollback));
    history.change(3, |entry| entry.state = HistoryState::RolledBack);
    assert_eq!(history.target(None).map(|entry| entry.number), Some(1), "neither `c`, nor `b` once more");
    assert_eq!(history.target(Some(3)).map(|entry| entry.number), Some(3), "unless it is named");
    assert!(history.target(Some(9)).is_none());
}

#[test]
fn entries_and_bytes_are_bounded_and_the_newest_stays() {
    let mut history = in_memory();
    for number in 0..ENTRIES + 5 {
        push(&mut history, &number.to_string(), 1, cause(ConfigOrigin::Put));
    }
    assert_eq!(history.document().entries.len(), ENTRIES);
    assert_eq!(history.newest(), Some(ENTRIES as u64 + 5));
    // Six bits of eight are noise: packed, three quarters are left.
    let large = |c: char| {
        let mut state = u64::from(c);
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'0' + (state >> 58) as u8)
        };
        (0..BYTES / 8 * 5).map(|_| noise()).collect::<String>()
    };
    for name in ['a', 'b', 'c'] {
        push(&mut history, &large(name), 1, cause(ConfigOrigin::Put));
    }
    assert_eq!(history.document().entries.len(), 2, "all that fits");
    push(&mut history, &format!("{}{}", large('d'), large('e')), 1, cause(ConfigOrigin::Put));
    assert_eq!(history.document().entries.len(), 1, "the newest, whatever its size");
    push(&mut history, &large('f'), 1, cause(ConfigOrigin::Put));
    assert_eq!(history.document().entries.len(), 1);
}

#[test]
fn it_survives_a_restart_for_its_owner_only() {
    let folder = Folder::new();
    let mut history = folder.history();
    begin(&mut history, "a: \"one\"\n");
    let by = Author { via: thalweg_admin::Via::Socket, uid: Some(7), peer: None };
    push(&mut history, "b", 2, Cause { origin: ConfigOrigin::Put, by: by.clone(), ephemeral: true });
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    history.set_watch(2, WatchState::Passed, until, Some("kept".into()));
    assert!(history.settle(Duration::from_secs(30)));
    for entry in fs::read_dir(folder.0.join("history")).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
    assert_eq!(fs::metadata(folder.0.join("history")).unwrap().permissions().mode() & 0o777, 0o700);

    let mut again = folder.history();
    let entry = again.target(Some(2)).unwrap();
    assert_eq!(
        (&*entry.text.unpack(), entry.origin, &entry.by, entry.ephemeral),
        ("b", ConfigOrigin::Put, &by, true)
    );
    let watch = WatchStatus { state: WatchState::Passed, until, verdict: Some("kept".into()) };
    assert_eq!(entry.watch, Some(watch));
    assert_eq!(entry.state, HistoryState::Replaced, "the process that ran it has ended");
    begin(&mut again, "a: \"one\"\n");
    assert_eq!(told(&again)[0], (3, HistoryState::Running), "another text than the newest");
    assert_eq!(again.target(None).map(|entry| entry.number), Some(2));
    assert!(again.settle(Duration::from_secs(30)));
    let mut third = folder.history();
    begin(&mut third, "a: \"one\"\n");
    assert_eq!(told(&third)[0], (3, HistoryState::Running), "a start with the same text is no new entry");
    // What is still being written must not bring the directory back.
    assert!(third.settle(Duration::from_secs(30)));
}

#[test]
fn what_is_dropped_leaves_the_directory() {
    let folder = Folder::new();
    let mut history = folder.history();
    for number in 0..ENTRIES + 5 {
        push(&mut history, &number.to_string(), 1, cause(ConfigOrigin::Put));
    }
    assert!(history.settle(Duration::from_secs(30)));
    let files = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!(files(&folder.0.join("history")), ENTRIES);
    assert_eq!(folder.history().newest(), history.newest());
}

#[test]
fn a_damaged_file_costs_only_itself() {
    let folder = Folder::new();
    let mut history = folder.history();
    ["a", "b", "c", "d", "e"].iter().for_each(|text| {
        push(&mut history, text, 1, cause(ConfigOrigin::Put));
    });
    assert!(history.settle(Duration::from_secs(30)));
    let file = |number: u64| folder.0.join(format!("history/{number:08}.json"));
    fs::write(file(1), "{").unwrap();
    let other = fs::read_to_string(file(2)).unwrap().replace("\"number\":2", "\"number\":7");
    fs::write(file(2), other).unwrap();
    let other = fs::read_to_string(file(3)).unwrap().replace("\"put\"", "\"elsewhere\"");
    fs::write(file(3), other).unwrap();
    fs::write(file(4), "").unwrap();
    assert_eq!(told(&folder.history()), [(5, HistoryState::Replaced)]);
}
