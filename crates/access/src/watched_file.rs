//! A file that is read again when it has changed: what cannot be read, or has a bad line, leaves in force what was
//! there before.

use crate::stamp::unreadable;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use thalweg_core::Notice;

/// How often it is looked at. It is read when it has stayed the same from one look to the next: a file that is being
/// written may lack its end.
pub const LOOK: Duration = Duration::from_secs(1);

/// Reads what is in a file.
pub type Parse<T> = fn(&[u8]) -> Result<T, String>;

/// A file, and what is in it.
pub struct WatchedFile<T> {
    path: PathBuf,
    limit: usize,
    parse: Parse<T>,
    held: RwLock<Arc<T>>,
    seen: Mutex<Seen>,
}

/// What is known of the file.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// As it was read last, with success or without.
    read: Option<Stamp>,
    /// As it was at the last look.
    last: Option<Stamp>,
    /// It was missing, and that was said.
    is_missing: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    changed: (i64, i64),
    size: u64,
    inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Self { changed, size: metadata.size(), inode: metadata.ino() }
    }
}

impl<T> WatchedFile<T> {
    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// A sentence that names the file: it cannot be read, or has a bad line.
    pub fn open(path: PathBuf, limit: usize, parse: Parse<T>) -> Result<Self, String> {
        let (stamp, value) = read(&path, limit, parse)?;
        let seen = Seen { read: Some(stamp), last: Some(stamp), is_missing: false };
        Ok(Self { path, limit, parse, held: RwLock::new(Arc::new(value)), seen: Mutex::new(seen) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it.
    pub fn current(&self) -> Arc<T> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks whether it has changed, and reads it. Blocks as files do.
    pub fn look(&self) -> Option<Notice> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match std::fs::metadata(&self.path) {
            Ok(metadata) => Stamp::of(&metadata),
            Err(_) if seen.is_missing => return None,
            Err(error) => {
                *seen = Seen { is_missing: true, ..Seen::default() };
                let cause = unreadable(&error);
                return Some(self.stays(&format!("cannot read the file {}: {cause}", self.path.display())));
            }
        };
        seen.is_missing = false;
        let is_still = seen.last.replace(stamp) == Some(stamp);
        if !is_still || seen.read == Some(stamp) {
            return None;
        }
        match read(&self.path, self.limit, self.parse) {
            Ok((stamp, value)) => {
                seen.read = Some(stamp);
                *self.held.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                Some(Notice::info(format!("the file {} was read again", self.path.display())))
            }
            Err(error) => {
                seen.read = Some(stamp);
                Some(self.stays(&error))
            }
        }
    }

    fn stays(&self, error: &str) -> Notice {
        Notice::warn(format!("{error}; what was read before stays in force"))
    }
}

impl<T: Send + Sync + 'static> WatchedFile<T> {
    /// Looks at it for ever. Cancel-safe.
    pub async fn keep(self: Arc<Self>, say: Arc<dyn Fn(Notice) + Send + Sync>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let file = self.clone();
            if let Ok(Some(notice)) = tokio::task::spawn_blocking(move || file.look()).await {
                say(notice);
            }
        }
    }
}

impl<T> fmt::Debug for WatchedFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WatchedFile").field(&self.path).finish()
    }
}

fn read<T>(path: &Path, limit: usize, parse: Parse<T>) -> Result<(Stamp, T), String> {
    let cannot = |cause: &dyn fmt::Display| format!("cannot read the file {}: {cause}", path.display());
    if !std::fs::metadata(path).map_err(|error| cannot(&unreadable(&error)))?.is_file() {
        // Opening a pipe would wait for somebody to write.
        return Err(cannot(&"it is no regular file"));
    }
    let file = File::open(path).map_err(|error| cannot(&unreadable(&error)))?;
    let metadata = file.metadata().map_err(|error| cannot(&unreadable(&error)))?;
    let mut bytes = Vec::new();
    let more = limit as u64 + 1;
    file.take(more).read_to_end(&mut bytes).map_err(|error| cannot(&unreadable(&error)))?;
    if bytes.len() > limit {
        return Err(cannot(&format!("it has more than {limit} bytes")));
    }
    let value = parse(&bytes).map_err(|error| format!("the file {}: {error}", path.display()))?;
    Ok((Stamp::of(&metadata), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_core::Level;

    fn number(bytes: &[u8]) -> Result<u32, String> {
        String::from_utf8_lossy(bytes).trim().parse().map_err(|_| "line 1 is no number".into())
    }

    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, text: &str) -> Self {
            let path = std::env::temp_dir().join(format!("thalweg-watched-{}-{name}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Self(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn what_was_read_stays_until_something_right_is_there() {
        let at = Temporary::new("stays", "1");
        let file = WatchedFile::open(at.0.clone(), 64, number).unwrap();
        assert!(file.look().is_none() && *file.current() == 1);
        std::fs::write(&at.0, "22").unwrap();
        assert!(file.look().is_none(), "it may still be written");
        assert_eq!(file.look().unwrap().level, Level::Info);
        assert_eq!(*file.current(), 22);
        std::fs::write(&at.0, "bad").unwrap();
        assert!(file.look().is_none());
        let notice = file.look().unwrap();
        assert!(notice.text.contains("line 1 is no number; what was read before stays"), "{}", notice.text);
        assert!(file.look().is_none() && *file.current() == 22, "it is said once");
        std::fs::remove_file(&at.0).unwrap();
        assert!(file.look().unwrap().text.contains(": there is no such file; what was read before"));
        assert!(file.look().is_none() && *file.current() == 22);
        std::fs::write(&at.0, "4444").unwrap();
        assert!(file.look().is_none() && file.look().is_some() && *file.current() == 4444);
        std::fs::write(&at.0, "9".repeat(65)).unwrap();
        assert!(file.look().is_none() && file.look().unwrap().text.contains("more than 64 bytes"));
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let error = WatchedFile::open(std::env::temp_dir(), 64, number).unwrap_err();
        assert!(error.contains("no regular file"), "{error}");
    }
}
