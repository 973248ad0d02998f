//! A file that programs write.

use super::registry::Registry;
use super::watch::Watched;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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

/// A directory with a document for each port, behind a symbolic link that is swapped, as volumes of Kubernetes are.
pub(crate) struct FolderRegistry {
    file: FileRegistry,
    version: usize,
    is_cut: bool,
}

impl FolderRegistry {
    fn link(&self) -> PathBuf {
        self.file.directory.join("routes.d")
    }

    fn swap(&self, target: &str) {
        let new = self.file.directory.join("new");
        symlink(target, &new).unwrap();
        std::fs::rename(new, self.link()).unwrap();
    }
}

impl Registry for FolderRegistry {
    fn start() -> Self {
        let mut this = Self { file: FileRegistry::start(), version: 0, is_cut: false };
        this.publish(&[]);
        this
    }

    fn argument(&self) -> String {
        format!("file: {{ path: '{}', interval: 100ms }}", self.link().display())
    }

    fn publish(&mut self, ports: &[u16]) {
        self.version += 1;
        let version = format!("..{}", self.version);
        let at = self.file.directory.join(&version);
        std::fs::create_dir(&at).unwrap();
        for port in ports {
            let document = format!("routes: [ {{ to: [ 'http://127.0.0.1:{port}' ] }} ]");
            std::fs::write(at.join(format!("{port}.yaml")), document).unwrap();
        }
        std::fs::write(at.join(".hidden.yaml"), "routes: [ { to: [ 'http://127.0.0.1:9' ] } ]").unwrap();
        if !self.is_cut {
            self.swap(&version);
        }
    }

    fn cut(&mut self) {
        self.is_cut = true;
        std::fs::remove_file(self.link()).unwrap();
    }

    /// Another file, and none that is a document, in its place.
    fn garble(&mut self) {
        self.file.garble();
        self.swap("endpoints.yaml");
    }

    fn freeze(&mut self) -> bool {
        false
    }

    fn mend(&mut self) {
        self.is_cut = false;
        self.swap(&format!("..{}", self.version));
    }

    fn connections(&self) -> usize {
        0
    }
}

/// A folder of its own, and what the source finds in `endpoints.yaml` there.
fn folder_with(text: &str) -> (FileRegistry, Watched) {
    let registry = FileRegistry::start();
    registry.write(text);
    let watched = Watched::start(&registry);
    (registry, watched)
}

/// A volume of Kubernetes: `endpoints.yaml` -> `..data/endpoints.yaml`, and `..data` -> a folder with a time in its
/// name. An update makes a new folder and swaps `..data`; the file's own path never changes.
#[test]
fn the_swap_of_a_symbolic_link_above_the_file_is_seen() {
    let (registry, _) = folder_with("[]");
    let at = |name: &str| registry.directory.join(name);
    let swap = |version: &str, text: &str| {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("endpoints.yaml"), text).unwrap();
        symlink(version, at("..data_tmp")).unwrap();
        std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    };
    swap("..2026_1", "['127.0.0.1:1001']");
    std::fs::remove_file(registry.path()).unwrap();
    symlink("..data/endpoints.yaml", registry.path()).unwrap();
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001]);
    swap("..2026_2", "['127.0.0.1:1002']");
    std::fs::remove_dir_all(at("..2026_1")).unwrap();
    assert_eq!(watched.ports(), [1002], "no failure in between");
}

#[test]
fn a_file_that_is_written_in_place_is_read_when_it_is_whole() {
    let (registry, _) = folder_with("['127.0.0.1:1001']");
    let mut watched = Watched::of(&registry.argument().replace("100ms", "1s"));
    assert_eq!(watched.ports(), [1001]);
    // Piece by piece, with less time between two than between two looks.
    let mut file = std::fs::File::create(registry.path()).unwrap();
    for piece in ["endpoints:\n", "  - 127.0.0.1:1002\n", "  - 127.0.0.1:1003\n"] {
        file.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(30));
    }
    drop(file);
    assert_eq!(watched.ports(), [1002, 1003], "no part of it, and no failure");
}

/// As `cp -p` writes it: in place, with the time of another file.
#[test]
fn a_file_that_keeps_its_time_and_size_is_read_again_when_it_was_written() {
    let (registry, mut watched) = folder_with("['127.0.0.1:1001']");
    assert_eq!(watched.ports(), [1001]);
    let time = std::fs::metadata(registry.path()).unwrap().modified().unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(registry.path()).unwrap();
    file.write_all(b"['127.0.0.1:1002']").unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    assert_eq!(watched.ports(), [1002]);
}
