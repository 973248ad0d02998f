//! Importers: what `thalweg import` makes of a configuration runs beside the original, and both are asked the same.
//!
//! Each file of `tests/import/ORIGINAL/` is a configuration with requests in its comments (`case.rs` says how). The
//! original program and Thalweg run on addresses of their own before the same echo services, and `compare.rs` says what
//! must be alike: status, fields and body of the response, and the request that the service has got. Of an original
//! that machines do not have, answers are recorded (`answers.rs`).

mod answers;
mod caddy;
mod case;
mod compare;
mod echo;
mod haproxy;
mod nginx;
mod recorded;
mod side;
mod traefik;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::watchdog;
use case::Case;
use echo::Echo;
use side::Original;

/// Cases that run at once.
const AT_ONCE: usize = 4;

/// The files of an original, in their order; `IMPORT_CASE=text` chooses those whose name has the text.
fn files(original: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("import").join(original);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    if let Ok(chosen) = std::env::var("IMPORT_CASE") {
        files.retain(|file| file.to_string_lossy().contains(&chosen));
    }
    files
}

/// Plays every file of an original and panics with all that is not alike.
fn play(original: &Original, least: usize) {
    let files = files(original.name);
    let is_all = std::env::var("IMPORT_CASE").is_err();
    assert!(!is_all || files.len() >= least, "{} has {} files only", original.name, files.len());
    let echo = Echo::start();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
                    let case = Case::read(file);
                    let told = side::play(original, &case, &echo);
                    if !told.is_empty() {
                        wrong.lock().unwrap().push(format!("== {name}\n{told}"));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    let mut out = String::new();
    for told in &wrong {
        let _ = writeln!(out, "{told}");
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{out}", wrong.len(), files.len());
}
