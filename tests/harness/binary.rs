//! Where the binary under test is: `$THALWEG_BIN`, else built by cargo beside the test executable.
//!
//! Called once per test process by [`crate::proxy`]. Cargo is asked even when a binary exists, so that no test
//! ever passes against yesterday's build.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the binary under test.
///
/// # Panics
/// When cargo cannot build it.
pub fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("THALWEG_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

/// The same binary at another path: a hard link, or a copy where that is another file system. The copy is made by
/// another process: a file that this one has open for writing is, for a moment, one of every program that another test
/// starts, and cannot be run then.
///
/// # Panics
/// When neither can be made.
pub fn place_at(other: &Path) {
    if fs::hard_link(path(), other).is_err() {
        assert!(Command::new("cp").args([path(), other]).status().unwrap().success(), "{}", other.display());
    }
}

fn build() -> PathBuf {
    // The test executable is <target>/<profile>/deps/black_box-<hash>.
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap().to_path_buf();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Options of packages are joined over all that are chosen: of the binary's package alone, nearly every crate would
    // be compiled a second time, with fewer options than the tests have it.
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--workspace",
            "--bin",
            "thalweg",
            "--test",
            "black_box",
            "--features",
            "thalweg/wasm",
            "--profile",
            profile,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "cargo could not build the binary under test");
    folder.join("thalweg")
}
