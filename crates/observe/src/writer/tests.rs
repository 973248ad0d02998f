//! The writer against files, full devices, readers that stop and readers that leave.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use super::*;
use crate::Registry;

/// A directory that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("thalweg-log-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LONG: Duration = Duration::from_secs(20);

fn record(path: &[u8]) -> LogRecord<'_> {
    LogRecord { method: b"GET", path, status: 200, ..LogRecord::default() }
}

fn start(path: &Path, registry: &Registry) -> LogWriter {
    LogWriter::start(Destination::File(path.into()), Format::Combined, registry.log()).expect("starts")
}

/// Waits for what another thread does, without a fixed pause.
fn until(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < LONG, "it never happened");
        thread::yield_now();
    }
}

#[test]
fn lines_reach_a_file_of_mode_0640_and_are_appended() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("access.log");
    for round in 1..=2 {
        let writer = start(&path, &registry);
        let mut batch = writer.batch(registry.worker(0));
        batch.push(&record(b"/a"));
        assert!(!batch.is_empty());
        batch.flush();
        assert!(batch.is_empty());
        assert_eq!(writer.patience(), DISK_PATIENCE);
        assert!(writer.shutdown(LONG));
        assert_eq!(fs::read_to_string(&path).unwrap().matches("\"GET /a\" 200").count(), round);
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
}

#[test]
fn dropped_batches_and_full_ones_are_flushed() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("access.log");
    let writer = start(&path, &registry);
    let mut batch = writer.batch(registry.worker(0));
    let long = vec![b'x'; 1000];
    for _ in 0..200 {
        batch.push(&record(&long));
        assert!(batch.bytes.len() < BATCH_BYTES);
    }
    drop(batch);
    assert!(writer.shutdown(LONG));
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 200);
    assert_eq!(registry.worker(0).log_dropped.value(), 0);
}

#[test]
fn reopen_goes_to_the_new_file_after_a_rotation() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let (path, old) = (folder.file("access.log"), folder.file("access.log.1"));
    let writer = start(&path, &registry);
    let mut batch = writer.batch(registry.worker(0));
    batch.push(&record(b"/before"));
    batch.flush();
    until(|| fs::metadata(&path).is_ok_and(|file| file.len() > 0));
    fs::rename(&path, &old).unwrap();
    writer.reopen();
    until(|| path.exists());
    batch.push(&record(b"/after"));
    batch.flush();
    assert!(writer.shutdown(LONG));
    assert!(fs::read_to_string(&old).unwrap().contains("/before"));
    let new = fs::read_to_string(&path).unwrap();
    assert!(new.contains("/after") && !new.contains("/before"));
}

#[test]
fn a_reopen_that_fails_keeps_the_old_file() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    fs::create_dir(folder.file("logs")).unwrap();
    let (path, moved) = (folder.file("logs/access.log"), folder.file("moved"));
    let writer = start(&path, &registry);
    fs::rename(folder.file("logs"), &moved).unwrap();
    writer.reopen();
    until(|| registry.log().errors.value() == 1);
    let mut batch = writer.batch(registry.worker(0));
    batch.push(&record(b"/still"));
    batch.flush();
    assert!(writer.shutdown(LONG));
    assert!(fs::read_to_string(moved.join("access.log")).unwrap().contains("/still"));
    assert!(registry.log().take_reopen_error().is_some_and(|text| text.contains("cannot be opened again")));
    assert_eq!(registry.log().take_reopen_error(), None);
}

#[test]
fn a_full_disk_costs_lines_and_nothing_else() {
    let registry = Registry::new(1);
    let writer = start(Path::new("/dev/full"), &registry);
    let mut batch = writer.batch(registry.worker(0));
    batch.push(&record(b"/a"));
    batch.push(&record(b"/b"));
    batch.flush();
    assert!(writer.shutdown(LONG));
    assert_eq!((registry.log().lost.value(), registry.log().errors.value()), (2, 1));
    assert!(registry.log().fails());
    assert!(
        registry.log().take_write_error().is_some_and(|text| text.contains("/dev/full cannot be written"))
    );
    assert!(registry.render().contains("thalweg_log_dropped_total{reason=\"write_failed\"} 2\n"));
}

/// The file of [`at_the_limit`], in a process of its own.
const LIMITED: &str = "THALWEG_TEST_LIMITED";

#[test]
fn a_file_that_takes_no_more_ends_with_a_whole_line() {
    let folder = Folder::new();
    let path = folder.file("access.log");
    // One block, 512 bytes or 1,024; the signal that goes with the limit would end the process.
    let script = "trap '' XFSZ && ulimit -f 1 && exec \"$0\" --exact writer::tests::at_the_limit";
    let child = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn at_the_limit() {
    // Nothing to see without the limit.
    let Some(path) = std::env::var_os(LIMITED) else { return };
    let (path, registry) = (PathBuf::from(path), Registry::new(1));
    let destination = Destination::File(path.clone());
    let mut drain = Drain::new(destination.clone(), destination.open().unwrap(), None, registry.log());
    let line = [vec![b'x'; 99], vec![b'\n']].concat();
    drain.write(&line.repeat(20), 20);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.len() % 100 == 0 && !text.is_empty(), "{}", text.len());
    assert_eq!(registry.log().lost.value(), 20 - text.len() as u64 / 100);
    assert!(registry.log().fails());
    drain.write(b"next\n", 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), text + "next\n");
    assert!(!registry.log().fails());
}

#[test]
fn a_line_that_another_process_left_torn_is_ended() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let (path, old) = (folder.file("access.log"), folder.file("old"));
    fs::write(&path, "whole\nto").unwrap();
    let destination = Destination::File(path.clone());
    let mut drain = Drain::new(destination.clone(), destination.open().unwrap(), None, registry.log());
    drain.write(b"next\n", 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nto\nnext\n");
    drain.reopen();
    drain.write(b"same\n", 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nto\nnext\nsame\n");
    fs::rename(&path, &old).unwrap();
    drain.reopen();
    drain.write(b"new\n", 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
}

/// A FIFO and its open reading end.
fn fifo(path: &Path) -> File {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
}

#[test]
fn a_reader_that_stops_reading_costs_lines_and_never_time() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("pipe");
    let reader = fifo(&path);
    let writer = start(&path, &registry);
    let mut batch = writer.batch(registry.worker(0));
    let long = vec![b'x'; 16 * 1024];
    let start = Instant::now();
    let mut pushed = 0;
    while registry.worker(0).log_dropped.value() == 0 {
        batch.push(&record(&long));
        pushed += 1;
        assert!(pushed < 100_000);
    }
    // 64 batches and a pipe are full within milliseconds; the writer waits a second per batch.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(!writer.shutdown(Duration::from_millis(1)));
    assert_eq!(writer.patience(), READER_PATIENCE);
    drop(reader);
    assert!(writer.shutdown(LONG));
    assert!(registry.log().lost.value() > 0);
}

#[test]
fn a_reader_that_leaves_costs_lines_and_its_successor_gets_whole_ones() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("pipe");
    let reader = fifo(&path);
    let writer = start(&path, &registry);
    let mut batch = writer.batch(registry.worker(0));
    drop(reader);
    batch.push(&record(b"/lost"));
    batch.flush();
    until(|| registry.log().lost.value() == 1);
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
    batch.push(&record(b"/found"));
    batch.flush();
    assert!(writer.shutdown(LONG));
    let mut text = String::new();
    drop(batch);
    drop(writer);
    let _ = reader.read_to_string(&mut text);
    assert!(
        text.starts_with("unix: - - [") && text.ends_with("\"GET /found\" 200 0 \"-\" \"-\"\n"),
        "{text}"
    );
}

#[test]
fn a_torn_line_is_ended_before_the_next_one() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("pipe");
    let mut reader = fifo(&path);
    let destination = Destination::File(path);
    let mut drain = Drain::new(destination.clone(), destination.open().unwrap(), None, registry.log());
    // Larger than any pipe's default buffer: the first part fits, the rest does not.
    let batch = [vec![b'x'; 1 << 20], vec![b'\n']].concat();
    drain.write(&batch, 1);
    assert_eq!(registry.log().lost.value(), 1);
    let mut seen = vec![0; 1 << 20];
    while reader.read(&mut seen).is_ok_and(|read| read > 0) {}
    drain.write(b"next\n", 1);
    let read = reader.read(&mut seen).unwrap();
    assert_eq!(&seen[..read], b"\nnext\n");
}

#[test]
fn a_destination_that_cannot_be_opened_is_an_error_at_start() {
    let registry = Registry::new(1);
    let path = PathBuf::from("/nonexistent/access.log");
    let error =
        LogWriter::start(Destination::File(path), Format::Json, registry.log()).expect_err("no folder");
    assert!(error.to_string().starts_with("the access log /nonexistent/access.log cannot be written: "));
}

#[test]
fn a_file_moves_on_with_whole_lines_and_a_bounded_number_is_kept() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("access.log");
    let rotation = Rotation { size: Some(1000), every: None, keep: 2 };
    let options = LogOptions {
        destination: Destination::File(path.clone()),
        format: Format::Combined,
        sample: None,
        rotation: Some(rotation),
    };
    let writer = LogWriter::start_with(options, registry.log()).unwrap();
    let mut batch = writer.batch(registry.worker(0));
    for number in 0..60 {
        batch.push(&record(format!("/{number}").as_bytes()));
        batch.flush();
    }
    drop(batch);
    assert!(writer.shutdown(LONG));
    let read = |name: &str| fs::read_to_string(folder.file(name)).unwrap();
    let all = read("access.log.2") + &read("access.log.1") + &read("access.log");
    assert!(!folder.file("access.log.3").exists());
    assert!(["access.log", "access.log.1", "access.log.2"].iter().all(|name| read(name).len() <= 1000));
    let lines: Vec<&str> = all.lines().collect();
    for (line, number) in lines.iter().rev().zip((0..60).rev()) {
        assert!(line.contains(&format!("\"GET /{number}\" 200")), "{line}");
    }
    assert!(lines.len() > 20 && registry.log().lost.value() == 0, "{}", lines.len());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o640, 0);
}

#[test]
fn an_old_file_moves_on_by_itself_and_one_that_cannot_is_written_on() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("access.log");
    let options = LogOptions {
        destination: Destination::File(path.clone()),
        format: Format::Combined,
        sample: None,
        rotation: Some(Rotation { size: None, every: Some(Duration::from_secs(1)), keep: 1 }),
    };
    let writer = LogWriter::start_with(options, registry.log()).unwrap();
    let mut batch = writer.batch(registry.worker(0));
    batch.push(&record(b"/first"));
    batch.flush();
    until(|| fs::read_to_string(folder.file("access.log.1")).is_ok_and(|text| text.contains("/first")));
    // What stands in the place of the next one cannot be replaced.
    fs::remove_file(folder.file("access.log.1")).unwrap();
    fs::create_dir_all(folder.file("access.log.1").join("full")).unwrap();
    batch.push(&record(b"/second"));
    batch.flush();
    let mut error = None;
    until(|| {
        error = registry.log().take_reopen_error();
        error.is_some()
    });
    assert!(error.unwrap().contains("cannot be rotated"));
    batch.push(&record(b"/third"));
    drop(batch);
    assert!(writer.shutdown(LONG));
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("/second") && text.contains("/third"), "{text}");
}

#[test]
fn lines_that_are_not_drawn_are_no_lost_ones() {
    let (folder, registry) = (Folder::new(), Registry::new(1));
    let path = folder.file("access.log");
    let options = LogOptions {
        destination: Destination::File(path.clone()),
        format: Format::Json,
        sample: Some(Sample { share: 0, statuses: vec![500..=599], slower_than: None }),
        rotation: None,
    };
    let writer = LogWriter::start_with(options, registry.log()).unwrap();
    let mut batch = writer.batch(registry.worker(0));
    (0..100).for_each(|_| batch.push(&record(b"/ordinary")));
    assert!(batch.is_empty());
    batch.push(&LogRecord { status: 502, ..record(b"/error") });
    drop(batch);
    assert!(writer.shutdown(LONG));
    let text = fs::read_to_string(path).unwrap();
    assert!(text.lines().count() == 1 && text.contains("/error") && !text.contains("share"), "{text}");
}
