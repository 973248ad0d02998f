//! Keeps on disk what the admin API has changed, on a thread of its own.
//!
//! Making a change durable takes as long as the disk likes; the lock of the runtime must not be held so long, nor
//! the admin thread, which answers probes too. Only the newest state counts: it takes the place of one that waits.

use super::overlay::{OverlaySpec, store};
use crate::cli::complain;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The thread, as those see it who have something to keep.
#[derive(Debug)]
pub(crate) struct Keeper(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Desk {
    waiting: Option<OverlaySpec>,
    is_writing: bool,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// Starts the thread, which keeps everything in this file. It ends with the process.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(path: PathBuf) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let ours = shared.clone();
        thread::Builder::new().name("thalweg-keeper".into()).spawn(move || write_all(&path, &ours))?;
        Ok(Self(shared))
    }

    /// Has this kept soon, in place of all that was given before.
    pub(crate) fn keep(&self, overlay: OverlaySpec) {
        self.0.desk().waiting = Some(overlay);
        self.0.moved.notify_all();
    }

    /// Waits, no longer than `limit`, until all that was given is kept. Says whether it is.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut desk = self.0.desk();
        while desk.waiting.is_some() || desk.is_writing {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            desk = self.0.moved.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn write_all(path: &Path, shared: &Shared) {
    let mut desk = shared.desk();
    loop {
        let Some(overlay) = desk.waiting.take() else {
            desk = shared.moved.wait(desk).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        desk.is_writing = true;
        drop(desk);
        if let Err(error) = store(path, &overlay) {
            complain(format_args!("cannot keep runtime changes in {}: {error}", path.display()));
        }
        desk = shared.desk();
        desk.is_writing = false;
        shared.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::overlay::{FILE, load};
    use super::*;

    #[test]
    fn the_newest_state_is_what_is_kept() {
        let directory = std::env::temp_dir().join(format!("thalweg-keeper-{}", std::process::id()));
        let path = directory.join(FILE);
        let keeper = Keeper::start(path.clone()).unwrap();
        let mut overlay = OverlaySpec::default();
        for number in 0..100 {
            overlay.of("a").removed.insert(format!("http://127.0.0.1:{number}"));
            keeper.keep(overlay.clone());
        }
        assert!(keeper.settle(Duration::from_secs(30)));
        assert_eq!(load(&path).unwrap(), overlay);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
