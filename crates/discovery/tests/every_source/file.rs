//! A file that programs write.

use super::registry::Registry;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct FileRegistry {
    directory: PathBuf,
    is_cut: bool,
    published: String,
}

impl FileRegistry {
    fn path(&self) -> PathBuf {
        self.directory.join("endpoints.yaml")
    }

    /// As editors do: a new file, renamed over the old one.
    fn write(&self, text: &str) {
        let new = self.directory.join("endpoints.new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }
}

impl Registry for FileRegistry {
    fn start() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("thalweg-source-file-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let this = Self { directory, is_cut: false, published: String::new() };
        this.write("endpoints: []");
        this
    }

    fn argument(&self) -> String {
        format!("file: {{ path: '{}', interval: 100ms }}", self.path().display())
    }

    fn publish(&mut self, ports: &[u16]) {
        let lines: String = ports.iter().map(|port| format!("  - 127.0.0.1:{port}\n")).collect();
        self.published =
            if lines.is_empty() { "endpoints: []\n".to_owned() } else { format!("endpoints:\n{lines}") };
        if !self.is_cut {
            self.write(&self.published);
        }
    }

    fn cut(&mut self) {
        self.is_cut = true;
        std::fs::remove_file(self.path()).unwrap();
    }

    fn garble(&mut self) {
        self.write("endpoints: { [");
    }

    fn freeze(&mut self) -> bool {
        false
    }

    fn mend(&mut self) {
        self.is_cut = false;
        self.write(&self.published);
    }

    fn connections(&self) -> usize {
        0
    }
}

impl Drop for FileRegistry {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
