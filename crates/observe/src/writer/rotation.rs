//! Files of a log that move on: `access.log` becomes `access.log.1`, that `access.log.2`, and the oldest goes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Until it is tried again, when a file could not be moved.
const AGAIN: Duration = Duration::from_secs(60);
/// Files beyond the last one, from a time when more were kept, that are removed at once.
const LEFT: u32 = 1000;

/// When a file moves on, and how many are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rotation {
    /// Before it would be larger, in bytes; but for the last batch, at most 128 KiB. `None`: however large.
    pub size: Option<u64>,
    /// When it is as old. `None`: however old.
    pub every: Option<Duration>,
    /// Files kept beside the one that is written, 1 or more.
    pub keep: u32,
}

/// The state of it.
#[derive(Debug)]
pub(super) struct Rotator {
    rotation: Rotation,
    path: PathBuf,
    size: u64,
    /// When the file was made.
    born: SystemTime,
    /// It is not tried before.
    not_before: Option<Instant>,
}

impl Rotator {
    pub(super) fn new(rotation: Rotation, path: PathBuf) -> Self {
        let mut rotator = Self { rotation, path, size: 0, born: SystemTime::now(), not_before: None };
        rotator.look();
        rotator
    }

    /// Looks at the file, which was opened anew.
    pub(super) fn look(&mut self) {
        let found = fs::metadata(&self.path).ok().filter(fs::Metadata::is_file);
        self.size = found.as_ref().map_or(0, fs::Metadata::len);
        // A file system may not know.
        self.born = found.and_then(|found| found.created().ok()).unwrap_or_else(SystemTime::now);
    }

    /// So many bytes were written.
    pub(super) fn grew(&mut self, bytes: usize) {
        self.size = self.size.saturating_add(bytes as u64);
    }

    /// Whether the file moves on before so many more bytes are written.
    pub(super) fn is_due(&self, bytes: usize, now: (SystemTime, Instant)) -> bool {
        let full = || self.rotation.size.is_some_and(|limit| self.size.saturating_add(bytes as u64) > limit);
        let old = || self.age_left(now.0).is_some_and(|left| left.is_zero());
        self.size > 0 && self.not_before.is_none_or(|time| now.1 >= time) && (full() || old())
    }

    fn age_left(&self, now: SystemTime) -> Option<Duration> {
        let every = self.rotation.every?;
        // A clock that was set back makes it younger, not older than it may be.
        let age = now.duration_since(self.born).unwrap_or_default();
        Some(every.saturating_sub(age))
    }

    /// How long nothing has to be done by itself.
    pub(super) fn rests(&self) -> Option<Duration> {
        let left = self.age_left(SystemTime::now()).filter(|_| self.size > 0)?;
        // Those that could not be moved are looked at again then.
        Some(left.max(Duration::from_secs(1)))
    }

    /// Moves the files. The one that is open is now called `.1`; another one has to be opened.
    ///
    /// # Errors
    /// Of the file system; it is not tried again for a while.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let moved = shift(&self.path, self.rotation.keep);
        self.not_before = moved.is_err().then(|| Instant::now() + AGAIN);
        moved
    }
}

/// Where the file that is so old is.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn shift(path: &Path, keep: u32) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    // What was kept when more were.
    for number in (keep + 1)..=keep.saturating_add(LEFT) {
        if fs::remove_file(numbered(path, number)).is_err() {
            break;
        }
    }
    for number in (1..keep).rev() {
        match fs::rename(numbered(path, number), numbered(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, numbered(path, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_move_on_and_no_more_are_kept_than_said() {
        let folder = std::env::temp_dir().join(format!("thalweg-rotation-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.log");
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names.join(" ")
        };
        for round in 0..6 {
            fs::write(&path, format!("{round}")).unwrap();
            shift(&path, 3).unwrap();
        }
        assert_eq!(names(), "a.log.1 a.log.2 a.log.3");
        assert_eq!(fs::read_to_string(numbered(&path, 1)).unwrap(), "5");
        assert_eq!(fs::read_to_string(numbered(&path, 3)).unwrap(), "3");
        fs::write(&path, "6").unwrap();
        shift(&path, 1).unwrap();
        assert_eq!(names(), "a.log.1", "fewer are kept now");
        assert!(shift(&path, 1).is_err(), "there is none");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn it_is_due_by_size_and_age_and_never_when_empty() {
        let rotation = Rotation { size: Some(100), every: Some(Duration::from_secs(60)), keep: 2 };
        let mut rotator = Rotator::new(rotation, "/nonexistent/a.log".into());
        let (now, instant) = (rotator.born, Instant::now());
        let later = |seconds| (now + Duration::from_secs(seconds), instant);
        assert!(!rotator.is_due(1000, later(1000)), "an empty file stays");
        assert_eq!(rotator.rests(), None);
        rotator.grew(60);
        assert!(
            !rotator.is_due(40, later(59)) && rotator.is_due(41, later(0)) && rotator.is_due(1, later(60))
        );
        assert!(!rotator.is_due(1, (now - Duration::from_secs(1000), instant)), "the clock was set back");
        assert!(rotator.rotate().is_err());
        assert!(!rotator.is_due(41, later(60)), "it is not tried at each line");
        assert!(rotator.is_due(41, (now, instant + AGAIN + Duration::from_secs(5))));
    }
}
