//! Wire transcripts: bytes in, bytes out, and what the upstream saw, as text files.
//!
//! `tests/wire/README.md` describes the format. A file is read `parse` into steps, its texts into patterns
//! `text`, `pattern`, and performed `perform` against a proxy of its own with a configuration of its
//! own `config`. The order of the sections in the file is the order in time: a step begins when the one before
//! it has come true.

mod config;
mod http2;
mod over_http2;
mod parse;
mod pattern;
mod perform;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parse::{Step, Transcript, Who};
use perform::perform;

/// How the bytes of a transcript are sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Delivery {
    /// A section at a time.
    Whole,
    /// A byte at a time, short sections only: no outcome may depend on how bytes are cut into packets.
    Bytewise,
    /// A section at a time, through TLS between client and proxy.
    Secure,
    /// As streams of HTTP/2, those of `OVER_HTTP2`.
    Http2,
}

/// The folders whose transcripts are performed over HTTP/2 too.
const OVER_HTTP2: &[&str] = &["filters"];

/// Fields that each version of HTTP has in its own way, and `Date`: a response over HTTP/2 is compared without them.
const OWN_TO_HTTP1: [&str; 5] = ["connection", "keep-alive", "transfer-encoding", "content-length", "date"];

/// The pause between two bytes of [`Delivery::Bytewise`]: long enough for most to arrive alone.
const BYTE_PACE: Duration = Duration::from_micros(300);

/// The longest section that [`Delivery::Bytewise`] cuts up.
const BYTEWISE: usize = 400;

/// How many transcripts are performed at once: they mostly wait.
const AT_ONCE: usize = 8;

/// Performs every `*.wire` file below `root` and returns a report for each that fails.
///
/// # Panics
/// When a directory holds no transcript, or when a file cannot be read.
pub fn perform_all(root: &Path, delivery: Delivery) -> (usize, Vec<String>) {
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    if let Ok(part) = std::env::var("WIRE") {
        files.retain(|file| file.to_string_lossy().contains(&part));
    }
    if delivery == Delivery::Http2 {
        files.retain(|file| {
            let folder = file.strip_prefix(root).ok().and_then(|file| file.iter().next());
            folder.is_some_and(|folder| OVER_HTTP2.iter().any(|known| folder == *known))
        });
    }
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(report) = perform_file(file, delivery) {
                        let name = file.strip_prefix(root).unwrap_or(file).display();
                        failures.lock().unwrap().push(format!("{name}: {report}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    (files.len(), failures)
}

/// Reads every `*.wire` file below `root` without performing it and returns what is wrong with them.
///
/// # Panics
/// When a directory holds no transcript.
pub fn read_all(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(root, &mut files);
    let read = |file: &PathBuf| fs::read_to_string(file).map_err(|error| error.to_string());
    let wrong = |file: PathBuf| {
        let error = read(&file).and_then(|text| Transcript::parse(&text)).err()?;
        Some(format!("{}: {error}", file.display()))
    };
    files.into_iter().filter_map(wrong).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let before = files.len();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "wire") {
            files.push(path);
        }
    }
    assert!(files.len() > before, "{} holds no transcript", folder.display());
}

fn perform_file(file: &Path, delivery: Delivery) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let transcript = Transcript::parse(&text)?;
    // A panic of the harness (a proxy that does not start, say) is one failure, not the end of the run.
    let performed = thread::scope(|scope| scope.spawn(|| perform(&transcript, delivery)).join());
    performed.unwrap_or_else(|panic| {
        Err(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "the harness panicked".to_owned()))
    })
}
