//! A temporary directory of one test, removed when the test is over, with the processes of the proxies in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::kill_heirs;

/// A directory that is removed, with all that is in it, on drop.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes an empty directory whose name no other test has.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("thalweg-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it and returns the file's path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Whoever has taken over from a proxy in it is nobody's child.
        kill_heirs(&self.0, None);
        // Best effort: what is left is in the system's temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
