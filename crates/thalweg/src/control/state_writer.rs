//! Keeps on disk what is to outlast the process, on a thread of its own.
//!
//! Making a change durable takes as long as the disk likes; the lock under which it was made must not be held so
//! long, nor the admin thread, which answers probes too. Only the newest state counts: it takes the place of one that
//! waits. What the admin API has changed is kept this way, and the history of configurations.

use crate::operator_log::warn;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The thread, as those see it who have something to keep.
#[derive(Debug)]
pub(crate) struct StateWriter<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    desk: Mutex<Desk<T>>,
    moved: Condvar,
}

#[derive(Debug)]
struct Desk<T> {
    waiting: Option<T>,
    is_writing: bool,
}

impl<T> Shared<T> {
    fn desk(&self) -> MutexGuard<'_, Desk<T>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> StateWriter<T> {
    /// Starts the thread, which writes with `store`; `what` and where it goes, for people. It ends with the process.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(
        what: String,
        store: impl FnMut(T) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let desk = Mutex::new(Desk { waiting: None, is_writing: false });
        let shared = Arc::new(Shared { desk, moved: Condvar::new() });
        let ours = shared.clone();
        thread::Builder::new().name("thalweg-keeper".into()).spawn(move || write_all(&what, store, &ours))?;
        Ok(Self(shared))
    }

    /// Has this kept soon, in place of all that was given before.
    pub(crate) fn keep(&self, state: T) {
        self.0.desk().waiting = Some(state);
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

fn write_all<T>(what: &str, mut store: impl FnMut(T) -> io::Result<()>, shared: &Shared<T>) {
    let mut desk = shared.desk();
    loop {
        let Some(state) = desk.waiting.take() else {
            desk = shared.moved.wait(desk).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        desk.is_writing = true;
        drop(desk);
        if let Err(error) = store(state) {
            warn(format_args!("cannot keep {what}: {error}"));
        }
        desk = shared.desk();
        desk.is_writing = false;
        shared.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept_file::{load, store};
    use super::super::overlay::{FILE, OverlaySpec};
    use super::*;

    #[test]
    fn the_newest_state_is_what_is_kept() {
        let directory = std::env::temp_dir().join(format!("thalweg-keeper-{}", std::process::id()));
        let path = directory.join(FILE);
        let to = path.clone();
        let keeper = StateWriter::start("the test".into(), move |overlay| store(&to, &overlay)).unwrap();
        let mut overlay = OverlaySpec::default();
        for number in 0..100 {
            overlay.of("a").removed.insert(format!("http://127.0.0.1:{number}"));
            keeper.keep(overlay.clone());
        }
        assert!(keeper.settle(Duration::from_secs(30)));
        assert_eq!(load::<OverlaySpec>(&path).unwrap(), overlay);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
